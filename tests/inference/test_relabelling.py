"""Rearranged labels: what moves with what, exact p-values, and the size of a refitted test."""

from __future__ import annotations

import collections
import doctest
import math

import numpy as np
import pytest
from scipy import stats

from prereg.errors import InferenceError
from prereg.inference import label_permutations, refit_permutation, relabelling


def test_labels_stay_within_their_stratum() -> None:
    """Each stratum keeps its labels, and every arrangement of them turns up equally often."""
    strata = ["a", "b", "a", "b", "a"]
    found = label_permutations([1, 2, 3, 4, 5], 3000, 1, strata=strata)
    assert np.unique(np.sort(found[:, [0, 2, 4]], axis=1), axis=0).tolist() == [[1, 3, 5]]
    counts = collections.Counter(map(tuple, found.tolist()))
    assert len(counts) == 6 * 2
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_clusters_of_one_label_move_whole_whatever_their_size() -> None:
    """A subject's label goes to all rows of another subject."""
    clusters = ["u", "u", "u", "v", "w", "w"]
    found = label_permutations(["x", "x", "x", "y", "z", "z"], 200, 2, clusters=clusters)
    for row in found.tolist():
        assert row[0] == row[1] == row[2]
        assert row[4] == row[5]
        assert {row[0], row[3], row[4]} == {"x", "y", "z"}
    assert len({tuple(row) for row in found.tolist()}) == 6


def test_clusters_of_mixed_labels_move_as_blocks_in_row_order() -> None:
    """Equally large clusters exchange their label sequences; rows need not be sorted by cluster."""
    clusters = ["u", "v", "u", "v", "w", "w"]
    found = label_permutations([1, 3, 2, 4, 5, 6], 200, 3, clusters=clusters)
    blocks = {(1, 2), (3, 4), (5, 6)}
    for row in found.tolist():
        assert {(row[0], row[2]), (row[1], row[3]), (row[4], row[5])} == blocks


def test_more_draws_begin_with_the_same() -> None:
    """Draw k depends on the seed and k alone."""
    few, many = label_permutations(range(9), 3, 5), label_permutations(range(9), 30, 5)
    assert few.tolist() == many[:3].tolist()
    assert few.tolist() != label_permutations(range(9), 3, 6).tolist()


@pytest.mark.parametrize(
    ("labels", "more", "words"),
    [
        ([], {}, "at least one row"),
        ([[1, 2]], {}, "one dimension"),
        ([1, 2], {"n": 0}, "n is 0"),
        ([1, 2], {"seed": -1}, "seed"),
        ([1, 2], {"n": True}, "n is True"),
        ([1, 2], {"strata": ["a"]}, "length mismatch"),
        ([1, 2], {"clusters": ["a"]}, "length mismatch"),
        ([1, 1], {}, "no rearrangement"),
        ([1, 2], {"strata": ["a", "b"]}, "no rearrangement"),
        ([1, 2], {"clusters": ["a", "a"]}, "no rearrangement"),
        ([1, 2, 3], {"clusters": ["a", "a", "b"]}, "can't change places"),
        ([1, 1, 2, 2], {"clusters": ["a", "a", "b", "b"], "strata": ["s", "t", "s", "t"]}, "two strata"),
    ],
)
def test_what_can_not_be_rearranged_is_refused(labels, more, words) -> None:
    """Emptiness, mismatches, and designs in which nothing moves."""
    with pytest.raises(InferenceError, match=words):
        label_permutations(labels, **{"n": 5, "seed": 1, **more})


def test_a_refitted_p_value_counts_the_observed_fit() -> None:
    """By hand from the same arrangements: (b + 1)/(B + 1), in each direction."""
    x, y = np.arange(8.0), np.array([0.0, 2.0, 1.0, 3.0, 5.0, 4.0, 6.0, 7.0])

    def slope(labels: np.ndarray) -> float:
        return float((x - 3.5) @ labels)

    draws = [slope(row) for row in label_permutations(y, 99, 4)]
    for side, extreme in (
        ("greater", [d >= slope(y) - 1e-9 for d in draws]),
        ("less", [d <= slope(y) + 1e-9 for d in draws]),
        ("two_sided", [abs(d) >= abs(slope(y)) - 1e-9 for d in draws]),
    ):
        found = refit_permutation(slope, y, 99, 4, alternative=side)
        assert found.p_value == (1 + sum(extreme)) / 100
        assert (found.observed, found.null, found.n_draws) == (slope(y), tuple(draws), 99)
        assert not found.enumerated


def test_selection_inside_keeps_the_size_and_selection_outside_does_not() -> None:
    """The best of ten correlations with noise, 200 trials at 10%: inside within 3 standard errors, outside doubled."""
    rng, trials, inside, outside = np.random.default_rng(9), 200, 0, 0
    for trial in range(trials):
        x, y = rng.standard_normal((30, 10)), rng.standard_normal(30)
        x -= x.mean(axis=0)
        x /= np.linalg.norm(x, axis=0)
        chosen = int((x.T @ y).argmax())
        inside += refit_permutation(lambda v, x=x: float((x.T @ v).max()), y, 39, trial).p_value <= 0.1
        outside += refit_permutation(lambda v, c=x[:, chosen]: float(c @ v), y, 39, trial).p_value <= 0.1
    assert abs(inside - 0.1 * trials) <= 3 * math.sqrt(0.09 * trials)
    assert outside > 0.2 * trials


def test_a_statistic_gets_labels_it_can_not_change_and_must_be_finite() -> None:
    """Neither the data nor an arrangement may be altered by what scores it, and nan is no score."""

    def careless(labels: np.ndarray) -> float:
        labels[0] = 9.0
        return 0.0

    with pytest.raises(ValueError, match="read-only"):
        refit_permutation(careless, [1.0, 2.0, 3.0], 9, 1)
    with pytest.raises(InferenceError, match="observed labels is nan"):
        refit_permutation(lambda _: math.nan, [1.0, 2.0], 9, 1)
    with pytest.raises(InferenceError, match="alternative"):
        refit_permutation(lambda _: 0.0, [1.0, 2.0], 9, 1, alternative="up")


def test_the_examples_in_the_docstrings_run() -> None:
    """One for each function."""
    failed, tried = doctest.testmod(relabelling)
    assert (failed, tried >= 5) == (0, True)
