"""The ten worked cases: exact by enumeration or rational arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    ExplicitPlan,
    Outcome,
    RatioTable,
    benjamini_hochberg,
    benjamini_yekutieli,
    decide,
    hochberg,
    holm,
    ideal_distribution,
    ideal_intervals,
    intervals,
    minimum_detectable_effect,
    plan_sums,
    replicate,
    tost_paired,
)
from prereg.inference.contrasts import prepare
from prereg.inference.formulas import (
    acceleration,
    bias_correction,
    expanded_tail,
    type7_quantile,
)
from prereg.inference.plan import count_blocks

from ._support import CASES, every_resample, number, one_ratio

OUTCOMES = {
    "pass": Outcome.SUPPORTED,
    "fail": Outcome.REFUTED,
    "inconclusive": Outcome.INCONCLUSIVE,
}


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.fixture(scope="module")
def gap() -> tuple[RatioTable, ContrastResult, dict[str, Any]]:
    case = CASES["r2gap_enumerated_n4"]
    given = case["inputs"]
    table = one_ratio(np.subtract(given["sse_b"], given["sse_a"]), given["sst"])
    result = intervals(table, [1.0], every_resample(4), 1.0 - given["alpha"])[0]
    return table, result, case["expected"]


@pytest.mark.parametrize("method", ["percentile", "basic", "bca", "studentized", "expanded_percentile"])
def test_every_interval_of_the_enumerated_gap_is_exact(gap, method: str) -> None:
    """All 256 resamples of four units give the intervals of exact rational arithmetic."""
    _, result, expected = gap
    interval = result.interval(method, 0.9)
    assert [interval.low, interval.high] == close(expected[method])


def test_the_enumerated_gap_has_exact_moments_and_constants(gap) -> None:
    """Estimate, delta error, bias correction, acceleration and widened tail are the exact ones."""
    table, result, expected = gap
    draws = replicate(table, [1.0], every_resample(4))[0]
    assert result.estimate == close(expected["theta"])
    assert result.standard_error == close(expected["se_delta"])
    assert draws.values.mean() == close(expected["boot_mean"])
    assert draws.values.var() == close(expected["boot_var_pop"])
    assert bias_correction(draws.values, draws.estimate) == close(expected["z0"])
    assert acceleration(prepare(table, [1.0])[0]) == close(expected["acceleration"])
    assert expanded_tail(0.9, 4) == close(expected["expanded_alpha_half"])


def test_the_enumerated_gap_counts_ties_and_constant_resamples(gap) -> None:
    """24 resamples equal the estimate, 111 lie below it, 9 reach zero, and 4 hold no variation."""
    table, _, expected = gap
    draws = replicate(table, [1.0], every_resample(4))[0]
    equal = np.abs(draws.values - draws.estimate) <= 1e-12
    assert int(equal.sum()) == expected["n_equal"]
    assert int(((draws.values < draws.estimate) & ~equal).sum()) == expected["n_less"]
    assert int((draws.values <= 1e-12).sum()) == expected["n_replicates_le_zero"]
    assert int((draws.standard_errors == 0.0).sum()) == expected["n_zero_se"]


def test_the_ideal_bootstrap_of_an_accuracy_gap_is_the_exact_multinomial() -> None:
    """Twelve paired answers have the exact probabilities and inverse-distribution quantiles."""
    case = CASES["paired_accuracy_gap_exact_multinomial"]
    given, expected = case["inputs"], case["expected"]
    same = given["n_both_right"] + given["n_both_wrong"]
    gaps = [0.0] * same + [1.0] * given["n_only_a"] + [-1.0] * given["n_only_b"]
    table = one_ratio(gaps, np.ones(12))
    ideal = ideal_distribution(table, [1.0])
    assert ideal.estimate == close(expected["theta"])
    assert ideal.cdf(0.0) == close(expected["prob_gap_le_zero"])
    assert ideal.mass(0.0) == close(expected["prob_gap_eq_zero"])
    assert ideal.cdf(0.0) - ideal.mass(0.0) == close(expected["prob_gap_lt_zero"])
    found = ideal_intervals(table, [1.0], 0.95)[0].interval("percentile", 0.95)
    assert [found.low, found.high] == close(expected["percentile_inverse_cdf"])


def test_monte_carlo_agrees_with_the_exact_multinomial() -> None:
    """20,000 replicates lie within four standard errors of the exact probability."""
    p = CASES["paired_accuracy_gap_exact_multinomial"]["expected"]["prob_gap_le_zero"]
    table = one_ratio([0.0] * 7 + [1.0] * 4 + [-1.0], np.ones(12))
    values = replicate(table, [1.0], BootstrapPlan(12, 20_000, 3))[0].values
    assert float((values <= 1e-12).mean()) == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 2e4))


@pytest.mark.parametrize("engine", ["plan", "ideal"])
def test_data_without_variation_give_a_flagged_point(engine: str) -> None:
    """D proportional to T is a point of zero width, never nan, and flagged."""
    case = CASES["degenerate_zero_variance_gap"]
    given, expected = case["inputs"], case["expected"]
    table = one_ratio(given["d"], given["t"])
    if engine == "plan":
        result = intervals(table, [1.0], BootstrapPlan(5, 500, 0))[0]
    else:
        result = ideal_intervals(table, [1.0])[0]
    assert result.degenerate is expected["degenerate_flag"]
    assert result.standard_error == expected["se"]
    for interval in result.intervals:
        assert [interval.low, interval.high] == close(expected["interval"])
        for threshold, verdict in expected["verdict_greater"].items():
            found = decide(interval.low, interval.high, float(threshold), "greater")
            assert found is OUTCOMES[verdict]


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (0, "empty"),
        (1, "n=1"),
        (2, "nan"),
        (3, "inf"),
        (4, "length mismatch"),
        (5, "total denominator is 0"),
        (6, "negative denominator"),
    ],
)
def test_unusable_input_is_an_error_that_says_why(position: int, words: str) -> None:
    """Nothing unusable becomes a number: each of the seven inputs is refused with its reason."""
    given = CASES["invalid_inputs"]["inputs"]["inputs"][position]
    d, t = ([number(x) for x in given[key]] for key in ("d", "t"))
    with pytest.raises(InferenceError, match=words):
        one_ratio(d, t)


def test_clusters_of_unequal_size_are_drawn_whole() -> None:
    """All 27 resamples of three clusters give the exact cluster intervals, not the row ones."""
    case = CASES["cluster_bootstrap_unequal_sizes"]
    given, expected = case["inputs"], case["expected"]
    table = RatioTable.from_rows(given["cluster"], given["d"], given["t"])
    plan = every_resample(3)
    draws = replicate(table, [1.0], plan)[0]
    result = intervals(table, [1.0], plan, 0.9)[0]
    wanted = expected["cluster"]
    assert table.n_units == expected["n_clusters"]
    assert result.estimate == close(wanted["theta"])
    assert draws.values.mean() == close(wanted["boot_mean"])
    assert draws.values.var() == close(wanted["boot_var_pop"])
    assert int((draws.standard_errors == 0).sum()) == wanted["n_zero_se"]
    assert acceleration(prepare(table, [1.0])[0]) == close(wanted["acceleration"])
    for method in ("percentile", "basic"):
        interval = result.interval(method, 0.9)
        assert [interval.low, interval.high] == close(wanted[method])


def test_rows_taken_as_units_give_the_narrower_interval() -> None:
    """The same six rows resampled one by one are the case's iid figures."""
    case = CASES["cluster_bootstrap_unequal_sizes"]
    given, expected = case["inputs"], case["expected"]
    table = one_ratio(given["d"], given["t"])
    plan = every_resample(6)
    draws = replicate(table, [1.0], plan)[0]
    interval = intervals(table, [1.0], plan, 0.9, methods=["percentile"])[0].intervals[0]
    assert draws.values.var() == close(expected["iid_boot_var_pop"])
    assert [interval.low, interval.high] == close(expected["iid_percentile"])


@pytest.mark.parametrize(
    ("name", "adjust"),
    [
        ("holm", holm),
        ("hochberg", hochberg),
        ("bh", benjamini_hochberg),
        ("by", benjamini_yekutieli),
    ],
)
def test_adjusted_p_values_keep_the_order_of_the_input(name: str, adjust) -> None:
    """Unsorted p-values with a tie are adjusted in place."""
    case = CASES["multiplicity_adjusted_p"]
    found = adjust(case["inputs"]["p"])
    assert found.tolist() == close(case["expected"][name])


@pytest.mark.parametrize(("name", "adjust"), [("holm", holm), ("bh", benjamini_hochberg)])
def test_rejections_follow_from_the_adjusted_p_values(name: str, adjust) -> None:
    """An adjusted p-value of at most alpha (within rounding) rejects."""
    case = CASES["multiplicity_adjusted_p"]
    rejected = adjust(case["inputs"]["p"]) <= case["inputs"]["alpha"] + 1e-12
    assert rejected.tolist() == case["expected"][f"reject_{name}"]


@pytest.mark.parametrize("row", range(17))
def test_the_three_way_table_of_verdicts(row: int) -> None:
    """Seventeen intervals, among them equality, nan, inf and a last-digit tie, get their verdict."""
    case = CASES["three_way_verdict_table"]
    low, high, threshold, direction = case["inputs"]["rows"][row]
    found = decide(number(low), number(high), threshold, direction)
    assert found is OUTCOMES[case["expected"]["verdict"][row]]


def test_paired_equivalence_by_two_one_sided_tests() -> None:
    """Twelve differences give the textbook t statistics, p-values and 90% interval."""
    case = CASES["tost_paired_t"]
    given, expected = case["inputs"], case["expected"]
    found = tost_paired(given["d"], given["margin"], given["alpha"])
    assert found.mean == close(expected["mean"])
    assert found.standard_error == close(expected["se"])
    assert found.t_lower == close(expected["t_lower"])
    assert found.t_upper == close(expected["t_upper"])
    assert found.p_lower == pytest.approx(expected["p_lower"], rel=1e-10)
    assert found.p_upper == pytest.approx(expected["p_upper"], rel=1e-10)
    assert found.p_value == pytest.approx(expected["p_tost"], rel=1e-10)
    assert [found.low, found.high] == pytest.approx(expected["ci90"], rel=1e-10)
    assert found.outcome is OUTCOMES[expected["verdict_ci90"]]


def test_the_delta_t_interval_of_a_mean_is_students() -> None:
    """For a plain mean, delta-t at 95% is the textbook t interval."""
    case = CASES["tost_paired_t"]
    given, expected = case["inputs"], case["expected"]
    table = RatioTable.of_means([f"{i:02d}" for i in range(12)], given["d"])
    found = intervals(table, [1.0], BootstrapPlan(12, 64, 0), 0.95)[0].interval("delta_t", 0.95)
    assert [found.low, found.high] == pytest.approx(expected["ci95"], rel=1e-10)
    assert stats.ttest_1samp(given["d"], 0.0).pvalue == pytest.approx(expected["p_two_sided_zero"])


def test_the_minimum_detectable_effect_by_normal_and_by_t() -> None:
    """The effect found with 80% power, by normal and by t quantiles."""
    case = CASES["tost_paired_t"]
    se, expected = case["expected"]["se"], case["expected"]
    assert minimum_detectable_effect(se) == pytest.approx(expected["mde_one_sided_z"], rel=1e-10)
    assert minimum_detectable_effect(se, n_units=12) == pytest.approx(expected["mde_one_sided_t"], rel=1e-10)


def test_the_quantile_is_type_7() -> None:
    """Nineteen replicates at 90%: linear interpolation, not the (B + 1) convention."""
    case = CASES["quantile_convention"]
    values = np.array(case["inputs"]["replicates"], dtype=float)
    found = [type7_quantile(values, 0.05), type7_quantile(values, 0.95)]
    assert found == close(case["expected"]["type7_linear"])


def test_sums_counts_and_replicates_are_exact_for_dyadic_numbers() -> None:
    """Given draws yield the five sums bit for bit, and the replicates they imply."""
    case = CASES["replicates_from_indices"]
    given, expected = case["inputs"], case["expected"]
    d, t = np.array(given["d"]), np.array(given["t"])
    plan = ExplicitPlan(5, np.array(given["indices"]))
    sums = plan_sums(plan, np.column_stack([d, t, d * d, d * t, t * t]))
    assert np.vstack(list(count_blocks(plan))).tolist() == expected["counts"]
    assert sums.tolist() == expected["sums"]
    assert (sums[:, 0] / sums[:, 1]).tolist() == expected["replicates"]
    table = one_ratio(d, t)
    values = replicate(table, [1.0], plan)[0].values
    assert values.tolist() == close(expected["replicates"])
    assert values[expected["identity_row"]] == table.ratios()[0]
