"""The tables over several models: an audit pools again, and finds what was edited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prereg.audit import audit
from prereg.report import report_contents, write_replication
from tests import synthetic
from tests.audit.projects import STUDY, Project, of, said
from tests.registration.repositories import isolate

OTHER = "smollm2-135m"
JSON, CSV = "reports/sample/replication.json", "reports/sample/replication.csv"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registered project, answered on two models, with the tables over both."""
    root = tmp_path_factory.mktemp("both") / "project"
    root.mkdir()
    synthetic.registered_project(root)
    one = synthetic.measured(root)
    other = synthetic.measured(root, model=OTHER, effect=0.3)
    records = [verdict.as_record() for study in (one, other) for verdict in study.verdicts()]
    write_replication(root / "reports/sample", "sample", records, one.hypotheses)
    synthetic.commit(root, "Replicate")
    return root


@pytest.fixture
def project(both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of it."""
    isolate(monkeypatch, tmp_path / "home")
    return Project.copy(both, tmp_path / "project")


def about(project: Project, *statuses: str, models: list[str] | None = None) -> str:
    """Return what the audit says of the tables over several models."""
    found = of(project.audit(models), "verdicts", *statuses)
    return said([f for f in found if "replication" in f.message or "over several models" in f.message])


def edited(project: Project, change: dict[str, Any], row: int = 0) -> None:
    """Change fields of one row's mean in replication.json."""
    document = json.loads(project.read(JSON))
    document["rows"][row]["pooled"] |= change
    project.write(JSON, json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def test_tables_that_follow_from_the_evidence_are_verified(project: Project) -> None:
    """Both files are compared, and the audit says of which models they speak."""
    report = project.audit()
    assert report.exit_code == 0
    assert f"replication of pythia-tiny, {OTHER}: both tables follow" in about(project, "verified")


@pytest.mark.parametrize("field", ["mu", "dependent_low"])
def test_a_mean_edited_in_the_json_is_a_violation(project: Project, field: str) -> None:
    """Every pooled number is computed again."""
    edited(project, {field: 7})
    project.commit()
    assert project.audit().exit_code == 1
    words = about(project, "violation")
    assert "replication.json is not what the evidence shows" in words
    assert f"rows.0.pooled.{field}: recorded 7" in words


def test_a_mean_edited_in_the_csv_is_a_violation(project: Project) -> None:
    """The table that people read is compared by itself."""
    mu = json.loads(project.read(JSON))["rows"][0]["pooled"]["mu"]
    project.write(CSV, project.read(CSV).replace(f",{mu!r},", ",0.9,", 1))
    project.commit()
    words = about(project, "violation")
    assert "replication.csv is not what the evidence shows" in words
    assert 'mu: recorded "0.9"' in words


def test_an_outcome_edited_to_agree_is_a_violation(project: Project) -> None:
    """A replication that was refuted can't be written into one that was supported."""
    text = project.read(JSON)
    assert '"outcome": "supported"' in text
    project.write(JSON, text.replace('"outcome": "supported"', '"outcome": "refuted"', 1))
    project.commit()
    assert "outcome: recorded" in about(project, "violation")


@pytest.mark.parametrize("gone", [JSON, CSV])
def test_one_file_without_the_other_is_a_violation(project: Project, gone: str) -> None:
    """They are written together."""
    project.path(gone).unlink()
    project.commit()
    assert "is there without replication" in about(project, "violation")


@pytest.mark.parametrize("models", [["pythia-tiny"], ["pythia-tiny", "pythia-tiny"], [1, 2]])
def test_a_table_of_no_models_is_a_violation(project: Project, models: object) -> None:
    """It must name at least two, each once."""
    document = json.loads(project.read(JSON))
    project.write(JSON, json.dumps(document | {"models": models}))
    project.commit()
    assert "does not name the models" in about(project, "violation")


def test_a_table_that_is_no_json_is_a_violation(project: Project) -> None:
    """Whatever can't be read is not passed over."""
    project.write(JSON, "{")
    project.commit()
    assert of(project.audit(), "verdicts", "violation")


def test_a_link_is_not_followed(project: Project) -> None:
    """A table elsewhere is none of the report's."""
    project.path(JSON).rename(project.path("elsewhere.json"))
    project.path(JSON).symlink_to(project.path("elsewhere.json"))
    project.commit()
    assert project.audit().exit_code == 1


def test_a_model_without_a_report_leaves_the_table_unverified(project: Project) -> None:
    """A mean over a model that can't be recomputed can't be checked."""
    text = project.read(JSON)
    project.write(JSON, text.replace(OTHER, "gemma3-270m"))
    project.commit()
    assert "gemma3-270m is not recomputed in full" in about(project, "unverified")


def test_looking_at_one_model_says_that_the_table_was_not_compared(project: Project) -> None:
    """Neither verified nor held against that model."""
    report = project.audit(["pythia-tiny"])
    assert report.exit_code == 0
    assert "not compared" in about(project, "note", models=["pythia-tiny"])


def test_a_table_written_while_nothing_was_registered_is_unverified(project: Project) -> None:
    """Claiming less than the study does now is no lie, and no proof."""
    project.write(
        JSON, project.read(JSON).replace('"registration": "registered"', '"registration": "unverified"')
    )
    project.commit()
    assert "was not written as registered" in about(project, "unverified")
    assert "verified\n" not in about(project, "verified")


def test_an_audit_that_cannot_pool_says_so(project: Project) -> None:
    """A caller that hands over no way to pool gets no silence."""
    report = audit(project.path(STUDY), synthetic.options(project.root), tables=report_contents)
    assert "were not compared" in said(of(report, "verdicts", "unverified"))


def test_no_tables_is_nothing_to_say(project: Project) -> None:
    """They promise nothing, and one may leave them away."""
    project.path(JSON).unlink()
    project.path(CSV).unlink()
    project.commit()
    assert project.audit().exit_code == 0
    assert about(project) == ""


def test_a_checkout_with_other_line_ends_is_no_edit(project: Project) -> None:
    """CRLF changes no number."""
    project.write(CSV, project.read(CSV).replace("\n", "\r\n"))
    project.commit()
    assert about(project, "violation") == ""
    assert "both tables follow" in about(project, "verified")
