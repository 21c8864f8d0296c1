"""Claims about some candidate: by hand, by simulated size and power, and where the data can't answer."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    ExplicitPlan,
    Outcome,
    RatioTable,
    SomeDecision,
    bonferroni_level,
    decide_conjunction,
    decide_some,
    holm,
    intervals,
    some,
)
from prereg.inference.contrasts import prepare
from prereg.inference.formulas import expanded_tail
from prereg.inference.max_t import MaxT, max_t
from prereg.inference.replicates import aligned_replicates

from ._support import labels

PLAN = BootstrapPlan(60, 1999, seed=5)


def columns(values: np.ndarray) -> list[tuple[RatioTable, np.ndarray]]:
    """Make each column of values, shape (n, m), a candidate whose theta is its mean."""
    table = RatioTable.of_means(labels(values.shape[0]), values)
    return [(table, row) for row in np.eye(values.shape[1])]


def noise(n: int = 60, m: int = 4, seed: int = 0) -> np.ndarray:
    """Draw m columns whose sample means are exactly 0 and whose deviations are exactly 1."""
    raw = np.random.default_rng(seed).normal(size=(n, m))
    centred = raw - raw.mean(axis=0)
    return np.asarray(centred / centred.std(axis=0))


def test_the_p_values_are_those_of_the_definition() -> None:
    """Means of 12 units, 99 resamples: t and t* written out, counted hypothesis by hypothesis."""
    rng = np.random.default_rng(3)
    values = rng.normal(0.3, 1.0, (12, 3)) + rng.normal(size=(12, 1))
    draws = rng.integers(0, 12, (99, 12))
    found = decide_some(columns(values), ExplicitPlan(12, draws), 0.1, "greater")
    theta, se = values.mean(axis=0), values.std(axis=0) / math.sqrt(12)
    t = (theta - 0.1) / se
    star = values[draws]
    null = (star.mean(axis=1) - theta) / (star.std(axis=1) / math.sqrt(12))
    order, running = list(np.argsort(-t)), 0.0
    for place, f in enumerate(order):
        running = max(running, (1 + (null[:, order[place:]].max(axis=1) >= t[f]).sum()) / 100)
        assert found.adjusted_p[f] == pytest.approx(running, abs=1e-15)
    # (1 + #) / 100 <= 0.025 leaves one maximum at or above: the statistic must pass the second largest.
    assert found.critical == pytest.approx(np.sort(null.max(axis=1))[-2], rel=1e-9)
    assert found.best == order[0]
    factor = found.critical + NormalDist().inv_cdf(0.8)
    wanted = [factor * np.median(se), factor * se.min(), factor * se.max()]
    assert [found.mde, found.mde_smallest, found.mde_largest] == pytest.approx(wanted)


def test_less_mirrors_greater() -> None:
    """Changing every sign exchanges the directions, with the same p-values and mirrored bounds."""
    values = noise() * 0.2 + np.array([0.0, 0.3, 0.0, -0.3])
    up = decide_some(columns(values), PLAN, 0.1, "greater")
    down = decide_some(columns(-values), PLAN, -0.1, "less")
    assert (up.outcome, down.outcome) == (Outcome.SUPPORTED, Outcome.SUPPORTED)
    assert (up.best, up.adjusted_p, up.mde) == (down.best, down.adjusted_p, down.mde)
    assert (down.low, down.high) == pytest.approx((-up.high, -up.low))
    assert down.equivalence_bound == pytest.approx(-up.equivalence_bound)


def test_every_bound_below_the_threshold_refutes_without_a_correction() -> None:
    """The bound is the largest of the candidates' own at the level; at the corrected level it would not be below."""
    values = noise() * 0.2 + 0.1
    own = [intervals(*pair, PLAN)[0].interval("expanded_percentile", 0.95) for pair in columns(values)]
    corrected = bonferroni_level(0.95, 4)
    expanded = ("expanded_percentile",)
    wide = [
        intervals(*pair, PLAN, corrected, methods=expanded)[0].intervals[0].high for pair in columns(values)
    ]
    threshold = (max(i.high for i in own) + max(wide)) / 2
    found = decide_some(columns(values), PLAN, threshold, "greater")
    assert found.outcome is Outcome.REFUTED
    assert found.equivalence_bound == max(i.high for i in own)
    assert (found.low, found.high) == (own[found.best].low, own[found.best].high)
    at_the_bound = decide_some(columns(values), PLAN, found.equivalence_bound, "greater")
    assert at_the_bound.outcome is Outcome.INCONCLUSIVE


def test_one_candidate_that_might_be_above_withholds_the_refutation() -> None:
    """Three far below and one astride: neither shown nor excluded."""
    values = noise() * 0.2 + np.array([0.0, 0.0, 0.0, 0.3])
    found = decide_some(columns(values), PLAN, 0.3, "greater")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.best == 3
    assert "does not exclude" in found.reason


def test_an_effect_too_small_to_mean_anything_is_found_against_0_and_not_against_the_threshold() -> None:
    """0.002 with enough units is above 0 beyond doubt, and below 0.05 beyond doubt."""
    values = noise() * 0.001 + np.array([0.0, 0.002, 0.0, 0.0])
    assert decide_some(columns(values), PLAN, 0.0, "greater").outcome is Outcome.SUPPORTED
    found = decide_some(columns(values), PLAN, 0.05, "greater")
    assert found.outcome is Outcome.REFUTED
    assert found.equivalence_bound < 0.0025


def test_stepping_down_shows_what_one_step_and_bonferroni_do_not() -> None:
    """Beside four strong effects the fifth faces one null only; Bonferroni charges it fivefold."""
    values = noise(m=5, seed=1) + np.array([9.0, 9.0, 9.0, 9.0, 2.35]) / math.sqrt(60)
    found = decide_some(columns(values), PLAN, 0.0, "greater")
    alone = [decide_some(columns(values[:, [f]]), PLAN, 0.0, "greater").adjusted_p[0] for f in range(5)]
    assert found.adjusted_p[4] <= 0.025 < 5 * alone[4]
    assert all(ours <= theirs for ours, theirs in zip(found.adjusted_p, holm(alone), strict=True))


def maxima(values: np.ndarray, n_replicates: int, seed: int, threshold: float) -> MaxT:
    """Test the columns' means against a threshold at a one-sided 5%."""
    n, m = values.shape
    contrasts = prepare(RatioTable.of_means(labels(n), values), np.eye(m))
    return max_t(
        contrasts, *aligned_replicates(contrasts, BootstrapPlan(n, n_replicates, seed)), threshold, 1.0, 0.05
    )


def simulate(theta: np.ndarray, threshold: float, runs: int, n: int, seed: int) -> int:
    """Count runs in which some adjusted p is at most 5%, candidates correlated at 0.5."""
    rng, hits = np.random.default_rng(seed), 0
    for run in range(runs):
        values = theta + (rng.normal(size=(n, theta.size)) + rng.normal(size=(n, 1))) / math.sqrt(2)
        hits += min(maxima(values, 199, run, threshold).adjusted_p) <= 0.05
    return hits


def test_the_size_is_held_at_the_boundary_and_the_power_is_there() -> None:
    """Six correlated candidates at the threshold: at most 5% of 400 runs and 3 standard errors; one above is found."""
    runs = 400
    assert simulate(np.full(6, 0.3), 0.3, runs, 40, 1) <= 0.05 * runs + 3 * math.sqrt(runs * 0.05 * 0.95)
    # At 4.5 standard errors from the threshold, against a critical value near 2.4.
    assert simulate(np.array([0.3, 0, 0, 0, 0, 0.3 + 4.5 / math.sqrt(40)]), 0.3, 60, 40, 2) >= 54


def test_the_minimum_detectable_effect_is_detected_in_four_runs_of_five() -> None:
    """Candidates at the threshold but one, which lies at the effect announced: power 0.8 within 4 standard errors."""
    n, m, runs, rng, hits = 50, 4, 150, np.random.default_rng(8), 0
    planned = decide_some(columns(noise(n, m)), BootstrapPlan(n, 1999, 1), 0.0, "greater", 0.9)
    for run in range(runs):
        values = rng.normal(size=(n, m))
        values[:, 0] += planned.mde
        hits += maxima(values, 199, run, 0.0).adjusted_p[0] <= 0.05
    assert abs(hits / runs - 0.8) <= 4 * math.sqrt(0.16 / runs)


def silent(values: np.ndarray, speakers: int) -> list[tuple[RatioTable, np.ndarray]]:
    """Let all but the first so many units be silent about the last candidate."""
    weight = np.ones_like(values)
    weight[speakers:, -1] = 0.0
    table = RatioTable.from_rows(labels(values.shape[0]), values * weight, weight)
    return [(table, row) for row in np.eye(values.shape[1])]


def test_a_candidate_few_units_speak_about_is_neither_shown_nor_bounded() -> None:
    """Nine speakers far above the threshold show nothing, and nine far below refute nothing."""
    values = noise() * 0.2
    values[:9, 3] += 5.0
    above = decide_some(silent(values, 9), PLAN, 0.5, "greater")
    assert (above.outcome, above.adjusted_p[3], above.too_few) == (Outcome.INCONCLUSIVE, 1.0, (3,))
    assert above.best != 3
    values[:9, 3] -= 10.0
    below = decide_some(silent(values, 9), PLAN, 0.5, "greater")
    assert (below.outcome, below.equivalence_bound) == (Outcome.INCONCLUSIVE, math.inf)
    assert "fewer than 10 units" in below.reason
    # The others are tested as if it did not exist.
    assert below.adjusted_p[:3] == decide_some(columns(values[:, :3]), PLAN, 0.5, "greater").adjusted_p


def test_resamples_without_a_denominator_count_against_the_claim() -> None:
    """Ten speakers of sixty: a resample of none of them is as extreme as any, and bounds nothing."""
    values = noise() * 0.2
    values[:10, 3] += 5.0
    few = BootstrapPlan(60, 99_999, seed=5)
    found = decide_some(silent(values, 10), few, 0.5, "greater")
    assert (found.outcome, found.best, found.undefined) == (Outcome.SUPPORTED, 3, (3,))
    # (5/6)**60 of the resamples, 1.8e-5, hold no speaker; none is otherwise as extreme as t = 20.
    drawn = sum(int((chunk >= 10).all(axis=1).sum()) for chunk in few.indices())
    assert drawn > 0
    assert found.adjusted_p[3] >= (1 + drawn) / 100_000
    values[:10, 3] -= 10.0
    below = decide_some(silent(values, 10), few, 0.5, "greater")
    assert (below.outcome, below.equivalence_bound) == (Outcome.INCONCLUSIVE, math.inf)
    assert "undefined resamples" in below.reason


def test_the_interval_is_widened_for_the_units_that_speak() -> None:
    """Forty speakers of sixty: the expanded percentile of forty units, not of sixty."""
    pairs = silent(noise() * 0.2, 40)
    found = decide_some(pairs[3:], PLAN, 9.0, "greater")
    tail = 1 - 2 * expanded_tail(0.95, 40)
    wanted = intervals(*pairs[3], PLAN, tail, methods=("percentile",))[0].intervals[0]
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    assert found.high > intervals(*pairs[3], PLAN)[0].interval("expanded_percentile", 0.95).high


def test_a_constant_candidate_is_no_support_and_invalid_unless_it_is_known_to_be_constant() -> None:
    """As a conjunction rests nothing on data without variation; another candidate that is shown still is."""
    values = noise() * 0.2
    values[:, 2] = 7.0
    found = decide_some(columns(values), PLAN, 0.5, "greater")
    assert (found.outcome, found.degenerate, found.adjusted_p[2]) == (Outcome.INVALID, (2,), 1.0)
    assert "no variation" in found.reason
    values[:, 0] += 2.0
    assert decide_some(columns(values), PLAN, 0.5, "greater").outcome is Outcome.SUPPORTED
    values[:, 0] -= 2.0
    values[:, 2] = 0.0
    assert decide_some(columns(values), PLAN, 0.5, "greater").outcome is Outcome.INVALID
    known = decide_some(columns(values), PLAN, 0.5, "greater", constant_is_proof=True)
    assert known.outcome is Outcome.REFUTED
    values[:, 2] = 0.5
    at = decide_some(columns(values), PLAN, 0.5, "greater", constant_is_proof=True)
    assert (at.outcome, at.equivalence_bound) == (Outcome.INCONCLUSIVE, 0.5)


def test_nothing_testable_is_no_test() -> None:
    """All constant, or all too few: infinite minimum detectable effect and p-values of 1."""
    constant = decide_some(columns(np.ones((60, 2))), PLAN, 0.5, "greater")
    assert (constant.outcome, constant.adjusted_p, constant.mde) == (Outcome.INVALID, (1.0, 1.0), math.inf)
    small = decide_some(columns(noise(9, 2) + 5.0), BootstrapPlan(9, 999, 1), 0.5, "greater")
    assert (small.outcome, small.too_few) == (Outcome.INCONCLUSIVE, (0, 1))
    more = decide_some(columns(noise() + 5.0), PLAN, 0.5, "greater", min_units=61)
    assert (more.outcome, more.too_few) == (Outcome.INCONCLUSIVE, (0, 1, 2, 3))


def test_weighted_sums_of_several_ratios_are_candidates_too() -> None:
    """With several denominators, as a conjunction of one would decide."""
    rng = np.random.default_rng(4)
    bottom = rng.uniform(0.5, 1.5, (60, 2))
    table = RatioTable.from_rows(labels(60), bottom * rng.normal(0.4, 0.1, (60, 2)), bottom)
    found = decide_some([(table, np.array([0.5, 0.5]))], PLAN, 0.5, "greater")
    own = intervals(table, [0.5, 0.5], PLAN)[0]
    assert found.outcome is Outcome.REFUTED
    bounds = [own.interval(method, 0.95).high for method in ("expanded_percentile", "studentized")]
    assert found.equivalence_bound == pytest.approx(max(bounds), rel=1e-12)
    assert decide_conjunction([own], 0.5, "greater").outcome is Outcome.REFUTED


def test_a_candidate_of_few_units_with_a_long_tail_is_seldom_refuted_where_it_is_at_the_threshold() -> None:
    """Twelve log-normal units speak: a percentile is too sure of what it hasn't met, the studentized bound less so."""
    rng, wrong = np.random.default_rng(9), {"percentile": 0, "both": 0}
    for _ in range(200):
        top, bottom = np.zeros((60, 1)), np.zeros((60, 1))
        top[:12, 0], bottom[:12] = np.exp(1.2 * rng.standard_normal(12)), 1.0
        pair = (RatioTable.from_rows(labels(60), top, bottom), [1.0])
        found = decide_some([pair], BootstrapPlan(60, 399, 2), math.exp(0.72), "greater")
        wrong["both"] += found.outcome is Outcome.REFUTED
        wrong["percentile"] += found.high < math.exp(0.72)
    assert wrong["percentile"] > 15
    assert wrong["both"] < 0.7 * wrong["percentile"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"candidates": []}, "no candidates"),
        ({"direction": "equivalence"}, "direction"),
        ({"direction": "above"}, "direction"),
        ({"threshold": math.nan}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"level": 0.05}, "level"),
        ({"min_units": 9}, "min_units"),
        ({"min_units": True}, "min_units"),
        ({"plan": BootstrapPlan(60, 38, 1)}, "no p-value can reach"),
        ({"plan": BootstrapPlan(59, 999, 1)}, "length mismatch"),
        ({"candidates": [(RatioTable.of_means(labels(60), noise()), np.eye(4))]}, "4 contrasts"),
        ({"candidates": [*columns(noise()), *columns(noise(61))]}, "other units"),
    ],
)
def test_a_question_that_can_not_be_put_is_refused(change: dict[str, object], words: str) -> None:
    """Emptiness, other units, too few replicates and numbers out of range are errors."""
    asked = {"candidates": columns(noise()), "plan": PLAN, "threshold": 0.5, "direction": "greater", **change}
    with pytest.raises(InferenceError, match=words):
        decide_some(**asked)


def test_a_decision_is_frozen() -> None:
    """What was decided can be copied, not changed."""
    found = decide_some(columns(noise()), PLAN, 0.5, "greater")
    assert isinstance(found, SomeDecision)
    assert replace(found) == found
    with pytest.raises(AttributeError):
        found.outcome = Outcome.SUPPORTED  # type: ignore[misc]


def test_the_example_in_the_docstring_runs() -> None:
    """Three heads, of which one exceeds."""
    failed, tried = doctest.testmod(some)
    assert (failed, tried >= 5) == (0, True)
