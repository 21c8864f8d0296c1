"""Models side by side, and what they say together: the pooled effect of each contrast.

``replication.csv`` lies beside the models' folders. Columns: ``hypothesis``, ``contrast`` (label), ``worst`` (whether
its pooled estimate speaks most against the claim), ``k`` (models pooled), ``mu``, ``low``, ``high`` (random-effects
estimate and interval), ``direction``, ``threshold``. Optional: ``prediction_low``, ``prediction_high`` (where another
model is expected), ``dependent_low``, ``dependent_high`` (bounds under any correlation of the models' errors), ``i2``,
and ``estimates`` (one a model, with ``; `` between). A row without ``mu`` was not pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prereg.report.figures.style import BLUE, FAINT, GREY, LINES, VERMILLION, canvas
from prereg.report.figures.tables import ReportError, Row, Table, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["REPLICATION", "draw"]

REPLICATION = ("hypothesis", "contrast", "worst", "k", "mu", "low", "high", "direction", "threshold")
_LINE, _SCALE = 0.17, 0.33
_MOST = 80


def draw(tables: Tables) -> Figure:
    """Draw each contrast's pooled estimate as a diamond on its interval, the models' own estimates as small marks.

    The interval is thick; thin lines reach to where another model is expected, or to the bounds that hold however
    the models' errors are correlated, whichever is there. A short upright bar is the promised threshold. A filled
    diamond is the contrast of its hypothesis that speaks most against the claim.
    """
    table = tables.shared["replication.csv"]
    rows = [row for row in table.rows if table.number(row, "mu") is not None][:_MOST]
    groups = [
        [row for row in rows if row["hypothesis"] == name]
        for name in dict.fromkeys(r["hypothesis"] for r in rows)
    ]
    total = sum(_LINE * len(group) + _SCALE for group in groups) + 0.55
    figure = canvas(total)
    figure.text(0.01, 1.0 - 0.06 / total, "pooled over models", weight="bold", size=8, va="top")
    if not rows:
        figure.text(0.5, 0.4, "no contrast could be pooled", ha="center", color=GREY)
    top = total - 0.28
    for group in groups:
        height = _LINE * len(group)
        _group(figure.add_axes((0.37, (top - height) / total, 0.5, height / total)), table, group)
        top -= height + _SCALE
    figure.text(
        0.37, 0.05 / total, "bold, filled: speaks most against its claim; upright bar: threshold", size=6.4
    )
    return figure


def _group(axes: Axes, table: Table, rows: Sequence[Row]) -> None:
    """Draw the contrasts of one hypothesis, on a scale of their own."""
    from matplotlib.ticker import MaxNLocator

    for place, row in enumerate(rows):
        _pooled(axes, table, row, place)
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows])
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if row["worst"] == "true" else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.tick_params(axis="both", labelsize=6.4)
    axes.tick_params(axis="y", left=False)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x", color=FAINT)


def _name(row: Row) -> str:
    name = f"{row['hypothesis']}: {row['contrast']}"
    return name if len(name) <= 46 else f"{name[:43]}..."


def _pooled(axes: Axes, table: Table, row: Row, place: int) -> None:
    for pair in (("prediction_low", "prediction_high"), ("dependent_low", "dependent_high")):
        outer = (
            table.numbers([row], pair[0]) + table.numbers([row], pair[1])
            if set(pair) <= set(table.columns)
            else []
        )
        if len(outer) == 2:
            axes.plot(outer, (place, place), color=BLUE, linewidth=0.7)
            break
    bounds = table.numbers([row], "low") + table.numbers([row], "high")
    if len(bounds) == 2:
        axes.plot(bounds, (place, place), color=BLUE, linewidth=2.2, solid_capstyle="butt", alpha=0.75)
    for edge in _edges(table, row):
        axes.plot((edge, edge), (place - 0.34, place + 0.34), color=VERMILLION, linewidth=1.4)
    for number, estimate in enumerate(_estimates(table, row)):
        axes.plot(
            estimate, place, linestyle="", marker=LINES[number % len(LINES)]["marker"], markersize=2.8, color=GREY,
            markerfacecolor="white", markeredgewidth=0.6, zorder=4,
        )  # fmt: skip
    filled = BLUE if row["worst"] == "true" else "white"
    axes.plot(
        table.numbers([row], "mu"), [place], linestyle="", marker="D", markersize=4.0, color=BLUE,
        markerfacecolor=filled, zorder=3,
    )  # fmt: skip
    share = table.number(row, "i2") if "i2" in table.columns else None
    said = f"k = {row['k']}" + ("" if share is None else f", I² {100.0 * share:.0f}%")
    axes.text(1.015, place, said, transform=axes.get_yaxis_transform(), size=6.2, va="center", color=GREY)


def _edges(table: Table, row: Row) -> list[float]:
    found = table.numbers([row], "threshold")
    return [-found[0], found[0]] if found and row["direction"] == "equivalence" else found


def _estimates(table: Table, row: Row) -> list[float]:
    if "estimates" not in table.columns:
        return []
    try:
        return [float(text) for text in row["estimates"].split("; ") if text]
    except ValueError as error:
        raise ReportError(f"{table.file}: column estimates holds no list of numbers: {error}") from error
