"""Intervals from case weights: the engine of ratios, exact enumeration, arch, refusals, and simulated coverage."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from arch.bootstrap import IIDBootstrap
from scipy import stats

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    Method,
    Outcome,
    RatioTable,
    WeightPlan,
    auroc,
    auroc_gap,
    available_methods,
    blocks,
    bonferroni_level,
    cautions,
    clusters,
    crossed,
    custom_statistic,
    decide_conjunction,
    depth_spearman,
    group_mean_difference,
    iid,
    intervals,
    kendall,
    mean,
    mean_of_ratios,
    nested,
    optimal_block_length,
    r2_gap,
    ratio_of_sums,
    slope,
    spearman,
    weighted_intervals,
    weighted_intervals_many,
)
from prereg.inference.jackknife import acceleration, jackknife, resampled_standard_errors

from ._support import CASES, every_resample, labels

ALL = tuple(Method)


def bounds(result, level=0.95):
    return {str(i.method): (i.low, i.high) for i in result.intervals if abs(i.level - level) < 1e-12}


def assert_same(found, expected, level=0.95) -> None:
    """Compare every number of two results to 1e-12."""
    for name in ("estimate", "standard_error", "largest_influence", "undefined_share"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12, abs=1e-15), name
    assert (found.n_units, found.n_replicates, found.degenerate) == (
        expected.n_units,
        expected.n_replicates,
        expected.degenerate,
    )
    ours, theirs = bounds(found, level), bounds(expected, level)
    assert ours.keys() == theirs.keys()
    for name, pair in ours.items():
        assert pair == pytest.approx(theirs[name], rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ratios_agree_with_the_engine_of_ratios(seed: int) -> None:
    """All six methods of a ratio of sums and of a mean of ratios, from the same draws, equal to 1e-12."""
    rng = np.random.default_rng(seed)
    top, bottom = rng.normal(0.1, 1, (40, 3)), rng.exponential(1, (40, 3))
    table, plan = RatioTable.from_rows(labels(40), top, bottom), BootstrapPlan(40, 499, seed)
    pairs = (
        (ratio_of_sums(top[:, 0], bottom[:, 0]), [1.0, 0.0, 0.0]),
        (mean_of_ratios(top, bottom), [1 / 3] * 3),
        (mean_of_ratios(top, bottom, [1.0, -2.0, 0.5]), [1.0, -2.0, 0.5]),
    )
    for statistic, weights in pairs:
        expected = intervals(table, weights, plan)[0]
        assert_same(weighted_intervals(statistic, plan, methods=ALL), expected)
        assert_same(weighted_intervals(statistic, WeightPlan(iid(40), 499, seed), methods=ALL), expected)


def test_clusters_agree_with_sums_per_cluster() -> None:
    """Rows weighted by their cluster's count are the engine's sums per unit, in all six methods."""
    rng = np.random.default_rng(3)
    subject = [f"s{k:02d}" for k in rng.integers(0, 15, 80)]
    top, bottom = rng.normal(0.2, 1, 80), rng.exponential(1, 80)
    table = RatioTable.from_rows(subject, top, bottom)
    expected = intervals(table, [1.0], BootstrapPlan(table.n_units, 499, 7))[0]
    found = weighted_intervals(ratio_of_sums(top, bottom), WeightPlan(clusters(subject), 499, 7), methods=ALL)
    assert_same(found, expected)
    assert (found.n_units, found.n_rows) == (15, 80)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca", "studentized", "expanded_percentile"])
def test_the_enumerated_gap_of_r2_is_exact(method: str) -> None:
    """All 256 resamples of four units give the intervals of exact rational arithmetic."""
    case = CASES["r2gap_enumerated_n4"]
    given, expected = case["inputs"], case["expected"]
    theta = r2_gap(given["sse_a"], given["sse_b"], given["sst"])
    found = weighted_intervals(theta, every_resample(4), 1.0 - given["alpha"], methods=[method])
    assert found.estimate == pytest.approx(expected["theta"], rel=1e-12)
    assert bounds(found, 0.9)[method] == pytest.approx(expected[method], rel=1e-12, abs=1e-12)


def test_the_delta_t_interval_of_a_mean_is_students() -> None:
    """For iid cases it is the textbook interval."""
    x = np.random.default_rng(0).normal(size=17)
    found = weighted_intervals(mean(x), WeightPlan(iid(17), 9, 0), methods=["delta_t"])
    expected = stats.t.interval(0.95, 16, x.mean(), stats.sem(x))
    assert bounds(found)["delta_t"] == pytest.approx(expected, rel=1e-10)


PLAN = BootstrapPlan(25, 499, 11)


class Replay(IIDBootstrap):
    """arch's bootstrap with our draws."""

    rows = np.vstack(list(PLAN.indices()))

    def update_indices(self):
        self._place = getattr(self, "_place", -1) + 1
        return self.rows[self._place]


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_rank_correlations_have_archs_intervals(method: str) -> None:
    """Spearman's rho and tau-b of scipy, resampled by arch with the same indices: equal to 1e-10."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=25)
    y = x + rng.normal(size=25)
    for statistic, definition in ((spearman(x, y), stats.spearmanr), (kendall(x, y), stats.kendalltau)):
        expected = Replay(x, y).conf_int(
            lambda a, b, f=definition: f(a, b).statistic, reps=499, method=method, size=0.9
        )
        found = weighted_intervals(statistic, PLAN, 0.9, methods=[method])
        assert bounds(found, 0.9)[method] == pytest.approx(expected.ravel().tolist(), abs=1e-10)


def test_several_statistics_share_one_plan() -> None:
    """Each result is the one that the statistic has alone."""
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(2, 30))
    plan = WeightPlan(iid(30), 199, 1)
    statistics = [mean(x), spearman(x, y), slope(x, y)]
    for together, statistic in zip(weighted_intervals_many(statistics, plan), statistics, strict=True):
        assert together == weighted_intervals(statistic, plan)


def test_the_acceleration_of_a_crossed_design_pools_both_sides() -> None:
    """Leaving out each row and each column in turn, by hand."""
    rng = np.random.default_rng(7)
    table = rng.exponential(size=(5, 4)) ** 2
    design = crossed(
        [f"r{i}" for i in range(5) for _ in range(4)], [f"c{j}" for _ in range(5) for j in range(4)]
    )
    theta = mean(table.ravel())
    by_row = np.array([np.delete(table, i, axis=0).mean() for i in range(5)])
    by_column = np.array([np.delete(table, j, axis=1).mean() for j in range(4)])
    found = jackknife(theta, design)
    assert found[0] == pytest.approx(by_row, rel=1e-12)
    assert found[1] == pytest.approx(by_column, rel=1e-12)
    u = np.concatenate([v.mean() - v for v in (by_row, by_column)])
    assert acceleration(found) == pytest.approx((u**3).sum() / (6 * (u**2).sum() ** 1.5), rel=1e-10)


def test_results_go_into_a_verdict() -> None:
    """A conjunction of two gaps of AUROC over 40 subjects, at two levels."""
    rng = np.random.default_rng(8)
    subject = [f"s{i // 4:02d}" for i in range(160)]
    hit = np.arange(160) % 2
    good, bad, worse = (s * hit + rng.normal(size=160) for s in (2.5, 0.3, 0.0))
    wide = bonferroni_level(0.95, 2)
    plan = WeightPlan(clusters(subject), 999, 1)
    gaps = [auroc_gap(good, other, hit) for other in (bad, worse)]
    results = weighted_intervals_many(gaps, plan, also_levels=[wide])
    assert decide_conjunction(results, 0.1, "greater").outcome is Outcome.SUPPORTED
    assert decide_conjunction(results, 0.9, "greater").outcome is Outcome.REFUTED
    few = weighted_intervals(mean(np.arange(18.0)), WeightPlan(clusters(labels(9) * 2), 199, 1))
    assert decide_conjunction([few], -5.0, "greater").outcome is Outcome.INCONCLUSIVE


def test_undefined_resamples_are_left_out_counted_and_invalid() -> None:
    """Three of twelve cases are in the group: a resample without any has no difference."""
    member = np.arange(12) < 3
    theta = group_mean_difference(np.arange(12.0) ** 2, member)
    found = weighted_intervals(theta, WeightPlan(iid(12), 4000, 1))
    p = 0.75**12
    assert found.undefined_share == pytest.approx(p, abs=5 * math.sqrt(p / 4000))
    assert all(math.isfinite(i.low) and math.isfinite(i.high) for i in found.intervals)
    assert decide_conjunction([found], -200.0, "greater").outcome is Outcome.INVALID
    assert any("undefined" in line for line in cautions(found, -200.0, "greater"))


def test_an_infinite_replicate_is_undefined_too() -> None:
    """A custom logarithm of a share that may be 0."""
    x = np.repeat([0.0, 1.0], [10, 2])
    with np.errstate(divide="ignore"):
        theta = custom_statistic(lambda w: np.log((w * x).sum(axis=1) / w.sum(axis=1)), 12)
        found = weighted_intervals(theta, WeightPlan(iid(12), 999, 1), methods=["percentile", "bca"])
    assert found.undefined_share > 0.05
    assert found.usable is False


def test_an_undefined_jackknife_leaves_bca_unbounded() -> None:
    """Without its one member the group has no mean: BCa can't be bounded, and decides nothing."""
    theta = group_mean_difference(np.arange(12.0) ** 2, np.arange(12) < 1)
    found = weighted_intervals(theta, WeightPlan(iid(12), 999, 1), methods=["bca", "percentile"])
    assert bounds(found)["bca"] == (-math.inf, math.inf)


@pytest.mark.parametrize(
    "statistic",
    [
        mean([3.0] * 12),
        auroc(np.arange(12.0), np.arange(12) > 5),
        spearman(np.arange(12.0), np.arange(12.0)),
        depth_spearman(range(3), np.arange(12.0)[:, None] + np.array([0.0, 20.0, 40.0])),
        custom_statistic(lambda w: np.full(len(w), 2.0), 12),
    ],
    ids=["mean", "auroc", "spearman", "depth_spearman", "custom"],
)
def test_what_does_not_vary_is_a_flagged_point(statistic) -> None:
    """A constant, a perfect separation, a perfect order: no interval, and no verdict."""
    plan = WeightPlan(iid(12), 64, 3)
    if statistic.smooth and statistic.influence(np.ones(12)) is not None and statistic.scale == 1.0:
        # The separation is perfect in each resample that holds both classes.
        assert (statistic.evaluate(next(plan.weights())) == 1.0).all()
    found = weighted_intervals(statistic, plan)
    assert found.degenerate is True
    assert found.standard_error == 0.0
    assert {(i.low, i.high) for i in found.intervals} == {(found.estimate, found.estimate)}
    assert decide_conjunction([found], -9.0, "greater").outcome is Outcome.INVALID


def test_a_median_has_percentiles_only() -> None:
    """A statistic without a derivative: delta-t, BCa and studentized are refused with the reason."""
    x = np.sort(np.random.default_rng(9).normal(size=31))

    def median(w):
        return x[(np.cumsum(w, axis=1) >= 0.5 * w.sum(axis=1, keepdims=True)).argmax(axis=1)]

    plan = WeightPlan(iid(31), 999, 1)
    rough = custom_statistic(median, 31, smooth=False)
    found = weighted_intervals(rough, plan)
    assert [i.method for i in found.intervals] == [Method.EXPANDED_PERCENTILE]
    replicates = np.concatenate([rough.evaluate(weights) for weights in plan.weights()])
    assert found.standard_error == pytest.approx(replicates.std(), rel=1e-12)
    assert 0.0 < found.largest_influence < 0.2
    for method in ("delta_t", "bca", "studentized"):
        with pytest.raises(
            InferenceError, match=f"no {method} interval here: the statistic has no derivative"
        ):
            weighted_intervals(rough, plan, methods=[method])
    with pytest.raises(InferenceError, match="smooth=False"):
        weighted_intervals(custom_statistic(median, 31), plan)


def test_studentized_is_refused_where_it_has_no_formula() -> None:
    """Crossed, nested and block designs, and statistics without a closed influence, say why."""
    x, y = np.random.default_rng(1).normal(size=(2, 12))
    rows, columns = [f"r{i // 3}" for i in range(12)], [f"c{i % 3}" for i in range(12)]
    for design, words in (
        (crossed(rows, columns), "repeats cells"),
        (nested(rows, columns), "different inner units"),
        (blocks(range(12), 2), "which blocks"),
    ):
        with pytest.raises(InferenceError, match=words):
            weighted_intervals(mean(x), WeightPlan(design, 9, 1), methods=["studentized"])
        methods = [i.method for i in weighted_intervals(mean(x), WeightPlan(design, 99, 1)).intervals]
        assert methods == [Method.EXPANDED_PERCENTILE, Method.DELTA_T]
    with pytest.raises(InferenceError, match="no closed form"):
        weighted_intervals(spearman(x, y), WeightPlan(iid(12), 9, 1), methods=["studentized"])
    assert set(available_methods(mean(x), iid(12)).values()) == {None}


def test_a_resample_of_one_unit_has_no_standard_error() -> None:
    """Exactly 0, not what rounding leaves, for a ratio, a mean over updates, and a slope on a line."""
    rng = np.random.default_rng(3)
    top, bottom = rng.normal(size=(30, 3)), rng.exponential(size=(30, 3))
    one_unit = 30.0 * np.eye(30)
    for theta in (ratio_of_sums(top[:, 0], bottom[:, 0]), mean_of_ratios(top, bottom)):
        assert (resampled_standard_errors(theta, iid(30), one_unit, theta.scale) == 0.0).all()
    x = rng.normal(size=30)
    line = slope(x, np.where(np.arange(30) < 20, 0.3 * x + 0.1, top[:, 0]))
    on_it = rng.multinomial(30, np.where(np.arange(30) < 20, 0.05, 0.0), size=50).astype(float)
    assert (resampled_standard_errors(line, iid(30), on_it, line.scale) == 0.0).all()
    assert (resampled_standard_errors(line, iid(30), np.ones((1, 30)), line.scale) > 0.0).all()


def test_a_statistic_that_moves_with_the_size_of_weights_has_its_influence_centred() -> None:
    """A weighted total: resampling holds the number of draws fixed, so its error is that of n times the mean."""
    x = np.random.default_rng(2).normal(5.0, 1.0, 20)
    total = custom_statistic(lambda w: (w * x).sum(axis=1), 20)
    plan = WeightPlan(iid(20), 99, 1)
    expected = 20 * weighted_intervals(mean(x), plan).standard_error
    assert weighted_intervals(total, plan).standard_error == pytest.approx(expected, rel=1e-9)


def test_one_heavy_unit_and_disagreeing_methods_are_told() -> None:
    """Over 10% of the variance in one unit, and methods on both sides of the threshold."""
    heavy = np.concatenate([np.linspace(-1, 1, 29), [25.0]])
    found = weighted_intervals(mean(heavy), WeightPlan(iid(30), 999, 1), methods=ALL)
    assert found.largest_influence > 0.9
    lows = {name: low for name, (low, _) in bounds(found).items()}
    between = 0.5 * (lows["expanded_percentile"] + lows["delta_t"])
    lines = cautions(found, between, "greater")
    assert lines[0].startswith("one unit carries 9")
    assert any(line.startswith("delta_t says") for line in lines)
    calm = weighted_intervals(mean(np.linspace(0, 1, 40)), WeightPlan(iid(40), 499, 1))
    assert cautions(calm, 0.0, "greater") == ()


def test_memory_stays_small() -> None:
    """2,000 cases and 2,000 replicates of a gap of AUROC and of tau need under 50 MB."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2000))
    plan = WeightPlan(iid(2000), 256, 1)
    tracemalloc.start()
    try:
        weighted_intervals_many([auroc_gap(x, y, x + y > 0), kendall(x, y)], plan, methods=["percentile"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6


UNUSABLE = [
    (lambda: weighted_intervals(mean([1.0, 2.0]), WeightPlan(iid(3), 9, 1)), "2 cases, the design 3 rows"),
    (lambda: weighted_intervals_many([], WeightPlan(iid(3), 9, 1)), "no statistics"),
    (lambda: weighted_intervals(mean([1.0, 2.0]), WeightPlan(iid(2), 9, 1), 0.05), "level is 0.05"),
    (lambda: weighted_intervals(mean([1.0, 2.0]), WeightPlan(iid(2), 9, 1), methods=["t"]), "unknown name"),
    (lambda: weighted_intervals(mean([1.0, 2.0]), WeightPlan(iid(2), 9, 1), methods="bca"), "a sequence"),
    (
        lambda: weighted_intervals(
            custom_statistic(lambda w: np.full(len(w), math.nan), 4), WeightPlan(iid(4), 9, 1)
        ),
        "nan on the data themselves",
    ),
    (
        lambda: weighted_intervals(
            custom_statistic(lambda w: np.where((w == 1).all(axis=1), 1.0, math.nan), 8, smooth=False),
            WeightPlan(iid(8), 9, 3),
        ),
        "undefined in every resample",
    ),
    (
        lambda: weighted_intervals(
            custom_statistic(lambda w: np.where((w == np.rint(w)).all(axis=1), w[:, 0], math.nan), 4),
            WeightPlan(iid(4), 9, 1),
        ),
        "next to equal weights",
    ),
]


@pytest.mark.parametrize(("make", "words"), UNUSABLE, ids=range(len(UNUSABLE)))
def test_what_can_not_have_an_interval_is_refused(make, words: str) -> None:
    """Each unusable request is an error that says why."""
    with pytest.raises(InferenceError, match=words):
        make()


TRIALS = 200


def floor_of(level: float) -> float:
    """Return the coverage that a method of this level misses with probability below 1e-4."""
    return level - 3.8 * math.sqrt(level * (1 - level) / TRIALS)


def coverage(designs, draw, truth: float, statistic=mean, method="expanded_percentile") -> list[float]:
    """Return, for each design, how often the 90% interval of 199 replicates holds the truth."""
    hits = np.zeros(len(designs))
    for trial in range(TRIALS):
        theta = statistic(draw())
        for k, design in enumerate(designs):
            plan = WeightPlan(design, 199, trial)
            found = weighted_intervals(theta, plan, 0.9, methods=[method]).intervals[0]
            hits[k] += found.low < truth < found.high
    return (hits / TRIALS).tolist()


def test_crossed_factors_are_covered_by_a_crossed_design_only() -> None:
    """25 subjects x 15 templates, both with effects: cases cover below 60%, one factor's clusters below 85%."""
    rng = np.random.default_rng(1)
    rows, columns = (
        [f"s{i}" for i in range(25) for _ in range(15)],
        [f"t{j}" for _ in range(25) for j in range(15)],
    )

    def draw():
        effects = rng.normal(size=(25, 1)) + rng.normal(size=(1, 15))
        return (effects + rng.normal(size=(25, 15))).ravel()

    both, cases, one = coverage([crossed(rows, columns), iid(375), clusters(rows)], draw, 0.0)
    assert cases < 0.6
    assert one < 0.85
    assert both > floor_of(0.9)


def test_the_crossed_design_is_conservative_without_effects() -> None:
    """Pure noise in 15 x 15 cells: the interval covers more than it says, as its docstring warns."""
    rng = np.random.default_rng(2)
    rows, columns = (
        [f"s{i}" for i in range(15) for _ in range(15)],
        [f"t{j}" for _ in range(15) for j in range(15)],
    )
    (both,) = coverage([crossed(rows, columns)], lambda: rng.normal(size=225), 0.0)
    assert both > 0.95


@pytest.mark.parametrize("circular", [False, True])
def test_a_series_is_covered_by_blocks_and_not_by_cases(circular: bool) -> None:
    """An autoregression of 0.6 over 400 cases: cases cover below 75%, automatic blocks nearly the nominal 90%."""
    rng = np.random.default_rng(3)
    hits = np.zeros(2)
    for trial in range(TRIALS):
        x = np.zeros(400)
        before = rng.normal() / 0.8
        for i, shock in enumerate(rng.normal(size=400)):
            x[i] = before = 0.6 * before + shock
        automatic = optimal_block_length(x)
        length = math.ceil(automatic.circular) if circular else automatic.stationary
        for k, design in enumerate((blocks(range(400), length, circular=circular), iid(400))):
            found = weighted_intervals(mean(x), WeightPlan(design, 199, trial), 0.9, methods=["percentile"])
            hits[k] += found.intervals[0].low < 0.0 < found.intervals[0].high
    in_blocks, as_cases = hits / TRIALS
    assert as_cases < 0.75
    # Finite blocks miss some of the dependence: a few points are lost, and the docstring says so.
    assert in_blocks > floor_of(0.86)


def test_clustered_auroc_is_covered_by_clusters_and_not_by_cases() -> None:
    """30 subjects of 8 prompts whose scores share a shift by class: cases cover below 80%."""
    rng = np.random.default_rng(4)
    subject, hit = [f"s{i // 8:02d}" for i in range(240)], np.arange(240) % 2

    def draw():
        shift = np.repeat(rng.normal(size=30), 8) * np.where(hit == 1, 1.0, -1.0)
        return hit * 1.0 + shift + rng.normal(size=240)

    # positive ~ N(1, 2), negative ~ N(0, 2); within a subject the difference has mean 1 and variance 4 + 2.
    within = stats.norm.cdf(1 / math.sqrt(6))
    between = stats.norm.cdf(1 / 2)
    truth = (between * 29 + within) / 30
    right, wrong = coverage([clusters(subject), iid(240)], draw, truth, lambda s: auroc(s, hit))
    assert wrong < 0.8
    assert right > floor_of(0.9)
