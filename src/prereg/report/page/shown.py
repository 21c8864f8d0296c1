"""What may be said of each verdict, given what the audit found: never more than the audit can show."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from prereg.activations.models.entries import plain_name
from prereg.audit import AuditReport
from prereg.report.figures.tables import Table, Tables
from prereg.report.rows import ANSWERS

__all__ = ["Shown", "as_shown", "folder_of", "left_out", "shown_verdicts"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One hypothesis on one model, as a reader is told of it.

    Parameters
    ----------
    model, hypothesis
        Which; a model by the folder of its reports.
    outcome
        ``supported``, ``refuted``, ``inconclusive`` or ``invalid`` only where the audit has verified everything and has
        computed the recorded verdict again; else ``not_tested``, ``exploratory``, ``unregistered``, ``unverified`` or
        ``tampered``.
    answer
        What the interval alone says, where the outcome may not say it; empty where there is nothing to add.
    counts
        Whether it counts among the study's hypotheses: one that was added after the freeze doesn't; one that was
        withdrawn after it does, or an answer that nobody liked could be taken back.
    """

    model: str
    hypothesis: str
    outcome: str
    answer: str
    counts: bool


def shown_verdicts(report: AuditReport) -> tuple[Shown, ...]:
    """Return what may be said, for each model that the audit looked at and each hypothesis that is promised.

    A hypothesis that was withdrawn counts as promised: it is *not tested* where there is no verdict. One that has a
    verdict and is in no promise comes last, and is never more than unverified.
    """
    models = dict.fromkeys(
        [row.model for row in report.verdicts] + [folder_of(row.model) for row in report.evidence]
    )
    rows = {(row.model, row.hypothesis): row for row in report.verdicts}
    states = {threshold.hypothesis: threshold.state for threshold in report.thresholds}
    names = dict.fromkeys([*states, *(row.hypothesis for row in report.verdicts)])
    found = []
    for model in models:
        for name in names:
            row = rows.get((model, name))
            recorded = None if row is None else row.recorded
            recomputed = None if row is None else row.recomputed
            answer = "" if row is None else row.answer or ""
            found.append(_shown(report, model, name, recorded, recomputed, answer, states.get(name)))
    return tuple(found)


def left_out(report: AuditReport, others: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the models that an audit did not look at though the study was asked on them, by folder, sorted.

    Parameters
    ----------
    report
        The audit. Its attempts are those on all models, whichever it was told to look at.
    others
        Further models that the study is known to have reports on, by folder.
    """
    seen = {row.model for row in report.verdicts} | {folder_of(row.model) for row in report.evidence}
    # What was tried before the freeze is a pilot: it answers nothing that was promised.
    asked = {folder_of(count.model) for count in report.attempts if count.registered > 0}
    return tuple(sorted((asked | set(others)) - seen))


def as_shown(tables: Tables, shown: Sequence[Shown]) -> Tables:
    """Return tables whose verdicts are those that may be shown, so that no figure on a page says more than the page.

    A verdict that the audit doesn't know of is unverified.
    """
    said = {(s.model, s.hypothesis): (s.outcome, s.answer) for s in shown}
    models = {}
    for model, files in tables.models.items():
        models[model] = dict(files)
        if "verdicts.csv" in files:
            models[model]["verdicts.csv"] = _reworded(files["verdicts.csv"], model, said)
    return replace(tables, models=models)


def _reworded(table: Table, model: str, said: dict[tuple[str, str], tuple[str, str]]) -> Table:
    rows = []
    for row in table.rows:
        outcome, answer = said.get((model, row.get("hypothesis", "")), ("unverified", ""))
        # What the audit could say is said; the recorded standing has no more to add.
        rows.append({**row, "outcome": outcome, "answer": answer, "registration": ""})
    return replace(table, rows=tuple(rows))


def folder_of(alias: str) -> str:
    """Return the name of the folder of reports on a model, as `ModelEntry.slug` forms it."""
    name = plain_name(alias)
    return name if name == alias else f"{name}-{hashlib.sha256(alias.encode()).hexdigest()[:8]}"


def _shown(
    report: AuditReport,
    model: str,
    name: str,
    recorded: str | None,
    recomputed: str | None,
    answer: str,
    state: str | None,
) -> Shown:
    outcome = _outcome(report, recorded, recomputed, state)
    said = answer or next((word for word in (recomputed, recorded) if word in ANSWERS), "") or ""
    if outcome in ("not_tested", said):
        said = ""
    return Shown(model, name, outcome, said, counts=state != "added")


def _outcome(report: AuditReport, recorded: str | None, recomputed: str | None, state: str | None) -> str:
    if recorded in (None, "not_tested") and recomputed is None:
        return "not_tested"
    if report.result == "violation":
        return "tampered"
    if report.head.root is None:
        return "unregistered"
    # Each step demands proof: verified, promised, and the same answer twice.
    if report.result == "verified" and state is not None and recorded is not None and recorded == recomputed:
        if state == "added":
            return "exploratory"
        return recorded if recorded in (*ANSWERS, "invalid", "exploratory") else "unverified"
    return "unverified"
