"""Everything that a report page says, as frozen records: gathered here, laid out by the template."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.protocol import Protocol, read_protocol
from prereg.report.page.intervals import Picture, Scale, picture, scale_of
from prereg.report.page.prompts import PromptTable, prompt_tables
from prereg.report.page.recorded import Contrast, Document, Recorded, read_document
from prereg.report.page.shown import Shown, folder_of, left_out, shown_verdicts

if TYPE_CHECKING:
    from prereg.audit import AuditReport
    from prereg.audit.report import Threshold
    from prereg.report.badge import Badge
    from prereg.report.figures import Drawn

__all__ = ["Answer", "Content", "HypothesisView", "Line", "ModelView", "gather"]


@dataclass(frozen=True, slots=True)
class Line:
    """One contrast with its picture; ``p`` is adjusted for the search, where one contrast is enough."""

    contrast: Contrast
    picture: Picture
    binds: bool
    p: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """One hypothesis on one model.

    Parameters
    ----------
    model
        Its alias.
    shown
        What may be said.
    recorded
        What verdicts.json holds; None where it holds nothing.
    lines
        Its contrasts, in the protocol's order.
    estimate, low, high
        As the audit computed them again; None where it couldn't.
    data
        Distinct data on which it was tried; None where no attempt is on record.
    version, other
        Which version of an amended promise this answers, and what the other one says; None where there is one only.
    """

    model: str
    shown: Shown
    recorded: Recorded | None
    lines: tuple[Line, ...]
    estimate: float | None
    low: float | None
    high: float | None
    data: int | None
    version: str | None
    other: str | None

    @property
    def methods(self) -> tuple[str, ...]:
        """Interval methods beside the registered one, in order."""
        return tuple(dict.fromkeys(m for line in self.lines for m in line.contrast.sensitivity))


@dataclass(frozen=True, slots=True)
class HypothesisView:
    """One hypothesis: what it promises, and its answer on each model."""

    promise: Threshold
    scale: Scale
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model: its name, its weights, and where its reports lie."""

    alias: str
    folder: str
    document: Document | None


@dataclass(frozen=True, slots=True)
class Content:
    """A whole page.

    Parameters
    ----------
    protocol
        The promise as it lies in the study's folder; thresholds come from `report`, which knows what is in force.
    report
        The audit.
    models, hypotheses, figures, prompts
        What there is to show, in order.
    headline
        The badge: how many hypotheses came out how, the withdrawn ones among them.
    left_out
        Models that the study was asked on and that this page does not show, by folder.
    command
        The command that makes the page again.
    """

    protocol: Protocol
    protocol_digest: str
    report: AuditReport
    models: tuple[ModelView, ...]
    hypotheses: tuple[HypothesisView, ...]
    figures: tuple[Drawn, ...]
    prompts: tuple[PromptTable, ...]
    headline: Badge
    left_out: tuple[str, ...]
    command: str

    @property
    def head(self) -> str | None:
        """The commit up to which the history was audited; None where none could be seen."""
        commits = [f.commits[-1] for f in self.report.findings if f.check == "repository" and f.commits]
        return commits[0] if commits else None


def gather(
    folder: Path,
    reports: Path,
    report: AuditReport,
    figures: Sequence[Drawn] = (),
    *,
    root: Path,
    others: Iterable[str] = (),
) -> Content:
    """Return what a page on a study says.

    Parameters
    ----------
    folder
        The study's, with its protocol.toml.
    reports
        The study's reports.
    report
        What the audit found just now.
    figures
        Drawn figures, to be shown.
    root
        The project's; files are named from there.
    others
        Models that the study has reports on, by folder, whether the audit looked at them or not.

    Raises
    ------
    ProtocolError
        If the protocol can't be read.
    ReportError
        If a verdicts.json is there and is none.
    """
    # The badge rests on this package's words, and so can't be loaded before it.
    from prereg.report.badge import badge_of

    others = tuple(others)
    absent = left_out(report, others)
    file = read_protocol(folder)
    shown = shown_verdicts(report)
    place = reports.resolve()
    named = place.relative_to(root.resolve()) if place.is_relative_to(root.resolve()) else Path(reports.name)
    models = tuple(
        _model(reports / name, (named / name).as_posix()) for name in dict.fromkeys(s.model for s in shown)
    )
    documents = {Path(model.folder).name: model.document for model in models}
    order = {name: place for place, name in enumerate(file.protocol.hypotheses)}
    promises = sorted(report.thresholds, key=lambda t: order.get(t.hypothesis, len(order)))
    return Content(
        protocol=file.protocol,
        protocol_digest=file.digest,
        report=report,
        models=models,
        hypotheses=tuple(_hypothesis(promise, report, shown, documents) for promise in promises),
        figures=tuple(figures),
        prompts=tuple(
            table
            for model in models
            for table in prompt_tables(reports / Path(model.folder).name, model.alias, model.folder)
        ),
        headline=badge_of(report, others),
        left_out=absent,
        command=_command(report.folder, [model.alias for model in models] if absent else []),
    )


def _command(study: str, models: Sequence[str]) -> str:
    return shlex.join(["prereg", "report", study, *(word for name in models for word in ("--model", name))])


def _model(folder: Path, shown: str) -> ModelView:
    file = folder / "verdicts.json"
    document = read_document(file) if file.exists() else None
    return ModelView(folder.name if document is None else document.model.alias, shown, document)


def _hypothesis(
    promise: Threshold,
    report: AuditReport,
    shown: Sequence[Shown],
    documents: dict[str, Document | None],
) -> HypothesisView:
    name = promise.hypothesis
    mine = [s for s in shown if s.hypothesis == name]
    records = {
        model: next((v for v in document.verdicts if v.hypothesis == name), None)
        for model, document in documents.items()
        if document is not None
    }
    contrasts = [c for record in records.values() if record is not None for c in record.contrasts]
    scale = scale_of(contrasts, promise.direction, promise.threshold)
    return HypothesisView(
        promise,
        scale,
        tuple(_answer(report, s, documents.get(s.model), records.get(s.model), scale) for s in mine),
    )


def _answer(
    report: AuditReport, shown: Shown, document: Document | None, record: Recorded | None, scale: Scale
) -> Answer:
    row = next(
        (r for r in report.verdicts if (r.model, r.hypothesis) == (shown.model, shown.hypothesis)), None
    )
    counted = [
        count.data
        for count in report.attempts
        if (folder_of(count.model), count.hypothesis) == (shown.model, shown.hypothesis)
    ]
    return Answer(
        model=shown.model if document is None else document.model.alias,
        shown=shown,
        recorded=record,
        lines=() if record is None else _lines(record, scale),
        estimate=None if row is None else row.estimate,
        low=None if row is None else row.low,
        high=None if row is None else row.high,
        data=counted[0] if counted else None,
        version=None if row is None else row.version,
        other=None if row is None else row.other,
    )


def _lines(record: Recorded, scale: Scale) -> tuple[Line, ...]:
    adjusted = () if record.search is None else record.search.adjusted_p
    if len(adjusted) != len(record.contrasts):
        adjusted = (None,) * len(record.contrasts)
    return tuple(
        Line(contrast, picture(contrast, scale), contrast.label == record.binds, p)
        for contrast, p in zip(record.contrasts, adjusted, strict=True)
    )
