"""A calibration as a picture: size against alpha on the left, power on the right, a row for each world."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from prereg.calibration.records import Calibration, Rate
from prereg.calibration.views import Line, lines_of

__all__ = ["picture"]

_ROW, _GAP, _TOP, _BOTTOM = 18, 12, 44, 52
_NAME, _WORLD = 12, 150
_SIZE, _POWER, _WIDE = (260, 480), (530, 730), 750
_INK, _FAINT, _MARK, _FAULT = "#24292f", "#d0d7de", "#0969da", "#cf222e"


def picture(calibration: Calibration) -> str:
    """Return the picture as SVG text; the same calibration gives the same bytes.

    A dot is a simulated share, its line the 95% Clopper-Pearson interval. On the left a short upright line marks each
    gate's alpha, and a size beyond it by more than Monte Carlo error is red. Where a claim is false under its
    alternative there is no power to show.
    """
    lines = lines_of(calibration)
    top = max(0.1, *(1.1 * line.size.high for line in lines), *(1.5 * line.alpha for line in lines))
    top = min(1.0, top)
    size = _axis(_SIZE, top)
    power = _axis(_POWER, 1.0)
    rows, y, before = [], float(_TOP), None
    for line in lines:
        head = (line.hypothesis, line.n_units)
        if head != before:
            y += _GAP
            rows.append(_text(_NAME, y, line.hypothesis, weight="600"))
            rows.append(_text(_WORLD - 8, y, f"n {line.n_units}", anchor="end"))
            before = head
        rows += _row(line, y, size, power)
        y += _ROW
    foot = y + 8
    frame = [
        *_scale(_SIZE, top, size, foot, "size: a false claim supported"),
        *_scale(_POWER, 1.0, power, foot, "power: the expected effect supported"),
    ]
    height = int(foot + _BOTTOM)
    pilot = "stated moments" if calibration.pilot is None else f"pilot {calibration.pilot}"
    title = f"{calibration.study}: {calibration.replications} simulated samples each, {pilot}"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {height}" width="{_WIDE}" '
            f'height="{height}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="11" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{_WIDE}" height="{height}" fill="#ffffff"/>',
            _text(_NAME, 22, title, weight="600"),
            *frame,
            *rows,
            "</svg>",
            "",
        )
    )


def _axis(span: tuple[int, int], top: float) -> Callable[[float], float]:
    return lambda value: span[0] + (span[1] - span[0]) * min(value, top) / top


def _row(line: Line, y: float, size: Callable[[float], float], power: Callable[[float], float]) -> list[str]:
    alpha = size(line.alpha)
    found = [
        _text(_WORLD, y, line.population.replace("_", " ")),
        _line(alpha, y - 8, alpha, y + 8, _INK),
        *_dot(line.size, y, size, _FAULT if line.faulty else _MARK),
    ]
    if line.power is not None:
        return [*found, *_dot(line.power, y, power, _MARK)]
    return [*found, _text(_POWER[0], y, "the claim is false there", color="#57606a")]


def _dot(rate: Rate, y: float, at: Callable[[float], float], color: str) -> list[str]:
    return [
        _line(at(rate.low), y, at(rate.high), y, color),
        f'<circle cx="{at(rate.share):.2f}" cy="{y:.2f}" r="3" fill="{color}"/>',
    ]


def _scale(
    span: tuple[int, int], top: float, at: Callable[[float], float], foot: float, label: str
) -> list[str]:
    found = [_line(span[0], foot, span[1], foot, _FAINT)]
    for tick in range(5):
        value = top * tick / 4
        found.append(_line(at(value), _TOP, at(value), foot, _FAINT))
        found.append(_text(at(value), foot + 14, f"{value:.3g}", anchor="middle"))
    return [*found, _text((span[0] + span[1]) / 2, foot + 32, label, anchor="middle")]


def _line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return (
        f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{color}" stroke-width="1.4"/>'
    )


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", weight: str = "400", color: str = _INK
) -> str:
    return (
        f'<text x="{x:.2f}" y="{y + 4:.2f}" text-anchor="{anchor}" font-weight="{weight}" fill="{color}">'
        f"{escape(words)}</text>"
    )
