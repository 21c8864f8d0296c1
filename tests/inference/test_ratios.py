"""Tables of ratios and their contrasts."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.errors import InferenceError
from prereg.inference import BootstrapPlan, RatioTable, intervals
from prereg.inference.contrasts import prepare

from ._support import labels, one_ratio, random_ratio


def table(n: int = 12, k: int = 3, seed: int = 0) -> RatioTable:
    rng = np.random.default_rng(seed)
    return RatioTable.from_rows(labels(n), rng.normal(0, 1, (n, k)), rng.exponential(1, (n, k)))


def test_a_ratio_is_a_ratio_of_sums() -> None:
    """Not the mean of the units' own ratios."""
    assert one_ratio([1.0, 2.0], [1.0, 5.0]).ratios().tolist() == [0.5]


def test_plain_means_are_ratios_over_counts_of_rows() -> None:
    """A mean over rows weighs each row once, whatever its unit."""
    means = RatioTable.of_means(["a", "a", "b"], [1.0, 2.0, 6.0])
    assert means.ratios().tolist() == [3.0]
    assert means.denominator[:, 0].tolist() == [2.0, 1.0]
    assert means.n_rows == 3


@pytest.mark.parametrize(
    ("units", "numerator", "denominator", "n_rows", "words"),
    [
        (("a", "b"), [[1.0], [2.0]], [[1.0], [1.0]], 1, "n_rows"),
        (("a", "b"), [[1.0], [2.0]], [[1.0], [1.0]], True, "n_rows"),
        (("b", "a"), [[1.0], [2.0]], [[1.0], [1.0]], 2, "unsorted or repeated"),
        (("a", "a"), [[1.0], [2.0]], [[1.0], [1.0]], 2, "unsorted or repeated"),
        (("a", ""), [[1.0], [2.0]], [[1.0], [1.0]], 2, "non-empty"),
        (("a",), [[1.0], [2.0]], [[1.0], [1.0]], 2, "length mismatch"),
        (("a",), [[1.0]], [[1.0]], 1, "n=1"),
        (("a", "b"), [[1.0], [2.0]], [[1.0, 1.0], [1.0, 1.0]], 2, "length mismatch"),
        (("a", "b"), [[1.0], [2.0]], [[0.0], [0.0]], 2, "total denominator is 0"),
        (("a", "b"), [[1.0], [2.0]], [[-1.0], [3.0]], 2, "negative denominator"),
    ],
)
def test_a_table_that_can_not_be_used_is_refused(units, numerator, denominator, n_rows, words: str) -> None:
    """Validation is complete at construction."""
    with pytest.raises(InferenceError, match=words):
        RatioTable(units, np.array(numerator), np.array(denominator), n_rows)


def test_a_negative_row_can_not_hide_within_its_unit() -> None:
    """Denominators are checked before rows are summed."""
    with pytest.raises(InferenceError, match="negative denominator"):
        RatioTable.from_rows(["a", "a", "b"], [1.0, 1.0, 1.0], [3.0, -1.0, 1.0])


def test_a_table_keeps_its_own_copy() -> None:
    """Changing the caller's array afterwards changes nothing."""
    numerator = np.array([[1.0], [2.0]])
    built = RatioTable(("a", "b"), numerator, np.ones((2, 1)), 2)
    numerator[0, 0] = 99.0
    assert built.ratios().tolist() == [1.5]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, 2.0], "cover 2 ratios"),
        ([0.0, 0.0, 0.0], "only zero weights"),
        ([1.0, float("nan"), 0.0], "nan"),
        ([], "empty"),
    ],
)
def test_weights_must_fit_the_table(weights, words: str) -> None:
    """A contrast that estimates nothing, or something else, is refused."""
    with pytest.raises(InferenceError, match=words):
        prepare(table(), weights)


def test_a_contrast_is_the_weighted_sum_of_ratios() -> None:
    """Estimate and influence agree with their formulas written out."""
    given = table()
    weights = np.array([0.5, -1.0, 0.25])
    found = prepare(given, weights)[0]
    ratios = given.numerator.sum(axis=0) / given.denominator.sum(axis=0)
    psi = ((given.numerator - ratios * given.denominator) / given.denominator.sum(axis=0)) @ weights
    assert found.estimate == pytest.approx(float(weights @ ratios), rel=1e-13)
    assert found.influence() == pytest.approx(psi, abs=1e-15)
    assert found.standard_error() == pytest.approx(np.sqrt((psi**2).sum()), rel=1e-13)


def test_leaving_one_unit_out_in_closed_form_is_leaving_it_out() -> None:
    """The jackknife agrees with recomputing the contrast on the remaining units."""
    given = table()
    weights = np.array([0.5, -1.0, 0.25])
    found = prepare(given, weights)[0].leave_one_out()
    for i in range(given.n_units):
        rest = np.arange(given.n_units) != i
        ratios = given.numerator[rest].sum(axis=0) / given.denominator[rest].sum(axis=0)
        assert found[i] == pytest.approx(float(weights @ ratios), rel=1e-12)


def test_ratios_with_a_shared_denominator_are_merged() -> None:
    """A gap of two fits over one SST is a single ratio of sums, with the gap's own numerator."""
    rng = np.random.default_rng(2)
    sst = rng.exponential(1, 12)
    fits = rng.exponential(0.5, (12, 2))
    both = RatioTable.from_rows(labels(12), fits, np.column_stack([sst, sst]))
    gap = one_ratio(fits[:, 0] - fits[:, 1], sst)
    merged = prepare(both, [1.0, -1.0])[0]
    assert merged.n_groups == 1
    assert merged.estimate == pytest.approx(gap.ratios()[0], rel=1e-12)
    assert merged.standard_error() == pytest.approx(prepare(gap, [1.0])[0].standard_error())


def test_leaving_out_the_only_denominator_gives_no_acceleration() -> None:
    """Where a ratio rests on one unit alone, BCa is unbounded rather than wrong."""
    given = one_ratio([1.0, 2.0, 3.0], [0.0, 0.0, 5.0])
    assert prepare(given, [1.0])[0].leave_one_out() is None
    found = intervals(given, [1.0], BootstrapPlan(3, 200, 0), methods=["bca"])[0]
    assert [found.intervals[0].low, found.intervals[0].high] == [-np.inf, np.inf]


def test_two_fits_that_agree_to_rounding_are_degenerate() -> None:
    """A gap of 1e-17 beside errors of 1 is rounding, and no verdict may rest on its sign."""
    sse = np.random.default_rng(3).exponential(1, 20)
    both = RatioTable.from_rows(labels(20), np.column_stack([sse, sse * (1 + 2e-16)]), np.ones((20, 2)))
    assert prepare(both, [1.0, -1.0])[0].is_degenerate()
    assert not prepare(random_ratio(20), [1.0])[0].is_degenerate()
