"""A few rare units beside a common one, counted by halves; and outliers of many scales, given up in time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prereg.inference import (
    BootstrapPlan,
    Engine,
    RatioTable,
    distributions,
    halves,
    headline_intervals,
    ideal_distribution,
    ideal_intervals,
    inversion,
    replicate,
)
from prereg.inference.contrasts import prepare
from prereg.inference.discrete import enumerate_multinomial
from prereg.inference.halves import Halves

from ._support import labels, one_ratio


def zero_inflated(n: int, m: int, seed: int = 0) -> np.ndarray:
    """Return m exponential numbers and n - m zeros."""
    values = np.zeros(n)
    values[:m] = np.random.default_rng(seed).exponential(1.0, m)
    return values


@pytest.mark.parametrize(
    ("n", "m", "varied"), [(12, 3, False), (20, 5, True), (40, 5, False), (300, 4, True)]
)
def test_halves_count_what_enumeration_lists(n: int, m: int, varied: bool) -> None:
    """The distribution function, at atoms and between, is that of every resample, to 1e-12."""
    rng = np.random.default_rng(n)
    top = np.append(0.0, rng.normal(0.3, 1.0, m))
    bottom = np.append(1.0, rng.uniform(0.5, 2.0, m)) if varied else np.ones(m + 1)
    copies = np.append(n - m - 1, np.ones(m)).astype(np.int64)
    copies[1] = 2
    found, every = Halves.of(top, bottom, copies), enumerate_multinomial(top, bottom, copies)
    assert found is not None
    assert every is not None
    ratio = every.numerator / every.denominator
    points = np.quantile(ratio, np.linspace(0.02, 0.98, 9)).tolist()
    for c in (*points, 0.0, float(ratio.max())):
        excess = every.numerator - c * every.denominator
        for slack in (-1e-9, 1e-9):
            assert found.up_to(c, slack) == pytest.approx(every.probability[excess <= slack].sum(), abs=1e-12)


def test_the_case_that_took_a_minute_is_exact_and_counted_in_few_points(monkeypatch) -> None:
    """Fifty units, 42 of them 0: no inversion, some 50 points a quantile, and 40,000 resamples agree."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        values = np.where(rng.random(50) < 0.8, 0.0, rng.exponential(1.0, 50))
    assert (values == 0.0).sum() == 42
    points: list[float] = []
    whole = Halves.up_to

    def counted(self: Halves, c: float, slack: float) -> float:
        points.append(c)
        return whole(self, c, slack)

    monkeypatch.setattr(Halves, "up_to", counted)
    monkeypatch.setattr(inversion, "_MOST_INVERSIONS", 0)
    table = one_ratio(values, np.ones(50))
    found = ideal_intervals(table, [1.0])[0]
    assert found.usable
    assert found.probability_error == 1e-12
    assert len(points) <= 4 * 60
    ideal = ideal_distribution(table, [1.0])
    draws = replicate(table, [1.0], BootstrapPlan(50, 40_000, 3), standard_errors=False)[0].values
    for p in (0.02, 0.1, 0.5, 0.9, 0.98):
        c = ideal.quantile(p)
        slack = 4.5 * math.sqrt(p * (1 - p) / 40_000)
        assert float((draws <= c + 1e-12).mean()) >= p - slack
        assert float((draws < c - 1e-12).mean()) <= p + slack
        assert ideal.cdf(c) >= p > ideal.cdf(c) - ideal.mass(c)


def test_the_quantile_is_the_atom_that_enumeration_finds(monkeypatch) -> None:
    """With enumeration forbidden the same data give the same intervals to 1e-14, ties and exact levels included."""
    values = zero_inflated(40, 6)
    values[6:20] = values[0]
    values[20:23] = 1 / 3
    table = one_ratio(values, np.where(values > 1.0, 2.0, 1.0))
    listed = ideal_intervals(table, [1.0], also_levels=[0.8])[0]
    monkeypatch.setattr(distributions, "enumerate_multinomial", lambda *_: None)
    monkeypatch.setattr(distributions, "lattice_distribution", lambda *_: None)
    counted = ideal_intervals(table, [1.0], also_levels=[0.8])[0]
    assert [b for i in counted.intervals for b in (i.low, i.high)] == pytest.approx(
        [b for i in listed.intervals for b in (i.low, i.high)], abs=1e-14
    )
    even = one_ratio([0.0, 0.0, 1.0, math.e], np.ones(4))
    assert [ideal_distribution(even, [1.0]).quantile(p) for p in (1 / 16, 0.07)] == pytest.approx([0.0, 0.25])


def test_too_many_states_or_an_empty_denominator_are_left_to_inversion(monkeypatch) -> None:
    """Halves that would be large, two kinds, and units that are silent aren't counted."""
    ones = np.ones(12)
    assert Halves.of(np.arange(12.0), ones, np.full(12, 50, dtype=np.int64)) is None
    assert Halves.of(np.arange(2.0), np.ones(2), np.array([5, 5])) is None
    assert Halves.of(np.arange(3.0), np.array([1.0, 0.0, 1.0]), np.array([5, 5, 5])) is None
    monkeypatch.setattr(halves, "_MOST_CELLS", 10)
    assert Halves.of(np.arange(3.0), np.ones(3), np.array([5, 5, 5])) is None


def scales(n: int) -> RatioTable:
    """Return n units, each three times the one before: every subset has a sum of its own."""
    return RatioTable.of_means(labels(n), 3.0 ** np.arange(n))


def test_outliers_of_many_scales_are_given_up_after_a_bounded_number_of_cases(monkeypatch) -> None:
    """The ideal interval is unbounded and says that it is no answer; the headline is the plan's."""
    work: list[inversion._Work] = []
    plain = inversion._Work

    def remembered() -> inversion._Work:
        work.append(plain())
        return work[-1]

    monkeypatch.setattr(inversion, "_Work", remembered)
    monkeypatch.setattr(inversion, "_MOST_CASES", 300)
    found = ideal_intervals(scales(40), [1.0])[0]
    assert len(work) == 1
    assert work[0].cases == 301
    assert (found.probability_error, found.usable) == (1.0, False)
    assert {(i.low, i.high) for i in found.intervals} == {(-math.inf, math.inf)}
    headline = headline_intervals(scales(40), [1.0], BootstrapPlan(40, 199, 1))[0]
    assert (headline.engine, headline.probability_error) == (Engine.PLAN, 0.0)


def test_a_point_given_up_in_a_tail_spoils_that_bound_and_says_so(monkeypatch) -> None:
    """The centre is known, the far end isn't: an infinite bound, and error 1 for the whole result."""
    table = one_ratio(np.random.default_rng(0).normal(size=60), np.ones(60))
    contrast = prepare(table, [1.0])[0]
    smooth = distributions.resampling_distribution(contrast)
    assert smooth.error < 1e-3
    monkeypatch.setattr(inversion, "_MOST_INVERSIONS", 0)
    assert smooth.quantile(0.02) == -math.inf
    assert smooth.error == 1.0
    assert smooth.quantile(0.98) == math.inf
