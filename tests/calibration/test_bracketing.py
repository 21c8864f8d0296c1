"""What a decision needs of an ideal interval is the same as the interval itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from prereg.calibration.answering import answer
from prereg.calibration.bracketing import bounds_among, ideal_result
from prereg.calibration.cases import Case
from prereg.calibration.gates import Direction
from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    Interval,
    Outcome,
    RatioTable,
    decide_conjunction,
    headline_intervals,
    ideal_distribution,
    ideal_intervals,
)
from tests.calibration.worlds import gate

Rng = np.random.Generator


def smooth(rng: Rng) -> RatioTable:
    """Return a ratio of unequal units."""
    bottom = rng.uniform(0.5, 2.0, 24)
    return table(bottom * (0.1 + 0.4 * rng.standard_normal(24)), bottom)


def lattice(rng: Rng) -> RatioTable:
    """Return right and wrong answers: atoms, some of them exactly at a threshold."""
    return table(rng.integers(-1, 2, 20).astype(float), np.ones(20))


def rare(rng: Rng) -> RatioTable:
    """Return a few different numbers among zeros."""
    top = np.zeros(30)
    top[: rng.integers(3, 9)] = 1.0
    return table(top * rng.standard_normal(30), np.ones(30))


def outlying(rng: Rng) -> RatioTable:
    """Return outliers of many scales."""
    return table(0.2 * rng.standard_cauchy(20), np.ones(20))


def few(rng: Rng) -> RatioTable:
    """Return fewer units than the distribution can always be had for."""
    return table(rng.standard_normal(11), rng.uniform(0.5, 1.5, 11))


def table(top: np.ndarray, bottom: np.ndarray) -> RatioTable:
    return RatioTable(tuple(f"u{i:03d}" for i in range(len(top))), top, bottom, len(top))


@pytest.mark.parametrize(
    ("draw", "total", "direction"),
    [
        (smooth, 60, "greater"),
        (smooth, 40, "less"),
        (smooth, 40, "equivalence"),
        (lattice, 60, "greater"),
        (lattice, 40, "less"),
        (rare, 12, "greater"),
        (outlying, 6, "greater"),
        (few, 10, "equivalence"),
    ],
)
def test_outcomes_and_cover_are_those_of_the_full_interval(
    draw: Callable[[Rng], RatioTable], total: int, direction: Direction
) -> None:
    """At the boundary, beside it and far from it, for data of every form that the distribution takes."""
    threshold = 1.0 if direction == "equivalence" else 0.1
    made = gate(direction=direction, threshold=threshold)
    truths = [
        Case(f"{value}", "null", (value,), made.holds((value,)))
        for value in (threshold, threshold + 0.25, -0.4, 0.0, 4.0)
    ]
    rng = np.random.default_rng(11)
    seen: set[Outcome] = set()
    for _ in range(total):
        found = draw(rng)
        truth = (round(float(found.ratios()[0]), 1),)
        outcomes, covered = answer(made, [(found, np.ones(1))], truth, truths)
        plan = BootstrapPlan(found.n_units, made.replicates, made.seed)
        result = headline_intervals(found, np.ones(1), plan, made.level, methods=(made.interval,))[0]
        interval = result.interval(made.interval, made.level)
        assert covered == [interval.low <= truth[0] <= interval.high]
        for case, outcome in zip(truths, outcomes, strict=True):
            moved = result_at(result, case.values[0] - truth[0])
            assert decide_conjunction([moved], threshold, direction, made.level).outcome is outcome
            seen.add(outcome)
    assert len(seen) == 3


def result_at(result: ContrastResult, by: float) -> ContrastResult:
    bounds = [Interval(i.low + by, i.high + by, i.level, i.method) for i in result.intervals]
    return replace(result, estimate=result.estimate + by, intervals=tuple(bounds))


def test_bounds_lie_between_the_same_points() -> None:
    """Not the bounds themselves, but in the same gaps, for both levels; and never a side that isn't certain."""
    rng = np.random.default_rng(2)
    told = 0
    for _ in range(60):
        found = smooth(rng)
        points = sorted(rng.uniform(-0.5, 0.7, 4).tolist())
        quick = ideal_result(found, np.ones(1), "percentile", (0.95, 0.99), points)
        full = ideal_intervals(found, np.ones(1), 0.95, also_levels=(0.99,))[0]
        assert quick is not None
        for level in (0.95, 0.99):
            one, other = quick.interval("percentile", level), full.interval("percentile", level)
            for x in points:
                assert (one.low > x, one.high < x) == (other.low > x, other.high < x)
            told += one != other
    assert told > 100


def test_an_atom_at_a_point_is_never_decided_by_bracketing() -> None:
    """Where F jumps over p at the point itself the bounds are computed."""
    found = table(np.r_[np.zeros(12), np.ones(4), -np.ones(4)], np.ones(20))
    ideal = ideal_distribution(found, np.ones(1))
    bound = ideal.quantile(0.025)
    assert bounds_among(ideal, 0.1, [0.025], [bound]) is None
    assert bounds_among(ideal, 0.1, [0.025], [bound + 0.01]) is not None


def test_points_next_to_each_other_are_not_told_apart() -> None:
    """Nor is a gap that is smaller than the step beside a point."""
    ideal = ideal_distribution(smooth(np.random.default_rng(1)), np.ones(1))
    assert bounds_among(ideal, 0.1, [0.025], [0.1, 0.1 + 1e-8]) is None
    assert bounds_among(ideal, 0.1, [0.025], [0.1, 0.1 + 1e-4]) is not None
