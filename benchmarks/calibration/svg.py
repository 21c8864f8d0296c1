"""Small pictures as SVG text: panels of lines, in a palette that colour-blind readers can tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Okabe and Ito's colours, in the order of use, with a dash so that print in grey can be read too.
_STYLES = (
    ("#000000", ""),
    ("#0072B2", ""),
    ("#E69F00", "6 2"),
    ("#D55E00", ""),
    ("#009E73", "3 2"),
    ("#CC79A7", "1 2"),
    ("#56B4E9", ""),
    ("#888888", "6 2"),
)
_WIDTH, _HEIGHT, _COLUMNS = 250, 190, 4
_LEFT, _TOP, _RIGHT, _BOTTOM = 38, 26, 8, 28


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name in the legend, and its points (x > 0, y between 0 and 1)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One small chart: a title and its lines."""

    title: str
    series: tuple[Series, ...]


def write_panels(
    path: Path,
    panels: Sequence[Panel],
    *,
    title: str,
    floor: float,
    line: float,
    top: float = 1.0,
    x_label: str = "n",
    names: Sequence[str] = (),
) -> None:
    """Write panels four to a row, x on a logarithmic axis, y from `floor` to `top`, `line` marked.

    A point below the floor stands on it. With `names`, the x are places 1, 2, ... with these names.
    """
    legend = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    styles = {name: _STYLES[k % len(_STYLES)] for k, name in enumerate(legend)}
    places = _places(legend, _COLUMNS * _WIDTH)
    head = 50 + max(y for _, y in places)
    width, height = _COLUMNS * _WIDTH, math.ceil(len(panels) / _COLUMNS) * _HEIGHT + head + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="10">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="18" font-size="14">{escape(title)}</text>',
    ]
    for name, (x, y) in zip(legend, places, strict=True):
        parts.append(_stroke([(x, 36 + y), (x + 24, 36 + y)], styles[name]))
        parts.append(f'<circle cx="{x + 12}" cy="{36 + y}" r="2.4" fill="{styles[name][0]}"/>')
        parts.append(f'<text x="{x + 28}" y="{40 + y}">{escape(name.replace("_", " "))}</text>')
    for k, panel in enumerate(panels):
        at = (k % _COLUMNS * _WIDTH, head + k // _COLUMNS * _HEIGHT)
        parts += _panel(panel, at, styles, (floor, top, line), (x_label, names))
    parts.append("</svg>\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), encoding="utf-8", newline="")


def _places(legend: Sequence[str], width: int) -> list[tuple[int, int]]:
    """Return where each entry of the legend stands, wrapped to the width."""
    places, x, y = [], 8, 0
    for name in legend:
        wide = 48 + 6 * len(name)
        if x + wide > width and x > 8:
            x, y = 8, y + 14
        places.append((x, y))
        x += wide
    return places


def _panel(
    panel: Panel,
    at: tuple[int, int],
    styles: dict[str, tuple[str, str]],
    scale: tuple[float, float, float],
    axis: tuple[str, Sequence[str]],
) -> list[str]:
    floor, top, line = scale
    x_label, names = axis
    ticks = sorted({x for series in panel.series for x, _ in series.points})
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(x: float) -> float:
        if names:
            return at[0] + _LEFT + inner_width * (x - 0.5) / len(names)
        if len(ticks) == 1:
            return at[0] + _LEFT + inner_width / 2
        return (
            at[0] + _LEFT + 6 + (inner_width - 12) * math.log(x / ticks[0]) / math.log(ticks[-1] / ticks[0])
        )

    def down(y: float) -> float:
        return at[1] + _TOP + inner_height * (top - min(top, max(floor, y))) / (top - floor)

    left, right = at[0] + _LEFT, at[0] + _WIDTH - _RIGHT
    parts = [f'<text x="{left}" y="{at[1] + 18}" font-size="11">{escape(panel.title)}</text>']
    for k in range(5):
        y = floor + (top - floor) * k / 4
        parts.append(_stroke([(left, down(y)), (right, down(y))], ("#ddd", ""), 0.7))
        parts.append(f'<text x="{left - 4}" y="{down(y) + 3:.1f}" text-anchor="end">{y:.2f}</text>')
    parts.append(_stroke([(left, down(line)), (right, down(line))], ("#888", "4 3"), 1.0))
    for x in ticks:
        label = names[int(x) - 1] if names else f"{x:g}"
        parts.append(
            f'<text x="{across(x):.1f}" y="{at[1] + _HEIGHT - 14}" text-anchor="middle">{escape(label)}</text>'
        )
    parts.append(f'<text x="{at[0] + 4}" y="{at[1] + _HEIGHT - 14}">{escape(x_label)}</text>')
    for series in panel.series:
        points = [(across(x), down(y)) for x, y in series.points]
        if len(points) > 1 and not names:
            parts.append(_stroke(points, styles[series.name]))
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{styles[series.name][0]}"/>' for x, y in points
        ]
    return parts


def _stroke(points: Sequence[tuple[float, float]], style: tuple[str, str], width: float = 1.5) -> str:
    colour, dash = style
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'
