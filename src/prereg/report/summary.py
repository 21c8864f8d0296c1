"""A job's summary in Markdown: verdicts as an audit can show them, and what stands in the way.

It rests on an audit that was carried out now, like the page and the badge, and says no more than it can show. Text out
of files is never read as markup: a mark that could be is written as a character reference.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prereg.hostile import printable
from prereg.report.badge import badge_of
from prereg.report.page.shown import shown_verdicts
from prereg.report.rows import MARKS, number_text

if TYPE_CHECKING:
    from prereg.audit import AuditReport
    from prereg.audit.report import Threshold, VerdictRow
    from prereg.report.page.shown import Shown

__all__ = ["summary_markdown"]

MOST_FINDINGS = 10
MOST_DETAILS = 5

# Every ASCII mark but those that never mean anything in a line's middle; what makes a link; an underscore that doesn't
# stand between letters, where it would be emphasis.
_MARKUP = re.compile(r"""[!#$&*<>@\[\\\]`{|}~]|:(?=//)|(?<=www)\.|(?<![^\W_])_|_(?![^\W_])""", re.IGNORECASE)
_SIGNS = {"greater": "> ", "less": "< ", "equivalence": "within ±"}
_RESULTS = {
    "verified": "Everything that the verdicts rest on is verified.",
    "unverified": "Something can't be verified here. No verdict below may be claimed.",
    "violation": "What is here contradicts what was registered. No verdict below may be claimed.",
}


def summary_markdown(report: AuditReport) -> str:
    """Return a study's audit as Markdown: a line, a table of verdicts, and each finding that is in the way.

    Parameters
    ----------
    report
        The audit. A verdict's word is never more than it could show.

    Returns
    -------
    str
        GitHub-flavoured Markdown that ends with a newline; other renderers of tables read it too.
    """
    badge = badge_of(report)
    root = "none" if report.head.in_force is None else report.head.in_force[:16]
    frozen = "" if report.head.date is None else f", frozen {report.head.date[:10]} by its author's clock"
    lines = [
        f"## prereg: {_md(report.study)}",
        "",
        f"**{_md(badge.label)}: {_md(badge.message)}**",
        "",
        f"Audit: **{report.result}**. {_RESULTS[report.result]}",
        f"Registration: {_md(root)}{_md(frozen)}.",
        "",
        *_verdicts(report),
        *_findings(report),
    ]
    return "\n".join(lines) + "\n"


def _verdicts(report: AuditReport) -> list[str]:
    shown = shown_verdicts(report)
    if not shown:
        return ["No verdict is on record.", ""]
    rows = {(row.model, row.hypothesis): row for row in report.verdicts}
    promises = {threshold.hypothesis: threshold for threshold in report.thresholds}
    lines = [
        "| model | hypothesis | verdict | estimate | interval | promised |",
        "|---|---|---|--:|---|---|",
    ]
    for one in shown:
        row = rows.get((one.model, one.hypothesis))
        cells = (
            one.model,
            one.hypothesis,
            _word(one),
            *_numbers(row),
            _promised(promises.get(one.hypothesis)),
        )
        lines.append("| " + " | ".join(_md(cell) for cell in cells) + " |")
    return [*lines, "", "Estimate and interval are those of the contrast that decided.", ""]


def _word(one: Shown) -> str:
    symbol, words, _ = MARKS.get(one.outcome, ("!", f"unknown: {one.outcome}", ""))
    # What may not be claimed stands behind the word, never in front.
    return f"{symbol} {words} ({one.answer})" if one.answer else f"{symbol} {words}"


def _numbers(row: VerdictRow | None) -> tuple[str, str]:
    if row is None or row.estimate is None:
        return "", ""
    low, high = (number_text(value, row.threshold) for value in (row.low, row.high))
    return number_text(row.estimate, row.threshold), f"[{low}, {high}]"


def _promised(threshold: Threshold | None) -> str:
    if threshold is None:
        return "not promised"
    return f"{_SIGNS.get(threshold.direction, '')}{threshold.threshold:g} {threshold.units}"


def _findings(report: AuditReport) -> list[str]:
    doubts = [f for status in ("violation", "unverified") for f in report.findings if f.status == status]
    if not doubts:
        return []
    lines = ["### In the way", ""]
    for finding in doubts[:MOST_FINDINGS]:
        lines.append(f"- **{finding.status}**, {finding.check}: {_md(finding.message)}")
        lines += [f"  - {_item(detail)}" for detail in finding.details[:MOST_DETAILS]]
        if len(finding.details) > MOST_DETAILS:
            lines.append(f"  - and {len(finding.details) - MOST_DETAILS} more")
        if finding.remedy is not None:
            lines.append(f"  - next: {_md(finding.remedy)}")
    if len(doubts) > MOST_FINDINGS:
        lines.append(f"- and {len(doubts) - MOST_FINDINGS} more: prereg audit {_md(report.folder)}")
    return [*lines, ""]


def _md(text: str) -> str:
    """Return foreign text on one line, with nothing in it that Markdown or HTML would read as markup."""
    line = printable(text, 600)
    return _MARKUP.sub(lambda found: "".join(f"&#{ord(c)};" for c in found.group()), line)


def _item(text: str) -> str:
    """Return foreign text for a list, where a leading dash or number would begin another list."""
    line = _md(text)
    return line if line[:1].isalpha() or line[:1] in ("", "&") else f"&#{ord(line[0])};{line[1:]}"
