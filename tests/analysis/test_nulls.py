"""Histories that carry nothing: shuffled, and Gaussian."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prereg.analysis.folds import subject_folds
from prereg.analysis.frame import Frame, centre, square_norms
from prereg.analysis.nulls import gaussian_kernel, shuffled_errors, stratum_permutations
from prereg.analysis.ridge import Ridge, choose
from tests.analysis import planted

WORLD = planted.world(planted.rotations(1, same=True))
FRAME = Frame.of(WORLD, "template")
PENALTIES = (1e-3, 1e-1, 10.0)


def test_prompts_change_places_within_their_stratum_and_side_only() -> None:
    """Strata and the split survive every permutation, and something does move."""
    permutations = stratum_permutations(FRAME, 20, 4)

    for p in permutations:
        np.testing.assert_array_equal(np.sort(p), np.arange(len(p)))
        np.testing.assert_array_equal(FRAME.strata[p], FRAME.strata)
        np.testing.assert_array_equal(p < FRAME.n_train, np.arange(len(p)) < FRAME.n_train)
    assert len(np.unique(permutations, axis=0)) == 20


def test_fewer_draws_are_the_first_of_more() -> None:
    """The draws that are also fit beside the running sum are the first ones of the seed."""
    np.testing.assert_array_equal(stratum_permutations(FRAME, 3, 4), stratum_permutations(FRAME, 9, 4)[:3])


def test_permuting_targets_equals_shuffling_histories() -> None:
    """Each draw equals the long way: move the histories, and their folds with them, and fit anew."""
    n_train = FRAME.n_train
    delta = [WORLD.update(layer)[FRAME.rows] for layer in (2, 3)]
    history, targets = (centre(d, FRAME.strata, n_train) for d in delta)
    folds = subject_folds(FRAME, 4, 0)
    kernel = history @ history[:n_train].T
    ridge = Ridge.of(kernel[:n_train], FRAME.strata[:n_train], folds)
    # More draws than one batch holds, and a last batch that is not full.
    permutations = stratum_permutations(FRAME, 11, 4)

    errors, choices = shuffled_errors(ridge, kernel[n_train:], targets, permutations, PENALTIES)

    for p, found, choice in zip(permutations, errors, choices, strict=True):
        foreign, moved = np.empty_like(history), np.empty_like(folds)
        foreign[p], moved[p[:n_train]] = history, folds
        kernel_p = foreign @ foreign[:n_train].T
        explicit = Ridge.of(kernel_p[:n_train], FRAME.strata[:n_train], moved)
        wanted = choose(explicit.cv_errors(targets[:n_train], PENALTIES), PENALTIES)
        assert choice.penalty == wanted.penalty
        predicted = kernel_p[n_train:] @ explicit.coefficients(targets[:n_train], wanted.penalty)
        np.testing.assert_allclose(found, square_norms(targets[n_train:] - predicted), rtol=1e-9)


def test_every_draw_chooses_its_penalty_anew() -> None:
    """A shuffled history's penalty is not the real one's: most draws fall back on the baseline."""
    n_train = FRAME.n_train
    history, targets = (centre(WORLD.update(k)[FRAME.rows], FRAME.strata, n_train) for k in (2, 3))
    kernel = history @ history[:n_train].T
    ridge = Ridge.of(kernel[:n_train], FRAME.strata[:n_train], subject_folds(FRAME, 4, 0))

    _, choices = shuffled_errors(
        ridge, kernel[n_train:], targets, stratum_permutations(FRAME, 19, 4), planted.PENALTIES
    )

    real = choose(ridge.cv_errors(targets[:n_train], planted.PENALTIES), planted.PENALTIES).penalty
    assert real <= 0.1
    assert min(choice.penalty for choice in choices) > 5 * real
    assert sum(math.isinf(choice.penalty) for choice in choices) >= 5


def test_a_gaussian_history_has_the_real_covariance() -> None:
    """Over many draws, the kernel's expectation is that of independent rows: trace times identity, centred."""
    n_train = FRAME.n_train
    history = centre(WORLD.update(3)[FRAME.rows], FRAME.strata, n_train)[:n_train]
    kernel = history @ history.T

    draws = np.mean([gaussian_kernel(kernel, FRAME, 0, draw)[:n_train] for draw in range(400)], axis=0)

    same = FRAME.strata[:n_train, None] == FRAME.strata[None, :n_train]
    centring = np.eye(n_train) - same / np.bincount(FRAME.strata[:n_train])[FRAME.strata[:n_train]]
    unit = np.trace(kernel) / n_train
    assert np.abs(draws / unit - centring).max() < 0.25
    assert np.trace(draws) == pytest.approx(unit * (n_train - 4), rel=0.05)


def test_a_gaussian_kernel_equals_that_of_explicit_features() -> None:
    """Working with kernels alone gives what explicit features X = Z history / sqrt(n) give."""
    n_train = FRAME.n_train
    history = centre(WORLD.update(3)[FRAME.rows], FRAME.strata, n_train)[:n_train]
    normal = np.random.default_rng([9, 3, 2]).standard_normal((len(FRAME.rows), n_train))
    features = centre(normal @ history / math.sqrt(n_train), FRAME.strata, n_train)

    found = gaussian_kernel(history @ history.T, FRAME, 9, 2)

    np.testing.assert_allclose(found, features @ features[:n_train].T, rtol=1e-9, atol=1e-12)
