"""Verdicts: every branch demands proof."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    Engine,
    Interval,
    Method,
    Outcome,
    RatioTable,
    bonferroni_level,
    decide,
    decide_conjunction,
    ideal_intervals,
    intervals,
)

from ._support import labels, one_ratio

BOUND = st.floats(-10, 10, allow_nan=False)


def result(
    low: float,
    high: float,
    wide: tuple[float, float] | None = None,
    *,
    m: int = 1,
    n_units: int = 50,
    degenerate: bool = False,
    undefined_share: float = 0.0,
    probability_error: float = 0.0,
) -> ContrastResult:
    """Build a result with an interval at 95% and one at the Bonferroni level for m."""
    bounds = [(0.95, (low, high))]
    if m > 1:
        bounds.append((bonferroni_level(0.95, m), wide or (low, high)))
    return ContrastResult(
        estimate=(low + high) / 2,
        standard_error=1.0,
        n_units=n_units,
        n_rows=n_units,
        n_replicates=100,
        degenerate=degenerate,
        undefined_share=undefined_share,
        largest_influence=0.1,
        probability_error=probability_error,
        engine=Engine.PLAN,
        intervals=tuple(Interval(pair[0], pair[1], at, Method.EXPANDED_PERCENTILE) for at, pair in bounds),
    )


@settings(max_examples=200, deadline=None)
@given(a=BOUND, b=BOUND, threshold=BOUND)
def test_less_mirrors_greater(a: float, b: float, threshold: float) -> None:
    """Changing every sign exchanges the two directions."""
    low, high = min(a, b), max(a, b)
    assert decide(low, high, threshold, "greater") is decide(-high, -low, -threshold, "less")


@settings(max_examples=200, deadline=None)
@given(a=BOUND, b=BOUND, threshold=BOUND, more=st.floats(0, 5))
def test_a_wider_interval_never_proves_more(a, b, threshold, more) -> None:
    """Widening turns a verdict into inconclusive or leaves it, in every direction."""
    low, high = min(a, b), max(a, b)
    for direction in ("greater", "less", "equivalence"):
        margin = abs(threshold)
        narrow = decide(low, high, margin, direction)
        wide = decide(low - more, high + more, margin, direction)
        assert wide in (narrow, Outcome.INCONCLUSIVE)


@pytest.mark.parametrize("direction", ["greater", "less", "equivalence"])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        (math.nan, 1.0),
        (1.0, math.nan),
        (math.nan, math.nan),
        (1.0, math.inf),
        (-math.inf, -1.0),
        (-math.inf, math.inf),
        (math.inf, math.inf),
    ],
)
def test_bounds_that_are_no_numbers_prove_nothing(low, high, direction) -> None:
    """Infinity and nan are inconclusive whatever is claimed."""
    assert decide(low, high, 0.0, direction) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("threshold", "direction"),
    [
        (math.nan, "greater"),
        (math.inf, "less"),
        (-0.1, "equivalence"),
        (math.nan, "equivalence"),
        (0.0, "above"),
        (True, "greater"),
    ],
)
def test_a_threshold_that_means_nothing_is_refused(threshold, direction) -> None:
    """An unusable promise is an error, not a verdict."""
    with pytest.raises(InferenceError):
        decide(0.0, 1.0, threshold, direction)


def test_bounds_out_of_order_are_refused() -> None:
    """A low above the high is a bug of the caller."""
    with pytest.raises(InferenceError, match="out of order"):
        decide(1.0, 0.0, 0.0, "greater")


def test_equality_up_to_rounding_decides_nothing_at_large_thresholds_too() -> None:
    """The tolerance grows with the threshold."""
    assert decide(1e6 + 1e-9, 2e6, 1e6, "greater") is Outcome.INCONCLUSIVE
    assert decide(1e6 + 1e-3, 2e6, 1e6, "greater") is Outcome.SUPPORTED


def test_every_contrast_must_clear_the_threshold() -> None:
    """The least low at the level supports; one that fails is enough to withhold it."""
    clear = [result(0.1, 0.3, m=2), result(0.2, 0.5, m=2)]
    assert decide_conjunction(clear, 0.0, "greater").outcome is Outcome.SUPPORTED
    mixed = [result(-0.1, 0.3, (-0.2, 0.4), m=2), result(0.2, 0.5, m=2)]
    found = decide_conjunction(mixed, 0.0, "greater")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert (found.low, found.high) == (-0.1, 0.4)
    assert found.binding == 0


def test_refuting_a_conjunction_needs_the_corrected_level() -> None:
    """Below at 95% but not at the Bonferroni level is inconclusive; below at both refutes."""
    only_at_95 = [result(-0.3, -0.1, (-0.4, 0.05), m=2), result(0.2, 0.5, m=2)]
    assert decide_conjunction(only_at_95, 0.0, "greater").outcome is Outcome.INCONCLUSIVE
    at_both = [result(-0.3, -0.1, (-0.4, -0.05), m=2), result(0.2, 0.5, m=2)]
    found = decide_conjunction(at_both, 0.0, "greater")
    assert found.outcome is Outcome.REFUTED
    assert found.high == -0.05
    assert found.refuting_level == pytest.approx(0.975)


def test_less_uses_the_largest_bounds() -> None:
    """Every contrast must lie below: the largest high supports, the largest corrected low refutes."""
    below = [result(-0.3, -0.1, m=2), result(-0.5, -0.2, m=2)]
    found = decide_conjunction(below, 0.0, "less")
    assert (found.outcome, found.high, found.binding) == (Outcome.SUPPORTED, -0.1, 0)
    above = [result(-0.3, -0.1, m=2), result(0.2, 0.5, (0.1, 0.6), m=2)]
    found = decide_conjunction(above, 0.0, "less")
    assert (found.outcome, found.low, found.binding) == (Outcome.REFUTED, 0.1, 1)


def test_equivalence_of_several_contrasts_is_about_the_largest_size() -> None:
    """All inside the margin supports; one wholly outside, on either side, refutes."""
    inside = [result(-0.1, 0.05, m=2), result(-0.02, 0.08, m=2)]
    found = decide_conjunction(inside, 0.2, "equivalence")
    assert (found.outcome, found.low, found.high) == (Outcome.SUPPORTED, 0.0, 0.1)
    outside = [result(-0.1, 0.05, m=2), result(-0.9, -0.5, (-1.0, -0.4), m=2)]
    found = decide_conjunction(outside, 0.2, "equivalence")
    assert (found.outcome, found.low, found.binding) == (Outcome.REFUTED, 0.4, 1)
    across = [result(-0.1, 0.05, m=2), result(-0.9, -0.1, m=2)]
    assert decide_conjunction(across, 0.2, "equivalence").outcome is Outcome.INCONCLUSIVE


def test_equivalence_of_one_contrast_keeps_its_sign() -> None:
    """A single interval is shown as it is."""
    found = decide_conjunction([result(-0.1, 0.05)], 0.2, "equivalence")
    assert (found.outcome, found.low, found.high) == (Outcome.SUPPORTED, -0.1, 0.05)


@settings(max_examples=100, deadline=None)
@given(a=BOUND, b=BOUND, threshold=BOUND)
def test_a_conjunction_of_one_is_the_plain_verdict(a, b, threshold) -> None:
    """With one contrast nothing is corrected."""
    low, high = min(a, b), max(a, b)
    for direction in ("greater", "less", "equivalence"):
        limit = abs(threshold)
        found = decide_conjunction([result(low, high)], limit, direction)
        assert found.outcome is decide(low, high, limit, direction)


def test_what_the_data_can_not_carry_is_invalid() -> None:
    """Degenerate data, undefined resamples and an unresolved distribution answer nothing."""
    for spoiled in (
        result(0.1, 0.3, degenerate=True),
        result(0.1, 0.3, undefined_share=0.001),
        result(0.1, 0.3, probability_error=0.1),
    ):
        assert decide_conjunction([spoiled], 0.0, "greater").outcome is Outcome.INVALID
    beside = [result(0.1, 0.3, m=2), result(0.1, 0.3, m=2, degenerate=True)]
    assert decide_conjunction(beside, 0.0, "greater").outcome is Outcome.INVALID


def test_few_units_are_inconclusive() -> None:
    """Nine units prove nothing, ten may; a study may ask for more, never for fewer."""
    assert decide_conjunction([result(1, 2, n_units=9)], 0, "greater").outcome is (Outcome.INCONCLUSIVE)
    ten = [result(1, 2, n_units=10)]
    assert decide_conjunction(ten, 0, "greater").outcome is Outcome.SUPPORTED
    more = decide_conjunction(ten, 0, "greater", min_units=20)
    assert more.outcome is Outcome.INCONCLUSIVE
    assert "10 independent units" in more.reason
    for too_few in (9, 0, True):
        with pytest.raises(InferenceError, match="min_units"):
            decide_conjunction(ten, 0, "greater", min_units=too_few)


def test_an_empty_conjunction_is_no_truth() -> None:
    """All of nothing is an error."""
    with pytest.raises(InferenceError, match="empty conjunction"):
        decide_conjunction([], 0.0, "greater")


def test_a_missing_level_is_an_error_that_says_how_to_get_it() -> None:
    """Without the Bonferroni interval there is no refuting bound, so no verdict."""
    with pytest.raises(InferenceError, match="no expanded_percentile interval"):
        decide_conjunction([result(0.1, 0.2), result(0.1, 0.2)], 0.0, "greater")
    with pytest.raises(InferenceError, match="no bca interval"):
        decide_conjunction([result(0.1, 0.2)], 0.0, "greater", method="bca")


@pytest.mark.parametrize(("m", "level"), [(0, 0.95), (2, 0.0), (2, math.nan)])
def test_a_corrected_level_needs_a_family_and_a_level(m: int, level: float) -> None:
    """No family, no correction."""
    with pytest.raises(InferenceError):
        bonferroni_level(level, m)


def test_beating_every_null_from_data_to_verdict() -> None:
    """Ideal intervals at two levels: a fit that beats three nulls by 0.3, and one that ties the third."""
    rng = np.random.default_rng(0)
    n, sst = 80, rng.exponential(1.0, 80)
    fit = 0.3 * sst * rng.uniform(0.9, 1.1, n)
    nulls = 0.6 * sst[:, None] * rng.uniform(0.9, 1.1, (n, 3))
    table = RatioTable.from_rows(labels(n), np.column_stack([fit, nulls]), np.repeat(sst[:, None], 4, axis=1))
    beats = np.column_stack([-np.ones(3), np.eye(3)])
    wide = bonferroni_level(0.95, 3)
    results = ideal_intervals(table, beats, 0.95, also_levels=[wide])
    assert decide_conjunction(results, 0.1, "greater").outcome is Outcome.SUPPORTED
    nulls[:, 2] = fit * rng.uniform(0.9, 1.1, n)
    table = RatioTable.from_rows(labels(n), np.column_stack([fit, nulls]), np.repeat(sst[:, None], 4, axis=1))
    results = intervals(table, beats, BootstrapPlan(n, 2000, 1), 0.95, also_levels=[wide])
    found = decide_conjunction(results, 0.1, "greater")
    assert (found.outcome, found.binding) == (Outcome.REFUTED, 2)
    assert decide_conjunction(results, 0.0, "greater").outcome is Outcome.INCONCLUSIVE


def test_degenerate_data_are_invalid_from_end_to_end() -> None:
    """Twelve identical gaps above the threshold are not support."""
    found = ideal_intervals(one_ratio(np.full(12, 0.5), np.ones(12)), [1.0])
    assert decide_conjunction(found, 0.0, "greater").outcome is Outcome.INVALID


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.1, 0.2, "lies above 0"),
        (-0.2, -0.1, "lies below 0"),
        (-0.1, 0.1, "does not exclude 0"),
        (-math.inf, 0.1, "unbounded"),
    ],
)
def test_the_reason_says_in_words_what_the_numbers_say(low, high, words) -> None:
    """One line, with the interval and the threshold."""
    spoiled = result(low, high)
    assert words in decide_conjunction([spoiled], 0.0, "greater").reason
