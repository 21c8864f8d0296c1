"""Equivalence and detectable effects."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.errors import InferenceError
from prereg.inference import (
    Outcome,
    check_margin,
    equivalence_level,
    minimum_detectable_effect,
    tost_paired,
)


def test_the_interval_and_the_two_tests_agree() -> None:
    """P < alpha exactly when the 1 - 2 alpha interval lies inside the margin."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        found = tost_paired(rng.normal(0.1, 1, 25), 0.5, 0.05)
        assert (found.outcome is Outcome.SUPPORTED) == (found.p_value < 0.05)
        seen.add(found.outcome)
    assert {Outcome.SUPPORTED, Outcome.INCONCLUSIVE} <= seen


def test_a_clear_difference_refutes_equivalence() -> None:
    """An interval wholly beyond the margin is a refutation, not a mere failure to show."""
    assert tost_paired(np.linspace(1.9, 2.1, 20), 0.5).outcome is Outcome.REFUTED


def test_a_nonsignificant_difference_is_no_evidence_of_a_null() -> None:
    """Wide, centred on 0: inconclusive."""
    assert tost_paired([-3.0, 3.0, -2.0, 2.0, -1.0, 1.0], 0.5).outcome is Outcome.INCONCLUSIVE


def test_the_level_of_an_equivalence_interval() -> None:
    """Alpha 0.05 asks for a 90% interval."""
    assert equivalence_level(0.05) == pytest.approx(0.9)


def test_the_detectable_effect_is_found_with_that_power() -> None:
    """Simulated z tests at the detectable effect reject 80% of the time, within four errors."""
    effect = minimum_detectable_effect(1.0, alpha=0.05, power=0.8)
    draws = np.random.default_rng(0).normal(effect, 1.0, 10_000)
    assert (draws > 1.6448536269514722).mean() == pytest.approx(0.8, abs=4 * 0.004)


def test_two_sides_and_few_units_need_a_larger_effect() -> None:
    """Each loss of certainty raises the detectable effect."""
    one = minimum_detectable_effect(1.0)
    two = minimum_detectable_effect(1.0, sides=2)
    few = minimum_detectable_effect(1.0, sides=2, n_units=8)
    assert one < two < few


def test_a_margin_below_the_detectable_effect_is_refused() -> None:
    """A null gate that could not see its own margin can't be frozen."""
    check_margin(0.1, 0.1)
    with pytest.raises(InferenceError, match="exceeds the margin") as caught:
        check_margin(0.1, 0.11)
    assert caught.value.remedy is not None


@pytest.mark.parametrize(
    ("differences", "margin", "alpha"),
    [
        ([], 0.1, 0.05),
        ([1.0], 0.1, 0.05),
        ([1.0, float("nan")], 0.1, 0.05),
        ([0.1, 0.1, 0.1], 0.5, 0.05),
        ([0.0, 0.0, 0.0], 0.5, 0.05),
        ([1.0, 2.0], 0.0, 0.05),
        ([1.0, 2.0], -0.1, 0.05),
        ([1.0, 2.0], float("nan"), 0.05),
        ([1.0, 2.0], 0.1, 0.3),
        ([1.0, 2.0], 0.1, 0.0),
        ([[1.0, 2.0]], 0.1, 0.05),
    ],
)
def test_an_equivalence_test_that_means_nothing_is_refused(differences, margin, alpha) -> None:
    """No units, no variation, no margin: errors."""
    with pytest.raises(InferenceError):
        tost_paired(differences, margin, alpha)


@pytest.mark.parametrize(
    "options",
    [
        {"standard_error": 0.0},
        {"standard_error": float("inf")},
        {"alpha": 0.0},
        {"power": 1.0},
        {"power": 0.01},
        {"sides": 3},
        {"n_units": 1},
        {"n_units": True},
    ],
)
def test_a_detectable_effect_needs_sensible_parameters(options) -> None:
    """Each parameter is checked."""
    with pytest.raises(InferenceError):
        minimum_detectable_effect(**{"standard_error": 1.0, **options})


@pytest.mark.parametrize(("margin", "effect"), [(0.0, 0.1), (0.1, 0.0), (float("nan"), 0.1)])
def test_a_margin_must_be_a_number_above_0(margin: float, effect: float) -> None:
    """Nan passes no comparison and must not pass this one."""
    with pytest.raises(InferenceError):
        check_margin(margin, effect)
