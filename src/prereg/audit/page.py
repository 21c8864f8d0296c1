"""The reviewer's page: what was promised, when, on which evidence, what follows, and each step of the audit.

Words carry it all; colour only helps. Text out of files is never read as markup: it comes as `rich.text.Text`, and
was made printable where it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prereg.audit.findings import short
from prereg.audit.report import AuditReport, Head, VerdictRow

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from prereg.audit.findings import Finding

__all__ = ["page"]

_STYLES = {"verified": "green", "note": "", "unverified": "yellow", "violation": "bold red"}
_WORDS = {"verified": "verified", "note": "note", "unverified": "UNVERIFIED", "violation": "VIOLATION"}
_NEXT = 3


def page(report: AuditReport) -> RenderableType:
    """Return the whole page; it lays itself out for the width that it is given."""
    from rich.console import Group

    parts: list[RenderableType] = [
        _line(f"Audit of {report.study} ({report.folder})", "bold"),
        _head(report.head),
    ]
    parts += _section("Thresholds", _thresholds(report), report.thresholds, "no promise could be read")
    parts += _section("Amendments", _amendments(report), report.amendments, "none")
    parts += _section("Attempts", _attempts(report), report.attempts, "none on record")
    parts += _section("Evidence", _evidence(report), report.evidence, "none")
    parts += _section("Verdicts", _verdicts(report), report.verdicts, "none on record")
    parts += _section("Checklist", _checklist(report.findings), report.findings, "no check was made")
    parts += [_line(""), *_conclusion(report)]
    return Group(*parts)


def _section(
    title: str, body: RenderableType, rows: Sequence[object], otherwise: str
) -> Iterator[RenderableType]:
    yield _line("")
    yield _line(title, "bold")
    yield body if rows else _line(f"  {otherwise}")


def _head(head: Head) -> Table:
    known = head.known or "-"
    if head.statement is not None:
        known = f"{known}: {head.statement}"
    rows = [
        ("standing", head.standing),
        ("root", head.root or "none: no freeze is on record"),
        *([("in force", head.in_force)] if head.in_force not in (None, head.root) else []),
        ("frozen", "-" if head.date is None else f"{head.date}, by its author's clock"),
        ("commit", "none" if head.commit is None else f"{head.commit} of {head.committed}"),
        ("known", known),
        *([("seen", f"results on {', '.join(head.seen)}")] if head.seen else []),
        *[("calibration" if i == 0 else "", line) for i, line in enumerate(head.calibration)],
        ("signature", head.signature),
    ]
    grid = _grid(2)
    for name, value in rows:
        grid.add_row(_text(f"  {name}"), _text(str(value)))
    return grid


def _thresholds(report: AuditReport) -> Table:
    from rich.text import Text

    table = _table("hypothesis", "promised", "claim, estimand, rationale")
    signs = {"greater": "> ", "less": "< ", "equivalence": "within ±"}
    for row in report.thresholds:
        promised = f"{signs.get(row.direction, '')}{row.threshold:g} {row.units}"
        if row.original is not None:
            promised += f"\nfrozen as {row.original}"
        words = Text("\n").join(
            [_text(row.claim), _text(f"estimand: {row.estimand}"), _text(f"why: {row.rationale}")]
        )
        table.add_row(_text(f"{row.hypothesis}\n{row.family}\n{row.state}"), _text(promised), words)
    return table


def _amendments(report: AuditReport) -> Table:
    grid = _grid(1)
    for row in report.amendments:
        commit = "in no commit" if row.commit is None else f"first in {short(row.commit)}"
        grid.add_row(_text(f"  {row.file}, {row.date} by its author's clock, {commit}"))
        known = row.known if row.statement is None else f"{row.known}: {row.statement}"
        grid.add_row(_text(f"    about {', '.join(row.subjects)}; known: {known}"))
        grid.add_row(_text(f"    reason: {row.reason}"))
        for change in row.changes:
            grid.add_row(_text(f"    {change}"))
    return grid


def _attempts(report: AuditReport) -> Table:
    table = _table("model", "hypothesis", "runs", "sets of data", "registered", "looks", "alpha spent")
    for row in report.attempts:
        looks = "-" if row.planned is None else f"{row.registered}/{row.planned}"
        spent = "-" if row.spent is None else f"{row.spent:.4g}"
        cells = (row.model, row.hypothesis, str(row.runs), str(row.data), str(row.registered), looks, spent)
        table.add_row(*(_text(cell) for cell in cells))
    return table


def _evidence(report: AuditReport) -> Table:
    table = _table("model", "evidence", "subjects", "prompts", "registration", "table")
    for row in report.evidence:
        cells = (
            row.model,
            row.name,
            str(row.n_subjects),
            str(row.n_prompts),
            short(row.registration),
            short(row.table),
        )
        table.add_row(*(_text(cell) for cell in cells))
    return table


def _verdicts(report: AuditReport) -> Table:
    table = _table("model", "hypothesis", "recorded", "recomputed", "interval", "data")
    for row in report.verdicts:
        recomputed = row.recomputed or "not recomputed"
        if row.version is not None:
            recomputed += f" ({row.version})"
        if row.answer is not None and row.answer != row.recomputed:
            recomputed += f"; the interval alone: {row.answer}"
        data = "-" if row.attempts is None else str(row.attempts)
        cells = (row.model, row.hypothesis, row.recorded or "not tested", recomputed, _interval(row), data)
        table.add_row(*(_text(cell) for cell in cells))
        if row.other is not None:
            table.add_row(_text(""), _text(""), _text(""), _text(row.other), _text(""), _text(""))
    return table


def _interval(row: VerdictRow) -> str:
    if row.estimate is None:
        return "-"
    low, high = ("none" if bound is None else f"{bound:+.3f}" for bound in (row.low, row.high))
    return f"{row.estimate:+.3f} [{low}, {high}]"


def _checklist(findings: Iterable[Finding]) -> Table:
    grid = _grid(2)
    for finding in findings:
        grid.add_row(
            _text(f"  {_WORDS[finding.status]}", _STYLES[finding.status]),
            _text(f"{finding.check}: {finding.message}"),
        )
        for detail in finding.details:
            grid.add_row(_text(""), _text(f"  {detail}"))
        if finding.remedy is not None and finding.status != "verified":
            grid.add_row(_text(""), _text(f"  next: {finding.remedy}"))
    return grid


def _conclusion(report: AuditReport) -> Iterator[RenderableType]:
    counts = report.counts
    if report.exit_code == 0:
        yield _line("VERIFIED", _STYLES["verified"])
        return
    gravest = "violation" if counts["violation"] else "unverified"
    remedies = list(dict.fromkeys(f.remedy for f in report.findings if f.status == gravest and f.remedy))
    for remedy in remedies[:_NEXT]:
        yield _line(f"next: {remedy}")
    parts = [f"{_WORDS[s]}: {counts[s]}" for s in ("violation", "unverified") if counts[s]]
    yield _line(", ".join(parts) or "UNVERIFIED: nothing was verified", _STYLES[gravest])


def _grid(columns: int) -> Table:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    for number in range(columns):
        grid.add_column(overflow="fold", no_wrap=number == 0 and columns > 1)
    return grid


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _text(words: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(words, style=style, overflow="fold")


def _line(words: str, style: str = "") -> Text:
    return _text(words, style)
