"""Statistics as functions of case weights: against repeated cases, brute force, and scipy."""

from __future__ import annotations

import doctest
import importlib
import inspect
import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import prereg.inference
from prereg.errors import InferenceError
from prereg.inference import (
    CaseSums,
    accuracy_gap,
    auroc,
    auroc_gap,
    custom_statistic,
    depth_slope,
    depth_spearman,
    difference,
    group_mean_difference,
    iid,
    kendall,
    kendall_gap,
    log_prob_difference,
    mean,
    mean_difference,
    mean_of_ratios,
    r2_gap,
    ratio_of_sums,
    slope,
    spearman,
    spearman_gap,
    unit_influence,
)
from prereg.inference.case_sums import STEP

MODULES = [
    "auroc", "blocks", "case_sums", "cautions", "designs", "jackknife", "rank_statistics", "ratio_statistics",
    "statistics", "trend_statistics", "weight_plan", "weighted",
]  # fmt: skip

N = 9
RNG = np.random.default_rng(8)
# Few distinct values, so that ties abound.
X, Z, Y = (RNG.integers(0, 5, N).astype(float) for _ in range(3))
POSITIVE = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1])
TOP, BOTTOM = RNG.normal(size=(N, 3)), RNG.exponential(size=(N, 3))
DEPTHS = np.array([0.0, 1.0, 3.0])
CORRECT_A, CORRECT_B = RNG.integers(0, 2, N), RNG.integers(0, 2, N)


def area(scores, positive):
    """AUROC by going through all pairs."""
    pairs = itertools.product(scores[positive == 1], scores[positive == 0])
    return np.mean([(p > q) + 0.5 * (p == q) for p, q in pairs])


def tau_b(x, y):
    """Kendall's tau-b by going through all pairs."""
    pairs = list(itertools.combinations(range(len(x)), 2))
    signs = np.array([(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in pairs])
    return (signs[:, 0] * signs[:, 1]).sum() / math.sqrt((signs[:, 0] ** 2).sum() * (signs[:, 1] ** 2).sum())


def pearson_of_ranks(x, y):
    """Spearman's rho by its definition."""
    return np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1]


def depth_means(rows):
    return TOP[rows].sum(axis=0) / BOTTOM[rows].sum(axis=0)


# Each statistic beside its definition on cases that are actually repeated.
DEFINITIONS = {
    "mean": (mean(X), lambda r: X[r].mean()),
    "mean_difference": (mean_difference(X, Z), lambda r: X[r].mean() - Z[r].mean()),
    "group_mean_difference": (
        group_mean_difference(X, POSITIVE),
        lambda r: X[r][POSITIVE[r] == 1].mean() - X[r][POSITIVE[r] == 0].mean(),
    ),
    "accuracy_gap": (accuracy_gap(CORRECT_A, CORRECT_B), lambda r: CORRECT_A[r].mean() - CORRECT_B[r].mean()),
    "log_prob_difference": (log_prob_difference(-X, -Z), lambda r: (Z[r] - X[r]).mean()),
    "log_prob_per_token": (
        log_prob_difference(-X, -Z, Y + 1),
        lambda r: (Z[r] - X[r]).sum() / (Y[r] + 1).sum(),
    ),
    "ratio_of_sums": (
        ratio_of_sums(TOP[:, 0], BOTTOM[:, 0]),
        lambda r: TOP[r, 0].sum() / BOTTOM[r, 0].sum(),
    ),
    "mean_of_ratios": (mean_of_ratios(TOP, BOTTOM), lambda r: depth_means(r).mean()),
    "r2_gap": (
        r2_gap(X, Z, BOTTOM[:, 0]),
        lambda r: (1 - X[r].sum() / BOTTOM[r, 0].sum()) - (1 - Z[r].sum() / BOTTOM[r, 0].sum()),
    ),
    "auroc": (auroc(X, POSITIVE), lambda r: area(X[r], POSITIVE[r])),
    "auroc_gap": (
        auroc_gap(X, Z, POSITIVE),
        lambda r: area(X[r], POSITIVE[r]) - area(Z[r], POSITIVE[r]),
    ),
    "spearman": (spearman(X, Y), lambda r: pearson_of_ranks(X[r], Y[r])),
    "spearman_gap": (
        spearman_gap(X, Z, Y),
        lambda r: pearson_of_ranks(X[r], Y[r]) - pearson_of_ranks(Z[r], Y[r]),
    ),
    "kendall": (kendall(X, Y), lambda r: tau_b(X[r], Y[r])),
    "kendall_gap": (kendall_gap(X, Z, Y), lambda r: tau_b(X[r], Y[r]) - tau_b(Z[r], Y[r])),
    "slope": (slope(X, TOP[:, 0]), lambda r: np.polyfit(X[r], TOP[r, 0], 1)[0]),
    "depth_slope": (
        depth_slope(DEPTHS, TOP, BOTTOM),
        lambda r: np.polyfit(DEPTHS, depth_means(r), 1)[0],
    ),
    "depth_spearman": (
        depth_spearman(DEPTHS, TOP, BOTTOM),
        lambda r: pearson_of_ranks(DEPTHS, depth_means(r)),
    ),
}
NAMES = list(DEFINITIONS)
SMOOTH = [name for name in NAMES if DEFINITIONS[name][0].smooth]


def resamples(seed: int, n: int = 40) -> np.ndarray:
    """Draw counts of cases that leave every statistic here defined."""
    draws = np.random.default_rng(seed).multinomial(N, np.full(N, 1 / N), size=n)
    return draws[((draws > 0).sum(axis=1) > 4) & (draws @ POSITIVE > 0) & (draws @ (1 - POSITIVE) > 0)]


@pytest.mark.parametrize("name", NAMES)
def test_a_weighted_statistic_is_that_of_the_repeated_cases(name: str) -> None:
    """Counts of cases give what the plain definition gives on cases written out so often."""
    statistic, definition = DEFINITIONS[name]
    counts = resamples(1)
    expected = [definition(np.repeat(np.arange(N), row)) for row in counts]
    assert len(expected) > 30
    assert statistic.evaluate(counts) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_size_of_the_weights_does_not_matter(name: str) -> None:
    """Twice, a third, and an odd multiple of the weights give the same number."""
    statistic = DEFINITIONS[name][0]
    counts = resamples(2).astype(float)
    for factor in (2.0, 1 / 3, 0.7310585):
        assert statistic.evaluate(factor * counts) == pytest.approx(
            statistic.evaluate(counts), rel=1e-11, abs=1e-11
        )


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_weights_is_computed_by_itself(name: str) -> None:
    """Evaluated together, in threes, or one by one: the same bits."""
    statistic = DEFINITIONS[name][0]
    counts = resamples(3).astype(float)
    mixed = np.vstack([counts, 1 + STEP * np.eye(N), counts * 0.1, counts * 1000.0])
    whole = statistic.evaluate(mixed)
    assert statistic.smooth == (name != "depth_spearman")
    for size in (1, 3):
        cut = [statistic.evaluate(mixed[i : i + size]) for i in range(0, len(mixed), size)]
        assert np.concatenate(cut).tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_left_as_they_were(name: str) -> None:
    """Evaluating one row or many, and the influence, writes nothing into the caller's array."""
    statistic = DEFINITIONS[name][0]
    for weights in (np.ones((1, N)), np.ones(N), resamples(5).astype(float)):
        before = weights.copy()
        statistic.evaluate(weights)
        statistic.influence(weights)
        assert np.array_equal(weights, before)


@pytest.mark.parametrize("name", SMOOTH)
def test_influence_in_closed_form_is_the_derivative(name: str) -> None:
    """At equal and at unequal weights it agrees with differences, and it adds up to nothing."""
    statistic = DEFINITIONS[name][0]
    weights = np.vstack([np.ones(N), resamples(4)[0]]).astype(float)
    exact = statistic.influence(weights)
    if exact is None:
        assert name in {"spearman", "spearman_gap", "kendall", "kendall_gap"}
        return
    assert (exact * weights).sum(axis=1) == pytest.approx([0.0, 0.0], abs=1e-12)
    step = 1e-5
    for row in range(2):
        moved = [weights[row] + np.eye(N) * step * (weights[row] > 0)]
        moved.append(weights[row] - np.eye(N) * step * (weights[row] > 0))
        above, below = (statistic.evaluate(m) for m in moved)
        held = weights[row] > 0
        assert exact[row][held] == pytest.approx(((above - below) / (2 * step))[held], abs=2e-7)


@pytest.mark.parametrize("name", ["auroc", "mean_of_ratios", "slope", "r2_gap"])
def test_the_numeric_influence_is_as_good_as_the_closed_one(name: str) -> None:
    """The same statistic, given as a mere function, has the same influence to 1e-6 of the largest."""
    statistic = DEFINITIONS[name][0]
    exact = unit_influence(statistic, iid(N))
    numeric = unit_influence(custom_statistic(statistic.evaluate, N), iid(N))
    assert numeric == pytest.approx(exact, abs=1e-6 * np.abs(exact).max())


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=40),
    seed=st.integers(0, 999),
)
def test_rank_correlations_agree_with_scipy(pairs, seed: int) -> None:
    """Any table with ties, and any resample of it: rho and tau-b are scipy's."""
    x, y = np.array(pairs, dtype=float).T
    if len(set(x)) == 1 or len(set(y)) == 1:
        return
    counts = np.random.default_rng(seed).multinomial(len(x), np.full(len(x), 1 / len(x)))
    for row in (np.ones(len(x), dtype=int), counts):
        rows = np.repeat(np.arange(len(x)), row)
        if len(set(x[rows])) == 1 or len(set(y[rows])) == 1:
            assert np.isnan(spearman(x, y).evaluate(row)[0])
            assert np.isnan(kendall(x, y).evaluate(row)[0])
            continue
        rho, tau = stats.spearmanr(x[rows], y[rows]).statistic, stats.kendalltau(x[rows], y[rows]).statistic
        assert spearman(x, y).evaluate(row)[0] == pytest.approx(rho, abs=1e-12)
        assert kendall(x, y).evaluate(row)[0] == pytest.approx(tau, abs=1e-12)


def test_auroc_is_the_mann_whitney_statistic() -> None:
    """Against scipy's U over the product of the sizes, with ties, 500 cases."""
    rng = np.random.default_rng(3)
    positive = rng.integers(0, 2, 500)
    scores = np.round(rng.normal(0.5 * positive), 1)
    u = stats.mannwhitneyu(scores[positive == 1], scores[positive == 0]).statistic
    expected = u / (positive.sum() * (1 - positive).sum())
    assert auroc(scores, positive).evaluate(np.ones(500))[0] == pytest.approx(expected, rel=1e-14)


def test_aurocs_influence_gives_delongs_variance() -> None:
    """With divisors n in place of n - 1: the variance of the placements of both classes."""
    rng = np.random.default_rng(4)
    positive = rng.permutation(np.repeat([0, 1], [30, 20]))
    a, b = (np.round(rng.normal(positive), 1) for _ in range(2))

    def placements(scores):
        gap = scores[positive == 1][:, None] - scores[positive == 0]
        wins = (gap > 0) + 0.5 * (gap == 0)
        return wins.mean(axis=1), wins.mean(axis=0)

    (up_a, down_a), (up_b, down_b) = placements(a), placements(b)
    expected = (up_a - up_b).var() / 20 + (down_a - down_b).var() / 30
    psi = unit_influence(auroc_gap(a, b, positive), iid(50))
    assert (psi**2).sum() == pytest.approx(expected, rel=1e-12)


def test_perfect_order_is_exactly_one() -> None:
    """No rounding stands between a perfect ranking and 1, in any resample."""
    x = np.arange(30.0)
    counts = np.random.default_rng(0).multinomial(30, np.full(30, 1 / 30), size=50)
    assert set(spearman(x, x**3).evaluate(counts)) == {1.0}
    assert set(kendall(x, -x).evaluate(counts)) == {-1.0}
    assert set(auroc(x, x > 14).evaluate(counts)) == {1.0}


def test_what_is_undefined_is_nan_and_only_that() -> None:
    """A class without weight, a constant column, a denominator of 0."""
    weights = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
    assert np.isnan(auroc([1, 2, 3, 4], [1, 0, 1, 0]).evaluate(weights)).tolist() == [True, True, False]
    assert np.isnan(kendall([1, 2, 1, 2], [1, 2, 4, 4]).evaluate(weights)).tolist() == [True, True, False]
    assert np.isnan(slope([1, 2, 1, 2], [1, 2, 4, 4]).evaluate(weights)).tolist() == [True, True, False]
    assert np.isnan(ratio_of_sums([1] * 4, [1, 0, 1, 0]).evaluate(weights)).tolist() == [False, True, False]
    by_depth = depth_spearman([0, 1], [[0, 1]] * 4, [[1, 1], [1, 0], [1, 1], [1, 0]])
    assert np.isnan(by_depth.evaluate(weights)).tolist() == [False, True, False]


def test_sums_of_whole_weights_are_correctly_rounded_however_large() -> None:
    """Where terms cancel, weights of a resample and weights far beyond one lose nothing."""
    column = np.array([1e16, 1.0, -1e16, 3.0])
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 2.0, 0.0], [1e6, 1e6, 1e6, 0.0]])
    assert CaseSums.of(column).sums(weights)[:, 0].tolist() == [4.0, 1.0, 1e6]


def test_sums_of_parts_are_accurate() -> None:
    """Odd fractions, a moved case, and whole weights in one matrix."""
    columns = np.random.default_rng(0).normal(size=(50, 2))
    weights = np.vstack([np.full(50, 0.1), 1 + STEP * np.eye(50)[3], np.ones(50), np.full(50, 1e3)])
    expected = [[math.fsum(row * column) for column in columns.T] for row in weights]
    assert CaseSums.of(columns).sums(weights) == pytest.approx(np.array(expected), rel=1e-13)


UNUSABLE = [
    (lambda: mean([]), "empty"),
    (lambda: mean([1.0]), "n=1"),
    (lambda: mean([1.0, math.nan]), "nan"),
    (lambda: mean([[1.0, 2.0], [3.0, 4.0]]), "one number for each case"),
    (lambda: mean_difference([1.0, 2.0], [1.0]), "can't be paired"),
    (lambda: group_mean_difference([1.0, 2.0], [1, 1]), "total denominator is 0"),
    (lambda: accuracy_gap([0, 1, 2], [0, 1, 1]), "only 0 and 1"),
    (lambda: log_prob_difference([-1.0, 0.1], [-1.0, -1.0]), "log-probability of 0.1"),
    (lambda: r2_gap([-1.0, 1.0], [1.0, 1.0], [1.0, 1.0]), "negative sum"),
    (lambda: ratio_of_sums([1.0, 1.0], [1.0, -1.0]), "negative denominator"),
    (lambda: mean_of_ratios(TOP, BOTTOM, np.eye(3)), "3 contrasts"),
    (lambda: auroc([1.0, 2.0], [1, 1]), "one class only"),
    (lambda: auroc([1.0, 2.0], [1]), "can't be paired"),
    (lambda: spearman([1.0, 1.0], [1.0, 2.0]), "x is constant"),
    (lambda: kendall([1.0, 2.0], [1.0, 1.0]), "y is constant"),
    (lambda: slope([1.0, 1.0], [1.0, 2.0]), "x is constant"),
    (lambda: depth_slope([1, 1], [[1, 2], [3, 4]]), "depths are the same"),
    (lambda: depth_slope([1, 2, 3], [[1, 2], [3, 4]]), "don't fit"),
    (lambda: depth_spearman([1, 2], [[1, 2], [3, 4]], [[1, 0], [1, 0]]), "no weight"),
    (lambda: difference(mean([1.0, 2.0]), mean([1.0, 2.0, 3.0])), "2 and 3 cases"),
    (lambda: custom_statistic(lambda w: w[:, 0], 1), "n_units is 1"),
    (lambda: mean([1.0, 2.0]).evaluate([1, 1, 1]), "2 cases"),
    (lambda: mean([1.0, 2.0]).evaluate([1, -1]), "negative number"),
    (lambda: mean([1.0, 2.0]).evaluate([1, math.nan]), "nan"),
    (lambda: custom_statistic(lambda w: w.sum(), 2).evaluate([[1, 1]]), "shape"),
    (lambda: custom_statistic(lambda w: w > 0, 2).evaluate([[1, 1]]), "shape"),
]


@pytest.mark.parametrize(("make", "words"), UNUSABLE, ids=range(len(UNUSABLE)))
def test_what_can_not_be_a_statistic_is_refused(make, words: str) -> None:
    """Each unusable input is an error that says why."""
    with pytest.raises(InferenceError, match=words):
        make()


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_run(name: str) -> None:
    """Every example in the docstrings gives what it shows."""
    importlib.import_module(f"prereg.inference.{name}")
    # A function may bear its module's name, so the module is taken from where Python keeps it.
    failed, tried = doctest.testmod(sys.modules[f"prereg.inference.{name}"])
    assert (failed, tried > 0) == (0, True)


def test_every_public_function_of_these_modules_is_documented_in_full() -> None:
    """Parameters, errors and an example stand in each docstring."""
    seen = 0
    for name in prereg.inference.__all__:
        value = getattr(prereg.inference, name)
        if inspect.isfunction(value) and value.__module__.rpartition(".")[2] in MODULES:
            if name not in {"weighted_intervals_many", "available_methods"}:
                assert "Parameters\n" in value.__doc__, name
                assert "Raises\n" in value.__doc__, name
            assert ">>>" in value.__doc__, name
            seen += 1
    assert seen > 25
