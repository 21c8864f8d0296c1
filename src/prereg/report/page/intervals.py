"""Intervals against a threshold, as coordinates: the template turns them into inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prereg.report.page.recorded import Contrast

__all__ = ["Bar", "Picture", "Scale", "picture", "scale_of"]

WIDTH, EDGE = 300.0, 8.0
MAIN, STEP, FOOT = 11.0, 4.5, 5.0


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis: which numbers it shows, and which of them were promised.

    Parameters
    ----------
    low, high
        Its ends.
    direction, threshold
        The promised side; ``threshold`` is None where nothing was promised.
    """

    low: float
    high: float
    direction: str
    threshold: float | None

    def at(self, value: float) -> float:
        """Return a number's place in pixels, rounded to what a screen can show."""
        share = (value - self.low) / (self.high - self.low)
        return round(EDGE + (WIDTH - 2 * EDGE) * min(max(share, 0.0), 1.0), 1)

    @property
    def edges(self) -> tuple[float, ...]:
        """Places of the threshold's lines."""
        if self.threshold is None:
            return ()
        if self.direction == "equivalence":
            return self.at(-self.threshold), self.at(self.threshold)
        return (self.at(self.threshold),)

    @property
    def promised(self) -> tuple[float, float] | None:
        """Where the promised side begins and ends; None where it is not known."""
        if not self.edges:
            return None
        sides = {
            "greater": (self.edges[0], WIDTH),
            "less": (0.0, self.edges[0]),
            "equivalence": (self.edges[0], self.edges[-1]),
        }
        return sides.get(self.direction)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Two to six round numbers, each with its place."""
        step = _round_step((self.high - self.low) / 5.0)
        first = int(self.low // step) - 1
        values = [step * number for number in range(first, first + 12)]
        inside = [value for value in values if self.low <= value <= self.high]
        return tuple((self.at(value), _plain(value, step)) for value in inside)


@dataclass(frozen=True, slots=True)
class Bar:
    """One interval: its method, its ends, and the height at which it lies."""

    method: str
    low: float
    high: float
    y: float


@dataclass(frozen=True, slots=True)
class Picture:
    """One contrast's intervals: the registered one, and thinner below it those of the other methods."""

    main: Bar | None
    estimate: float | None
    others: tuple[Bar, ...]
    height: float
    width: float = WIDTH


def scale_of(contrasts: Sequence[Contrast], direction: str, threshold: float | None) -> Scale:
    """Return an axis on which every interval of these contrasts, and the threshold, can be seen."""
    values = [] if threshold is None else [threshold]
    if direction == "equivalence" and threshold is not None:
        values.append(-threshold)
    for contrast in contrasts:
        bounds = [bound for pair in contrast.sensitivity.values() for bound in pair]
        values += [v for v in (contrast.estimate, contrast.low, contrast.high, *bounds) if v is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return Scale(low - room, high + room, direction, threshold)


def picture(contrast: Contrast, scale: Scale) -> Picture:
    """Return a contrast's intervals in pixels; a method without both bounds has no bar."""
    main = None
    if contrast.low is not None and contrast.high is not None:
        main = Bar("registered", scale.at(contrast.low), scale.at(contrast.high), MAIN)
    others: list[Bar] = []
    for method, (low, high) in contrast.sensitivity.items():
        if low is not None and high is not None:
            y = MAIN + 8.0 + STEP * len(others)
            others.append(Bar(method, scale.at(low), scale.at(high), y))
    estimate = None if contrast.estimate is None else scale.at(contrast.estimate)
    height = MAIN + 8.0 + STEP * max(len(others) - 1, 0) + FOOT if others else 2 * MAIN
    return Picture(main, estimate, tuple(others), height)


def _round_step(about: float) -> float:
    """Return 1, 2 or 5 times a power of ten, no less than `about`."""
    size = 10.0 ** _floor_log10(about)
    return next(step for step in (size, 2.0 * size, 5.0 * size, 10.0 * size) if step >= about * (1.0 - 1e-12))


def _floor_log10(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def _plain(value: float, step: float) -> str:
    digits = max(0, -_floor_log10(step))
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text.replace("-", "\u2212")
