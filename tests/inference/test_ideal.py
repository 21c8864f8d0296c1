"""The ideal bootstrap against enumeration, convolution by hand and Monte Carlo."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    RatioTable,
    distributions,
    has_ideal,
    ideal_distribution,
    ideal_intervals,
    inversion,
    replicate,
)
from prereg.inference.contrasts import prepare
from prereg.inference.discrete import enumerate_multinomial, lattice_distribution
from prereg.inference.inversion import sum_below_zero, tail_reach
from prereg.inference.rootfinding import increasing_root

from ._support import every_resample, labels, one_ratio, random_ratio


@pytest.mark.parametrize("n", [3, 5, 6])
def test_enumeration_is_every_resample(n: int) -> None:
    """The distribution function counts the n**n resamples, at and between their values."""
    table = random_ratio(n, n)
    values = replicate(table, [1.0], every_resample(n))[0].values
    ideal = ideal_distribution(table, [1.0])
    for c in np.quantile(values, np.linspace(0.01, 0.99, 25)) + 1e-9:
        assert ideal.cdf(float(c)) == pytest.approx(float((values <= c).mean()), abs=1e-12)


@pytest.mark.parametrize("p", [0.01, 0.025, 0.3, 0.5, 0.975, 0.99])
def test_enumerated_quantiles_are_inverse_distribution_quantiles(p: float) -> None:
    """The quantile is the smallest resample value at which the distribution reaches p."""
    table = random_ratio(6, 1)
    values = np.sort(replicate(table, [1.0], every_resample(6))[0].values)
    wanted = values[math.ceil(p * values.size - 1e-9) - 1]
    assert ideal_distribution(table, [1.0]).quantile(p) == pytest.approx(wanted, abs=1e-12)


def test_a_probability_that_is_just_reached_is_reached() -> None:
    """Two units 0 and 1: resamples 0, 1/2, 1 with chances 1/4, 1/2, 1/4."""
    ideal = ideal_distribution(one_ratio([0.0, 1.0], np.ones(2)), [1.0])
    assert [ideal.quantile(p) for p in (0.2, 0.25, 0.26, 0.75, 0.76)] == [0, 0, 0.5, 0.5, 1]


def inverted(table: RatioTable) -> distributions.Inverted:
    contrast = prepare(table, [1.0])[0]
    top, bottom = contrast.numerator[:, 0], contrast.denominator[:, 0]
    kinds, copies = distributions.distinct_units(top, bottom)
    return distributions.Inverted(kinds[:, 0], kinds[:, 1], copies / contrast.n_units, contrast)


def test_inversion_agrees_with_enumeration_within_its_reported_error() -> None:
    """At n = 9 and 10 the staircase can be enumerated: inversion stays within what it says of itself."""
    for n in (9, 10):
        table = random_ratio(n, n)
        exact = ideal_distribution(table, [1.0])
        smooth = inverted(table)
        for k in np.linspace(-2, 2, 9):
            c = k * prepare(table, [1.0])[0].standard_error()
            at = exact.mass(exact.estimate + c)
            assert smooth.below(c)[0] == pytest.approx(
                exact.cdf(exact.estimate + c) - at / 2, abs=2 * smooth.error
            )
        assert exact.probability_error < 1e-11 < smooth.error


def test_inversion_of_a_smooth_sum_is_exact_to_1e_12() -> None:
    """60 units on a lattice too fine to be seen: inversion agrees with exact convolution.

    Inversion takes the lattice as smooth. Half an atom and f'/12 (Euler and Maclaurin) join the two.
    """
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 512, 60).astype(float)
    shares = np.full(60, 1 / 60)
    atoms = lattice_distribution(steps, np.ones(60), np.ones(60, dtype=np.int64))
    assert atoms is not None
    chance = atoms.probability[np.argsort(atoms.numerator)]
    values, cumulative = np.sort(atoms.numerator), np.cumsum(chance)
    assert cumulative[-1] == pytest.approx(1.0, abs=1e-12)
    for target in (0.001, 0.025, 0.5, 0.975, 0.999):
        k = int(np.searchsorted(cumulative, target))
        assert values[k + 1] - values[k - 1] == pytest.approx(2.0)
        smooth = cumulative[k] - chance[k] / 2 - (chance[k + 1] - chance[k - 1]) / 24
        found = sum_below_zero(steps - values[k] / 60, shares, 60).probability
        assert found == pytest.approx(smooth, abs=1e-12)


def test_inversion_agrees_with_monte_carlo_of_a_heavy_tailed_ratio() -> None:
    """With one outlier of 200 standard deviations, 40,000 replicates lie within 4.5 standard errors."""
    rng = np.random.default_rng(3)
    numerator = rng.normal(0.1, 1.0, 300)
    numerator[7] = 200.0
    table = one_ratio(numerator, rng.exponential(1.0, 300))
    ideal = ideal_distribution(table, [1.0])
    values = replicate(table, [1.0], BootstrapPlan(300, 40_000, 5), standard_errors=False)[0].values
    for p in (0.01, 0.2, 0.36, 0.5, 0.9, 0.99):
        c = ideal.quantile(p)
        assert ideal.cdf(c) == pytest.approx(p, abs=1e-11)
        assert float((values <= c).mean()) == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / 40_000))


@pytest.mark.parametrize("outliers", [1, 2])
def test_splitting_off_outliers_changes_no_probability(monkeypatch, outliers: int) -> None:
    """With and without the split, 300 units and outliers of 100 standard deviations agree to 1e-11."""
    values = np.random.default_rng(5).normal(0.05, 1.0, 300)
    values[:outliers] = [100.0, -130.0][:outliers]
    shares = np.full(300, 1 / 300)
    points = (-0.5, -0.1, 0.0, 0.2, 0.6)
    split = [sum_below_zero(values - c, shares, 300).probability for c in points]
    monkeypatch.setattr(inversion, "_MANY_NODES", math.inf)
    monkeypatch.setattr(inversion, "_MOST_NODES", 100_000)
    whole = [sum_below_zero(values - c, shares, 300).probability for c in points]
    assert split == pytest.approx(whole, abs=1e-11)


@pytest.mark.parametrize("n", [16, 30, 120])
def test_an_outlier_of_a_million_standard_deviations_is_no_obstacle(n: int) -> None:
    """Quantiles on both sides of the plateau agree with 20,000 replicates, and the result is usable."""
    rng = np.random.default_rng(n)
    numerator = rng.normal(0.0, 1.0, n)
    numerator[0] = 1e6
    table = one_ratio(numerator, rng.exponential(1.0, n))
    ideal = ideal_distribution(table, [1.0])
    draws = replicate(table, [1.0], BootstrapPlan(n, 20_000, 3), standard_errors=False)[0].values
    for p in (0.025, 0.2, 0.33, 0.4, 0.6, 0.975):
        share = float((draws <= ideal.quantile(p)).mean())
        assert share == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / 20_000))
    assert ideal_intervals(table, [1.0])[0].usable


@pytest.mark.parametrize("n", [13, 14, 16, 18, 20, 24])
def test_small_samples_are_usable_and_say_how_exact_they_are(n: int) -> None:
    """Between enumeration and smoothness the reported error falls from some 1e-4 to 1e-7 with n."""
    found = ideal_intervals(random_ratio(n, n), [1.0])[0]
    assert found.usable
    assert found.probability_error < 3e-4 * 2.0 ** (13 - n)


def test_the_error_is_that_of_the_worst_bound() -> None:
    """A sum that is cut off in a tail says so there, though the centre is settled."""
    ideal = ideal_distribution(random_ratio(20, 1), [1.0])
    bounds = [ideal.quantile(p) for p in (0.02, 0.98)]
    assert all(ideal.error_at(c) >= ideal.probability_error > 1e-12 for c in bounds)
    exact = ideal_distribution(random_ratio(8, 1), [1.0])
    assert exact.error_at(exact.estimate) == exact.probability_error == 1e-12


def test_no_draws_and_a_single_value_need_no_inversion() -> None:
    """Sums that are certain are compared with zero directly; equality is half."""
    one = np.ones(1)
    assert sum_below_zero(one, one, 0, offset=-1.0).probability == 1.0
    assert sum_below_zero(one, one, 3, offset=-3.0).probability == 0.5
    assert sum_below_zero(one, one, 3).probability == 0.0
    same = np.ones(2)
    assert sum_below_zero(same, same / 2, 3, offset=-3.0).probability == 0.5


def test_quantiles_on_a_plateau_are_bracketed() -> None:
    """One giant outlier makes the distribution function nearly flat between its counts; still found."""
    rng = np.random.default_rng(4)
    numerator = rng.normal(0.0, 0.01, 200)
    numerator[0] = 50.0
    table = one_ratio(numerator, np.ones(200))
    ideal = ideal_distribution(table, [1.0])
    # P(outlier not drawn) = (199/200)**200 = 0.367
    assert ideal.cdf(0.1) == pytest.approx((199 / 200) ** 200, abs=1e-9)
    points = [ideal.quantile(p) for p in (0.05, 0.36, 0.38, 0.7, 0.95)]
    assert points == sorted(points)
    assert points[1] < 0.1 < points[2]


@pytest.mark.parametrize("n", [30, 400])
def test_the_lattice_is_the_multinomial(n: int) -> None:
    """Right and wrong answers: convolution and multinomial enumeration give one distribution."""
    rng = np.random.default_rng(n)
    gaps = rng.choice([-1.0, 0.0, 1.0], size=n, p=[0.2, 0.5, 0.3])
    kinds, copies = np.unique(gaps, return_counts=True)
    ones = np.ones(3)
    first = enumerate_multinomial(kinds, ones, copies.astype(np.int64))
    second = lattice_distribution(kinds, ones, copies.astype(np.int64))
    assert first is not None
    assert second is not None
    for c in (-0.05, 0.0, 0.1, 0.2):
        one = first.probability[first.numerator <= c * n + 1e-9].sum()
        two = second.probability[second.numerator <= c * n + 1e-9].sum()
        assert one == pytest.approx(two, abs=1e-12)
    assert first.probability.sum() == pytest.approx(1.0, abs=1e-12)


def test_clustered_answers_are_resolved_exactly() -> None:
    """Clusters of one to four answers (a two-dimensional lattice) agree with 40,000 replicates."""
    rng = np.random.default_rng(8)
    sizes = rng.integers(1, 5, 150)
    right = np.array([rng.integers(-s, s + 1) for s in sizes], dtype=float)
    table = one_ratio(right, sizes.astype(float))
    ideal = ideal_distribution(table, [1.0])
    assert ideal.probability_error < 1e-11
    values = replicate(table, [1.0], BootstrapPlan(150, 40_000, 2), standard_errors=False)[0].values
    for p in (0.02, 0.3, 0.5, 0.98):
        c = ideal.quantile(p)
        share = float((values <= c + 1e-12).mean())
        assert share == pytest.approx(ideal.cdf(c), abs=4.5 * math.sqrt(p * (1 - p) / 40_000))
        assert ideal.cdf(c) >= p
        assert ideal.cdf(c) - ideal.mass(c) < p


def test_a_decimal_lattice_is_seen_through_rounding() -> None:
    """Tenths are no binary fractions; they are one lattice all the same."""
    tenths = np.arange(20) / 10
    found = lattice_distribution(tenths, np.ones(20), np.ones(20, dtype=np.int64))
    assert found is not None
    assert np.unique(np.round(found.numerator, 9)).size == found.numerator.size


def test_continuous_numbers_are_no_lattice() -> None:
    """Random reals must not be forced onto a grid."""
    values = np.random.default_rng(0).normal(size=30)
    assert lattice_distribution(values, np.ones(30), np.ones(30, dtype=np.int64)) is None


def test_too_many_states_are_not_enumerated() -> None:
    """Twelve kinds among 600 units have too many resamples to list."""
    many = enumerate_multinomial(np.arange(12.0), np.ones(12), np.full(12, 50, dtype=np.int64))
    assert many is None


def test_bernsteins_reach_covers_the_sum() -> None:
    """The bound is never below the largest of 100,000 simulated sums, skewed data included."""
    values = np.array([-0.1, 10.0])
    shares = np.array([0.99, 0.01])
    centred = values - shares @ values
    ones = np.random.default_rng(0).binomial(50, 0.01, 100_000)
    sums = 10.1 * ones - 50 * 0.101
    assert np.abs(sums).max() < tail_reach(centred, shares, 50)


def test_a_sum_that_can_not_reach_zero_has_probability_0_or_1() -> None:
    """Far from zero the answer is immediate, and on the right side."""
    values = np.random.default_rng(0).normal(size=100)
    shares = np.full(100, 0.01)
    assert sum_below_zero(values + 20, shares, 100).probability == 0.0
    assert sum_below_zero(values - 20, shares, 100).probability == 1.0


def test_the_ideal_interval_is_the_limit_of_the_plan() -> None:
    """40,000 replicates give the ideal interval within Monte Carlo error."""
    table = random_ratio(80, 2)
    ideal = ideal_intervals(table, [1.0], also_levels=[0.99])[0]
    draws = np.sort(replicate(table, [1.0], BootstrapPlan(80, 40_000, 1))[0].values)
    for interval in ideal.intervals:
        if interval.method == "percentile":
            tail = (1 - interval.level) / 2
            spread = 5 * math.sqrt(tail * (1 - tail) / 40_000)
            assert np.quantile(draws, tail - spread) < interval.low
            assert interval.low < np.quantile(draws, tail + spread)
            assert np.quantile(draws, 1 - tail - spread) < interval.high
            assert interval.high < np.quantile(draws, 1 - tail + spread)
    assert ideal.n_replicates is None
    assert ideal.engine == "ideal"


def test_the_ideal_bootstrap_is_invariant_to_scale_and_shift() -> None:
    """Theta + 3 in other units of T moves and scales every quantile exactly so."""
    table = random_ratio(40, 6)
    d, t = table.numerator[:, 0], table.denominator[:, 0]
    moved = one_ratio((d + 3 * t) * 1e6, t * 1e3)
    first, second = ideal_distribution(table, [1.0]), ideal_distribution(moved, [1.0])
    for p in (0.025, 0.5, 0.975):
        assert second.quantile(p) == pytest.approx((first.quantile(p) + 3) * 1e3, rel=1e-11)


def test_a_gap_of_two_fits_on_one_sst_has_an_ideal_bootstrap() -> None:
    """Shared denominators make one ratio; different ones don't, and that is an error with a remedy."""
    rng = np.random.default_rng(7)
    sst = rng.exponential(1, 30)
    fits = rng.exponential(0.5, (30, 2))
    shared = RatioTable.from_rows(labels(30), fits, np.column_stack([sst, sst]))
    apart = RatioTable.from_rows(labels(30), fits, np.column_stack([sst, sst + 1]))
    assert has_ideal(shared, [1.0, -1.0])
    assert not has_ideal(apart, [1.0, -1.0])
    gap = one_ratio(fits[:, 0] - fits[:, 1], sst)
    assert ideal_distribution(shared, [1.0, -1.0]).quantile(0.1) == pytest.approx(
        ideal_distribution(gap, [1.0]).quantile(0.1), rel=1e-10
    )
    with pytest.raises(InferenceError, match="2 distinct denominators") as caught:
        ideal_distribution(apart, [1.0, -1.0])
    assert "intervals(" in str(caught.value)


def test_resamples_without_a_denominator_are_reported() -> None:
    """Two units of twelve carry T: the chance of missing both spoils the result."""
    table = one_ratio(np.arange(12.0), [1.0, 1.0] + [0.0] * 10)
    found = ideal_intervals(table, [1.0])[0]
    assert found.undefined_share == pytest.approx((10 / 12) ** 12)
    assert not found.usable


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, math.nan])
def test_a_quantile_needs_a_probability(p: float) -> None:
    """0, 1 and nan are refused."""
    with pytest.raises(InferenceError, match="strictly between"):
        ideal_distribution(random_ratio(5), [1.0]).quantile(p)


def test_one_contrast_with_variation_is_wanted() -> None:
    """Several contrasts, or none that varies, have no single distribution."""
    table = RatioTable.from_rows(labels(5), np.eye(5)[:, :2], np.ones((5, 2)))
    with pytest.raises(InferenceError, match="one is wanted"):
        ideal_distribution(table, np.eye(2))
    with pytest.raises(InferenceError, match="no variation"):
        ideal_distribution(one_ratio(np.ones(5), np.ones(5)), [1.0])


@pytest.mark.parametrize(
    ("f", "root"),
    [
        (lambda x: x**3 - 2, 2 ** (1 / 3)),
        (lambda x: math.atan(x - 7.5), 7.5),
        (lambda x: -1.0 if x < 0.3 else 1.0, 0.3),
        (lambda x: math.copysign(min(abs(x - 5) ** 9, 1.0), x - 5), 5.0),
    ],
)
def test_roots_are_bracketed_even_at_jumps_and_plateaus(f, root: float) -> None:
    """Smooth, steep, discontinuous and flat functions: the crossing is found."""
    assert increasing_root(f, 0.0, 1.0) == pytest.approx(root, abs=1e-3)
    if root != 5.0:
        assert increasing_root(f, 0.0, 1.0) == pytest.approx(root, rel=1e-14)


def test_a_root_that_is_the_first_guess_or_the_first_step_is_taken() -> None:
    """An exact zero ends the search where it stands."""
    assert increasing_root(lambda x: x, 0.0, 1.0) == 0.0
    assert increasing_root(lambda x: float(math.floor(x)), -0.5, 1.0) == pytest.approx(0.55)


def test_a_search_that_leaves_the_numbers_ends_at_infinity() -> None:
    """Steps near the largest float overflow to an infinite bound."""
    assert increasing_root(lambda _: -1.0, 1e308, 1e307) == math.inf


def test_a_function_of_one_sign_has_its_root_at_infinity() -> None:
    """Never below its target: the bound is infinite, not a number made up."""
    assert increasing_root(lambda _: 1.0, 0.0, 1.0) == -math.inf
    assert increasing_root(lambda _: -1.0, 0.0, 1.0) == math.inf
    with pytest.raises(InferenceError, match="nan"):
        increasing_root(lambda _: math.nan, 0.0, 1.0)


def test_multinomial_states_are_those_of_plain_products() -> None:
    """Three kinds, five units: probabilities by hand from factorials."""
    copies = np.array([1, 3, 1], dtype=np.int64)
    atoms = enumerate_multinomial(np.array([1.0, 10.0, 100.0]), np.ones(3), copies)
    assert atoms is not None
    wanted = {}
    for a, b in itertools.product(range(6), repeat=2):
        if a + b <= 5:
            c = 5 - a - b
            ways = math.factorial(5) // (math.factorial(a) * math.factorial(b) * math.factorial(c))
            wanted[a + 10.0 * b + 100.0 * c] = ways * 3**b / 5**5
    found = dict(zip(atoms.numerator.tolist(), atoms.probability.tolist(), strict=True))
    assert found == pytest.approx(wanted, rel=1e-13)


def test_the_error_of_a_large_sample_is_estimated_in_little_memory() -> None:
    """300,000 values at twelve nodes: 60 MB at most, where all at once took 115."""
    values = np.random.default_rng(0).normal(size=300_000)
    shares = np.full(values.size, 1.0 / values.size)
    tracemalloc.start()
    try:
        inversion.unresolved_mass(values, shares, values.size, 1e-4)
        assert tracemalloc.get_traced_memory()[1] <= 60e6
    finally:
        tracemalloc.stop()


def test_estimating_in_parts_changes_nothing(monkeypatch) -> None:
    """Node by node or all nodes together, to rounding."""
    values = np.random.default_rng(0).normal(size=500)
    shares = np.full(500, 1 / 500)
    whole = inversion.unresolved_mass(values, shares, 500, 0.05)
    monkeypatch.setattr(inversion, "_MOST_KERNEL", 500)
    assert whole > 0.0
    assert inversion.unresolved_mass(values, shares, 500, 0.05) == pytest.approx(whole, rel=1e-12)
