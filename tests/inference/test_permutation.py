"""Permutation p-values."""

from __future__ import annotations

import doctest
import itertools
import math

import numpy as np
import pytest

from prereg.errors import InferenceError
from prereg.inference import enumeration_p_value, monte_carlo_p_value, permutation, sign_flip_test, sign_flips


@pytest.mark.parametrize(
    ("observed", "alternative", "expected"),
    [
        (3.0, "greater", 2 / 6),
        (3.0, "less", 6 / 6),
        (-4.0, "less", 2 / 6),
        (3.5, "two_sided", 2 / 6),
        (9.0, "greater", 1 / 6),
        (9.0, "two_sided", 1 / 6),
    ],
)
def test_monte_carlo_p_values_count_the_observed_draw(observed, alternative, expected) -> None:
    """(b + 1)/(B + 1) by hand on five draws; never 0."""
    draws = [3.0, -4.0, 1.0, 0.0, 2.0]
    assert monte_carlo_p_value(observed, draws, alternative) == pytest.approx(expected)


def test_ties_up_to_rounding_count_as_extreme() -> None:
    """0.1 + 0.2 and 0.3 are the same statistic."""
    assert monte_carlo_p_value(0.1 + 0.2, [0.3, 0.0, 0.0]) == 0.5
    assert enumeration_p_value(0.1 + 0.2, [0.3, 0.0, 0.0, 0.0]) == 0.25
    assert monte_carlo_p_value(0.3, [0.3 - 1e-9, 0.0, 0.0]) == 0.25


def test_enumeration_is_fishers_exact_sign_test() -> None:
    """All 2**6 sign flips of six positive differences: p = 1/64 one-sided, 2/64 two-sided."""
    differences = np.array([0.3, 0.1, 0.7, 0.2, 0.5, 0.4])
    draws = sign_flips(6) @ differences
    assert draws[0] == pytest.approx(differences.sum())
    assert enumeration_p_value(differences.sum(), draws) == 1 / 64
    assert enumeration_p_value(differences.sum(), draws, "two_sided") == 2 / 64


def test_an_enumeration_without_the_observed_arrangement_is_refused() -> None:
    """A p-value of 0 is impossible: the identity is one of the arrangements."""
    with pytest.raises(InferenceError, match="not complete"):
        enumeration_p_value(5.0, [1.0, 2.0])


def test_a_true_null_is_rejected_no_more_often_than_it_should() -> None:
    """Of 400 null data sets, at most 5% plus four standard errors have p <= 0.05."""
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(400):
        values = rng.normal(size=12)
        draws = rng.choice([-1.0, 1.0], size=(99, 12)) @ values
        rejected += monte_carlo_p_value(float(values.sum()), draws) <= 0.05
    assert rejected <= 400 * 0.05 + 4 * np.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("observed", "draws", "alternative"),
    [
        (1.0, [], "greater"),
        (1.0, [float("nan")], "greater"),
        (float("nan"), [1.0], "greater"),
        (float("inf"), [1.0], "greater"),
        (1.0, [1.0], "bigger"),
        (1.0, [[1.0, 2.0]], "greater"),
    ],
)
def test_unusable_statistics_are_refused(observed, draws, alternative) -> None:
    """Empty, nan, inf and unknown alternatives are errors."""
    with pytest.raises(InferenceError):
        monte_carlo_p_value(observed, draws, alternative)


@pytest.mark.parametrize("n", [0, 21])
def test_too_many_flips_are_not_enumerated(n: int) -> None:
    """2**21 vectors are drawn, not listed."""
    with pytest.raises(InferenceError, match="can be enumerated"):
        sign_flips(n)


@pytest.mark.parametrize("side", ["greater", "less", "two_sided"])
def test_every_sign_pattern_is_tried_for_few_units(side: str) -> None:
    """Seven differences, all 128 patterns listed one by one."""
    d = np.random.default_rng(2).normal(0.4, 1.0, 7)
    means = [float(np.dot(s, d)) / 7 for s in itertools.product((1, -1), repeat=7)]
    extreme = {
        "greater": [m >= d.mean() - 1e-12 for m in means],
        "less": [m <= d.mean() + 1e-12 for m in means],
        "two_sided": [abs(m) >= abs(d.mean()) - 1e-12 for m in means],
    }[side]
    found = sign_flip_test(d, side)
    assert (found.p_value, found.n_draws, found.enumerated) == (sum(extreme) / 128, 128, True)
    assert found.observed == pytest.approx(d.mean())


def test_twenty_units_are_enumerated_and_more_are_drawn() -> None:
    """A million patterns of 20 agree with 20,000 random ones of the same units and one 0."""
    d = np.random.default_rng(3).normal(0.4, 1.0, 20)
    whole = sign_flip_test(d)
    assert (whole.n_draws, whole.enumerated) == (2**20, True)
    drawn = sign_flip_test(np.append(d, 0.0), n=20_000, seed=1)
    assert (drawn.n_draws, drawn.enumerated, len(drawn.null)) == (20_000, False, 20_000)
    assert drawn.p_value == pytest.approx(whole.p_value, abs=4 * math.sqrt(whole.p_value / 20_000))
    again = sign_flip_test(np.append(d, 0.0), n=500, seed=1)
    assert again.null == drawn.null[:500]


def test_differences_of_nothing_are_no_evidence() -> None:
    """All 0: every pattern ties, p is 1."""
    assert sign_flip_test(np.zeros(5)).p_value == 1.0


@pytest.mark.parametrize(
    ("differences", "more"),
    [
        ([], {}),
        ([1.0, math.nan], {}),
        (np.ones((3, 2)), {}),
        ([1.0], {"alternative": "up"}),
        (np.ones(21), {}),
        (np.ones(21), {"seed": 1, "n": 0}),
        (np.ones(21), {"seed": -1}),
    ],
)
def test_signs_that_can_not_be_flipped_are_refused(differences, more) -> None:
    """Emptiness, nan, two dimensions, and random patterns without a seed."""
    with pytest.raises(InferenceError):
        sign_flip_test(differences, **more)


def test_the_example_in_the_docstring_runs() -> None:
    """Six differences of one sign."""
    failed, tried = doctest.testmod(permutation)
    assert (failed, tried >= 2) == (0, True)
