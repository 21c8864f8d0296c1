"""From nothing to answers, in processes of their own: the embedded model is captured, fitted and judged for real.

Whatever happens on the way (workers, kills, Ctrl-C, another run, a damaged disk), the evidence that comes out has
the bytes of the undisturbed run, or the run says clearly why there is none.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.cold_project import (
    ANSWERS,
    ARMS,
    STUDY,
    answer,
    begin,
    copied,
    evidence,
    group_members,
    make_cold_project,
    modules,
    outcomes,
    paused,
    prereg,
    reports,
    stores,
    until,
)

HEAVY = {"torch", "transformers", "transformer_lens", "scipy.stats", "pandas", "joblib"}
TRACEBACK = "Traceback (most recent call last)"
HYPOTHESES = {"H1", "H1-order", "H1-beyond", "H1-learned", "H2", "H2-decisive"}
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="which processes are left is read from /proc"
)


class Cold:
    """A project after one undisturbed cold run in one process, and what that run said; nobody may change it."""

    def __init__(self, project: Path) -> None:
        self.project = make_cold_project(project)
        self.run = answer(project)
        self.modules = modules(project)
        self.reports = reports(project)
        self.evidence = evidence(project)


@pytest.fixture(scope="session")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Cold:
    return Cold(tmp_path_factory.mktemp("cold") / "project")


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A project in which nothing has run yet."""
    return make_cold_project(tmp_path / "project")


@pytest.fixture
def captured(cold: Cold, tmp_path: Path) -> Path:
    """A project whose captures are there, and nothing else."""
    return copied(cold.project, tmp_path / "project", evidence=False)


@pytest.fixture
def finished(cold: Cold, tmp_path: Path) -> Path:
    """A project whose evidence is there."""
    return copied(cold.project, tmp_path / "project", evidence=True)


# -- the whole study --------------------------------------------------------------------------------


def test_a_cold_run_answers_every_hypothesis(cold: Cold) -> None:
    """From the model's files to verdicts: each hypothesis has one of the three answers, and exit is 0."""
    assert cold.run.returncode == 0, cold.run.stdout + cold.run.stderr
    found = outcomes(cold.project)
    assert set(found) == HYPOTHESES
    assert set(found.values()) <= ANSWERS
    assert f"{len(HYPOTHESES)} of {len(HYPOTHESES)} tested" in cold.run.stdout
    assert TRACEBACK not in cold.run.stdout + cold.run.stderr


def test_a_cold_run_leaves_tables_and_one_capture_of_each_arm(cold: Cold) -> None:
    """Evidence for each analysis and arm, the tracked tables, one store an arm, and no leftovers."""
    names = {Path(name).name for name in cold.reports}
    assert {"verdicts.json", "verdicts.csv", "contrasts.csv", "r2_by_update.csv", "cross_band.csv"} <= names
    assert {f"kernels.{arm}.json" for arm in ARMS} | {"band_kernels.model.json"} <= names
    assert set(stores(cold.project)) == set(ARMS)
    checkpoints = cold.project / "cache" / "checkpoints"
    assert not checkpoints.exists() or not list(checkpoints.iterdir())
    assert not list(cold.project.rglob(".*.part"))
    assert not [name for name in names if name.startswith(".")]


def test_a_cold_run_in_a_pipe_says_plainly_how_far_it_is(cold: Cold) -> None:
    """Progress is lines on standard error, without a single escape, and does not mix with pytest's report."""
    for line in ("checking against transformer-lens:", "capture: ", "kernels: ", "band kernels: "):
        assert line in cold.run.stderr
        assert line not in cold.run.stdout
    for arm in ARMS:
        assert f"measuring kernels on pythia-tiny ({arm})" in cold.run.stderr
    assert "\x1b" not in cold.run.stderr + cold.run.stdout
    assert "\r" not in cold.run.stderr + cold.run.stdout


def test_a_second_run_changes_no_byte_and_imports_nothing_heavy(cold: Cold, finished: Path) -> None:
    """Where evidence is there, no model is loaded; this is seen by the first run's having needed one."""
    assert "torch" in cold.modules
    before = {file: file.stat().st_mtime_ns for file in (finished / "reports").rglob("*")}
    done = answer(finished)
    assert done.returncode == 0, done.stdout
    assert not HEAVY & modules(finished)
    assert reports(finished) == cold.reports
    assert {file: file.stat().st_mtime_ns for file in (finished / "reports").rglob("*")} == before
    assert "measuring" not in done.stderr
    assert "capture" not in done.stderr


def test_under_xdist_one_process_captures_and_the_bytes_are_the_same(cold: Cold, fresh: Path) -> None:
    """With -n 2 the controller makes the evidence once; the workers only read, and never import torch."""
    done = answer(fresh, "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert reports(fresh) == cold.reports
    assert set(stores(fresh)) == set(ARMS)
    for arm in ARMS:
        assert done.stderr.count(f"measuring kernels on pythia-tiny ({arm})") == 1
    assert "torch" in modules(fresh)
    for worker in ("gw0", "gw1"):
        assert not HEAVY & modules(fresh, worker)


def test_two_cold_runs_at_once_share_the_work(cold: Cold, fresh: Path) -> None:
    """Both answer, with the same bytes; each thing was captured and measured by one of them."""
    runs = [begin(fresh), begin(fresh)]
    done = [run.end() for run in runs]
    for code, out, err in done:
        assert code == 0, out + err
    assert reports(fresh) == cold.reports
    assert set(stores(fresh)) == set(ARMS)
    said = "".join(err for _, _, err in done)
    for arm in ARMS:
        assert said.count(f"measuring kernels on pythia-tiny ({arm})") == 1


def test_warnings_as_errors_and_other_workers_change_nothing(cold: Cold, tmp_path: Path) -> None:
    """A project that makes errors of warnings, on two workers and as many threads as there are, gets the same."""
    project = make_cold_project(tmp_path / "project", pytest_options='filterwarnings = ["error"]\n')
    done = answer(project, jobs=2, one_thread=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert reports(project) == cold.reports


def test_the_command_line_makes_the_same_evidence(cold: Cold, fresh: Path) -> None:
    """`prereg capture`, `prereg measure` and `prereg verdicts` end where the plugin does, byte for byte.

    `prereg measure` takes every analysis of the protocol, gates only those that they need: what it has beyond
    them may add tables, and change none.
    """
    run = ("--model", "pythia-tiny", "--offline")
    first = prereg(fresh, "capture", *run)
    assert first.returncode == 0, first.stderr
    assert set(stores(fresh)) == set(ARMS)
    assert reports(fresh) == {}
    second = prereg(fresh, "measure", *run, "--jobs", "1")
    assert second.returncode == 0, second.stderr
    found = evidence(fresh)
    assert {name: found.get(name) for name in cold.evidence} == cold.evidence
    assert {Path(name).name.split(".")[0] for name in set(found) - set(cold.evidence)} == {"updates"}
    third = prereg(fresh, "verdicts", *run, "--gate-exit=harness")
    assert third.returncode == 0, third.stderr
    tables = reports(fresh)
    assert {name: tables.get(name) for name in cold.reports} == cold.reports
    assert TRACEBACK not in first.stderr + second.stderr + third.stderr


# -- ended in the middle ----------------------------------------------------------------------------


def test_a_run_killed_again_and_again_ends_with_the_same_evidence(cold: Cold, fresh: Path) -> None:
    """SIGKILL inside a block's bytes, between fits, inside a twin's capture and between two tables."""
    kills = (
        # Five of the nine layers of the only block are on disk, the journal knows of none.
        "prereg.activations.store.writer:pwrite_all:7:SIGKILL",
        "prereg.workers:Workers._keep:4:SIGKILL",
        # The model's store is complete by now: this is the first twin's block, written but not journaled.
        "prereg.activations.store.writer:append:1:SIGKILL",
        # The main table is there, its record is not.
        "prereg.evidence:write_atomically:2:SIGKILL",
    )
    for kill in kills:
        done = answer(fresh, stop_at=kill)
        assert done.returncode == -signal.SIGKILL, f"{kill}\n{done.stdout}{done.stderr}"
        assert not (fresh / "reports" / STUDY / "pythia-tiny" / "verdicts.json").exists()
    last = answer(fresh)
    assert last.returncode == 0, last.stdout + last.stderr
    assert reports(fresh) == cold.reports
    assert set(stores(fresh)) == set(ARMS)


def test_a_killed_measurement_keeps_what_was_fitted(cold: Cold, captured: Path) -> None:
    """After a SIGKILL the finished fits are read, not computed again: a run that would recompute one dies."""
    done = answer(captured, stop_at="prereg.workers:Workers._keep:4:SIGKILL")
    assert done.returncode == -signal.SIGKILL
    (folder,) = (captured / "cache" / "checkpoints").iterdir()
    assert len(list(folder.glob("update-*.npz"))) == 3
    # Of seven fits four are left: a fifth one of them would be one too many.
    again = answer(captured, stop_at="prereg.workers:Workers._keep:5:SIGKILL")
    assert again.returncode == -signal.SIGKILL
    assert "measuring kernels on pythia-tiny (twin-1)" in again.stderr
    assert {n: b for n, b in evidence(captured).items() if "kernels.model" in n} == {
        n: b for n, b in cold.evidence.items() if "/kernels.model" in n
    }


@needs_proc
def test_a_kill_from_outside_leaves_no_worker_behind(cold: Cold, captured: Path) -> None:
    """SIGKILL of a run with worker processes: they end too, its lock is free, and a rerun completes."""
    run = begin(captured, jobs=2, stop_at="prereg.workers:Workers._keep:2:pause")
    paused(captured, run)
    assert len(group_members(run.group)) > 1
    os.kill(run.group, signal.SIGKILL)
    code, _, _ = run.end()
    assert code == -signal.SIGKILL
    assert settled(run.group) == []
    last = answer(captured)
    assert last.returncode == 0, last.stdout + last.stderr
    assert "waiting for it" not in last.stderr
    assert reports(captured) == cold.reports


@needs_proc
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_ctrl_c_ends_a_run_that_a_rerun_completes(
    cold: Cold, captured: Path, workers: tuple[str, ...]
) -> None:
    """SIGINT for the whole group, as a terminal sends it: not exit 0, no answer, nobody left, nothing lost."""
    run = begin(captured, *workers, jobs=2, stop_at="prereg.workers:Workers._keep:2:pause")
    paused(captured, run)
    os.killpg(run.group, signal.SIGINT)
    code, out, err = run.end()
    assert code == pytest.ExitCode.INTERRUPTED, out + err
    assert "KeyboardInterrupt" in out + err
    assert "INTERNALERROR" not in out + err
    assert TRACEBACK not in out
    assert settled(run.group) == []
    assert not (captured / "reports" / STUDY / "pythia-tiny" / "verdicts.json").exists()
    last = answer(captured)
    assert last.returncode == 0, last.stdout + last.stderr
    assert reports(captured) == cold.reports


# -- a damaged disk -----------------------------------------------------------------------------------


def test_damaged_captures_are_repaired_by_the_measure_that_needs_them(cold: Cold, captured: Path) -> None:
    """A flipped byte, a cut file, a torn journal and a lost file, one an arm: the evidence is what it was."""
    arm = stores(captured)
    flip(arm["model"] / "resid.npy", 200_000)
    os.truncate(arm["twin-1"] / "resid.npy", 5_000)
    journal = arm["twin-2"] / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    (arm["twin-3"] / "top1.npy").unlink()
    done = answer(captured)
    assert done.returncode == 0, done.stdout + done.stderr
    assert reports(captured) == cold.reports
    whole = stores(cold.project)
    for name, folder in stores(captured).items():
        for file in ("resid.npy", "top1.npy"):
            assert (folder / file).read_bytes() == (whole[name] / file).read_bytes(), f"{name}: {file}"


def test_a_changed_manifest_is_an_error_with_its_remedy(captured: Path) -> None:
    """What a store claims to be can't be made again from its bytes: no answer, and the folder to remove."""
    folder = stores(captured)["model"]
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"n_prompts":', b'"n_prompts": '))
    done = answer(captured)
    assert done.returncode == 1
    assert f"{folder.relative_to(captured)}/manifest.json is not this capture's manifest" in done.stdout
    assert f"next: remove {folder.relative_to(captured)}" in done.stdout
    assert TRACEBACK not in done.stdout + done.stderr
    assert reports(captured) == {}


def test_a_flipped_byte_in_evidence_is_an_error_whose_remedy_works(cold: Cold, finished: Path) -> None:
    """Changed numbers give no answer, not even a green harness; doing what the error says mends them."""
    table = finished / "reports" / STUDY / "pythia-tiny" / "evidence" / "kernels.model.parquet"
    flip(table, table.stat().st_size // 2)
    done = answer(finished)
    assert done.returncode == 1
    assert "was changed after it was measured" in done.stdout
    assert f"next: remove {table}, then prereg measure" in done.stdout
    assert TRACEBACK not in done.stdout + done.stderr
    table.unlink()
    again = answer(finished)
    assert again.returncode == 0, again.stdout + again.stderr
    assert reports(finished) == cold.reports


def flip(file: Path, at: int) -> None:
    """Flip one bit of the byte at an offset."""
    with file.open("r+b") as handle:
        handle.seek(at)
        (value,) = handle.read(1)
        handle.seek(at)
        handle.write(bytes([value ^ 1]))


def settled(group: int) -> list[int]:
    """Return the processes of a group that remain after they had time to end; end them."""
    try:
        until(lambda: not group_members(group), "the end of a run's workers", longest=20.0)
    except TimeoutError:
        left = group_members(group)
        os.killpg(group, signal.SIGKILL)
        return left
    return []
