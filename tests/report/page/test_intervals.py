"""Intervals as coordinates: what is promised, where each bound lies, and round numbers below."""

from __future__ import annotations

import pytest

from prereg.report.page.intervals import EDGE, WIDTH, Scale, picture, scale_of
from prereg.report.page.recorded import Contrast


def contrast(**changes: object) -> Contrast:
    given = {"label": "x", "estimate": 0.5, "low": 0.4, "high": 0.6, "sensitivity": {"bca": (0.3, 0.7)}}
    return Contrast.model_validate(given | changes)


@pytest.mark.parametrize(
    ("direction", "promised"),
    [("greater", (150.0, WIDTH)), ("less", (0.0, 150.0)), ("equivalence", (93.2, 206.8)), ("odd", None)],
)
def test_the_promised_side_is_the_claimed_one(direction: str, promised: tuple[float, float] | None) -> None:
    """Above, below, or between; an unknown direction promises nothing that could be shaded."""
    threshold = 0.2 if direction == "equivalence" else 0.0
    assert Scale(-0.5, 0.5, direction, threshold).promised == promised


def test_every_bound_and_the_threshold_can_be_seen() -> None:
    """The axis reaches beyond the widest interval and both sides of a margin."""
    scale = scale_of([contrast()], "equivalence", 0.9)
    assert scale.low < -0.9
    assert scale.high > 0.9
    assert EDGE < scale.at(0.3) < scale.at(0.4) < scale.at(0.9) < WIDTH - EDGE


def test_a_method_without_both_bounds_has_no_bar() -> None:
    """What can't be drawn is left out, not drawn at an end."""
    line = contrast(sensitivity={"bca": (0.3, None), "basic": (0.35, 0.65)}, low=None)
    drawn = picture(line, scale_of([line], "greater", 0.1))
    assert [bar.method for bar in drawn.others] == ["basic"]
    assert drawn.main is None


@pytest.mark.parametrize(("low", "high"), [(0.24, 0.62), (-1.7, 0.2), (-0.0004, 0.0003), (3.0, 900.0)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    """Between two and six, in order, each where its number lies."""
    scale = Scale(low, high, "greater", None)
    assert 2 <= len(scale.ticks) <= 6
    values = [float(words.replace("\u2212", "-")) for _, words in scale.ticks]
    assert values == sorted(set(values))
    assert all(low <= value <= high for value in values)
    assert [scale.at(value) for value in values] == [x for x, _ in scale.ticks]


def test_nothing_to_show_still_has_a_scale() -> None:
    """A claim without contrasts doesn't divide by nothing."""
    assert scale_of([], "greater", 0.0).high > scale_of([], "greater", 0.0).low
