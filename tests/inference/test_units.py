"""Rows into units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg.errors import InferenceError
from prereg.inference import RatioTable, align_rows, ideal_intervals, unit_sums

VALUES = st.floats(-1e6, 1e6, allow_nan=False)
ROWS = st.lists(st.tuples(st.sampled_from("abcd"), VALUES, VALUES), min_size=1, max_size=40)


def test_units_are_sorted_and_sums_belong_to_them() -> None:
    """Interleaved labels are gathered under sorted units."""
    found = unit_sums(["b", "a", "c", "b"], [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])
    assert found.units == ("a", "b", "c")
    assert found.rows == (1, 2, 1)
    assert found.sums.tolist() == [[2.0, 20.0], [5.0, 50.0], [3.0, 30.0]]


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_changes_no_bit(rows, seed: int) -> None:
    """Any permutation of the rows gives the same units and identical sums."""
    names = [row[0] for row in rows]
    values = np.array([row[1:] for row in rows])
    order = np.random.default_rng(seed).permutation(len(rows))
    first = unit_sums(names, values)
    second = unit_sums([names[i] for i in order], values[order])
    assert first.units == second.units
    assert first.sums.tobytes() == second.sums.tobytes()


@settings(max_examples=60, deadline=None)
@given(rows=ROWS)
def test_sums_are_correctly_rounded(rows) -> None:
    """Each sum is the exactly rounded sum of its unit's rows."""
    found = unit_sums([row[0] for row in rows], [row[1] for row in rows])
    for unit, total in zip(found.units, found.sums[:, 0], strict=True):
        assert total == math.fsum(row[1] for row in rows if row[0] == unit)


def test_a_whole_answer_does_not_depend_on_the_order_of_rows() -> None:
    """The interval from shuffled rows is identical, not merely close."""
    rng = np.random.default_rng(1)
    names = np.array([f"s{i % 23}" for i in range(150)])
    d, t = rng.normal(0.1, 1, 150), rng.exponential(1, 150)
    order = rng.permutation(150)
    first = ideal_intervals(RatioTable.from_rows(names.tolist(), d, t), [1.0])
    second = ideal_intervals(RatioTable.from_rows(names[order].tolist(), d[order], t[order]), [1.0])
    assert first == second


def test_sums_can_not_be_written_to() -> None:
    """A unit's sums are read-only."""
    found = unit_sums(["a", "b"], [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        found.sums[0, 0] = 5.0


@pytest.mark.parametrize(
    ("names", "values", "words"),
    [
        ([], [], "empty"),
        (["a"], [1.0, 2.0], "length mismatch"),
        (["a", ""], [1.0, 2.0], "non-empty strings"),
        (["a", 3], [1.0, 2.0], "non-empty strings"),
        (["a", "b"], [1.0, float("nan")], "1 nan"),
        (["a", "b"], [1.0, float("-inf")], "1 inf"),
        (["a", "b"], [1.0, 1e200], "at most"),
        (["a", "b"], ["x", "y"], "real numbers"),
        (["a", "b"], [1j, 2j], "real numbers"),
        (["a", "b"], np.zeros((2, 2, 2)), "one or two dimensions"),
        (["a", "b"], np.zeros((2, 0)), "empty"),
    ],
)
def test_unusable_rows_are_refused(names, values, words: str) -> None:
    """Each kind of hole is named."""
    with pytest.raises(InferenceError, match=words):
        unit_sums(names, values)


def test_pairs_are_made_by_key_not_by_position() -> None:
    """The same keys in another order are brought into line."""
    other = ["c", "a", "b"]
    assert [other[i] for i in align_rows(["a", "b", "c"], other)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("keys", "other", "words"),
    [
        ([], ["a"], "empty"),
        (["a"], [], "empty"),
        (["a", "a"], ["a", "b"], "repeated"),
        (["a", "b"], ["b", "b"], "repeated"),
        (["a", "b"], ["a", "c"], "no partner"),
        (["a"], ["a", "b"], "no partner"),
    ],
)
def test_ambiguous_or_missing_pairs_are_refused(keys, other, words: str) -> None:
    """A key without exactly one partner is an error."""
    with pytest.raises(InferenceError, match=words):
        align_rows(keys, other)
