"""The promise and its registration under attack, row by row, through the real commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.end_to_end.integrity_project import REPORTS, STUDY, Attacked, Take, taker, words

LOOSER = "hypotheses.H1.threshold: 0.1 -> 0.01, looser"


@pytest.fixture
def take(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Take:
    """Copy a project of a kind."""
    return taker(tmp_path, tmp_path_factory)


def frozen_apart(project: Attacked, **environment: str) -> str:
    """Freeze what lies here in a copy that has neither history nor results; return the registration's text."""
    copy = Attacked(project.root.parent / "apart")
    shutil.copytree(project.root, copy.root, symlinks=True)
    for name in (".git", "reports", f"{STUDY}/attempts"):
        shutil.rmtree(copy.path(name), ignore_errors=True)
    copy.path(f"{STUDY}/registration.json").unlink()
    copy.git("init", "--quiet")
    copy.commit("All new")
    done = copy.prereg("freeze", STUDY, **environment)
    assert done.code == 0, done.text
    return copy.read(f"{STUDY}/registration.json")


def test_what_nobody_bent_is_verified(take: Take) -> None:
    """An honest study is green on every surface, and its audit leaves nothing open."""
    project = take("supported")
    done = project.gates()
    assert (done.code, project.cases()) == (
        0,
        {"test_h1[pythia-tiny]": "passed", "test_h1_order[pythia-tiny]": "passed"},
    )
    assert "2 of 2 tested: 2 supported" in done.text
    assert project.statuses() == {"registered"}
    code, record = project.audit()
    assert (code, record["result"]) == (0, "verified")
    assert project.git("status", "--porcelain") == "", "a run left the tree dirty"


def test_an_edited_threshold_is_tampering(take: Take) -> None:
    """Key, frozen and present value are named on every surface, and nothing is green."""
    project = take("refuted")
    project.looser()
    done = project.gates()
    assert done.code == 1
    assert f"TAMPERED: {LOOSER}" in done.text
    assert set(project.cases().values()) == {"failure"}
    assert project.statuses() == {"tampered"}
    assert {v["outcome"] for v in project.verdicts().values()} == {"unverified"}
    assert "registered" not in {
        row.split(",")[5] for row in project.read(f"{REPORTS}/verdicts.csv").splitlines()
    }
    asked = project.prereg("verdicts", STUDY, "--cache-dir", "cache", "--gate-exit", "harness")
    assert asked.code == 1
    assert "✓ supported" not in asked.text
    page = project.prereg("audit", STUDY)
    assert page.code == 1
    assert LOOSER in page.flat
    assert "git checkout -- gates/sample/protocol.toml" in page.flat


def test_frozen_again_with_the_date_set_back(take: Take) -> None:
    """The first commit that carries a registration decides, whatever dates the second one and its commit claim."""
    project = take("refuted")
    project.looser()
    refused = project.prereg("freeze", STUDY, "--known", "full", "--statement", "All the results were seen.")
    assert refused.code == 2
    assert "registered already" in refused.flat
    first = json.loads(project.read(f"{STUDY}/registration.json"))["root"]
    again = frozen_apart(project)
    project.write(f"{STUDY}/registration.json", again)
    project.git("add", "--all")
    project.git(
        "-c", "core.editor=true", "commit", "--quiet", "--date=2020-01-01T00:00:00", "--message", "Register"
    )
    done = project.gates()
    assert done.code == 1
    assert "TAMPERED: registration.json was rewritten after its first commit" in done.text
    assert "passed" not in project.cases().values()
    code, record = project.audit()
    said = words(record, "registration", "violation")
    assert code == 1
    assert "frozen again in" in said
    assert first[:12] in said, "the registration that counts is not named"
    assert json.loads(again)["root"][:12] in said
    assert "2020" not in words(record, status="verified")


def test_a_looser_registration_in_a_side_branch_does_not_count(take: Take) -> None:
    """Merged with `-s ours` it changes no file here, and is found all the same."""
    project = take("refuted")
    project.git("checkout", "--quiet", "-b", "side", "HEAD~2")
    project.looser()
    project.commit("Looser")
    assert project.prereg("freeze", STUDY).code == 0
    project.commit("Register it again")
    project.git("checkout", "--quiet", "main")
    project.git("merge", "--quiet", "--strategy", "ours", "--message", "Merge", "side")
    done = project.gates()
    assert done.code == 1
    assert "TAMPERED" in done.text
    code, record = project.audit()
    assert code == 1
    assert "frozen again in" in words(record, "registration", "violation")


def test_an_amendment_stands_beside_what_it_amends(take: Take) -> None:
    """Amended with the data known, the original verdict leads; both are shown wherever there is one."""
    project = take("refuted")
    project.looser()
    known = ("--known", "full", "--statement", "H1 was refuted on pythia-tiny.")
    denied = project.prereg("amend", STUDY, "H1", "--reason", "The wrong table was read.", "--known", "none")
    assert denied.code == 2
    made = project.prereg("amend", STUDY, "H1", "--reason", "The wrong table was read.", *known)
    assert made.code == 0
    assert LOOSER in made.text
    project.commit("Amend H1")
    done = project.gates()
    assert done.code == 1
    assert project.cases()["test_h1[pythia-tiny]"] == "failure"
    h1 = project.verdicts()["H1"]
    assert (h1["outcome"], h1["threshold"]) == ("refuted", 0.1)
    assert (h1["other"]["version"], h1["other"]["threshold"]) == ("amended", 0.01)
    project.commit("Measure again")
    page = project.prereg("audit", STUDY)
    assert page.code == 0, page.text
    assert LOOSER in page.flat
    assert "The wrong table was read." in page.flat
    difference = project.prereg("diff", "HEAD~2", "HEAD", STUDY)
    assert "0.1 -> 0.01, looser" in difference.flat


@pytest.mark.parametrize("kept", ["undone", "edited", "deleted"])
def test_amendments_are_never_taken_back(take: Take, kept: str) -> None:
    """One that was committed and then edited or removed is a violation that names it; undoing one takes another."""
    project = take("refuted")
    project.looser()
    known = ("--known", "full", "--statement", "H1 was refuted on pythia-tiny.")
    reason = ("--reason", "The wrong table was read.")
    assert project.prereg("amend", STUDY, "H1", *reason, *known).code == 0
    project.commit("Amend H1")
    (amendment,) = project.path(f"{STUDY}/amendments").glob("*.json")
    if kept == "edited":
        amendment.write_text(amendment.read_text("utf-8").replace("wrong table", "right table"), "utf-8")
    else:
        project.git("checkout", "HEAD~1", "--", f"{STUDY}/protocol.toml")
    if kept == "undone":
        assert project.prereg("amend", STUDY, "H1", *reason, *known).code == 0
    if kept == "deleted":
        shutil.rmtree(amendment.parent)
    project.commit("Change it")
    code, record = project.audit()
    if kept == "undone":
        assert len(record["amendments"]) == 2
        assert not words(record, status="violation")
    else:
        assert code == 1
        assert amendment.name[5:13] in words(record, status="violation")


@pytest.mark.parametrize("committed", [True, False])
def test_edit_run_revert_leaves_a_trace(take: Take, committed: bool) -> None:
    """A threshold that was edited, used and put back is reported with the results that were made under it."""
    project = take("refuted")
    project.looser()
    edited = project.commit("Looser") if committed else None
    used = project.prereg("verdicts", STUDY, "--cache-dir", "cache")
    assert used.code == 1
    assert "tampered" in used.text
    if committed:
        project.commit("Run")
    project.git("checkout", "HEAD~2" if committed else "HEAD", "--", f"{STUDY}/protocol.toml")
    project.prereg("verdicts", STUDY, "--cache-dir", "cache")
    project.commit("Revert")
    code, record = project.audit()
    said = words(record, "windows", "violation")
    assert code == 1
    assert "attempts/" in said, "the tainted result is not named"
    assert "never registered" in said
    if edited is not None:
        assert edited[:12] in said
        assert LOOSER in said


def test_a_hypothesis_added_after_the_data_is_exploratory(take: Take) -> None:
    """It is shown apart, counts in no family and is never green."""
    project = take("supported")
    text = project.read(f"{STUDY}/protocol.toml")
    start, end = text.index("[hypotheses.H1]"), text.index("[hypotheses.H1.permutation]")
    added = (
        text[start:end]
        .replace("hypotheses.H1", "hypotheses.H1-late")
        .replace("threshold = 0.1", "threshold = 0.2")
    )
    project.write(f"{STUDY}/protocol.toml", text + "\n" + added)
    gate = project.read(f"{STUDY}/test_h1.py").replace('"H1"', '"H1-late"').replace("test_h1", "test_h1_late")
    project.write(f"{STUDY}/test_h1_late.py", gate)
    known = ("--known", "full", "--statement", "All results on pythia-tiny were seen.")
    made = project.prereg("amend", STUDY, "H1-late", "gates", "--reason", "It suggested itself then.", *known)
    assert made.code == 0, made.text
    project.commit("Add H1-late")
    done = project.gates()
    assert done.code == 1, "an exploratory claim is no claim"
    assert "exploratory" in done.text
    assert project.cases()["test_h1_late[pythia-tiny]"] == "skipped"
    late = project.verdicts()["H1-late"]
    assert (late["outcome"], late["answer"]) == ("exploratory", "supported")
    project.commit("Answer")
    _, record = project.audit()
    assert "H1-late" in words(record, "accounting")
    assert "exploratory" in json.dumps(record)


def test_spelling_is_no_edit_and_nonsense_is_an_error_with_its_line(take: Take) -> None:
    """Comments, number spelling and CRLF leave a study registered; a key given twice is an error at a line."""
    project = take("supported")
    file = project.path(f"{STUDY}/protocol.toml")
    plain = file.read_bytes()
    spelled = plain.replace(b"threshold = 0.1\n", b"threshold = 1e-1  # a tenth\n").replace(b"\n", b"\r\n")
    file.write_bytes(spelled)
    project.commit("Spell it otherwise")
    done = project.gates()
    assert done.code == 0, done.text
    project.commit("Run")
    assert project.audit()[0] == 0
    file.write_bytes(plain.replace(b"threshold = 0.1\n", b"threshold = 0.1\nthreshold = 0.2\n"))
    broken = project.prereg("verdicts", STUDY)
    assert broken.code == 2
    assert "protocol.toml" in broken.flat
    assert "line 93" in broken.flat
