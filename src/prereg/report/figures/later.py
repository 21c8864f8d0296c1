"""Figures of a study of state-space models, sparse dictionaries and causal effects: each drawn where its table is.

The contract is the columns; further ones are allowed. An empty field is a value that wasn't measured.

``ssm_gain_by_update.csv``
    ``arm`` (model, twin-1, ...), ``update``, ``depth`` (update / blocks), ``comparison`` (rank matched, ...), ``gain``
    (difference of held-out R2); optional ``low``, ``high``.
``state_path.csv``
    ``arm``, ``gap`` (blocks between source and target), ``energy`` (mean share of what a source at that gap adds);
    optional ``low``, ``high``, and ``fit``, of which the first is drawn.
``causal_effects.csv``
    ``update``, ``feature``, ``effect`` (nats of the answer's log-probability that are lost without it), ``low``,
    ``high``, ``random``, ``matched`` (the same for a random direction of the same norm, and for another feature).
``dictionary_stability.csv``
    ``update``, ``depth``, ``kind`` (topk, l1), ``pair`` (of seeds), ``cosine`` (mean over matched directions),
    ``null_cosine`` (the same for random dictionaries).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prereg.report.figures.style import BLUE, GREY, INK, LINES, ORANGE, PURPLE, canvas, label
from prereg.report.figures.tables import Row, Table, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CAUSAL_EFFECTS", "DICTIONARY_STABILITY", "SSM_GAIN", "STATE_PATH", "draw_causal_effects", "draw_ssm_gain",
    "draw_stability", "draw_state_path",
]  # fmt: skip

SSM_GAIN = ("arm", "update", "depth", "comparison", "gain")
STATE_PATH = ("arm", "gap", "energy")
CAUSAL_EFFECTS = ("update", "feature", "effect", "low", "high", "random", "matched")
DICTIONARY_STABILITY = ("update", "depth", "kind", "pair", "cosine", "null_cosine")
MODEL = "model"
MOST_PANELS = 3


def draw_ssm_gain(tables: Tables) -> Figure:
    """Draw the gain of the state-space model over each readout, update by update; twins as thin grey curves."""
    table = tables.one("ssm_gain_by_update.csv")
    # Further ones (other kinds of dictionary, the null) stay in the table: three panels can be read side by side.
    names = table.values("comparison")[:MOST_PANELS]
    figure, panels = _row(len(names), sharey=True)
    for panel, name in zip(panels, names, strict=True):
        for arm in (a for a in table.values("arm") if a != MODEL):
            _line(panel, table, table.where(arm=arm, comparison=name), "depth", "gain", _TWIN)
        _line(
            panel,
            table,
            table.where(arm=MODEL, comparison=name),
            "depth",
            "gain",
            LINES[0] | {"label": "trained"},
        )
        panel.axhline(0.0, color=INK, linewidth=0.6)
        panel.set_title(label(name))
        panel.set_xlabel("depth, update / blocks")
    panels[0].set_ylabel("gain in held-out R2")
    _legend(panels[0], twins=len(table.values("arm")) > 1)
    return figure


def draw_state_path(tables: Tables) -> Figure:
    """Draw what a source still adds to an update, against the number of blocks between them."""
    table = tables.one("state_path.csv")
    # Of several fits the first; one line can't go through two of them.
    fit = {"fit": table.values("fit")[0]} if "fit" in table.columns else {}
    figure, (panel,) = _row(1)
    for arm in (a for a in table.values("arm") if a != MODEL):
        _line(panel, table, table.where(arm=arm, **fit), "gap", "energy", _TWIN)
    _line(panel, table, table.where(arm=MODEL, **fit), "gap", "energy", LINES[0] | {"label": "trained"})
    panel.set_xlabel("gap in blocks between source and update")
    panel.set_ylabel("energy")
    panel.set_ylim(bottom=0.0)
    _legend(panel, twins=len(table.values("arm")) > 1)
    return figure


def draw_causal_effects(tables: Tables) -> Figure:
    """Draw each feature's effect with its interval, largest first, beside its two controls."""
    table = tables.one("causal_effects.csv")
    updates = table.values("update")
    figure, panels = _row(len(updates), sharey=True)
    for panel, update in zip(panels, updates, strict=True):
        rows = [row for row in table.where(update=update) if table.number(row, "effect") is not None]
        rows.sort(key=lambda row: -(table.number(row, "effect") or 0.0))
        for place, row in enumerate(rows):
            low, high = table.number(row, "low"), table.number(row, "high")
            if low is not None and high is not None:
                panel.plot((place, place), (low, high), color=BLUE, linewidth=0.8)
        for column, style in _EFFECTS.items():
            pairs = [(i, v) for i, row in enumerate(rows) if (v := table.number(row, column)) is not None]
            panel.plot([i for i, _ in pairs], [v for _, v in pairs], linestyle="", **style)
        panel.axhline(0.0, color=INK, linewidth=0.6)
        panel.set_title(f"update {update}")
        panel.set_xlabel("feature, by effect")
    panels[0].set_ylabel("effect on the answer (nats)")
    panels[0].legend(loc="upper right")
    return figure


def draw_stability(tables: Tables) -> Figure:
    """Draw how well the dictionaries of two seeds match, by depth and kind, against random dictionaries."""
    table = tables.one("dictionary_stability.csv")
    figure, (panel,) = _row(1)
    for kind, style in zip(table.values("kind"), LINES, strict=False):
        for number, pair in enumerate(table.values("pair")):
            rows = table.where(kind=kind, pair=pair)
            _line(panel, table, rows, "depth", "cosine", style | {"label": None if number else kind})
            _line(panel, table, rows, "depth", "null_cosine", _TWIN)
    panel.set_xlabel("depth, update / number of blocks")
    panel.set_ylabel("mean cosine of matched directions")
    panel.plot([], [], label="random dictionaries", **_TWIN)
    panel.legend(loc="best")
    return figure


_TWIN: dict[str, Any] = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 0.9, "marker": ""}
_EFFECTS: dict[str, dict[str, Any]] = {
    "effect": {"color": BLUE, "marker": "o", "label": "feature"},
    "matched": {"color": ORANGE, "marker": "s", "markerfacecolor": "none", "label": "another feature"},
    "random": {"color": PURPLE, "marker": "x", "label": "random direction"},
}


def _row(number: int, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    figure = canvas(2.6)
    axes = list(figure.subplots(1, number, sharey=sharey, squeeze=False)[0])
    figure.subplots_adjust(left=0.09, right=0.985, top=0.9, bottom=0.17, wspace=0.1)
    for panel in axes:
        panel.grid(visible=True, axis="y")
    return figure, axes


def _line(axes: Axes, table: Table, rows: Sequence[Row], x: str, y: str, style: dict[str, Any]) -> None:
    known = [(at, value, row) for row in rows if (at := table.number(row, x)) is not None
             and (value := table.number(row, y)) is not None]  # fmt: skip
    known.sort(key=lambda point: point[0])
    axes.plot([at for at, _, _ in known], [value for _, value, _ in known], **style)
    if not {"low", "high"} <= set(table.columns):
        return
    bounds = [
        (at, low, high)
        for at, _, row in known
        if (low := table.number(row, "low")) is not None and (high := table.number(row, "high")) is not None
    ]
    if bounds and y != "null_cosine":
        axes.fill_between(
            [at for at, _, _ in bounds], [low for _, low, _ in bounds], [high for _, _, high in bounds],
            color=style["color"], alpha=0.18, linewidth=0,
        )  # fmt: skip


def _legend(axes: Axes, *, twins: bool) -> None:
    if twins:
        axes.plot([], [], label="untrained twins", **_TWIN)
    axes.legend(loc="best")
