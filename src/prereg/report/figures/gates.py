"""Every gate against its threshold: a forest plot in which each hypothesis has its own scale."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prereg.report.figures.style import BLUE, FAINT, GREY, INK, OUTCOMES, PANEL, WIDTH, canvas
from prereg.report.figures.tables import Table, Tables
from prereg.report.rows import MARKS, Row, blocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CONTRASTS", "VERDICTS", "draw"]

VERDICTS = (
    "hypothesis", "model", "family", "outcome", "answer", "registration", "estimate", "low", "high", "direction",
    "threshold", "units", "claim",
)  # fmt: skip
CONTRASTS = ("hypothesis", "role", "binds", "estimate")

_KEY_AT, _KEY_END = (2.98, 3.75, 4.39, 5.22), 5.82
_NUMBERS = ("estimate", "low", "high", "threshold")
_LINE, _HEAD, _PAD, _TOP, _FOOT = 0.2, 0.52, 0.22, 0.12, 0.36


@dataclass(frozen=True, slots=True)
class _Gate:
    """One hypothesis on one model, as numbers and as the table's words."""

    model: str
    row: Row
    estimate: float | None
    low: float | None
    high: float | None
    others: tuple[float, ...]
    """Estimates of the contrasts that do not bind."""


@dataclass(frozen=True, slots=True)
class _Strip:
    """One hypothesis over all models."""

    hypothesis: str
    claim: str
    family: str
    promised: str
    direction: str
    threshold: float | None
    gates: tuple[_Gate, ...]

    @property
    def height(self) -> float:
        """Inches that its axes take."""
        return max(_LINE * (len(self.gates) + 0.5), 0.4)


def draw(tables: Tables) -> Figure:
    """Draw each hypothesis as a strip: the promised side shaded, the threshold a line, an interval for each model.

    A filled marker stands at the estimate of the contrast that binds, small rings at those of the others. A marker's
    shape and the word at the right say the outcome; a verdict that may not be claimed is grey, with what the
    interval alone says in brackets.
    """
    strips = _strips(tables)
    heights = [strip.height + _HEAD for strip in strips]
    total = sum(heights) + _TOP + _FOOT
    figure = canvas(total)
    top = total - _TOP
    for strip, height in zip(strips, heights, strict=True):
        bottom = top - height + _HEAD - _PAD
        axes = figure.add_axes((0.42, bottom / total, 0.28, strip.height / total))
        _scale(axes, strip)
        for place, gate in enumerate(strip.gates):
            _interval(axes, gate, place)
        _words(figure, strip, top, total)
        for place, gate in enumerate(strip.gates):
            _verdict(figure, gate, (bottom + strip.height - _LINE * (place + 0.75)) / total)
        top -= height
    _key(figure, total)
    return figure


def _strips(tables: Tables) -> list[_Strip]:
    found: dict[str, list[_Gate]] = {}
    head: dict[str, dict[str, Any]] = {}
    for model, table in tables.find("verdicts.csv"):
        contrasts = tables.models[model].get("contrasts.csv")
        records = [_record(table, row) for row in table.rows]
        names = [record["hypothesis"] for record in records]
        (block,) = blocks(records, names)
        for record, row in zip(records, block.rows, strict=True):
            name = record["hypothesis"]
            head.setdefault(name, record | {"promised": row.promised})
            others = _others(contrasts, name)
            found.setdefault(name, []).append(
                _Gate(model, row, record["estimate"], record["low"], record["high"], others)
            )
    return [
        _Strip(
            name,
            at["claim"],
            at["family"],
            at["promised"],
            at["direction"],
            at["threshold"],
            tuple(found[name]),
        )
        for name, at in head.items()
    ]


def _record(table: Table, row: Any) -> dict[str, Any]:
    """Return a row as the record that it was made from, as far as a forest plot needs it."""
    numbers = {name: table.number(row, name) for name in _NUMBERS}
    # Every row of ours is about the model whose folder it lies in, whatever name it gives itself.
    return {**row, **numbers, "model": "", "registration": {"status": row["registration"]}}


def _others(contrasts: Table | None, hypothesis: str) -> tuple[float, ...]:
    if contrasts is None:
        return ()
    contrasts.need(CONTRASTS)
    rows = contrasts.where(hypothesis=hypothesis, role="claim", binds="false")
    return tuple(contrasts.numbers(rows, "estimate"))


def _scale(axes: Axes, strip: _Strip) -> None:
    from matplotlib.ticker import MaxNLocator

    edges = [] if strip.threshold is None else [strip.threshold]
    if strip.direction == "equivalence" and strip.threshold is not None:
        edges = [-strip.threshold, strip.threshold]
    seen = [v for g in strip.gates for v in (g.estimate, g.low, g.high, *g.others) if v is not None]
    low, high = min([*seen, *edges], default=0.0), max([*seen, *edges], default=1.0)
    room = 0.1 * (high - low) or 0.1
    axes.set_xlim(low - room, high + room)
    axes.set_ylim(len(strip.gates) - 0.25, -0.75)
    left, right = axes.get_xlim()
    if strip.threshold is not None:
        span = {"greater": (strip.threshold, right), "less": (left, strip.threshold)}.get(strip.direction)
        axes.axvspan(*(span or (edges[0], edges[-1])), color=PANEL, linewidth=0, zorder=0)
        for edge in edges:
            axes.axvline(edge, color=INK, linewidth=1.1, zorder=1)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.4)
    axes.set_yticks(range(len(strip.gates)), [gate.model for gate in strip.gates])
    axes.tick_params(axis="both", labelsize=6.5)
    axes.tick_params(axis="y", left=False)
    axes.spines["left"].set_visible(False)


def _interval(axes: Axes, gate: _Gate, place: int) -> None:
    color, marker, filled = OUTCOMES.get(gate.row.outcome, (GREY, "o", False))
    if gate.others:
        axes.plot(
            gate.others, [place] * len(gate.others), linestyle="", marker="o", markersize=2.6,
            markerfacecolor="none", markeredgecolor=GREY, markeredgewidth=0.5, zorder=5,
        )  # fmt: skip
    if gate.low is not None and gate.high is not None:
        axes.plot(
            (gate.low, gate.high), (place, place), color=color, linewidth=2.0, solid_capstyle="butt", zorder=3
        )
        for bound in (gate.low, gate.high):
            axes.plot((bound, bound), (place - 0.17, place + 0.17), color=color, linewidth=1.0, zorder=3)
    if gate.estimate is not None:
        axes.plot(
            gate.estimate, place, linestyle="", marker=marker,
            markersize=5.2, color=color, markerfacecolor=color if filled else "white", markeredgewidth=1.1, zorder=4,
        )  # fmt: skip


def _words(figure: Figure, strip: _Strip, top: float, total: float) -> None:
    name = strip.hypothesis if strip.family == "primary" else f"{strip.hypothesis}  ({strip.family})"
    figure.text(0.012, (top - 0.02) / total, name, weight="bold", size=8, va="top")
    figure.text(0.42, (top - 0.02) / total, f"promised {strip.promised}", size=6.8, va="top", color=BLUE)
    lines = textwrap.wrap(strip.claim, 43)
    if len(lines) > 4:
        lines = [*lines[:3], lines[3][:42] + "..."]
    figure.text(
        0.012, (top - 0.19) / total, "\n".join(lines), size=6.6, va="top", color=GREY, linespacing=1.25
    )


def _verdict(figure: Figure, gate: _Gate, y: float) -> None:
    symbol, words, _ = MARKS.get(gate.row.outcome, ("!", gate.row.outcome, ""))
    color = OUTCOMES.get(gate.row.outcome, (GREY, "", False))[0]
    said = f"{symbol} {words}" + (f" ({gate.row.answer})" if gate.row.answer else "")
    figure.text(0.712, y, said, size=6.8, weight="bold", va="center", color=color)
    figure.text(
        0.99,
        y,
        f"{gate.row.estimate} {gate.row.interval}".strip().replace("-", "\u2212"),
        size=6.4,
        va="center",
        ha="right",
        color=INK,
    )


def _key(figure: Figure, total: float) -> None:
    """Say what the marks mean, once."""
    axes = figure.add_axes((0.0, 0.0, 1.0, 0.3 / total))
    axes.set_xlim(0.0, WIDTH)
    axes.set_ylim(0.0, 1.0)
    axes.axis("off")
    axes.axvspan(0.09, 0.25, 0.3, 0.7, color=PANEL, linewidth=0)
    axes.plot((0.09, 0.09), (0.3, 0.7), color=INK, linewidth=1.1)
    axes.text(0.31, 0.5, "promised side of the threshold", size=6.2, va="center", color=GREY)
    ring: dict[str, Any] = {
        "marker": "o",
        "markerfacecolor": "none",
        "markeredgecolor": GREY,
        "linestyle": "",
    }
    axes.plot(1.98, 0.5, markersize=2.6, markeredgewidth=0.5, **ring)
    axes.text(2.06, 0.5, "other contrasts", size=6.2, va="center", color=GREY)
    for x, outcome in zip(_KEY_AT, OUTCOMES, strict=True):
        color, marker, filled = OUTCOMES[outcome]
        axes.plot(
            x, 0.5, linestyle="", marker=marker, markersize=4.6, color=color,
            markerfacecolor=color if filled else "white", markeredgewidth=1.0,
        )  # fmt: skip
        axes.text(x + 0.1, 0.5, outcome, size=6.2, va="center", color=GREY)
    axes.plot(_KEY_END, 0.5, markersize=4.6, **ring)
    axes.text(_KEY_END + 0.1, 0.5, "may not be claimed", size=6.2, va="center", color=GREY)
