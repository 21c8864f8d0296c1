"""A kernel fit on one depth band, asked about every other: a matrix of R2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prereg.report.figures.style import INK, canvas, label, panel_title, signed
from prereg.report.figures.tables import Table, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CROSS_BAND", "draw"]

CROSS_BAND = ("arm", "fit_on", "evaluated_on", "r2", "r2_raw")
_SHOWN = (("r2", "each update scaled by its training RMS"), ("r2_raw", "updates as they are"))


def draw(tables: Tables) -> Figure:
    """Draw the matrix twice: with each update scaled, as gates use it, and as it is.

    Rows are the band that the kernel was fit on, columns the band that it is asked about; the outlined diagonal is a
    band's own kernel. Colour is centred on zero: below it the kernel is worse than the band's own mean, and the
    cell is hatched.
    """
    table = tables.one("cross_band.csv")
    figure = canvas(3.0)
    axes = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.115, right=0.985, top=0.84, bottom=0.075, wspace=0.22)
    for letter, panel, (column, words) in zip("ab", axes, _SHOWN, strict=True):
        _matrix(panel, table, column)
        panel_title(panel, letter, words)
        panel.set_ylabel("fit on")
    return figure


def _matrix(axes: Axes, table: Table, column: str) -> None:
    rows = table.where(arm="model")
    bands = list(dict.fromkeys([row["fit_on"] for row in rows] + [row["evaluated_on"] for row in rows]))
    values = {(row["fit_on"], row["evaluated_on"]): table.number(row, column) for row in rows}
    scale = max((abs(value) for value in values.values() if value is not None), default=1.0) or 1.0
    for (fit_on, on), value in values.items():
        if value is None:
            continue
        x, y = bands.index(on), bands.index(fit_on)
        red, green, blue = _shade(max(-1.0, min(1.0, value / scale)))
        axes.bar(
            x, 1.0, 1.0, bottom=y - 0.5, color=(red, green, blue), edgecolor="white", linewidth=0.8,
            hatch="" if value >= 0.0 else "////",
        )  # fmt: skip
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
        words = axes.text(
            x, y, signed(value, 2), ha="center", va="center", size=7.5, color="white" if dark else INK
        )
        # A plain patch behind the number: hatching would cross it.
        words.set_bbox({"boxstyle": "round,pad=0.15", "facecolor": (red, green, blue), "edgecolor": "none"})
        if fit_on == on:
            axes.bar(x, 0.94, 0.94, bottom=y - 0.47, fill=False, edgecolor=INK, linewidth=1.3, zorder=3)
    axes.set_xlim(-0.5, len(bands) - 0.5)
    axes.set_ylim(len(bands) - 0.5, -0.5)
    names = [label(band).removeprefix("band ") for band in bands]
    axes.set_xticks(range(len(bands)), names)
    axes.set_yticks(range(len(bands)), [label(band) for band in bands])
    axes.xaxis.tick_top()
    axes.set_xlabel("asked about band", labelpad=4)
    axes.xaxis.set_label_position("bottom")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _shade(share: float) -> tuple[float, float, float]:
    """Return a colour from vermillion (-1) through near white (0) to blue (1); both ends darken in grey."""
    end = (0.0, 0.447, 0.698) if share >= 0.0 else (0.835, 0.369, 0.0)
    weight = abs(share) ** 0.8
    red, green, blue = (0.97 + (c - 0.97) * weight for c in end)
    return red, green, blue
