"""A job's summary: what the audit can show, in Markdown that no file can bend."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from prereg.audit import AuditReport, Finding, audit
from prereg.cli import app
from prereg.report import replication_contents, report_contents
from prereg.report.summary import summary_markdown
from tests.synthetic import options, registered_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registered project, everything verified; tests put back what they change."""
    root = tmp_path_factory.mktemp("project")
    registered_project(root)
    return root


@pytest.fixture(scope="module")
def verified(project: Path) -> AuditReport:
    """Its audit."""
    return audit(
        project / "gates" / "sample",
        options(project),
        tables=report_contents,
        replicated=replication_contents,
    )


def run(project: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["summary", *arguments], catch_exceptions=False, env={"COLUMNS": "40"})


def rows(text: str) -> list[list[str]]:
    """Return the cells of the table's rows."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ][1:]


def test_a_study_that_stands_has_its_verdicts(verified: AuditReport) -> None:
    """A line like the badge's, the root, and a row for each hypothesis with its numbers."""
    text = summary_markdown(verified)
    assert "**hypotheses: 2 supported**" in text
    assert "Audit: **verified**" in text
    assert str(verified.head.in_force)[:16] in text
    table = rows(text)
    assert [(row[1], row[2]) for row in table] == [("H1", "✓ supported"), ("H1-order", "✓ supported")]
    assert re.fullmatch(r"\+0\.\d{3}", table[0][3])
    assert table[0][5].startswith("&#62; 0.1")
    assert "In the way" not in text


@pytest.mark.parametrize(("status", "word"), [("violation", "tampered"), ("unverified", "unverified")])
def test_no_verdict_keeps_its_word_over_a_doubtful_audit(
    verified: AuditReport, status: str, word: str
) -> None:
    """Each says so first; the finding stands below, with the next step."""
    finding = Finding("promise", status, "threshold edited", ("0.1 -> 0.05",), remedy="git log -p")  # type: ignore[arg-type]
    text = summary_markdown(replace(verified, findings=(*verified.findings, finding)))
    assert f"Audit: **{status}**" in text
    assert all(row[2].endswith(f"{word} (supported)") for row in rows(text))
    assert "✓" not in text
    assert f"- **{status}**, promise: threshold edited" in text
    assert "next: git log -p" in text


def test_a_choice_of_models_is_told_in_the_headline(verified: AuditReport) -> None:
    """What the study was asked on and the summary leaves out is counted."""
    other = replace(verified.attempts[0], model="gpt2-small")
    text = summary_markdown(replace(verified, attempts=(*verified.attempts, other)))
    assert "**hypotheses, 1 of 2 models: 2 supported**" in text


def test_a_withdrawn_hypothesis_is_counted_in_the_headline(verified: AuditReport) -> None:
    """A verdict that was taken back is one of two that were promised."""
    first, second = verified.thresholds
    gone = replace(
        verified, thresholds=(first, replace(second, state="withdrawn")), verdicts=verified.verdicts[:1]
    )
    assert "**hypotheses: 1 of 2 tested**" in summary_markdown(gone)


def test_a_study_that_nobody_froze_claims_nothing(verified: AuditReport) -> None:
    """Whatever the audit of the rest says."""
    head = replace(verified.head, root=None, in_force=None, date=None)
    text = summary_markdown(replace(verified, head=head))
    assert "unregistered" in text
    assert "✓" not in text
    assert "Registration: none." in text


def test_without_a_verdict_there_is_no_table(verified: AuditReport) -> None:
    """Emptiness is said."""
    assert "No verdict is on record." in summary_markdown(replace(verified, verdicts=(), evidence=()))


def test_hostile_text_is_no_markup(verified: AuditReport) -> None:
    """Cells, links, tags, mentions, headings, emphasis: none of it gets through from a message or a name."""
    evil = "a|b <img src=x> [x](javascript:1) @team #1 `c` *d* _e_ ~f~ https://x.y www.x.y \\ &amp; $z$ {q}"
    finding = Finding("promise", "violation", evil, ("- nested", "# head", "1. one"), remedy=evil)
    first, *rest = verified.verdicts
    text = summary_markdown(
        replace(
            verified,
            study=evil,
            findings=(*verified.findings, finding),
            verdicts=(replace(first, hypothesis=evil), *rest),
        )
    )
    assert {len(row) for row in rows(text)} == {6}
    body = re.sub(r"&#\d+;", "", text.replace("**", ""))
    for mark in "<[]@`*~\\{}$":
        assert mark not in body, mark
    assert "://" not in text
    assert "www." not in text
    assert not re.search(r"(?<![^\W_])_|_(?![^\W_])", body)
    assert "  - &#45; nested" in text
    assert "  - &#49;. one" in text
    assert "  - &#35; head" in text


def test_many_findings_are_counted(verified: AuditReport) -> None:
    """Ten are shown, violations first."""
    many = [Finding("evidence", "unverified", f"doubt {i}") for i in range(15)]
    worst = Finding("order", "violation", "results before the freeze", tuple(map(str, range(9))))
    text = summary_markdown(replace(verified, findings=(*many, worst)))
    assert text.index("results before the freeze") < text.index("doubt 0")
    assert "doubt 8" in text
    assert "doubt 9" not in text
    assert "and 6 more: prereg audit gates/sample" in text
    assert "  - and 4 more" in text


def test_the_command_writes_where_it_is_told(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output, never wrapped; or appended to the step's summary; an error where there is none."""
    monkeypatch.chdir(project)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    done = run(project)
    assert done.exit_code == 0
    assert len(rows(done.stdout)) == 2
    assert run(project, "--github").exit_code == 2
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    assert run(project, "gates/sample", "--github").exit_code == 0
    assert file.read_text("utf-8") == "before\n" + done.stdout


def test_the_exit_code_is_the_audit_s(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 for a violation, and the summary is written all the same."""
    monkeypatch.chdir(project)
    file = project / "gates" / "sample" / "protocol.toml"
    kept = file.read_text("utf-8")
    file.write_text(kept.replace("threshold = 0.1", "threshold = 0.05"), "utf-8")
    done = run(project)
    file.write_text(kept, "utf-8")
    assert done.exit_code == 1
    assert "Audit: **violation**" in done.stdout
    assert "tampered (supported)" in done.stdout
