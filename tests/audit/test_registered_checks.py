"""Checks of what a registration names: components, amendments, attempts, witnesses and accounting."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from prereg.inference import look_alphas
from prereg.registration import components
from prereg.registration.attempts import AttemptLog
from prereg.registration.components import code_digests
from prereg.registration.witness import Witness
from prereg.study import Study
from tests import synthetic
from tests.audit.projects import REPORTS, STUDY, Project, of, said

# -- components -----------------------------------------------------------------------------------------


def test_a_patched_gate_is_unverified_by_name(project: Project) -> None:
    """A gate that isn't the registered one is named with both digests."""
    file = f"{STUDY}/test_h1.py"
    project.edit(file, "assert verdict.supported", "assert True or verdict.supported")
    report = project.audit(())
    assert report.exit_code == 2
    text = said(of(report, "components", "unverified"))
    assert f"{file}: registered" in text


def test_a_new_conftest_is_unverified(project: Project) -> None:
    """A file that may override the fixtures of a gate is one of the gates."""
    project.write(f"{STUDY}/conftest.py", "")
    assert f"{STUDY}/conftest.py: registered none" in said(of(project.audit(()), "components", "unverified"))


def test_changed_facts_are_unverified(project: Project) -> None:
    """The facts are bound by digest."""
    project.write("facts.csv", "subject,answer\nother,fact\n")
    assert "facts.csv" in said(of(project.audit(()), "components", "unverified"))


def test_other_code_and_newly_reached_modules_are_unverified(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that changed since the freeze is named, and one that is only reached now."""
    reached, real = code_digests, components.code_now

    def code_now(names: list[str], folder: object) -> dict[str, str | None]:
        return {**real(names), "prereg/study/frames.py": "0" * 64}

    monkeypatch.setattr("prereg.audit.components.code_now", code_now)
    monkeypatch.setattr(
        "prereg.audit.components.code_digests", lambda p: {**reached(p), "prereg/study/patch.py": "2" * 64}
    )
    text = said(of(project.audit(()), "components", "unverified"))
    assert "prereg/study/frames.py: registered" in text
    assert "prereg/study/patch.py: registered none" in text


# -- amendments -----------------------------------------------------------------------------------------


def amended(project: Project) -> str:
    """Loosen H1, amend it and commit both; return the amendment's file name."""
    project.looser()
    name = project.amend("H1")
    project.commit("Amend")
    return name


def test_an_amendment_is_shown_with_date_reason_and_both_values(project: Project) -> None:
    """A reviewer reads what changed, why, and what was known; nothing about it is a violation."""
    name = amended(project)
    report = project.audit(())
    text = said(of(report, "amendments", "note"))
    assert name in text
    assert "known: full" in text
    assert "The margin was read off the wrong table." in text
    assert "hypotheses.H1.threshold: 0.1 -> 0.05, looser" in text
    assert of(report, "windows", "violation") == of(report, "amendments", "violation") == []
    (row,) = report.amendments
    assert row.commit == project.head
    threshold = next(t for t in report.thresholds if t.hypothesis == "H1")
    assert (threshold.state, threshold.threshold, threshold.original) == ("amended", 0.05, "> 0.1 R2")


def test_both_verdicts_of_an_amended_study_are_recomputed(project: Project) -> None:
    """The original verdict leads where data were known, and the amended one stands beside it."""
    amended(project)
    synthetic.measured(project.root)
    project.commit("Answer")
    report = project.audit()
    row = next(v for v in report.verdicts if v.hypothesis == "H1")
    assert row.version == "original"
    assert row.other is not None
    assert row.other.startswith("amended: supported")
    assert of(report, "verdicts", "violation") == [], said(of(report, "verdicts"))


def test_a_promise_changed_before_its_amendment_is_a_window(project: Project) -> None:
    """What counts at a commit is the chain that the same commit holds."""
    project.looser()
    early = project.commit("Loosen")
    project.amend("H1")
    project.commit("Amend")
    assert early in of(project.audit(()), "windows", "violation")[0].commits


def test_a_removed_amendment_is_a_violation(project: Project) -> None:
    """Nothing that was amended can be taken back by removing its file."""
    name = amended(project)
    project.path(f"{STUDY}/amendments/{name}").unlink()
    project.stricter()
    removed = project.commit("Take back")
    report = project.audit(())
    assert report.exit_code == 1
    assert removed in of(report, "amendments", "violation")[0].commits


def test_an_amendment_removed_and_not_committed_is_a_violation(project: Project) -> None:
    """The working tree must hold what was committed."""
    name = amended(project)
    project.path(f"{STUDY}/amendments/{name}").unlink()
    assert "is not what lies in the working tree" in said(of(project.audit(()), "amendments", "violation"))


def test_an_edited_amendment_is_a_violation(project: Project) -> None:
    """A reason that was rewritten breaks the root it is named by."""
    name = amended(project)
    project.edit(f"{STUDY}/amendments/{name}", "wrong table", "other table")
    project.commit("Reword")
    assert project.audit(()).exit_code == 1


def test_two_amendments_of_one_link_are_unverified(project: Project) -> None:
    """Two branches that both amended can't both be in force."""
    project.git("switch", "--quiet", "--create", "side")
    project.looser("0.06")
    project.amend("H1")
    project.commit("Amend there")
    project.git("switch", "--quiet", "main")
    amended(project)
    project.git("merge", "--quiet", "-X", "ours", "--no-edit", "side")
    assert "follow the same one" in said(of(project.audit(()), "amendments", "unverified"))


def test_an_amendment_that_denies_what_was_on_record_is_a_violation(project: Project) -> None:
    """A claim that nothing was known is contradicted by results that were committed before."""
    from unittest.mock import patch

    project.looser()
    with patch("prereg.registration.amend._require_honest"):
        project.amend("H1", known="none")
    project.commit("Amend")
    text = said(of(project.audit(()), "amendments", "violation"))
    assert "says that nothing was known, but results on pythia-tiny were on record" in text


def test_an_amendment_that_was_not_committed_is_unverified(project: Project) -> None:
    """It shows no time at which it came."""
    project.looser()
    project.amend("H1")
    assert "in no commit" in said(of(project.audit(()), "amendments", "unverified"))


# -- attempts -------------------------------------------------------------------------------------------


def attempt_of(project: Project) -> Path:
    return next(project.path(f"{STUDY}/attempts").glob("*.json"))


def test_a_removed_attempt_is_a_violation(project: Project) -> None:
    """The newest entry is named by no other: the history shows that it went."""
    attempt_of(project).unlink()
    removed = project.commit("Forget")
    report = project.audit(())
    assert report.exit_code == 1
    assert removed in of(report, "attempts", "violation")[0].commits


def test_an_edited_attempt_is_a_violation(project: Project) -> None:
    """An attempt's name is the digest of what it says."""
    file = attempt_of(project)
    file.write_text(file.read_text().replace('"supported"', '"refuted"'))
    assert "was edited or renamed" in said(of(project.audit(()), "attempts", "violation"))


def test_an_attempt_dropped_by_a_merge_is_a_violation(project: Project) -> None:
    """A merge that takes one side's tree drops what the other side logged."""
    project.git("switch", "--quiet", "--create", "side")
    AttemptLog(project.path(f"{STUDY}/attempts")).record(
        study="sample", model="pythia-tiny", registration=None, protocol="a" * 64,
        results={"H1": ("b" * 64, "refuted")},
    )  # fmt: skip
    project.commit("Try there")
    project.git("switch", "--quiet", "main")
    project.write("notes.txt", "x")
    project.commit("Notes")
    project.git("merge", "--quiet", "--no-edit", "-s", "ours", "side")
    assert "was committed, and removed in" in said(of(project.audit(()), "attempts", "violation"))


def test_a_verdict_without_an_attempt_is_a_violation(project: Project) -> None:
    """Every verdict on record must be in the log, whatever became of it since."""
    old = project.read(f"{REPORTS}/verdicts.json")
    attempt = attempt_of(project).name
    project.git("reset", "--quiet", "--soft", "HEAD~1")
    project.path(f"{STUDY}/attempts/{attempt}").unlink()
    project.commit("Measure")
    report = project.audit()
    assert old
    assert "H1 on" in said(of(report, "attempts", "violation"))
    assert "without an attempt" in said(of(report, "attempts", "violation"))


def test_several_sets_of_data_are_counted(project: Project) -> None:
    """Fail, fail, pass: each set of data stands in the count."""
    synthetic.measured(project.root, effect=0.05)
    project.commit("Again")
    synthetic.measured(project.root, effect=0.6)
    project.commit("And again")
    report = project.audit(())
    assert "pythia-tiny: H1: 3 sets of data, 3 under this registration" in said(
        of(report, "attempts", "note")
    )
    assert "kernels.model.json: 3 versions" in said(of(report, "attempts", "note"))
    count = next(c for c in report.attempts if c.hypothesis == "H1")
    assert (count.data, count.registered, count.planned, count.spent) == (3, 3, None, None)


LOOKS = """
[inference.looks]
planned = 3
spending = "pocock"
rationale = "New subjects come in three waves."
"""


def test_looks_are_counted_with_the_alpha_they_spent(frozen: Project) -> None:
    """Where looks are registered, the page says how many were taken and what they cost."""
    protocol = f"{STUDY}/protocol.toml"
    frozen.write(protocol, frozen.read(protocol) + LOOKS)
    frozen.amend("inference", known="none")
    frozen.commit("Amend")
    for effect in (0.05, 0.06):
        synthetic.measured(frozen.root, effect=effect)
        frozen.commit("Measure")
    report = frozen.audit()
    assert of(report, "amendments", "violation") == [], said(of(report, "amendments"))
    count = next(c for c in report.attempts if c.hypothesis == "H1")
    assert (count.registered, count.planned) == (2, 3)
    study = Study.open(frozen.root / STUDY, model="pythia-tiny", options=synthetic.options(frozen.root))
    assert count.spent == pytest.approx(sum(study.answers.alpha("H1", look) for look in (1, 2)), abs=1e-15)
    assert count.spent == pytest.approx(2.0 * sum(look_alphas(0.025, 3, "pocock")[:2]))
    assert "looks 2 of 3 planned, alpha spent 0.0" in said(of(report, "attempts", "note"))
    assert of(report, "verdicts", "violation") == [], said(of(report, "verdicts"))
    assert "more looks" not in said(report.findings)
    for effect in (0.07, 0.6):
        synthetic.measured(frozen.root, effect=effect)
        frozen.commit("Measure")
    assert "more looks were taken than planned" in said(of(frozen.audit(()), "attempts", "note"))


def test_an_attempt_before_the_freeze_is_shown(frozen: Project) -> None:
    """What was tried before anything was promised is told with its answer."""
    registration = frozen.read(f"{STUDY}/registration.json")
    frozen.path(f"{STUDY}/registration.json").unlink()
    synthetic.measured(frozen.root)
    frozen.write(f"{STUDY}/registration.json", registration)
    text = said(of(frozen.audit(()), "attempts", "note"))
    assert "1 attempts were made before the freeze" in text
    assert "H1 supported" in text


# -- witnesses and accounting ---------------------------------------------------------------------------


def test_no_signature_is_a_note(project: Project) -> None:
    """A missing signature is a fact, not an error."""
    report = project.audit(())
    assert [f.status for f in of(report, "witnesses")] == ["note"]
    assert report.head.signature == "none"


@pytest.mark.parametrize(
    ("state", "status", "code"), [("good", "verified", 0), ("unknown", "note", 0), ("bad", "violation", 1)]
)
def test_a_signature_is_as_good_as_it_is(
    project: Project, monkeypatch: pytest.MonkeyPatch, state: str, status: str, code: int
) -> None:
    """A good one is verified, an unknown one a note, and a bad one a violation."""
    witness = Witness("commit", state, "ada@example.org", "as the test wants it", None, None)  # type: ignore[arg-type]
    monkeypatch.setattr("prereg.audit.witnesses.commit_witness", lambda *_: witness)
    report = project.audit(())
    assert [f.status for f in of(report, "witnesses")] == [status]
    assert report.head.signature == state
    assert (report.exit_code == 1) is (code == 1)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_detached_signature_is_verified_against_the_allowed_signers(project: Project) -> None:
    """A real key, a real signature: verified as it lies, and a violation once it is of other bytes."""
    key, file = project.root.parent / "key", project.path(f"{STUDY}/registration.json")
    for command in (
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", str(key)],
        ["ssh-keygen", "-q", "-Y", "sign", "-n", "prereg", "-f", str(key), str(file)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    public = key.with_suffix(".pub").read_text().rsplit(" ", 1)[0]
    project.write(f"{STUDY}/allowed_signers", f"ada@example.org {public}\n")
    project.commit("Sign")
    report = project.audit(())
    assert report.head.signature == "good", said(of(report, "witnesses"))
    assert "ada@example.org" in said(of(report, "witnesses", "verified"))
    assert report.witnesses[0].kind == "ssh"
    file.write_text(file.read_text() + "\n")
    assert of(project.audit(()), "witnesses", "violation")


def test_what_was_not_tested_is_counted(project: Project) -> None:
    """The count is of what was promised, not of what was asked."""
    file = f"{REPORTS}/verdicts.json"
    document = json.loads(project.read(file))
    document["verdicts"] = document["verdicts"][:1]
    project.write(file, json.dumps(document))
    text = said(of(project.audit(), "accounting", "note"))
    assert "1 of 2 tested" in text
    assert "H1-order: not tested" in text


ADDED = """
[hypotheses.H9]
claim = "History explains a little."
evidence = "kernels"
estimand = "mean over the deep set of R2(history) - R2(null)"
units = "R2"
direction = "greater"
threshold = 0.0
rationale = "Anything above nothing will do."
family = "primary"

[[hypotheses.H9.contrasts]]
label = "over the null"
updates = "deep"
terms = [{ weight = 1.0, fit = "history_1" }]
"""


def test_a_hypothesis_added_after_the_freeze_is_exploratory(project: Project) -> None:
    """It is shown apart, and never counted in the family."""
    protocol = f"{STUDY}/protocol.toml"
    project.write(protocol, project.read(protocol) + ADDED)
    project.write(f"{STUDY}/test_h9.py", synthetic.GATE.format(name="H9", function="h9"))
    project.amend("H9", "gates")
    project.commit("Add")
    report = project.audit(())
    assert "exploratory, since they were added after the freeze: H9" in said(of(report, "accounting", "note"))
    assert next(t.state for t in report.thresholds if t.hypothesis == "H9") == "added"
