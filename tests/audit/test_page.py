"""The page and the record: readable, safe to print, and of a stable form."""

from __future__ import annotations

import json

from prereg.audit import AuditReport, Finding, page
from prereg.audit.findings import exit_code, few
from prereg.audit.report import Head, Threshold
from prereg.console import to_text
from tests.audit.projects import Project


def text_of(report: AuditReport, width: int = 80) -> str:
    return to_text(page(report), width, color=False)


def empty(*findings: Finding, **facts: object) -> AuditReport:
    rows = dict.fromkeys(("thresholds", "amendments", "attempts", "evidence", "verdicts", "witnesses"), ())
    return AuditReport(study="s", folder="gates/s", head=Head(), **(rows | facts), findings=findings)  # type: ignore[arg-type]


def test_the_page_names_everything_a_reviewer_asks_for(project: Project) -> None:
    """Head, thresholds, attempts, evidence, verdicts and checklist are there, within 80 columns."""
    report = project.audit()
    text = text_of(report)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert report.head.root is not None
    for part in (report.head.root, "Thresholds", "> 0.1 R2", "Amendments", "Attempts", "Evidence", "Verdicts",
                 "Checklist", "kernels.twin-3", "2 of 2 tested"):  # fmt: skip
        assert part in text
    assert text.splitlines()[-1] == "VERIFIED"


def test_the_last_line_counts_what_is_wrong(project: Project) -> None:
    """A violation is the last thing that is read, with the next command above it."""
    project.looser()
    *_, before, last = text_of(project.audit(())).splitlines()
    assert last.startswith("VIOLATION: 1")
    assert before


def test_nothing_from_a_file_reaches_the_terminal_as_more_than_text() -> None:
    """Escapes, direction marks and markup are shown, never obeyed."""
    nasty = "\x1b[31mred\x1b[0m \u202egreen [bold]x[/bold] [/nothing] \x07"
    report = empty(Finding("evidence", "note", nasty, (nasty,), remedy=nasty))
    text = text_of(report)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold] [/nothing]" in text
    assert "\\u001b[31m" in text
    assert "\x1b" not in json.dumps(report.as_record(), ensure_ascii=False)


def test_a_claim_with_markup_stays_as_written() -> None:
    """A claim is text: rich reads no tags in it."""
    row = Threshold(
        "H1", "primary", "[red]c[/red]", "e", "greater", 0.1, "R2", "r", original=None, state="frozen"
    )
    assert "[red]c[/red]" in text_of(empty(thresholds=(row,)))


def test_a_narrow_page_loses_nothing() -> None:
    """Digests are folded, not cut, where there is no room."""
    head = Head(root="a" * 64, in_force="a" * 64)
    report = AuditReport("s", "gates/s", head, (), (), (), (), (), (), ())
    text = text_of(report, 40)
    assert text.count("a") >= 64


def test_the_exit_code_needs_proof() -> None:
    """No finding at all is not verified; a violation outweighs all else."""
    good, note = Finding("order", "verified", "x"), Finding("order", "note", "x")
    doubt, bad = Finding("order", "unverified", "x"), Finding("order", "violation", "x")
    assert [exit_code(f) for f in ([], [note], [good, note], [good, doubt], [good, doubt, bad])] == [
        2,
        2,
        0,
        2,
        1,
    ]


def test_many_details_are_counted() -> None:
    """A list that nobody would read says how long it is."""
    assert few(["a", "b", "c"], 2) == ("a", "b", "... and 1 more")
    assert len(Finding("order", "note", "m", tuple("x" * 100)).details) == 21


def test_the_record_has_a_stable_form(project: Project) -> None:
    """Machines read format 1: the same keys, plain JSON."""
    record = project.audit().as_record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["format"] == 1
    assert sorted(record) == sorted(
        ["amendments", "attempts", "counts", "evidence", "exit_code", "findings", "folder", "format",
         "registration", "result", "study", "thresholds", "verdicts", "witnesses"]
    )  # fmt: skip
    assert set(record["findings"][0]) == {"check", "status", "message", "details", "remedy", "commits"}
    assert set(record["counts"]) == {"verified", "note", "unverified", "violation"}
