"""Beyond the table: what a hurried or a careless author might try, and honest work that must not be accused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end.integrity_project import REPORTS, STUDY, Attacked, Take, taker, words
from tests.synthetic import git

VERDICTS = ("verdicts", STUDY, "--cache-dir", "cache")


@pytest.fixture
def take(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Take:
    """Copy a project of a kind."""
    return taker(tmp_path, tmp_path_factory)


# -- a green badge ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", ["addopts = -k order", "python_files = test_h1_order.py"])
def test_a_selection_hidden_in_the_configuration_is_not_green(take: Take, hidden: str) -> None:
    """H1 is refuted and left out by pytest.ini, where a reader of the command doesn't see it."""
    project = take("refuted")
    project.write("pytest.ini", f"[pytest]\n{hidden}\n")
    done = project.gates()
    assert done.code == 1
    assert "1 of 2 tested" in done.text


def test_results_that_are_taken_away_are_missed(take: Take) -> None:
    """A refuted study whose reports were deleted isn't verified, nor is one that is looked for elsewhere."""
    project = take("refuted")
    assert project.audit("--report-dir", "nowhere")[0] == 2
    project.git("rm", "--quiet", "-r", "reports")
    project.commit("Tidy up")
    code, record = project.audit()
    assert code == 2
    assert "H1: refuted, by the attempts log" in words(record, status="unverified")


def test_evidence_sealed_anew_by_hand_is_not_verified(take: Take) -> None:
    """Better numbers under the same key, with digests and seals that fit: one measurement has two tables."""
    project = take("refuted")
    project.measure(0.5)
    assert project.prereg(*VERDICTS).code == 0
    project.commit("Measure again")
    code, record = project.audit()
    assert code == 2
    assert "the same measurement gave 2 different tables" in words(record, "evidence", "unverified")


@pytest.mark.parametrize("kept", ["tag", "branch"])
def test_a_history_written_anew_does_not_hide_the_old_one(take: Take, kept: str) -> None:
    """Back to before the freeze, and frozen looser: a tag or a branch that holds the first registration tells."""
    project = take("refuted")
    project.git(kept, "old")
    project.git("reset", "--quiet", "--hard", "HEAD~2")
    project.looser()
    project.commit("Looser")
    assert project.prereg("freeze", STUDY).code == 0
    project.commit("Register")
    project.measure(0.03)
    assert project.prereg(*VERDICTS).code == 0
    project.commit("Measure")
    code, record = project.audit()
    assert code == 2
    assert "holds another registration of this study" in words(record, "registration", "unverified")


def test_failures_left_on_another_branch_are_missed(take: Take) -> None:
    """Back to the freeze with other data: the refuted attempt lies on a branch that was never merged."""
    project = take("refuted")
    (attempt,) = project.attempts()
    project.git("branch", "failed")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    project.measure(0.5)
    assert project.prereg(*VERDICTS).code == 0
    project.commit("Measure")
    code, record = project.audit()
    assert code == 2
    assert attempt.stem[:12] in words(record, status="unverified")


@pytest.mark.parametrize("known", ["none", "full"])
def test_an_amended_verdict_is_told_from_another_at_a_glance(take: Take, known: str) -> None:
    """Whichever leads, the table shows both thresholds and both answers."""
    project = take("frozen" if known == "none" else "refuted")
    project.looser()
    said = () if known == "none" else ("--statement", "H1 was refuted on pythia-tiny.")
    made = project.prereg(
        "amend", STUDY, "H1", "--reason", "The wrong table was read.", "--known", known, *said
    )
    assert made.code == 0, made.text
    project.commit("Amend")
    if known == "none":
        project.measure(0.03)
    done = project.prereg(*VERDICTS)
    for one in ("supported", "refuted", "> 0.1", "> 0.01", "amended"):
        assert one in done.flat, one
    table = project.read(f"{REPORTS}/verdicts.csv")
    assert "amended" in table


def test_a_program_beside_python_does_not_answer(take: Take) -> None:
    """A sitecustomize that bends every verdict turns no gate green."""
    project = take("refuted")
    project.write(
        "lib/sitecustomize.py",
        "import prereg\n\nprereg.Verdict.supported = property(lambda self: True)\n"
        "record = prereg.Verdict.as_record\n"
        "prereg.Verdict.as_record = lambda self: record(self) | {'outcome': 'supported', 'answer': 'supported'}\n",
    )
    done = project.gates(PYTHONPATH=str(project.path("lib")))
    assert done.code == 1
    assert "altered in memory" in done.flat
    assert "passed" not in project.cases().values()


# -- hostile or broken files --------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize(
    "name",
    [f"{STUDY}/protocol.toml", f"{STUDY}/registration.json", f"{REPORTS}/evidence/kernels.model.json"],
)
def test_a_pipe_in_the_place_of_a_file_is_an_error(take: Take, name: str) -> None:
    """No command waits for the pipe's other end, and nothing is verified."""
    project = take("supported")
    project.path(name).unlink()
    os.mkfifo(project.path(name))
    done = project.prereg(*VERDICTS)
    assert done.code != 0
    assert "✓ supported" not in done.text
    assert project.prereg("audit", STUDY).code != 0


def test_a_link_to_itself_in_the_place_of_a_file_is_an_error(take: Take) -> None:
    """It is named, without a traceback."""
    project = take("supported")
    project.path("facts.csv").unlink()
    project.path("facts.csv").symlink_to("facts.csv")
    done = project.prereg(*VERDICTS)
    assert done.code == 1
    assert "facts.csv is not the registered one" in done.flat
    assert project.audit()[0] == 2


def test_impossible_numbers_are_no_evidence(take: Take) -> None:
    """A sum of squared errors below zero is an error, though digests and seals fit."""
    project = take("supported")
    project.measure(1.5)  # an R2 that no fit can have
    done = project.prereg(*VERDICTS)
    assert done.code == 2
    assert "sse.history_1" in done.flat
    assert project.prereg("audit", STUDY).code != 0


def test_names_made_to_fool_a_terminal_stay_names(take: Take) -> None:
    """Escape sequences and right-to-left marks in file names are shown as such, never written out."""
    project = take("supported")
    for name in ("\x1b[2Jred.py", "\u202eevil.py"):
        project.write(f"{STUDY}/{name}", "x = 1\n")
    project.write("reports/sample/\x1b[31mm/verdicts.json", "{}")
    project.commit("Add files")
    for done in (project.prereg("audit", STUDY), project.prereg(*VERDICTS)):
        assert done.code != 0
        assert "\x1b" not in done.text
        assert "\u202e" not in done.text


def test_killed_at_any_moment_a_freeze_leaves_nothing_or_all(take: Take) -> None:
    """After a kill the next freeze writes the registration, or finds it whole."""
    project = take("frozen")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    command = [str(Path(sys.executable).with_name("prereg")), "freeze", STUDY]
    for wait in (0.2, 0.4, 0.6, 0.8):
        process = subprocess.Popen(
            command,
            cwd=project.root,
            env=project.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    project.prereg("freeze", STUDY)
    project.commit("Register")
    _, record = project.audit()
    assert not words(record, status="violation"), record
    assert [file.name for file in project.path(STUDY).glob("*.part")] == []


# -- honest work --------------------------------------------------------------------------------------------


def copies(project: Attacked, how: str) -> Attacked:
    """Return the project on another machine, in another worktree, or rebased."""
    other = project.root.parent / "other"
    if how == "crlf":
        git(project.root, "clone", "--quiet", "--config", "core.autocrlf=true", str(project.root), str(other))
        return Attacked(other)
    if how == "worktree":
        git(project.root, "worktree", "add", "--quiet", "-b", "side", str(other))
        return Attacked(other)
    if how == "rebased":
        project.git("checkout", "--quiet", "-b", "side", "HEAD~2")
        project.write("README", "One more file.\n")
        project.commit("Describe")
        project.git("checkout", "--quiet", "main")
        project.git("rebase", "--quiet", "side")
        project.git("branch", "--quiet", "--delete", "--force", "side")
    return project


@pytest.mark.parametrize("how", ["crlf", "worktree", "rebased"])
def test_another_checkout_of_honest_work_is_verified(take: Take, how: str) -> None:
    """Line ends of another system, a worktree, a rebase: still registered, and the audit leaves nothing open."""
    project = copies(take("supported"), how)
    done = project.prereg(*VERDICTS)
    assert done.code == 0, done.text
    code, record = project.audit()
    assert code == 0, words(record, status="violation") + words(record, status="unverified")


def test_a_typo_tried_and_put_back_accuses_nobody(take: Take) -> None:
    """A rationale was reworded, a run said so, and the author did as told: the audit stays clean."""
    project = take("supported")
    project.edit(f"{STUDY}/protocol.toml", "A tenth is the least", "One tenth is the least")
    assert project.prereg(*VERDICTS).code == 1
    project.git("checkout", "--", f"{STUDY}/protocol.toml")
    assert project.prereg(*VERDICTS).code == 0
    project.commit("Run")
    code, record = project.audit()
    assert code == 0, words(record, status="violation") + words(record, status="unverified")
    shutil.rmtree(project.path("cache"), ignore_errors=True)
    assert project.prereg(*VERDICTS).code == 0, "no cache is needed to answer again"
