"""Exact boundaries by published figures, by the multivariate normal distribution, and by simulation."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from scipy import stats

from prereg.errors import InferenceError
from prereg.inference import alpha_spent, boundaries, look_alphas, look_boundaries

# The published programs' grids are worth some 1e-4 in the last z.
GRID = 1.5e-4
EVEN = {k: [j / k for j in range(1, k + 1)] for k in (1, 2, 3, 4, 5, 60)}


def test_one_sided_obrien_fleming_boundaries_are_published() -> None:
    """Four looks at 0.05, and the last of five: SeqBounds.jl's README and tests."""
    four = [look.z for look in look_boundaries(0.05, EVEN[4], "obrien_fleming")]
    assert four == pytest.approx([3.74955, 2.53993, 2.01604, 1.72014], abs=GRID)
    last = look_boundaries(0.05, EVEN[5], "obrien_fleming")[-1].z
    assert last == pytest.approx(1.7396609804214789, abs=GRID)


def test_symmetric_designs_have_the_boundary_of_one_side() -> None:
    """Five looks at a two-sided 0.05, so 0.025 a side: R's ldbounds, O'Brien and Fleming's and Pocock's."""
    five = [look.z for look in look_boundaries(0.025, EVEN[5], "obrien_fleming")]
    assert five == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=GRID)
    pocock = [look.z for look in look_boundaries(0.025, EVEN[5], "pocock")]
    assert (pocock[0], pocock[-1]) == pytest.approx((2.4380, 2.385909219073807), abs=GRID)


@pytest.mark.parametrize("times", [[0.3, 1.0], [0.1, 0.35, 0.9], [0.5, 0.52, 0.54, 1.0]])
def test_uneven_looks_agree_with_the_multivariate_normal(times: list[float]) -> None:
    """At each look the chance of having crossed so far is what was to be spent."""
    found = look_boundaries(0.05, times, "pocock")
    for k in range(2, len(times) + 1):
        t = np.array(times[:k])
        correlation = np.sqrt(np.minimum.outer(t, t) / np.maximum.outer(t, t))
        z = [look.z for look in found[:k]]
        stays = stats.multivariate_normal.cdf(z, np.zeros(k), correlation, abseps=1e-8, releps=1e-8, rng=1)
        assert 1.0 - stays == pytest.approx(alpha_spent(times[k - 1], 0.05, "pocock"), abs=2e-6)
        assert found[k - 1].spent == alpha_spent(times[k - 1], 0.05, "pocock")


@pytest.mark.parametrize("function", ["obrien_fleming", "pocock"])
def test_a_growing_sample_crosses_exactly_as_often_as_promised(function) -> None:
    """200,000 samples of five equal parts cross alpha of the time, within 4 standard errors."""
    rng = np.random.default_rng(20261130)
    paths, alpha = 200_000, 0.05
    z = rng.standard_normal((paths, 5)).cumsum(axis=1) / np.sqrt(np.arange(1, 6))
    bounds = [look.z for look in look_boundaries(alpha, EVEN[5], function)]
    crossed = (z > bounds).any(axis=1).mean()
    assert abs(crossed - alpha) <= 4.0 * math.sqrt(alpha * (1.0 - alpha) / paths)


def test_looks_that_do_not_grow_from_each_other_can_pass_alpha() -> None:
    """Disjoint samples looked at with this boundary err more often, as the docstring warns; the union bound holds."""
    alphas = [look.alpha for look in look_boundaries(0.05, EVEN[5], "pocock")]
    assert 1.0 - math.prod(1.0 - a for a in alphas) > 0.07
    assert 1.0 - math.prod(1.0 - a for a in look_alphas(0.05, 5, "pocock")) < 0.05


@pytest.mark.parametrize("function", ["obrien_fleming", "pocock"])
@pytest.mark.parametrize("looks", [2, 3, 5, 60])
def test_no_look_is_stricter_than_under_the_union_bound(function, looks: int) -> None:
    """What was not crossed before is not lost: every nominal level is at least the union bound's."""
    found = look_boundaries(0.025, EVEN[looks], function)
    for look, share in zip(found, look_alphas(0.025, looks, function), strict=True):
        assert look.alpha >= share * (1.0 - 1e-9)
        assert look.alpha == pytest.approx(stats.norm.sf(look.z), rel=1e-9)
    assert found[-1].alpha > look_alphas(0.025, looks, function)[-1] * 1.04
    assert found[-1].spent == 0.025


def test_one_look_is_tested_at_alpha_and_a_look_without_alpha_claims_nothing() -> None:
    """A single boundary is the normal quantile; too early a look has none."""
    only = look_boundaries(0.05, [1.0], "obrien_fleming")[0]
    assert only.z == pytest.approx(stats.norm.isf(0.05), abs=1e-12)
    early = look_boundaries(0.05, [1e-4, 1.0], "obrien_fleming")
    assert (early[0].z, early[0].alpha) == (math.inf, 0.0)
    assert early[1].z == pytest.approx(stats.norm.isf(0.05), abs=1e-9)


@pytest.mark.parametrize(
    ("alpha", "information", "words"),
    [
        (0.05, [], "no looks"),
        (0.05, [0.5, 0.5], "don't rise"),
        (0.05, [0.6, 0.5], "don't rise"),
        (0.05, [0.5, 1.1], "information fraction"),
        (0.05, [0.0, 1.0], "information fraction"),
        (0.05, [0.5, math.nan], "information fraction"),
        (0.05, [0.5, 0.5001, 1.0], "close together"),
        (0.0, [1.0], "alpha"),
    ],
)
def test_what_is_no_design_is_refused(alpha, information, words) -> None:
    """No looks, looks out of order or out of range, and looks that are one."""
    with pytest.raises(InferenceError, match=words):
        look_boundaries(alpha, information, "pocock")


def test_the_examples_in_the_docstring_run() -> None:
    """Those of the exact boundary beside those of the union bound."""
    failed, tried = doctest.testmod(boundaries)
    assert (failed, tried >= 4) == (0, True)
