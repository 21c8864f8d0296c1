"""What is no longer here, or elsewhere: deleted failures, other branches' registrations, other spellings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from prereg.audit import AuditReport, audit
from prereg.report import report_contents
from prereg.study import Study
from tests.synthetic import commit, frozen_project, git, measured, options, registered_project


def audited(root: Path, models: list[str] | None = None) -> AuditReport:
    return audit(root / "gates" / "sample", options(root), models, tables=report_contents)


def says(report: AuditReport, words: str) -> list[str]:
    return [finding.status for finding in report.findings if words in finding.message]


def test_deleted_failures_are_missed(tmp_path: Path) -> None:
    """Reports that are gone, though the log names their answers, are unverified; never verified."""
    registered_project(tmp_path, effect=0.03)
    shutil.rmtree(tmp_path / "reports")
    commit(tmp_path, "Tidy up")
    report = audited(tmp_path)
    assert says(report, "pythia-tiny: 2 hypotheses were answered under this registration") == ["unverified"]
    assert report.exit_code == 2


def test_a_named_model_without_results_is_not_verified(tmp_path: Path) -> None:
    """Asking for a model of which nothing is on record verifies nothing."""
    registered_project(tmp_path)
    report = audited(tmp_path, ["gpt2-small"])
    assert says(report, "gpt2-small: nothing is on record of this model") == ["unverified"]
    assert report.exit_code == 2


def test_a_frozen_study_that_nobody_measured_is_verified(tmp_path: Path) -> None:
    """Nothing was answered, so nothing is missing."""
    frozen_project(tmp_path)
    assert audited(tmp_path).exit_code == 0


def test_another_registration_on_another_ref_is_named(tmp_path: Path) -> None:
    """A history that was put in the place of the old one: the tag still holds the first registration."""
    registered_project(tmp_path)
    git(tmp_path, "tag", "v1")
    git(tmp_path, "reset", "--quiet", "--hard", git(tmp_path, "rev-list", "--max-parents=0", "HEAD"))
    protocol = tmp_path / "gates" / "sample" / "protocol.toml"
    protocol.write_text(
        protocol.read_text("utf-8").replace("threshold = 0.1\n", "threshold = 0.05\n"), "utf-8"
    )
    commit(tmp_path, "Another promise")
    from tests.synthetic import register

    register(tmp_path)
    commit(tmp_path, "Register")
    measured(tmp_path)
    commit(tmp_path, "Measure")
    report = audited(tmp_path)
    assert says(report, "on another branch or tag, holds another registration") == ["unverified"]
    assert report.exit_code == 2


def test_a_registration_that_was_only_spelled_otherwise_stands(tmp_path: Path) -> None:
    """Indented otherwise and committed: the same root, for a run as for the audit."""
    folder = registered_project(tmp_path)
    file = folder / "registration.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8"))), "utf-8")
    commit(tmp_path, "Reformat")
    assert Study.open(folder, model="pythia-tiny", options=options(tmp_path)).standing.is_registered
    assert audited(tmp_path).exit_code == 0


def test_facts_with_crlf_are_the_registered_ones(tmp_path: Path) -> None:
    """What a checkout does to line ends is no edit."""
    folder = registered_project(tmp_path)
    for name in ("facts.csv", "world.csv"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b"\n", b"\r\n"))
    assert Study.open(folder, model="pythia-tiny", options=options(tmp_path)).standing.is_registered


def test_a_typo_in_a_rationale_that_was_reverted_leaves_no_stain(tmp_path: Path) -> None:
    """A run under other wording asked the same: its attempt names the promise in force."""
    folder = registered_project(tmp_path)
    protocol = folder / "protocol.toml"
    whole = protocol.read_text("utf-8")
    protocol.write_text(
        whole.replace("A tenth is the least worth reporting.", "A tenth is the least worth telling.")
    )
    study = Study.open(folder, model="pythia-tiny", options=options(tmp_path))
    assert study.standing.status == "tampered"
    study.record_attempt(study.verdicts())
    protocol.write_text(whole, "utf-8")
    commit(tmp_path, "Never mind")
    assert audited(tmp_path).exit_code == 0


def test_a_shallow_clone_is_not_accused_of_a_squash(tmp_path: Path) -> None:
    """Its one commit holds registration and results; the remedy is to fetch the rest."""
    registered_project(tmp_path / "whole")
    git(tmp_path, "clone", "--quiet", "--depth", "1", (tmp_path / "whole").as_uri(), "part")
    report = audited(tmp_path / "part")
    [finding] = [f for f in report.findings if "first appear together" in f.message]
    assert "this clone doesn't show which came first" in finding.message
    assert finding.remedy is not None
    assert "git fetch --unshallow" in finding.remedy
    assert not says(report, "squash")
    assert report.exit_code == 2
