"""How much each further step of history adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prereg.report.figures.style import BLUE, GREY, LINES, canvas, label, panel_title, signed
from prereg.report.figures.tables import Row, Table, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ORDERS", "draw"]

ORDERS = ("arm", "updates", "order", "r2_history", "r2_running_sum", "r2_running_sum_history")
MODEL = "model"
_PANELS = 2


def draw(tables: Tables) -> Figure:
    """Draw R2 against the order of the history, a panel for each set of updates that is no band.

    The trained model's history (discs), the same beside the running sum (diamonds), the running sum alone (a dashed
    line), and the untrained twins' history (crosses, one curve a twin). The number above each disc is what that step
    adds to the one before.
    """
    table = tables.one("orders.csv")
    names = [name for name in table.values("updates") if not name.startswith("band")] or list(
        table.values("updates")
    )
    # The whole stack before its parts.
    names = sorted(names, key=lambda name: name != "whole_stack")[:_PANELS]
    figure = canvas(2.75)
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.075, right=0.985, top=0.9, bottom=0.27, wspace=0.08)
    for letter, panel, name in zip("ab", axes, names, strict=False):
        _panel(panel, table, name)
        panel_title(panel, letter, label(name))
    axes[0].set_ylabel("held-out R2")
    handles, words = axes[0].get_legend_handles_labels()
    # Drawn last, so that it lies on top; named first.
    figure.legend(
        handles[::-1], words[::-1], loc="lower left", bbox_to_anchor=(0.065, 0.0), ncols=len(words) or 1
    )
    return figure


def _panel(axes: Axes, table: Table, name: str) -> None:
    for number, arm in enumerate(a for a in table.values("arm") if a != MODEL):
        orders, values = _curve(table, table.where(arm=arm, updates=name), "r2_history")
        axes.plot(
            orders, values, color=GREY, linestyle=(0, (1, 1.5)), marker="x", linewidth=0.9,
            label=None if number else "history, untrained twins",
        )  # fmt: skip
    rows = table.where(arm=MODEL, updates=name)
    alone = table.numbers(rows, "r2_running_sum")
    if alone:
        axes.axhline(alone[0], label="running sum", color=LINES[1]["color"], linestyle=LINES[1]["linestyle"])
    orders, values = _curve(table, rows, "r2_running_sum_history")
    axes.plot(orders, values, label="running sum and history", **LINES[2])
    orders, values = _curve(table, rows, "r2_history")
    axes.plot(orders, values, label="history", **LINES[0])
    for before, after, at in zip(values, values[1:], orders[1:], strict=False):
        axes.annotate(
            signed(after - before, 3), (at, after), (0, -11), textcoords="offset points", ha="center", size=6.4,
            color=BLUE, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
        )  # fmt: skip
    every = sorted({int(order) for order in table.values("order")})
    axes.set_xticks(every)
    axes.set_xlim(every[0] - 0.3, every[-1] + 0.3)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.grid(visible=True, axis="y")
    axes.set_xlabel("order: steps of history")


def _curve(table: Table, rows: Sequence[Row], column: str) -> tuple[list[float], list[float]]:
    pairs = [(table.number(row, "order"), table.number(row, column)) for row in rows]
    known = sorted((order, value) for order, value in pairs if order is not None and value is not None)
    return [order for order, _ in known], [value for _, value in known]
