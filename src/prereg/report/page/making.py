"""A study's whole report: figures from its tables, a page and a badge from its audit; as bytes, then as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prereg.activations.models import load_registry, resolve
from prereg.audit import AuditReport, audit
from prereg.protocol import read_protocol
from prereg.report.badge import Badge, badge_of
from prereg.report.figures import FIGURES, Drawn, FigureSpec, Tables, draw_figures, read_tables
from prereg.report.page.content import gather
from prereg.report.page.rendering import render
from prereg.report.page.shown import as_shown, shown_verdicts
from prereg.report.replication_tables import replication_contents
from prereg.report.tables import report_contents
from prereg.tabular import json_bytes, put

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prereg.pipeline import RunOptions

__all__ = ["PARTS", "Made", "Part", "make_report", "own_files_only"]

Part = Literal["figures", "page", "badge"]
PARTS: tuple[Part, ...] = ("figures", "page", "badge")

_FIGURES = frozenset(f"{figure.name}.{ending}" for figure in FIGURES for ending in ("svg", "png"))
_RECORDED = "Verdicts as recorded, not audited"
"""Stands on a figure whose verdicts nobody checked."""
_PLAIN = _FIGURES | {"report.html", "badge.svg", "badge.json"}


@dataclass(frozen=True, slots=True)
class Made:
    """What was made.

    Parameters
    ----------
    study
        The study's name.
    folder
        Where its files belong.
    contents
        Path -> bytes of each file.
    audit, badge
        What the page and the badge rest on; None where neither was asked for.
    """

    study: str
    folder: Path
    contents: dict[Path, bytes]
    audit: AuditReport | None
    badge: Badge | None

    def write(self) -> tuple[Path, ...]:
        """Write the files, leaving alone those whose bytes would not change; return them, sorted.

        Raises
        ------
        StorageError
            If one can't be written.
        """
        for file, content in sorted(self.contents.items()):
            put(file, content)
        return tuple(sorted(self.contents))


def make_report(
    study: Path,
    options: RunOptions,
    models: Sequence[str] | None = None,
    *,
    out: Path | None = None,
    parts: Sequence[Part] = PARTS,
) -> Made:
    """Draw the figures, carry out the audit, lay out the page and the badge; write nothing.

    The page and the badge rest on an audit that is carried out now: whatever it can't show, they don't say. Figures are
    drawn from tables; where there is an audit, verdicts on them are worded as it can show them, and where there is none
    the figure says so.

    Parameters
    ----------
    study
        The study's folder.
    options
        Where the project's root and its reports are.
    models
        Only these; None for each that has reports.
    out
        Where the files belong; None for the study's reports.
    parts
        What to make.

    Raises
    ------
    ProtocolError
        If the protocol can't be read.
    ModelError
        If a named model is none.
    ReportError
        If a library is missing, or a table can't be read or drawn.
    """
    name = read_protocol(study).protocol.study.name
    reports = (options.reports or options.root / "reports") / name
    folder = reports if out is None else out
    slugs = None
    if models is not None:
        registry = load_registry()
        slugs = list(dict.fromkeys(resolve(m, registry=registry, root=options.root).slug for m in models))
    tables = read_tables(reports, slugs)
    if not {"page", "badge"} & set(parts):
        options.say(f"no audit was asked for; on the figures: {_RECORDED}")
        return Made(name, folder, _files(draw_figures(tables, _unaudited()), folder), None, None)
    # Drawn before the audit, which takes longer: a table that can't be drawn is told at once.
    drawn = draw_figures(tables) if {"figures", "page"} & set(parts) else ()
    report = audit(study, options, models, tables=report_contents, replicated=replication_contents)
    others = sorted({file.parent.name for file in reports.glob("*/verdicts.*")})
    badge = badge_of(report, others)
    figures = _as_shown(drawn, tables, report) if drawn else ()
    contents = _files(figures, folder) if "figures" in parts else {}
    if "page" in parts:
        content = gather(study, reports, report, figures, root=options.root, others=others)
        contents[folder / "report.html"] = render(content)
    if "badge" in parts:
        contents[folder / "badge.svg"] = badge.svg()
        contents[folder / "badge.json"] = json_bytes(badge.endpoint)
    return Made(name, folder, contents, report, badge)


def own_files_only(report: AuditReport, folder: Path, root: Path) -> bool:
    """Tell whether all that an audit names against a study is that an earlier report's files aren't committed.

    Parameters
    ----------
    report
        The audit.
    folder
        Where a report's files belong.
    root
        The project's; a finding names files from there.
    """
    doubts = [f for f in report.findings if f.status in ("unverified", "violation")]
    place, base = folder.resolve(), root.resolve()
    if not doubts or not place.is_relative_to(base):
        return False
    start = f"{place.relative_to(base).as_posix()}/"
    return all(
        doubt.check == "repository"
        and doubt.details
        # Beyond twenty an audit gives only their number.
        and all(_is_own(d.rpartition(": ")[0], start) for d in doubt.details if not d.startswith("... and "))
        for doubt in doubts
    )


def _is_own(path: str, start: str) -> bool:
    """Tell whether a path is one that a report writes; a whole folder of figures may be named as such."""
    if not path.startswith(start):
        return False
    rest = Path(path.removeprefix(start))
    if len(rest.parts) == 1:
        return rest.name in _PLAIN
    return rest.parts[1] == "figures" and (len(rest.parts) == 2 or rest.name in _FIGURES)


def _files(drawn: Sequence[Drawn], folder: Path) -> dict[Path, bytes]:
    return {file: content for figure in drawn for file, content in figure.files(folder).items()}


def _shows_verdicts(figure: FigureSpec) -> bool:
    return any(need.table == "verdicts.csv" for need in figure.needs)


def _unaudited() -> list[FigureSpec]:
    """Return the figures, those that show verdicts with the words that nobody checked them."""
    return [_as_recorded(figure) if _shows_verdicts(figure) else figure for figure in FIGURES]


def _as_recorded(spec: FigureSpec) -> FigureSpec:
    def draw(tables: Tables) -> Figure:
        figure = spec.draw(tables)
        top = 1.0 - 0.04 / figure.get_figheight()
        figure.text(0.988, top, f"{_RECORDED}.", size=6.2, va="top", ha="right")
        return figure

    return replace(spec, caption=f"{_RECORDED}. {spec.caption}", draw=draw)


def _as_shown(drawn: Sequence[Drawn], tables: Tables, report: AuditReport) -> tuple[Drawn, ...]:
    """Return the figures with those that show verdicts drawn again, from what may be said of these."""
    gates = [figure for figure in FIGURES if _shows_verdicts(figure)]
    again = draw_figures(as_shown(tables, shown_verdicts(report)), gates)
    found = {(figure.name, figure.model): figure for figure in again}
    return tuple(found.get((figure.name, figure.model), figure) for figure in drawn)
