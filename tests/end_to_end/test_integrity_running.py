"""Gates, code and the way of running them under attack, row by row, through the real commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import prereg
from tests.end_to_end.integrity_project import REPORTS, STUDY, Take, taker, words

GREEN = '"""H1."""\n\n\ndef test_h1(study):\n    """Green."""\n    assert True\n'
PATCHED = '''"""Patch."""\n\nimport prereg\n\nprereg.Verdict.supported = property(lambda self: True)\n'''


@pytest.fixture
def take(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Take:
    """Copy a project of a kind."""
    return taker(tmp_path, tmp_path_factory)


@pytest.mark.parametrize(
    ("file", "text"),
    [(f"{STUDY}/test_h1.py", GREEN), (f"{STUDY}/conftest.py", PATCHED), ("conftest.py", '"""Harmless."""\n')],
)
def test_an_edited_gate_is_unverified(take: Take, file: str, text: str) -> None:
    """A gate that asserts nothing, a conftest that patches, or just one more conftest: named, and nothing is green."""
    project = take("refuted")
    project.write(file, text)
    project.commit("Simplify")
    done = project.gates()
    assert done.code == 1
    # What patches prereg in memory is found before anything else is asked.
    assert f"{file} is not the registered one" in done.flat or "prereg was altered in memory" in done.flat
    assert "passed" not in project.cases().values()
    code, record = project.audit()
    assert code == 2
    said = words(record, "components", "unverified")
    assert file in said
    assert "prereg amend gates/sample gates" in said


def test_an_edited_analysis_is_unverified(take: Take) -> None:
    """The package's own source is a component: an edit is named with both digests, and nothing is green."""
    project = take("supported")
    copy = project.root.parent / "lib"
    shutil.copytree(
        Path(prereg.__file__).parent, copy / "prereg", ignore=shutil.ignore_patterns("__pycache__")
    )
    edited = copy / "prereg/inference/verdict.py"
    edited.write_text(edited.read_text("utf-8") + "\n# return 1.0\n", "utf-8")
    done = project.gates(PYTHONPATH=str(copy))
    assert done.code == 1
    assert "prereg/inference/verdict.py is not the registered one" in done.flat
    assert set(project.cases().values()) == {"skipped"}
    code, record = project.audit(PYTHONPATH=str(copy))
    assert code == 2
    assert "prereg/inference/verdict.py: registered" in words(record, "components", "unverified")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("-k", "order"), 0, "1 of 2 tested"),
        (("--deselect", f"{STUDY}/test_h1.py"), 0, "1 of 2 tested"),
        (("--maxfail", "1"), 1, "1 of 2 tested"),
        (("--reruns", "3"), 4, "--reruns runs a failed gate again"),
        (("-p", "no:prereg-seal"), 4, "-p no:prereg-seal"),
    ],
)
def test_a_part_is_called_a_part_or_refused(
    take: Take, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """H1 is refuted: a run that leaves it out says so, and writes no table; one that repeats it is refused."""
    project = take("refuted")
    done = project.gates(*arguments)
    assert done.code == code
    assert said in done.flat
    assert "2 of 2 tested" not in done.text
    assert project.git("status", "--porcelain") == "", "tables or attempts were written"


def test_asserts_switched_off_are_refused(take: Take) -> None:
    """With PYTHONOPTIMIZE no gate runs."""
    project = take("supported")
    done = project.gates(PYTHONOPTIMIZE="1")
    assert done.code == 4
    assert "PYTHONOPTIMIZE" in done.text
    assert "0 of 2 tested" in done.text
    assert not set(project.cases().values()) & {"passed"}


def test_a_study_fixture_of_ones_own_is_refused(take: Take) -> None:
    """A conftest that overrides `study` is a usage error, before any gate runs."""
    project = take("refuted")
    project.write("conftest.py", "import pytest\n\n\n@pytest.fixture\ndef study():\n    return None\n")
    done = project.gates()
    assert done.code == 4
    assert "its `study` fixture is defined in conftest" in done.flat
    assert "✓" not in done.text


@pytest.mark.parametrize(
    "ending", ["import os; os._exit(0)", "import sys; sys.exit(0)", "raise KeyboardInterrupt"]
)
def test_a_gate_that_ends_the_run_claims_nothing(take: Take, ending: str) -> None:
    """A crash midway leaves tables and log as they were."""
    project = take("refuted")
    before = project.read(f"{REPORTS}/verdicts.json")
    project.write(f"{STUDY}/test_h1.py", f"def test_h1(study):\n    {ending}\n")
    project.commit("Crash")
    done = project.gates()
    assert "2 of 2 tested" not in done.text
    assert "✓" not in done.text
    assert project.read(f"{REPORTS}/verdicts.json") == before
    if "_exit" not in ending:  # a process that ends itself has the exit code that it wants
        assert done.code != 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('rationale = "A tenth is the least worth reporting."\n', "", "rationale"),
        ("threshold = 0.02\n", "threshold = 0.001\n", "minimum detectable effect"),
        ('family = "primary"', 'family = "secondary"', "primary"),
        ("standard_error = 0.001", "standard_error = 0.002", "dirty"),
    ],
)
def test_freeze_refuses_what_could_not_be_held_to(take: Take, old: str, new: str, said: str) -> None:
    """No rationale, a margin finer than the study, an empty family, a dirty tree: refused, and nothing is written."""
    project = take("frozen")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    project.edit(f"{STUDY}/protocol.toml", old, new)
    if said != "dirty":
        project.commit("Edit")
    done = project.prereg("freeze", STUDY)
    assert done.code == 2, done.text
    assert said in done.flat
    assert not project.path(f"{STUDY}/registration.json").exists()


def test_the_order_of_honest_work_is_verified_throughout(take: Take) -> None:
    """Freeze, commit, run, commit, mend a wording, move to another machine: no step is stuck or accused."""
    project = take("frozen")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    frozen = project.prereg("freeze", STUDY)
    assert frozen.code == 0
    assert "git add gates/sample && git commit" in frozen.flat
    project.commit("Register")
    project.measure(0.5)
    done = project.gates()
    assert done.code == 0, done.text
    project.commit("Measure")
    assert project.audit()[0] == 0
    project.edit(
        f"{STUDY}/protocol.toml",
        "A tenth is the least worth reporting.",
        "One tenth is the least worth reporting.",
    )
    assert project.gates().code == 1
    known = ("--known", "full", "--statement", "All results on pythia-tiny were seen.")
    made = project.prereg("amend", STUDY, "H1", "--reason", "A word was missing here.", *known)
    assert made.code == 0, made.text
    project.commit("Mend a wording")
    done = project.gates()
    assert done.code == 0, done.text
    assert project.verdicts()["H1"]["other"] is None, "a wording makes no second verdict"
    project.commit("Answer again")
    code, record = project.audit()
    assert code == 0, words(record, status="violation") + words(record, status="unverified")
