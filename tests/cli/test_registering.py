"""`prereg freeze` and `prereg amend`: what they print, how they exit, and what `prereg verdicts` makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.frozen import answered, edit, frozen, standing, written
from tests.synthetic import commit, git, make_project

SAID = "All results on pythia-tiny were seen before."
WHY = "It was read off the wrong table."


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder for a project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    return tmp_path


def loosen(root: Path) -> None:
    edit(root / "gates" / "sample" / "protocol.toml", "threshold = 0.1\n", "threshold = 0.05\n")


# -- freeze ---------------------------------------------------------------------------------------------------


def test_freeze_writes_and_says_what_and_what_next(here: Path, run: Run) -> None:
    """The root, what it pins, and the commit to make, which makes the study registered."""
    folder = written(here)
    found = run("freeze")
    assert found.exit_code == 0, found.output
    root = json.loads((folder / "registration.json").read_text("utf-8"))["root"]
    assert f"registered sample: root {root}" in " ".join(found.stdout.split())
    command = " ".join(found.stdout.split()).partition("before you measure: ")[2]
    assert command.startswith("git add gates/sample && git commit -m 'Register sample: registration.json'")
    identity = "-c user.name=A -c user.email=a@example.org -c commit.gpgsign=false"
    pasted = command.replace("git commit", f"git {identity} commit")
    subprocess.run(["sh", "-c", pasted], check=True, capture_output=True)
    assert standing(here).status == "registered"


def test_freeze_in_json_is_one_document(here: Path, run: Run) -> None:
    """With the root, the file and the command that commits it."""
    folder = written(here)
    found = json.loads(run("freeze", "gates/sample", "--json").stdout)
    raw = json.loads((folder / "registration.json").read_text("utf-8"))
    assert set(found) == {"study", "file", "root", "date", "known", "commit"}
    assert (found["study"], found["root"], found["known"]) == ("sample", raw["root"], "none")
    assert found["file"] == "gates/sample/registration.json"


def test_freeze_from_within_the_study_names_it(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the folder is "."."""
    monkeypatch.chdir(written(here))
    found = json.loads(run("freeze", "--json").stdout)
    assert "'Register sample: registration.json'" in found["commit"]


def test_a_sentence_left_to_its_author_is_not_registered(here: Path, run: Run) -> None:
    """A template's placeholder is no promise; its key is named and nothing is written."""
    folder = written(here)
    edit(folder / "protocol.toml", 'rationale = "A tenth is', 'rationale = "TO DECIDE: a tenth is')
    commit(here, "Leave it for later")
    found = run("freeze")
    assert found.exit_code == 2
    assert "hypotheses.H1.rationale" in " ".join(found.stderr.split())
    assert not (folder / "registration.json").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_second_freeze_exits_with_two(here: Path, run: Run, as_json: bool) -> None:
    """And leaves the file as it was; the error says what to do instead."""
    folder = frozen(here)
    before = (folder / "registration.json").read_bytes()
    found = run("freeze", *(["--json"] if as_json else []))
    assert found.exit_code == 2
    assert "registered already" in found.stderr
    assert "next: prereg amend" in found.stderr
    if as_json:
        assert json.loads(found.stdout)["error"]["kind"] == "RegistrationError"
    else:
        assert found.stdout == ""
    assert (folder / "registration.json").read_bytes() == before


def test_freeze_of_a_dirty_tree_exits_with_two(here: Path, run: Run) -> None:
    """Nothing is written."""
    folder = written(here)
    (folder / "helper.py").write_text("")
    found = run("freeze")
    assert found.exit_code == 2
    assert "gates/sample/helper.py" in found.stderr
    assert not (folder / "registration.json").exists()


def test_freeze_without_git_exits_with_two(here: Path, run: Run) -> None:
    """In words, no traceback."""
    written(here)
    shutil.rmtree(here / ".git")
    found = run("freeze")
    assert found.exit_code == 2
    assert "git" in found.stderr


def test_freeze_after_results_wants_to_know(here: Path, run: Run) -> None:
    """Ignorance is refused, and so is knowledge without a statement; with one the models are listed."""
    folder = answered(here)
    shutil.rmtree(here / ".git")
    (folder / "registration.json").unlink()
    git(here, "init", "--quiet")
    commit(here, "All at once")
    assert "something was known" in run("freeze").stderr
    assert "no statement" in run("freeze", "--known", "full").stderr
    found = run("freeze", "--known", "full", "--statement", SAID)
    assert found.exit_code == 0, found.output
    assert "on record before: results on pythia-tiny" in found.stdout


def test_a_model_that_is_not_there_is_named(here: Path, run: Run) -> None:
    """By the name that was given."""
    written(here)
    found = run("freeze", "--model", "pythia-tinny")
    assert found.exit_code == 2
    assert "pythia-tinny" in found.stderr


def test_a_word_that_known_does_not_take_is_a_usage_error(here: Path, run: Run) -> None:
    """The three words are listed."""
    written(here)
    found = run("freeze", "--known", "some")
    assert found.exit_code == 2
    assert "pilot" in found.stderr


@pytest.mark.parametrize("command", ["freeze", "amend"])
def test_help_says_exit_codes_and_gives_examples(run: Run, command: str) -> None:
    """A reader needs no other page."""
    found = run(command, "--help")
    assert found.exit_code == 0
    for part in ("Exit codes: 0", "Examples:", "--known", "--statement", "--json"):
        assert part in found.stdout


# -- amend ----------------------------------------------------------------------------------------------------


def test_amend_writes_and_says_what_changed(here: Path, run: Run) -> None:
    """Key, old and new value, effect; the commit to make."""
    folder = frozen(here)
    loosen(here)
    found = run("amend", "gates/sample", "H1", "--reason", WHY, "--known", "none")
    assert found.exit_code == 0, found.output
    assert "hypotheses.H1.threshold: 0.1 -> 0.05, looser" in found.stdout
    assert "amendment 1 to sample" in found.stdout
    assert len(list((folder / "amendments").iterdir())) == 1
    commit(here, "Amend")
    assert standing(here).status == "registered"


def test_amend_in_json(here: Path, run: Run) -> None:
    """As freeze."""
    folder = frozen(here)
    loosen(here)
    found = json.loads(
        run("amend", "gates/sample", "H1", "--reason", WHY, "--known", "none", "--json").stdout
    )
    [file] = (folder / "amendments").iterdir()
    assert found["file"] == f"gates/sample/amendments/{file.name}"
    assert found["root"] == json.loads(file.read_text("utf-8"))["root"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["H1", "--reason", WHY, "--known", "full"], "no statement"),
        (["H1", "--reason", "Oops", "--known", "none"], "reason"),
        (["H1", "H9", "--reason", WHY, "--known", "none"], "nothing about H9 changed"),
        (["gates", "--reason", WHY, "--known", "none"], "nothing about gates changed; what did: H1"),
        (["H1", "--known", "none"], "--reason"),
        (["H1", "--reason", WHY], "--known"),
        (["--reason", WHY, "--known", "none"], "SUBJECT"),
    ],
)
def test_amend_refuses_in_words(here: Path, run: Run, arguments: list[str], says: str) -> None:
    """With exit code 2, and nothing written."""
    folder = frozen(here)
    loosen(here)
    found = run("amend", "gates/sample", *arguments)
    assert found.exit_code == 2
    assert says in found.stderr
    assert not (folder / "amendments").exists()


def test_amend_of_nothing_and_of_an_unregistered_study(here: Path, run: Run) -> None:
    """Each has its next step."""
    written(here / "one")
    frozen(here / "two")
    arguments = ("H1", "--reason", WHY, "--known", "none")
    unregistered = run("amend", "one/gates/sample", *arguments)
    unchanged = run("amend", "two/gates/sample", *arguments)
    assert (unregistered.exit_code, unchanged.exit_code) == (2, 2)
    assert "next: prereg freeze" in unregistered.stderr
    assert "nothing differs from what is registered" in unchanged.stderr


# -- what verdicts makes of it --------------------------------------------------------------------------------


def test_verdicts_of_a_registered_study_are_claims(here: Path, run: Run) -> None:
    """Supported, and zero."""
    answered(here)
    found = run("verdicts")
    assert found.exit_code == 0, found.output
    assert "2 of 2 tested: 2 supported" in found.stdout
    assert "registered " in found.stdout


def test_verdicts_of_an_unregistered_study_claim_nothing(here: Path, run: Run) -> None:
    """One by the claims, zero by the harness, and the tables say so."""
    make_project(here)
    found = run("verdicts")
    assert found.exit_code == 1
    assert "2 of 2 tested: 2 unregistered" in found.stdout
    assert "Not registered" in found.stdout
    assert run("verdicts", "--gate-exit", "harness").exit_code == 0
    document = json.loads((here / "reports/sample/pythia-tiny/verdicts.json").read_text("utf-8"))
    assert document["registration"]["status"] == "unregistered"


@pytest.mark.parametrize("gate_exit", ["claims", "harness"])
def test_verdicts_of_a_tampered_study_fail(here: Path, run: Run, gate_exit: str) -> None:
    """By both, with the key that was changed, in the table and in the files."""
    answered(here)
    loosen(here)
    found = run("verdicts", "--gate-exit", gate_exit)
    assert found.exit_code == 1
    assert "2 tampered" in found.stdout
    words = " ".join(found.stdout.split())
    assert "hypotheses.H1.threshold: 0.1 -> 0.05, looser" in words
    assert "✓" not in found.stdout
    document = json.loads((here / "reports/sample/pythia-tiny/verdicts.json").read_text("utf-8"))
    assert document["registration"]["status"] == "tampered"
    assert {v["outcome"] for v in document["verdicts"]} == {"unverified"}


def test_verdicts_of_an_unverified_study_claim_nothing(here: Path, run: Run) -> None:
    """One by the claims; the harness did its work."""
    folder = answered(here)
    (folder / "notes.txt").write_text("")
    found = run("verdicts")
    assert found.exit_code == 1
    assert "2 unverified" in found.stdout
    assert "Next: git add" in found.stdout
    assert run("verdicts", "--gate-exit", "harness").exit_code == 0


def test_a_hostile_registration_is_no_traceback(here: Path, run: Run) -> None:
    """`verdicts` answers, tampered; `freeze` and `amend` refuse."""
    folder = answered(here)
    (folder / "registration.json").write_bytes(b"[" * 100_000)
    assert run("verdicts").exit_code == 1
    assert run("freeze").exit_code == 2
    assert (
        run("amend", "gates/sample", "H1", "--reason", WHY, "--known", "full", "--statement", SAID).exit_code
        == 2
    )
