"""Simulated coverage: the intervals hold what they promise, and rows taken as units don't."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prereg.inference import BootstrapPlan, RatioTable, ideal_intervals, intervals

from ._support import labels, one_ratio

TRIALS = 400


def binomial_floor(level: float, trials: int = TRIALS) -> float:
    """Return the coverage that a method of this level misses with probability below 1e-4."""
    return level - 3.8 * math.sqrt(level * (1 - level) / trials)


def test_the_ideal_expanded_interval_covers_a_ratio() -> None:
    """400 samples of 50 units, true ratio 0.2: coverage of a 90% interval is 90% within binomial error."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(TRIALS):
        t = rng.gamma(4.0, 0.25, 50)
        d = 0.2 * t + rng.normal(0, 1, 50) * np.sqrt(t)
        found = ideal_intervals(one_ratio(d, t), [1.0], 0.9)[0]
        interval = found.interval("expanded_percentile", 0.9)
        hits += interval.low < 0.2 < interval.high
    assert binomial_floor(0.9) < hits / TRIALS < 0.9 + 3.8 * math.sqrt(0.09 / TRIALS)


@pytest.mark.parametrize("method", ["expanded_percentile", "studentized", "delta_t"])
def test_the_plan_covers_a_mean_of_two_ratios(method: str) -> None:
    """The frozen interval and its two companions on a two-ratio contrast of 40 units."""
    rng = np.random.default_rng(2)
    hits = 0
    for trial in range(TRIALS):
        t = rng.gamma(4.0, 0.25, (40, 2))
        d = np.array([0.1, 0.3]) * t + rng.normal(0, 1, (40, 2)) * np.sqrt(t)
        table = RatioTable.from_rows(labels(40), d, t)
        plan = BootstrapPlan(40, 199, trial)
        interval = intervals(table, [0.5, 0.5], plan, 0.9, methods=[method])[0].intervals[0]
        hits += interval.low < 0.2 < interval.high
    # 199 replicates cost about a point of coverage.
    assert hits / TRIALS > binomial_floor(0.89)


def test_rows_taken_as_units_cover_far_too_seldom() -> None:
    """30 subjects of 10 prompts, half the variance between subjects: rows as units cover below 75%."""
    rng = np.random.default_rng(3)
    trials, wrong, right = 200, 0, 0
    subject = [f"s{i // 10:02d}" for i in range(300)]
    for _ in range(trials):
        values = np.repeat(rng.normal(0, 1, 30), 10) + rng.normal(0, 1, 300)
        by_row = ideal_intervals(one_ratio(values, np.ones(300)), [1.0], 0.9)[0]
        by_subject = ideal_intervals(RatioTable.of_means(subject, values), [1.0], 0.9)[0]
        for found, add in ((by_row, 1), (by_subject, 0)):
            interval = found.interval("expanded_percentile", 0.9)
            hit = interval.low < 0.0 < interval.high
            wrong, right = wrong + add * hit, right + (1 - add) * hit
    assert wrong / trials < 0.75
    assert right / trials > binomial_floor(0.9, trials)
