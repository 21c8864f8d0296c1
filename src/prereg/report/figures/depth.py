"""R2 along the depth, in the trained model and in its untrained twins, and how it splits with the running sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prereg.report.figures.style import (
    BLUE,
    FAINT,
    GREY,
    INK,
    LINES,
    ORANGE,
    SKY,
    canvas,
    label,
    panel_title,
    signed,
)
from prereg.report.figures.tables import Row, Table, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["R2_BY_UPDATE", "SPLIT", "draw"]

R2_BY_UPDATE = ("arm", "update", "depth", "fit", "r2")
SPLIT = ("arm", "updates", "order", "history", "running_sum", "both", "unique", "common")

MODEL = "model"
_PARTS = (("running sum only", ORANGE, "////"), ("shared", SKY, ""), ("history only", BLUE, "\\\\\\\\"))


def draw(tables: Tables) -> Figure:
    """Draw R2 by depth for the trained model (a) and its untrained twins (b), and the running-sum split (c).

    A curve of the twins is their mean; the band about it reaches from the least twin to the largest. The bars are a
    commonality split of the R2 of running sum and history together: what only the running sum explains
    (``both - history``), what either does (``common``), what only the history does (``unique``).
    """
    by_update, split = (
        tables.one("r2_by_update.csv"),
        tables.models[next(iter(tables.models))].get("running_sum_split.csv"),
    )
    figure = canvas(5.3 if split is not None else 2.9)
    grid = figure.add_gridspec(
        2 if split is not None else 1, 2, left=0.075, right=0.985, top=0.945, bottom=0.075 if split else 0.16,
        hspace=0.52, wspace=0.08, height_ratios=(1.25, 1.0) if split is not None else None,
    )  # fmt: skip
    trained = figure.add_subplot(grid[0, 0])
    twins = figure.add_subplot(grid[0, 1], sharey=trained)
    _curves(trained, by_update, [MODEL])
    _curves(twins, by_update, [arm for arm in by_update.values("arm") if arm != MODEL])
    panel_title(trained, "a", "trained model")
    panel_title(twins, "b", "untrained twins: mean, least to largest")
    trained.set_ylabel("held-out R2")
    trained.margins(x=0.02)
    twins.margins(x=0.02)
    twins.tick_params(labelleft=False)
    handles, names = trained.get_legend_handles_labels()
    trained.legend(handles, names, loc="upper left", bbox_to_anchor=(-0.02, -0.16), ncols=len(names) or 1)
    if split is not None:
        split.need(SPLIT)
        axes = figure.add_subplot(grid[1, :])
        _bars(axes, split)
        panel_title(axes, "c", f"what both explain together (order {_order(split)})")
    return figure


def _curves(axes: Axes, table: Table, arms: Sequence[str]) -> None:
    order = _first_order(table)
    fits = {
        f"history_{order}": "history",
        "running_sum": "running sum",
        f"running_sum_history_{order}": "both",
        f"shuffled_history_{order}": "history, shuffled",
    }
    axes.axhline(0.0, color=INK, linewidth=0.6)
    axes.grid(visible=True, axis="y")
    axes.set_xlabel("depth, update / number of blocks")
    if not arms:
        axes.text(
            0.5, 0.5, "no untrained twin was measured", transform=axes.transAxes, ha="center", color=GREY
        )
    for (fit, name), style in zip(fits.items(), (LINES[0], LINES[1], LINES[2], LINES[5]), strict=True):
        curves = [c for arm in arms if (c := _curve(table, table.where(arm=arm, fit=fit)))]
        depths = sorted({depth for curve in curves for depth in curve})
        values = [[curve[d] for curve in curves if d in curve] for d in depths]
        if not depths:
            continue
        means = [sum(at) / len(at) for at in values]
        if len(curves) > 1:
            axes.fill_between(
                depths, [min(at) for at in values], [max(at) for at in values], color=style["color"], alpha=0.2,
                linewidth=0,
            )  # fmt: skip
        axes.plot(
            depths,
            means,
            label=name,
            markersize=2.4,
            **{k: style[k] for k in ("color", "linestyle", "marker")},
        )


def _curve(table: Table, rows: Sequence[Row]) -> dict[float, float]:
    pairs = [(table.number(row, "depth"), table.number(row, "r2")) for row in rows]
    return {depth: r2 for depth, r2 in pairs if depth is not None and r2 is not None}


def _first_order(table: Table) -> str:
    """Return the lowest order of a history beside the running sum, else of a history."""
    fits = table.values("fit")
    for pattern in (r"running_sum_history_([0-9]+)", r"history_([0-9]+)"):
        found = sorted(int(m[1]) for fit in fits if (m := re.fullmatch(pattern, fit)))
        if found:
            return str(found[0])
    return "1"


def _order(split: Table) -> str:
    return min(split.values("order"), key=int)


def _bars(axes: Axes, split: Table) -> None:
    """Draw one bar for each set of updates of the trained model, and one of its twins' mean beside it."""
    order = _order(split)
    arms = {"trained": [MODEL], "twins": [arm for arm in split.values("arm") if arm != MODEL]}
    sets = [name for name in split.values("updates") if split.where(arm=MODEL, updates=name, order=order)]
    sets.sort(key=lambda name: (name.startswith("band"), name != "whole_stack"))
    places, ticks = [], []
    for number, name in enumerate(sets):
        for beside, (who, members) in enumerate(arms.items()):
            rows = [row for arm in members for row in split.where(arm=arm, updates=name, order=order)]
            if not rows:
                continue
            x = number + 0.42 * beside
            places.append(x)
            ticks.append(who)
            _bar(axes, x, _parts(split, rows), first=not number and not beside)
        axes.text(
            number + 0.21, -0.19, label(name), transform=axes.get_xaxis_transform(), ha="center", weight="bold",
            size=7,
        )  # fmt: skip
    axes.axhline(0.0, color=INK, linewidth=0.6)
    axes.set_xticks(places, ticks)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.32, len(sets) - 0.26)
    axes.grid(visible=True, axis="y", color=FAINT)
    axes.set_ylabel("held-out R2")
    axes.margins(y=0.17)
    axes.legend(loc="lower right", bbox_to_anchor=(1.01, 1.0), ncols=3, borderaxespad=0.1)


def _parts(split: Table, rows: Sequence[Row]) -> tuple[float, float, float]:
    """Return running sum only, shared, history only: means over the rows."""

    def mean(column: str) -> float:
        values = split.numbers(rows, column)
        return sum(values) / len(values) if values else 0.0

    return mean("both") - mean("history"), mean("common"), mean("unique")


def _bar(axes: Axes, x: float, parts: tuple[float, float, float], *, first: bool) -> None:
    above = below = 0.0
    for (name, color, hatch), value in zip(_PARTS, parts, strict=True):
        base = above if value >= 0.0 else below
        axes.bar(
            x, value, 0.36, bottom=base, color=color, edgecolor="white", linewidth=0.5, hatch=hatch,
            label=name if first else None,
        )  # fmt: skip
        above, below = above + max(value, 0.0), below + min(value, 0.0)
    axes.annotate(
        signed(parts[2], 3),
        (x, above),
        (0, 2.5),
        textcoords="offset points",
        ha="center",
        size=6.0,
        color=BLUE,
    )
    axes.annotate(
        f"{sum(parts):.2f}",
        (x, above),
        (0, 9.5),
        textcoords="offset points",
        ha="center",
        size=6.6,
        weight="bold",
    )
