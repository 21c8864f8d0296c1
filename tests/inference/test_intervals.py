"""Interval methods, recomputed by arch and scipy from the same draws."""

from __future__ import annotations

import math
import tracemalloc
import warnings

import numpy as np
import pytest
from arch.bootstrap import IIDBootstrap
from scipy import stats

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    ExplicitPlan,
    Method,
    RatioTable,
    bonferroni_level,
    intervals,
    intervals_many,
    replicate,
)
from prereg.inference import replicates as engine
from prereg.inference.contrasts import prepare
from prereg.inference.formulas import (
    acceleration,
    bca_bounds,
    bias_correction,
    expanded_tail,
    pivots_of,
    type7_quantile,
)
from prereg.inference.records import Interval

from ._support import labels, one_ratio, random_ratio

PLAN = BootstrapPlan(40, 999, 11)


class Replay(IIDBootstrap):
    """arch's bootstrap with our draws."""

    rows = np.vstack(list(PLAN.indices()))

    def update_indices(self):
        self._place = getattr(self, "_place", -1) + 1
        return self.rows[self._place]


def ratio(d, t):
    return d.sum() / t.sum()


def delta_se(params, d, t):
    return np.sqrt(((d - params * t) ** 2).sum()) / t.sum()


def in_our_units(table, weights, bounds):
    """Undo arch's scale, the replicates' standard deviation, where ours is the delta-method error."""
    draws = replicate(table, weights, PLAN)[0]
    scale = np.sqrt(((draws.values - draws.values.mean()) ** 2).mean())
    return draws.estimate + (bounds - draws.estimate) / scale * draws.standard_error


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("percentile", "percentile"),
        ("basic", "basic"),
        ("bca", "bca"),
        ("studentized", "studentized"),
    ],
)
def test_intervals_agree_with_arch_on_the_same_draws(seed: int, ours: str, theirs: str) -> None:
    """Four methods, one scalar ratio, identical indices: equal to 1e-12."""
    table = random_ratio(40, seed)
    d, t = table.numerator[:, 0], table.denominator[:, 0]
    extra = {"std_err_func": delta_se} if theirs == "studentized" else {}
    expected = Replay(d, t).conf_int(ratio, reps=999, method=theirs, size=0.9, **extra).ravel()
    if theirs == "studentized":
        expected = in_our_units(table, [1.0], expected)
    found = intervals(table, [1.0], PLAN, 0.9)[0].interval(ours, 0.9)
    assert [found.low, found.high] == pytest.approx(expected.tolist(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca", "studentized"])
def test_a_mean_of_several_ratios_agrees_with_arch(method: str) -> None:
    """A contrast over eight denominators (beyond the product engine) is the same scalar to arch."""
    rng = np.random.default_rng(4)
    table = RatioTable.from_rows(labels(40), rng.normal(0.2, 1, (40, 8)), rng.exponential(1, (40, 8)))
    weights = np.linspace(-1, 1, 8)

    def contrast(d, t):
        return float((weights * d.sum(axis=0) / t.sum(axis=0)).sum())

    def error(params, d, t):
        r = d.sum(axis=0) / t.sum(axis=0)
        return np.sqrt(((((d - r * t) / t.sum(axis=0)) @ weights) ** 2).sum())

    extra = {"std_err_func": error} if method == "studentized" else {}
    boot = Replay(table.numerator, table.denominator)
    expected = boot.conf_int(contrast, reps=999, method=method, **extra).ravel()
    if method == "studentized":
        expected = in_our_units(table, weights, expected)
    found = intervals(table, weights, PLAN)[0].interval(method, 0.95)
    assert [found.low, found.high] == pytest.approx(expected.tolist(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("method", ["percentile", "basic", "BCa"])
def test_the_limits_agree_with_scipy(method: str) -> None:
    """scipy, on draws of its own, gives the same interval within Monte Carlo error."""
    table = random_ratio(40, 5)
    data = (table.numerator[:, 0], table.denominator[:, 0])
    theirs = stats.bootstrap(
        data,
        lambda d, t, axis: d.sum(axis=axis) / t.sum(axis=axis),
        paired=True,
        n_resamples=8000,
        batch=500,
        method=method,
        rng=np.random.default_rng(0),
    ).confidence_interval
    ours = intervals(table, [1.0], BootstrapPlan(40, 8000, 1))[0].interval(method.lower(), 0.95)
    se = prepare(table, [1.0])[0].standard_error()
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.12 * se)


def test_acceleration_is_per_contrast_not_averaged_over_them() -> None:
    """BCa of a contrast is the same alone and beside others."""
    rng = np.random.default_rng(6)
    table = RatioTable.from_rows(labels(40), rng.exponential(1, (40, 2)) ** 3, np.ones((40, 2)))
    both = intervals(table, np.eye(2), PLAN)
    for k in range(2):
        alone = intervals(table, np.eye(2)[k], PLAN)[0]
        assert both[k].interval("bca", 0.95) == alone.interval("bca", 0.95)


def test_expanded_is_the_percentile_at_a_wider_level() -> None:
    """The tail is Phi(-sqrt(n/(n-1)) t), from scipy's own distributions."""
    t = stats.t.ppf(0.975, 39)
    assert expanded_tail(0.95, 40) == pytest.approx(stats.norm.cdf(-math.sqrt(40 / 39) * t))
    table = random_ratio(40, 7)
    values = replicate(table, [1.0], PLAN)[0].values
    found = intervals(table, [1.0], PLAN)[0].interval("expanded_percentile", 0.95)
    tail = expanded_tail(0.95, 40)
    assert [found.low, found.high] == pytest.approx(np.quantile(values, [tail, 1 - tail]).tolist())


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_both_ways_to_the_standard_error_agree(monkeypatch, groups: int) -> None:
    """Summing products of columns and forming the influences give the same errors to 1e-10."""
    rng = np.random.default_rng(8)
    table = RatioTable.from_rows(
        labels(40), rng.normal(0.2, 1, (40, groups)), rng.exponential(1, (40, groups))
    )
    weights = np.ones(groups) / groups
    products = replicate(table, weights, PLAN)[0].standard_errors
    monkeypatch.setattr(engine, "_PRODUCT_GROUPS", 0)
    direct = replicate(table, weights, PLAN)[0].standard_errors
    assert products == pytest.approx(direct, rel=1e-10)


@pytest.mark.parametrize("limit", [0, 6])
def test_constant_resamples_have_exactly_no_error(monkeypatch, limit: int) -> None:
    """Drawing one unit n times leaves a standard error of exactly 0 on both ways."""
    monkeypatch.setattr(engine, "_PRODUCT_GROUPS", limit)
    table = random_ratio(12, 9)
    plan = ExplicitPlan(12, np.repeat(np.arange(12), 12).reshape(12, 12))
    assert (replicate(table, [1.0], plan)[0].standard_errors == 0.0).all()


def test_infinite_pivots_stay_in_the_sort_and_never_become_nan() -> None:
    """Where all resamples are constant, the studentized interval is unbounded on both sides."""
    table = random_ratio(12, 10)
    plan = ExplicitPlan(12, np.repeat(np.arange(12), 12).reshape(12, 12))
    found = intervals(table, [1.0], plan, methods=["studentized"])[0].intervals[0]
    assert (found.low, found.high) == (-math.inf, math.inf)


def test_a_constant_resample_at_the_estimate_has_pivot_zero() -> None:
    """0/0 is 0: neither for nor against."""
    table = one_ratio([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    plan = ExplicitPlan(3, np.array([[1, 1, 1]] * 5))
    found = intervals(table, [1.0], ExplicitPlan(3, np.vstack([plan.matrix, [[0, 1, 2], [0, 0, 2]]])), 0.51)[
        0
    ]
    assert found.interval("studentized", 0.51).low <= 2.0 <= found.interval("studentized", 0.51).high
    assert all(math.isfinite(i.low) and math.isfinite(i.high) for i in found.intervals)


@pytest.mark.parametrize(
    ("values", "p", "expected"),
    [
        ([1.0, 2.0, math.inf], 0.75, math.inf),
        ([-math.inf, 1.0, 2.0], 0.25, -math.inf),
        ([-math.inf, math.inf], 0.25, -math.inf),
        ([-math.inf, math.inf], 0.75, math.inf),
        ([math.inf, math.inf], 0.5, math.inf),
        ([1.0, 2.0, math.inf], 0.5, 2.0),
        ([3.0], 0.3, 3.0),
        ([1.0, 2.0], 1.0, 2.0),
    ],
)
def test_quantiles_between_infinities_are_never_nan(values, p: float, expected: float) -> None:
    """An infinite neighbour makes the bound infinite."""
    assert type7_quantile(np.array(values), p) == expected


def test_quantiles_are_numpys() -> None:
    """On finite values the quantile is numpy's default."""
    values = np.sort(np.random.default_rng(0).normal(size=101))
    for p in np.linspace(0, 1, 41):
        assert type7_quantile(values, float(p)) == pytest.approx(float(np.quantile(values, p)))


def test_bias_correction_counts_ties_as_half() -> None:
    """One below, two equal within rounding, one above: no bias."""
    values = np.array([0.0, 1.0 - 1e-14, 1.0 + 1e-14, 2.0])
    assert bias_correction(values, 1.0) == 0.0


def test_bca_is_unbounded_where_it_has_no_answer() -> None:
    """All replicates on one side, or no acceleration: no finite interval is claimed."""
    values = np.arange(10.0)
    assert bca_bounds(values, math.inf, 0.0, 0.025) == (-math.inf, math.inf)
    assert bca_bounds(values, 0.0, None, 0.025) == (-math.inf, math.inf)


def test_bca_past_its_pole_takes_the_far_end() -> None:
    """A huge acceleration does not turn the upper bound round to the low side."""
    low, high = bca_bounds(np.arange(100.0), 0.0, 0.9, 0.025)
    assert high == 99.0
    assert low <= high


def test_no_pull_on_the_estimate_is_no_acceleration() -> None:
    """Where every unit pulls alike, or none does, the acceleration is 0 rather than 0/0."""
    assert acceleration(prepare(one_ratio(np.ones(12), np.ones(12)), [1.0])[0]) == 0.0
    even = prepare(one_ratio([1.0, -1.0] * 6, np.ones(12)), [1.0])[0]
    assert acceleration(even) == pytest.approx(0.0, abs=1e-15)


def test_pivots_need_the_errors_of_the_resamples() -> None:
    """Replicates drawn without standard errors can't be studentized."""
    bare = replicate(random_ratio(40), [1.0], PLAN, standard_errors=False)[0]
    with pytest.raises(InferenceError, match="standard error of each resample"):
        pivots_of(bare, 1.0)


def test_one_plan_serves_many_tables_with_the_same_numbers() -> None:
    """Sharing a pass changes no bit of any table's result."""
    tables = [random_ratio(40, seed) for seed in range(4)]
    shared = intervals_many([(table, [1.0]) for table in tables], PLAN)
    assert [group[0] for group in shared] == [intervals(t, [1.0], PLAN)[0] for t in tables]


def test_further_levels_come_from_the_same_replicates() -> None:
    """Asking for two levels at once gives what each alone gives, nested."""
    table = random_ratio(40, 1)
    wide = bonferroni_level(0.95, 5)
    both = intervals(table, [1.0], PLAN, 0.95, also_levels=[wide])[0]
    for method in Method:
        narrow, wider = both.interval(method, 0.95), both.interval(method, wide)
        alone = intervals(table, [1.0], PLAN, wide)[0].interval(method, wide)
        assert wider == alone
        assert wider.low <= narrow.low <= narrow.high <= wider.high
    assert set(both.at(wide)) == set(Method)


def test_an_interval_that_was_not_computed_is_an_error() -> None:
    """No other level or method is handed out in its place."""
    found = intervals(random_ratio(40), [1.0], PLAN, methods=["basic"])[0]
    for method, level in (("basic", 0.9), ("bca", 0.95), ("nonsense", 0.95)):
        with pytest.raises(InferenceError, match=r"no .* interval at level"):
            found.interval(method, level)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 0.05}, "above 0.5"),
        ({"level": 95}, "strictly between"),
        ({"level": float("nan")}, "strictly between"),
        ({"level": True}, "strictly between"),
        ({"also_levels": [0.2]}, "above 0.5"),
        ({"methods": ["percentil"]}, "unknown name"),
        ({"methods": []}, "sequence of method names"),
        ({"methods": "basic"}, "sequence of method names"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, words: str) -> None:
    """An error rate given as a level, and an unknown method, are errors."""
    with pytest.raises(InferenceError, match=words):
        intervals(random_ratio(40), [1.0], PLAN, **options)


def test_no_tables_are_an_error() -> None:
    """An empty request has no answer."""
    with pytest.raises(InferenceError, match="no contrasts"):
        intervals_many([], PLAN)


def test_undefined_resamples_are_counted_and_spoil_the_result() -> None:
    """With denominators in two units of twelve, some resamples hold neither."""
    table = one_ratio(np.arange(12.0), [1.0, 1.0] + [0.0] * 10)
    found = intervals(table, [1.0], BootstrapPlan(12, 2000, 0))[0]
    # (10/12)**12 = 0.112
    assert found.undefined_share == pytest.approx((10 / 12) ** 12, abs=0.03)
    assert not found.usable
    assert all(not math.isnan(i.low) for i in found.intervals)


def test_only_undefined_resamples_are_an_error() -> None:
    """No replicate, no interval."""
    table = one_ratio([1.0, 2.0, 3.0], [0.0, 0.0, 1.0])
    with pytest.raises(InferenceError, match="zero denominator"):
        intervals(table, [1.0], ExplicitPlan(3, np.zeros((4, 3), dtype=np.int64)))


def test_one_unit_that_carries_the_result_is_reported() -> None:
    """The largest share of influence is that of the outlier."""
    values = np.zeros(20)
    values[0] = 100.0
    found = intervals(one_ratio(values, np.ones(20)), [1.0], BootstrapPlan(20, 64, 0))[0]
    assert found.largest_influence == pytest.approx((19 / 20) ** 2 / (19 / 20))
    even = intervals(one_ratio([1.0, -1.0] * 10, np.ones(20)), [1.0], BootstrapPlan(20, 64, 0))[0]
    assert even.largest_influence == pytest.approx(1 / 20)


def test_scaling_the_data_scales_the_interval() -> None:
    """Units of measurement don't matter, even extreme ones.

    BCa is left out: its frozen convention takes replicates within 1e-12 of the estimate as ties.
    """
    table = random_ratio(40, 3)
    scaled = RatioTable(table.units, table.numerator * 2.0**-60, table.denominator * 2.0**200, 40)
    methods = [m for m in Method if m is not Method.BCA]
    first, second = (intervals(t, [1.0], PLAN, methods=methods)[0] for t in (table, scaled))
    for a, b in zip(first.intervals, second.intervals, strict=True):
        assert b.low * 2.0**260 == pytest.approx(a.low, rel=1e-12)
        assert b.high * 2.0**260 == pytest.approx(a.high, rel=1e-12)


def test_draws_that_never_differ_are_flagged() -> None:
    """A plan that repeats the sample itself shows no spread, whatever the data."""
    plan = ExplicitPlan(12, np.tile(np.arange(12), (5, 1)))
    assert intervals(random_ratio(12), [1.0], plan)[0].degenerate


def test_an_interval_out_of_order_can_not_be_made() -> None:
    """Swapped bounds and nan bounds are refused at construction."""
    for low, high in ((2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(InferenceError, match="out of order"):
            Interval(low, high, 0.95, Method.BASIC)


def test_nothing_warns_on_constant_data() -> None:
    """All equal data are a point without a single numpy warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = intervals(one_ratio(np.zeros(12), np.ones(12)), [1.0], BootstrapPlan(12, 100, 0))[0]
    assert found.degenerate
    assert {(i.low, i.high) for i in found.intervals} == {(0.0, 0.0)}


def test_memory_grows_by_few_copies_of_the_table() -> None:
    """300,000 units, six methods: 75 MB at most beyond the table, where the limbs alone are 24."""
    n = 300_000
    rng = np.random.default_rng(1)
    names = tuple(f"u{i:06d}" for i in range(n))
    table = RatioTable(names, rng.normal(0.1, 1.0, n), rng.exponential(1.0, n), n)
    plan = BootstrapPlan(n, 2, 1)
    tracemalloc.start()
    try:
        intervals(table, [1.0], plan)
        assert tracemalloc.get_traced_memory()[1] <= 75e6
    finally:
        tracemalloc.stop()
