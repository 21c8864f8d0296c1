"""Alpha spending by published figures, by exact integration, and by simulation."""

from __future__ import annotations

import doctest
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from prereg.errors import InferenceError
from prereg.inference import alpha_spent, look_alphas, look_level, spending

FUNCTIONS = ("obrien_fleming", "pocock")
# The published programs integrate by a trapezoidal rule whose grid is worth 3e-6 of size, some 1e-4 in the last z.
GRID = 1.5e-4
ALPHAS = st.floats(1e-6, 0.5)


def exit_probabilities(z: Sequence[float], *, sides: int) -> list[float]:
    """Return P(first crossing at look k) of a Brownian motion at equally spaced looks.

    Armitage, McPherson and Rowe's recursion (1969, doi:10.2307/2343787), by Gauss-Legendre quadrature.
    """
    looks = len(z)
    step = 1.0 / looks
    nodes, weights = np.polynomial.legendre.leggauss(128)
    points, mass = np.array([0.0]), np.array([1.0])  # where the motion may be, and how likely, before look k
    found = []
    for k in range(looks):
        upper = z[k] * math.sqrt((k + 1) * step)
        lower = -upper if sides == 2 else min(-6.0, upper - 6.0)
        above = stats.norm.sf((upper - points) / math.sqrt(step))
        below = stats.norm.cdf((lower - points) / math.sqrt(step)) if sides == 2 else 0.0
        found.append(float(mass @ (above + below)))
        new = (upper - lower) / 2.0 * nodes + (upper + lower) / 2.0
        density = stats.norm.pdf((new[:, None] - points) / math.sqrt(step)) / math.sqrt(step)
        points, mass = new, (upper - lower) / 2.0 * weights * (density @ mass)
    return found


def exact_boundary(increments: Sequence[float], *, sides: int) -> list[float]:
    """Return Lan and DeMets' boundary: the z whose exit probabilities are the increments."""
    z: list[float] = []
    for increment in increments:

        def excess(x: float, increment: float = increment) -> float:
            padded = [*z, x, *[9.0] * (len(increments) - len(z) - 1)]
            return exit_probabilities(padded, sides=sides)[len(z)] - increment

        z.append(float(optimize.brentq(excess, 0.5, 8.0, xtol=1e-10)))
    return z


def test_obrien_fleming_is_as_published() -> None:
    """Cumulative spending of a one-sided 0.05 at quarters, as SeqBounds.jl documents it."""
    found = [alpha_spent(k / 4, 0.05, "obrien_fleming") for k in range(1, 5)]
    assert found == pytest.approx([8.85754e-5, 0.0055746, 0.0236251, 0.05], rel=1e-5)


def test_obrien_fleming_two_sided_is_ldbounds() -> None:
    """Five looks at a symmetric two-sided 0.05: each side spends 0.025; R's ldbounds gives these figures."""
    found = [2 * alpha_spent(k / 5, 0.025, "obrien_fleming") for k in range(1, 6)]
    assert found == pytest.approx([1.08e-6, 0.00079, 0.00762, 0.02442, 0.05], abs=5e-6, rel=0)
    increments = np.diff([0.0, *found])
    z = exact_boundary(increments, sides=2)
    assert z == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=GRID)


def test_the_integration_agrees_with_the_multivariate_normal() -> None:
    """The integral of the joint distribution gives the same overall size."""
    z = exact_boundary(look_alphas(0.05, 4, "obrien_fleming"), sides=1)
    times = np.arange(1, 5) / 4
    correlation = np.minimum.outer(times, times) / np.sqrt(np.outer(times, times))
    stays = stats.multivariate_normal.cdf(z, np.zeros(4), correlation, abseps=1e-7, rng=1)
    assert 1.0 - stays == pytest.approx(0.05, abs=2e-6)


def test_boundaries_from_one_sided_obrien_fleming_increments_are_published() -> None:
    """Four looks: SeqBounds.jl's README; the last of five: its tests."""
    four = exact_boundary(look_alphas(0.05, 4, "obrien_fleming"), sides=1)
    assert four == pytest.approx([3.74955, 2.53993, 2.01604, 1.72014], abs=GRID)
    assert exact_boundary(look_alphas(0.05, 5, "obrien_fleming"), sides=1)[-1] == pytest.approx(
        1.7396609804214789, abs=GRID
    )


def test_boundaries_from_pocock_increments_are_published() -> None:
    """Five two-sided looks: 2.4380 at the first in R's ldbounds, 2.3859092 at the last in SeqBounds.jl's tests."""
    z = exact_boundary(look_alphas(0.05, 5, "pocock"), sides=2)
    assert (z[0], z[-1]) == (pytest.approx(2.4380, abs=GRID), pytest.approx(2.385909219073807, abs=GRID))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("sides", [1, 2])
def test_the_overall_size_is_exactly_known_and_at_most_alpha(function, sides: int) -> None:
    """By integration: each look at its own increment crosses less often than Lan and DeMets' boundary does."""
    for looks in (1, 2, 5, 8):
        increments = look_alphas(0.05, looks, function)
        z = [float(stats.norm.isf(a / sides)) for a in increments]
        size = sum(exit_probabilities(z, sides=sides))
        assert 0.02 < size <= 0.05 + 1e-9
        assert (size == pytest.approx(0.05, abs=1e-9)) == (looks == 1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_simulated_brownian_motion_crosses_at_most_as_often_as_promised(function) -> None:
    """Overall size over five looks, 200,000 paths, within Monte Carlo error; unadjusted looks exceed it."""
    rng = np.random.default_rng(20261130)
    paths, looks, alpha = 200_000, 5, 0.05
    z = rng.standard_normal((paths, looks)).cumsum(axis=1) / np.sqrt(np.arange(1, looks + 1))
    crossed = (z > stats.norm.isf(look_alphas(alpha, looks, function))).any(axis=1).mean()
    slack = 4.0 * math.sqrt(alpha * (1.0 - alpha) / paths)
    assert crossed <= alpha + slack
    assert (z > stats.norm.isf(alpha)).any(axis=1).mean() > alpha + 20 * slack


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_bound_holds_for_the_worst_dependence(function) -> None:
    """Looks that never err together err alpha of the time in all: the bound is met, not passed."""
    rng = np.random.default_rng(7)
    uniform, errs, start = rng.random(200_000), np.zeros(200_000, dtype=bool), 0.0
    for increment in look_alphas(0.05, 5, function):
        errs |= (uniform >= start) & (uniform < start + increment)
        start += increment
    assert errs.mean() == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 200_000))


@settings(max_examples=200, deadline=None)
@given(alpha=ALPHAS, t=st.floats(1e-3, 1.0))
def test_the_formulas_are_scipys(alpha: float, t: float) -> None:
    """Tail by tail, with a relative error that far tails keep too."""
    of = 2.0 * stats.norm.sf(stats.norm.isf(alpha / 2.0) / math.sqrt(t))
    assert alpha_spent(t, alpha, "obrien_fleming") == pytest.approx(of, rel=1e-9, abs=1e-300)
    pocock = alpha * math.log(1.0 + (math.e - 1.0) * t)
    assert alpha_spent(t, alpha, "pocock") == pytest.approx(pocock, rel=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=100, deadline=None)
@given(alpha=ALPHAS, times=st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=2))
def test_spending_never_falls_and_never_passes_alpha(function, alpha: float, times: list[float]) -> None:
    """More information never gives alpha back; all of it is spent at the end, exactly."""
    early, late = (alpha_spent(t, alpha, function) for t in sorted(times))
    assert 0.0 <= early <= late * (1.0 + 1e-14) <= alpha * (1.0 + 1e-14)
    assert late <= alpha
    assert alpha_spent(1.0, alpha, function) == alpha


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=100, deadline=None)
@given(alpha=ALPHAS, looks=st.integers(1, 60))
def test_increments_add_up_to_alpha(function, alpha: float, looks: int) -> None:
    """As many as there are looks, none negative, alpha in all, and one look is alpha itself."""
    found = look_alphas(alpha, looks, function)
    assert len(found) == looks
    assert min(found) >= 0.0
    assert math.fsum(found) == pytest.approx(alpha, rel=1e-14)
    assert look_alphas(alpha, 1, function) == (alpha,)


@settings(max_examples=100, deadline=None)
@given(alpha=ALPHAS, t=st.floats(1e-3, 0.999))
def test_two_sides_of_half_spend_no_more_than_one(alpha: float, t: float) -> None:
    """As the docstring says: less for O'Brien and Fleming's before the end, the same for Pocock's."""
    half = 2.0 * alpha_spent(t, alpha / 2.0, "obrien_fleming")
    assert half <= alpha_spent(t, alpha, "obrien_fleming") * (1.0 + 1e-12)
    assert 2.0 * alpha_spent(t, alpha / 2.0, "pocock") == pytest.approx(alpha_spent(t, alpha, "pocock"))


@pytest.mark.parametrize("t", [0.0, -0.1, 1.0 + 1e-9, math.nan, math.inf, True, "0.5", None])
def test_a_fraction_out_of_range_is_refused(t) -> None:
    """Nothing is spent at no information, and there is no more than all of it."""
    with pytest.raises(InferenceError, match="information fraction"):
        alpha_spent(t, 0.05, "pocock")


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.05, math.nan, 5, True, "0.05"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_alpha_out_of_range_is_refused(alpha, function) -> None:
    """An error rate is strictly between 0 and 1."""
    with pytest.raises(InferenceError, match="alpha"):
        alpha_spent(1.0, alpha, function)
    with pytest.raises(InferenceError, match="alpha"):
        look_alphas(alpha, 1, function)


@pytest.mark.parametrize("looks", [0, -1, 2.0, True, math.nan, "2", None])
def test_a_number_of_looks_that_is_none_is_refused(looks) -> None:
    """No looks at all would leave all of alpha unspent and every claim untested."""
    with pytest.raises(InferenceError, match="looks"):
        look_alphas(0.05, looks, "pocock")


def test_an_unknown_function_is_refused_by_name() -> None:
    """The error lists those there are."""
    with pytest.raises(InferenceError, match=r"'bayes'.*obrien_fleming, pocock"):
        alpha_spent(0.5, 0.05, "bayes")  # type: ignore[arg-type]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_level_of_a_look_leaves_its_share_on_each_side(function, level: float) -> None:
    """Half of what the interval leaves out is the look's share; past the plan the last share stands."""
    shares = look_alphas((1.0 - level) / 2.0, 4, function)
    found = [look_level(level, 4, function, look) for look in range(1, 7)]
    assert found == [1.0 - 2.0 * share for share in (*shares, shares[-1], shares[-1])]
    assert all(at >= level for at in found)
    assert math.fsum((1.0 - at) / 2.0 for at in found[:4]) == pytest.approx((1.0 - level) / 2.0)
    assert look_level(level, 1, function, 1) == pytest.approx(level, abs=1e-15)


@pytest.mark.parametrize(
    ("level", "planned", "look"),
    [(0.05, 2, 1), (1.0, 2, 1), (0.95, 0, 1), (0.95, 2, 0), (0.95, 2, True), (0.95, 2, 1.0), (0.95, 2.0, 1)],
)
def test_a_look_that_is_none_has_no_level(level, planned, look) -> None:
    """Counted from 1, in whole numbers, at a confidence level."""
    with pytest.raises(InferenceError):
        look_level(level, planned, "pocock", look)


def test_the_examples_in_the_docstrings_run() -> None:
    """All of them."""
    failed, tried = doctest.testmod(spending)
    assert (failed, tried >= 6) == (0, True)
