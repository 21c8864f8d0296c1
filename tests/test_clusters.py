"""What a cluster promises: the same numbers, nothing finished lost, and words where it can't."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

from prereg.analysis.authoring import load_analysis, random_activations
from prereg.clusters import backends, work
from prereg.errors import PreregError, StudyError
from prereg.workers import Arrays, Task, Workers, require_engine
from tests.analysis.dictionaries import test_library as library
from tests.analysis.test_own import beside
from tests.test_workers import fail_on_three, square, tasks

DASK = Workers(jobs=2, engine="dask")
LOKY = Workers(jobs=2)


@pytest.fixture(scope="module")
def in_process() -> Iterator[Client]:
    """A Client of a scheduler and a worker with two threads, all in this process."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def threads(in_process: Client) -> Iterator[Client]:
    """As after `Client(...)` in a program of one's own."""
    with in_process.as_current():
        yield in_process


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with one worker process; a task that ends it is not tried again."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            local_directory=str(tmp_path_factory.mktemp("dask")),
            silence_logs=50,
        ) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.fixture
def by_address(process: str) -> Iterator[str]:
    """As with DASK_SCHEDULER_ADDRESS in the environment, which Dask reads when it is imported."""
    with dask.config.set({"scheduler-address": process}):
        yield process


def product(*, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((200, 300)).astype(np.float32)
    return {"product": np.asfortranarray(left @ left.T), "seed": np.array(seed)}


def products() -> list[Task]:
    return [Task(f"task-{seed}", product, {"seed": seed}) for seed in range(5)]


def end_at_once(*, value: int, log: Path) -> Arrays:
    os._exit(1)


class Fragile(Exception):
    """An error that can be pickled, but not opened again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def break_fragile(*, value: int, log: Path) -> Arrays:
    raise Fragile("glass", "china")


def refuse(*, value: int, log: Path) -> Arrays:
    raise StudyError("no good", remedy="mend it")


def same_bytes(one: dict[str, Arrays], other: dict[str, Arrays]) -> bool:
    assert list(one) == list(other)
    pairs = [(one[key][name], other[key][name]) for key in one for name in one[key]]
    return all(
        a.dtype == b.dtype and a.tobytes("A") == b.tobytes("A") and b.flags.writeable for a, b in pairs
    )


def test_a_cluster_gives_the_same_bytes_as_workers_here(by_address: str) -> None:
    """In another process, found by the scheduler's address alone."""
    assert same_bytes(LOKY.map(products(), "products"), DASK.map(products(), "products"))


def test_two_threads_of_one_worker_give_the_same_bytes(threads: Client) -> None:
    """A Client that is there is used, and stays open."""
    assert same_bytes(LOKY.map(products(), "products"), DASK.map(products(), "products"))
    assert threads.status == "running"


def total(*, values: np.ndarray) -> Arrays:
    return {"total": values.sum(keepdims=True)}


def test_a_task_may_carry_many_megabytes(threads: Client) -> None:
    """Dask warns of 10 MB, which is an error here, and none of a user's business."""
    done = DASK.map([Task("total", total, {"values": np.ones(2_000_000)})], "totals")
    assert float(done["total"]["total"][0]) == 2_000_000


def test_an_abandoned_run_leaves_nothing_on_the_cluster(threads: Client, tmp_path: Path) -> None:
    """What nobody waits for any more isn't run, and no result is kept there."""
    with pytest.raises(StudyError):
        DASK.map(tasks(refuse, tmp_path / "log"), "squares")
    DASK.map(tasks(square, tmp_path / "log"), "squares")
    assert not threads.futures


ACTIVE: set[int] = set()


def count_active(*, number: int) -> Arrays:
    ACTIVE.add(number)
    seen = len(ACTIVE)
    threading.Event().wait(0.05)
    ACTIVE.remove(number)
    return {"active": np.array(seen)}


def test_a_worker_with_two_threads_does_one_task_at_a_time(threads: Client) -> None:
    """The number of BLAS threads is the process': side by side they would undo each other's."""
    done = DASK.map([Task(f"task-{i}", count_active, {"number": i}) for i in range(4)], "active")
    assert [int(one["active"]) for one in done.values()] == [1, 1, 1, 1]


def test_what_finished_on_a_cluster_is_kept_as_it_arrives(threads: Client, tmp_path: Path) -> None:
    """After a task's error only the rest is computed."""
    log = tmp_path / "log"
    one_at_a_time = Workers(jobs=1, engine="dask", checkpoint=tmp_path / "kept")
    with pytest.raises(RuntimeError, match="three"):
        one_at_a_time.map(tasks(fail_on_three, log), "squares")
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == [f"task-{i}.npz" for i in range(3)]
    done = replace(DASK, checkpoint=tmp_path / "kept").map(tasks(square, log), "squares")
    assert [int(v["square"][0]) for v in done.values()] == [0, 1, 4, 9, 16]
    ran = log.read_text().split()
    assert [ran.count(done) for done in "0123"] == [1, 1, 1, 1]


def test_a_cluster_isn_t_asked_for_what_is_kept(threads: Client, tmp_path: Path) -> None:
    """Nor is one needed."""
    kept = replace(DASK, checkpoint=tmp_path / "kept")
    kept.map(tasks(square, tmp_path / "log"), "squares")
    ray = replace(kept, engine="ray").map(tasks(fail_on_three, tmp_path / "log"), "squares")
    assert [int(v["square"][0]) for v in ray.values()] == [0, 1, 4, 9, 16]


def test_a_task_s_own_error_comes_out_as_it_is(by_address: str, tmp_path: Path) -> None:
    """With its remedy, and where in the worker it was raised."""
    with pytest.raises(StudyError, match="no good") as caught:
        DASK.map(tasks(refuse, tmp_path / "log"), "squares")
    assert caught.value.remedy == "mend it"
    assert "in refuse" in caught.value.__notes__[0]


def test_an_error_that_doesn_t_survive_the_way_is_told_in_words(by_address: str, tmp_path: Path) -> None:
    """It may neither hang the run nor hide behind an error about pickles."""
    with pytest.raises(PreregError, match="task failed on a worker: Fragile: glass and china"):
        DASK.map(tasks(break_fragile, tmp_path / "log"), "squares")


def test_a_worker_that_is_ended_is_an_error_in_words(by_address: str, tmp_path: Path) -> None:
    """The backend that joblib has waits for ever here; what was finished before is kept."""
    first = [Task("first", square, {"value": 7, "log": tmp_path / "log"})]
    ending = [*first, Task("ending", end_at_once, {"value": 0, "log": tmp_path / "log"})]
    kept = Workers(jobs=1, engine="dask", checkpoint=tmp_path / "kept")
    with pytest.raises(PreregError, match="dask cluster lost a task") as caught:
        kept.map(ending, "ending")
    assert "finished work is kept" in (caught.value.remedy or "")
    assert [file.name for file in (tmp_path / "kept").iterdir()] == ["first.npz"]


def test_an_analysis_beside_the_gates_is_sent_by_value(by_address: str, tmp_path: Path) -> None:
    """The worker has never seen the file, and can't import it."""
    one: Any = load_analysis(beside(tmp_path))
    activations, settings = random_activations(), one.OneSettings(times=3.0)
    there = one.measure(activations, settings, DASK)
    assert one.measure(activations, settings, Workers()).table.equals(there.table)


def test_dictionaries_are_trained_on_a_cluster_that_shares_the_folder(
    by_address: str, tmp_path: Path
) -> None:
    """A worker writes them where this process reads them, with the same bits."""
    one = ("topk", 1, 0)
    here, there = library.opened(tmp_path / "here"), library.opened(tmp_path / "there")
    here.ensure([one], Workers())
    there.ensure([one], DASK)
    assert library.bits(here, one) == library.bits(there, one)


def test_a_worker_with_other_code_refuses(threads: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers would be another version's, and the evidence would not show it."""
    mine = work.surroundings(("prereg",))
    monkeypatch.setattr("prereg.clusters.surroundings", lambda _: mine | {"numpy": "1.0"})
    with pytest.raises(PreregError, match=rf"other code .*numpy: {mine['numpy']}, wanted 1.0") as caught:
        DASK.map(products()[:1], "products")
    assert "install the same versions" in (caught.value.remedy or "")


def test_the_source_of_an_installed_analysis_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package's digest is of all its modules, whatever their line ends; one that isn't there has none."""
    for place, text in (("a", "x = 1\n"), ("b", "x = 1\r\n"), ("c", "x = 2\n")):
        (tmp_path / place / "lens_kit").mkdir(parents=True)
        (tmp_path / place / "lens_kit" / "__init__.py").write_bytes(text.encode())
    found = []
    for place in ("a", "b", "c", "none"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [str(tmp_path / place), *sys.path])
            found.append(work._source.__wrapped__("lens_kit"))
    assert found[0] == found[1] != found[2]
    assert found[3] == "absent"
    assert work.packages(["lens_kit.one", "prereg.analysis.kernels"]) == ("lens_kit", "prereg")


def test_no_client_and_no_address_is_refused() -> None:
    """The remedy names the variable."""
    with pytest.raises(PreregError, match="engine 'dask' can't be used: there is no Client") as caught:
        require_engine("dask", 2)
    assert "DASK_SCHEDULER_ADDRESS" in (caught.value.remedy or "")


def test_a_scheduler_that_doesn_t_answer_is_refused() -> None:
    """In the time that Dask gives a connection."""
    with (
        dask.config.set(
            {"scheduler-address": f"tcp://{closed_port()}", "distributed.comm.timeouts.connect": "100ms"}
        ),
        pytest.raises(PreregError, match="engine 'dask' can't be used: Timed out"),
    ):
        require_engine("dask", 2)


def test_a_scheduler_without_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would otherwise wait for one, silently."""
    monkeypatch.setattr(backends, "_PATIENCE", 0.1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        pytest.raises(PreregError, match="the scheduler has had no worker"),
    ):
        require_engine("dask", 2)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("", "RuntimeError('')"),
        ("lost", "lost"),
        (
            "\x1b[36mray::work()\x1b[39m failed\n  Traceback:\nNo module named x\n",
            "ray::work() failed ... No module named x",
        ),
    ],
)
def test_a_cluster_s_error_is_told_on_one_line(message: str, told: str) -> None:
    """Its beginning and its end, where the reason stands; no colours."""
    assert backends.in_words(RuntimeError(message)) == told


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_package_that_isn_t_installed_is_named_with_its_extra(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy is the command that installs it."""
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(PreregError, match=f"engine '{engine}' can't be used") as caught:
        require_engine(engine, 2)
    assert f'pip install "prereg-gates[{engine}]"' in (caught.value.remedy or "")
    assert "--engine loky or --engine threading" in (caught.value.remedy or "")


def test_a_ray_address_where_nothing_answers_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would try for minutes."""
    monkeypatch.setitem(sys.modules, "ray", NoRay)  # type: ignore[arg-type]
    monkeypatch.setenv("RAY_ADDRESS", f"ray://{closed_port()}")
    with pytest.raises(
        PreregError, match="engine 'ray' can't be used: nothing answers at RAY_ADDRESS=ray://"
    ):
        require_engine("ray", 2)


class NoRay:
    """A Ray that this process isn't connected to."""

    is_initialized: ClassVar = staticmethod(lambda: False)


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"
