"""Long work is spread, watched and resumed, and none of that changes a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prereg.errors import PreregError, StorageError
from prereg.workers import Arrays, Task, Workers, write_atomically


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


def test_an_unknown_engine_is_named_with_a_known_one(tmp_path: Path) -> None:
    """The remedy says what works."""
    with pytest.raises(PreregError, match="no engine called 'abacus'"):
        Workers(jobs=2, engine="abacus").map(tasks(square, tmp_path / "log"), "squares")


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
