"""Refits on shuffled histories against the fit that was asked: what fitting alone can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prereg.report.figures.style import BLUE, GREY, INK, ORANGE, PURPLE, canvas, label, panel_title, signed
from prereg.report.figures.tables import Row, Table, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DRAWS", "PERMUTATIONS", "draw"]

DRAWS = ("arm", "fit", "updates", "draw", "r2")
PERMUTATIONS = ("hypothesis", "updates", "observed", "largest_draw", "p", "draws", "alpha", "passed")
_ENOUGH = 10


def draw(tables: Tables) -> Figure:
    """Draw, for each set of updates that a permutation test names, its draws beside what was observed.

    On the left both on one scale; on the right the draws alone, magnified: every draw a mark, stacked in bins. A
    draw repeats the whole fit, its choice of penalty included, on histories shuffled among prompts.
    """
    table = tables.one("draws.csv")
    tests = next(iter(tables.models.values())).get("permutations.csv")
    if tests is not None:
        tests.need(PERMUTATIONS)
    names = list(tests.values("updates")) if tests is not None else []
    names = (
        names
        or [n for n in table.values("updates") if not n.startswith("band")]
        or list(table.values("updates"))
    )
    figure = canvas(0.55 + 1.35 * len(names))
    axes = figure.subplots(len(names), 2, squeeze=False, width_ratios=(1.15, 1.0))
    height = 0.55 + 1.35 * len(names)
    figure.subplots_adjust(
        left=0.015, right=0.985, top=1.0 - 0.28 / height, bottom=0.42 / height, hspace=0.75, wspace=0.06
    )
    for (left, right), name in zip(axes, names, strict=True):
        rows = tests.where(updates=name) if tests is not None else ()
        _pair(left, right, table, name, None if tests is None else tests, rows[0] if rows else None)
        panel_title(left, "", label(name))
    axes[-1][0].set_xlabel("held-out R2, one scale")
    axes[-1][1].set_xlabel("held-out R2, magnified")
    return figure


def _pair(left: Axes, right: Axes, table: Table, name: str, tests: Table | None, test: Row | None) -> None:
    groups = {
        fit: table.numbers(table.where(arm="model", updates=name, fit=fit), "r2")
        for fit in table.values("fit")
    }
    nulls = {fit: values for fit, values in groups.items() if len(values) >= _ENOUGH}
    few = {fit: v for fit, v in groups.items() if 0 < len(v) < _ENOUGH and not fit.startswith("running_sum")}
    draws = [value for values in nulls.values() for value in values]
    observed = None if tests is None or test is None else tests.number(test, "observed")
    for axes in (left, right):
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x")
    left.plot(draws, [0.0] * len(draws), linestyle="", marker="|", markersize=16, color=GREY, alpha=0.6)
    left.axvline(0.0, color=INK, linewidth=0.6)
    left.set_ylim(-1.0, 1.2)
    if draws:
        left.annotate(
            f"{len(draws)} draws", (max(draws), 0.0), (5, 8), textcoords="offset points", size=7, color=GREY,
            va="center",
        )  # fmt: skip
    if observed is not None and tests is not None and test is not None:
        left.plot(observed, 0.0, linestyle="", marker="o", markersize=6, color=BLUE)
        left.annotate(
            f"observed {signed(observed, 3)}, p = {tests.number(test, 'p') or 0.0:.2g}", (observed, 0.0), (-8, 8),
            textcoords="offset points", size=7, color=BLUE, weight="bold", va="center", ha="right",
        )  # fmt: skip
    left.margins(x=0.06)
    _stacked(right, draws)
    for (fit, values), (color, marker) in zip(few.items(), ((PURPLE, "^"), (ORANGE, "s")), strict=False):
        right.plot(
            values, [0.86] * len(values), linestyle="", marker=marker, markersize=3.6, color=color,
            transform=right.get_xaxis_transform(), zorder=5,
            label=f"{label(fit).removesuffix(' 1')}, {len(values)} draws",
        )  # fmt: skip
    if few:
        right.legend(loc="upper right", bbox_to_anchor=(1.02, 1.22), handletextpad=0.1)


def _stacked(axes: Axes, draws: list[float]) -> None:
    """Stack every draw as a dot over its bin, so that nothing is hidden in a bar."""
    from matplotlib.ticker import MaxNLocator

    if not draws:
        return
    low, high = min(draws), max(draws)
    bins, width = 40, (high - low) / 40 or 1.0
    counts: dict[int, int] = {}
    for value in sorted(draws):
        at = min(int((value - low) / width), bins - 1)
        counts[at] = counts.get(at, 0) + 1
        axes.plot(low + (at + 0.5) * width, counts[at], linestyle="", marker="o", markersize=2.6, color=GREY)
    axes.axvline(0.0, color=INK, linewidth=0.6)
    axes.set_ylim(0.0, 1.35 * max(counts.values()) + 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
