"""Long work is spread, watched and resumed, and none of that changes a number."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from joblib import register_parallel_backend
from joblib.parallel import BACKENDS, ThreadingBackend
from threadpoolctl import threadpool_info, threadpool_limits

from prereg.analysis.threads import one_thread
from prereg.errors import PreregError, StorageError
from prereg.workers import Arrays, Task, Workers, write_atomically
from tests.forbidden import forbidden


def square(*, value: int, log: Path) -> Arrays:
    with log.open("a") as handle:
        handle.write(f"{value}\n")
    return {"square": np.array([value**2], dtype=np.int64)}


def fail_on_three(*, value: int, log: Path) -> Arrays:
    if value == 3:
        raise RuntimeError("three")
    return square(value=value, log=log)


def tasks(function: object, log: Path, n: int = 5) -> list[Task]:
    return [Task(f"task-{i}", function, {"value": i, "log": log}) for i in range(n)]  # type: ignore[arg-type]


class Watcher:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def start(self, total: int, label: str) -> None:
        self.seen.append((total, label))

    def advance(self, n: int = 1) -> None:
        self.seen.append(n)

    def finish(self) -> None:
        self.seen.append("finished")


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_back_in_order_however_many_hands(tmp_path: Path, jobs: int) -> None:
    """The order and the numbers are those of the list, not of who was fastest."""
    done = Workers(jobs=jobs).map(tasks(square, tmp_path / "log"), "squares")
    assert list(done) == [f"task-{i}" for i in range(5)]
    assert [int(v["square"][0]) for v in done.values()] == [0, 1, 4, 9, 16]


def test_an_interrupted_run_resumes_where_it_was(tmp_path: Path) -> None:
    """Only what had not finished is computed again."""
    log = tmp_path / "log"
    workers = Workers(checkpoint=tmp_path / "kept")
    with pytest.raises(RuntimeError, match="three"):
        workers.map(tasks(fail_on_three, log), "squares")
    done = workers.map(tasks(square, log), "squares")
    assert [int(v["square"][0]) for v in done.values()] == [0, 1, 4, 9, 16]
    assert log.read_text().split() == ["0", "1", "2", "3", "4"]


def test_a_damaged_checkpoint_is_computed_again(tmp_path: Path) -> None:
    """Half a file is worth nothing, and is noticed."""
    workers = Workers(checkpoint=tmp_path / "kept")
    workers.map(tasks(square, tmp_path / "log"), "squares")
    damaged = tmp_path / "kept" / "task-2.npz"
    damaged.write_bytes(damaged.read_bytes()[:50])
    done = workers.map(tasks(square, tmp_path / "log"), "squares")
    assert int(done["task-2"]["square"][0]) == 4
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "3", "4", "2"]


def test_a_cleared_checkpoint_is_gone(tmp_path: Path) -> None:
    """Nothing stays behind once the whole is safe."""
    workers = Workers(checkpoint=tmp_path / "kept")
    workers.map(tasks(square, tmp_path / "log"), "squares")
    workers.clear()
    assert not (tmp_path / "kept").exists()


def test_progress_hears_of_every_task_and_of_the_end(tmp_path: Path) -> None:
    """Also when a task fails, the bar is closed."""
    watcher = Watcher()
    Workers(progress=watcher).map(tasks(square, tmp_path / "log", 2), "squares")
    assert watcher.seen == [(2, "squares"), 1, 1, "finished"]
    failing = Watcher()
    with pytest.raises(RuntimeError):
        Workers(progress=failing).map(tasks(fail_on_three, tmp_path / "log"), "squares")
    assert failing.seen[-1] == "finished"


@pytest.mark.parametrize("engine", ["abacus", "multiprocessing", "dask", ""])
def test_an_engine_that_can_t_be_used_is_refused_before_anything_runs(tmp_path: Path, engine: str) -> None:
    """Unknown, unfit or not set up: each is one error, and the remedy says what works."""
    with pytest.raises(PreregError, match=f"engine '{engine}' can't be used") as caught:
        Workers(jobs=2, engine=engine).map(tasks(square, tmp_path / "log"), "squares")
    assert "--engine loky or --engine threading" in (caught.value.remedy or "")
    assert not (tmp_path / "log").exists()


def test_threads_and_a_registered_engine_give_the_same_numbers(tmp_path: Path) -> None:
    """A package's own backend is an engine like any other."""
    register_parallel_backend("ours", ThreadingBackend)
    try:
        for engine in ("threading", "ours"):
            done = Workers(jobs=2, engine=engine).map(tasks(square, tmp_path / engine), "squares")
            assert [int(v["square"][0]) for v in done.values()] == [0, 1, 4, 9, 16]
    finally:
        del BACKENDS["ours"]


def speak_of_loky(*, value: int, log: Path) -> Arrays:
    raise ValueError(f"loky, threading and multiprocessing are only words: {value}")


@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_a_task_s_own_error_is_not_the_engine_s(tmp_path: Path, engine: str) -> None:
    """A ValueError that names the engine, raised by a task, comes out as it is."""
    with pytest.raises(ValueError, match="only words"):
        Workers(jobs=2, engine=engine).map(tasks(speak_of_loky, tmp_path / "log"), "squares")


FIRST_IN, SECOND_IN, FIRST_OUT = threading.Event(), threading.Event(), threading.Event()


def overlap(*, first: bool) -> Arrays:
    (FIRST_IN if first else SECOND_IN).set()
    assert (SECOND_IN if first else FIRST_OUT).wait(30)
    return {"threads": np.array([library["num_threads"] for library in threadpool_info()])}


def overlap_and_tell(*, first: bool) -> Arrays:
    if not first:
        assert FIRST_IN.wait(30)
    found = one_thread(overlap)(first=first)
    if first:
        FIRST_OUT.set()
    return found


def test_tasks_of_one_process_don_t_give_each_other_blas_threads() -> None:
    """One that ends gives back what it found; the other one, begun meanwhile, still has one thread."""
    asked = [
        Task("first", overlap_and_tell, {"first": True}),
        Task("second", overlap_and_tell, {"first": False}),
    ]
    with threadpool_limits(limits=2):
        found = Workers(jobs=2, engine="threading").map(asked, "overlap")
        after = [library["num_threads"] for library in threadpool_info()]
    assert set(found["first"]["threads"]) == set(found["second"]["threads"]) == {1}
    assert set(after) == {2}


def end_at_once(*, value: int, log: Path) -> Arrays:
    os._exit(1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_worker_that_is_killed_is_an_error_in_words(tmp_path: Path) -> None:
    """As when memory runs out: what to do stands in the remedy."""
    with pytest.raises(PreregError, match="ended from outside") as caught:
        Workers(jobs=2).map(tasks(end_at_once, tmp_path / "log"), "squares")
    assert "--jobs" in (caught.value.remedy or "")


def test_a_checkpoint_folder_that_may_not_be_read_is_a_storage_error(tmp_path: Path) -> None:
    """It is told before the work, of which nothing could be kept."""
    kept = tmp_path / "kept"
    kept.mkdir()
    with forbidden(kept), pytest.raises(StorageError, match="Permission denied"):
        Workers(checkpoint=kept).map(tasks(square, tmp_path / "log"), "squares")
    assert not (tmp_path / "log").exists()


def test_a_checkpoint_that_is_no_archive_of_arrays_is_computed_again(tmp_path: Path) -> None:
    """Garbage in whatever form costs time, never the run."""
    workers = Workers(checkpoint=tmp_path / "kept")
    workers.map(tasks(square, tmp_path / "log", 3), "squares")
    whole = (tmp_path / "kept" / "task-1.npz").read_bytes()
    (tmp_path / "kept" / "task-0.npz").write_bytes(b"")
    (tmp_path / "kept" / "task-1.npz").write_bytes(whole.replace(b"\x93NUMPY", b"\x93NUMPI"))
    (tmp_path / "kept" / "task-2.npz").write_bytes(b"\x80\x04N.")
    done = workers.map(tasks(square, tmp_path / "log", 3), "squares")
    assert [int(v["square"][0]) for v in done.values()] == [0, 1, 4]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "choose another folder with --cache-dir / --report-dir"),
        (errno.EPERM, "choose another folder"),
        (errno.EROFS, "choose another folder"),
        (errno.ENOTDIR, "something else is in its place"),
        (errno.EISDIR, "something else is in its place"),
        (errno.ENOENT, "check the path"),
        (errno.EIO, "check the disk"),
    ],
)
def test_the_remedy_fits_the_reason(tmp_path: Path, code: int, remedy: str) -> None:
    """Free space is no help where a folder is read-only."""

    def refuse(_: Path) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(StorageError) as caught:
        write_atomically(tmp_path / "file", refuse)
    assert (caught.value.remedy or "").startswith(remedy)


def test_a_file_in_a_folder_s_place_is_named_as_such(tmp_path: Path) -> None:
    """The system's own answer to a real case leads to the same remedy."""
    (tmp_path / "reports").write_text("not a folder")
    with pytest.raises(StorageError) as caught:
        write_atomically(tmp_path / "reports" / "study" / "table.csv", lambda part: part.write_text("x"))
    assert "something else is in its place" in (caught.value.remedy or "")


def test_two_tasks_may_not_share_a_key(tmp_path: Path) -> None:
    """One would silently take the other's result."""
    same = [Task("a", square, {"value": i, "log": tmp_path / "log"}) for i in (1, 2)]
    with pytest.raises(PreregError, match="share a key"):
        Workers().map(same, "squares")


@pytest.mark.parametrize("key", ["", "../up", "a/b", "a b"])
def test_a_key_must_be_fit_for_a_file(key: str) -> None:
    """A key can't lead out of its folder."""
    with pytest.raises(PreregError, match="fit for a file name"):
        Task(key, square, {})


def test_a_failed_write_leaves_the_old_file_and_no_scraps(tmp_path: Path) -> None:
    """A reader never sees half a file."""
    file = tmp_path / "kept.txt"
    write_atomically(file, lambda part: part.write_text("old"))

    def full(part: Path) -> None:
        part.write_text("ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        write_atomically(file, full)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
