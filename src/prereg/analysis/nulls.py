"""Histories that carry nothing about their prompt: shuffled within strata, or Gaussian.

A shuffled history keeps every history and every target and only breaks who belongs to whom: among the
training prompts of a stratum, and among its held-out prompts. Permuting the targets instead of the
histories is the same pairing and leaves the kernel as it is. The folds then travel with the histories. That
leaks nothing: held-out prompts never enter a fit, and which fold a shuffled target falls in says nothing
about the foreign history it is paired with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prereg.analysis.frame import Floats, Frame, Indices, centre, square_norms
from prereg.analysis.ridge import Choice, Ridge, choose

__all__ = ["gaussian_kernel", "shuffled_errors", "stratum_permutations"]

BATCH = 8
"""Permutations that share one pass over the quadratic forms; a fixed number, so that sums don't vary."""


def stratum_permutations(frame: Frame, draws: int, seed: int) -> Indices:
    """Return (draws, n) permutations of the prompts, within stratum and side of the split.

    Row a of a history is paired with row p[a] of the targets. The first k draws of a seed are the same
    whatever `draws` is.
    """
    rng = np.random.default_rng([seed, 2])
    side = np.arange(len(frame.rows)) >= frame.n_train
    groups = [
        np.flatnonzero((frame.strata == code) & (side == held_out))
        for code in range(len(frame.names[frame.baseline]))
        for held_out in (False, True)
    ]
    permutations = np.tile(np.arange(len(frame.rows), dtype=np.intp), (draws, 1))
    for permutation in permutations:
        for group in groups:
            permutation[group] = rng.permutation(group)
    return permutations


def shuffled_errors(
    ridge: Ridge,
    cross: Floats,
    targets: Floats,
    permutations: Indices,
    penalties: Sequence[float],
) -> tuple[Floats, list[Choice]]:
    """Refit under every permutation, penalty and all, and return the held-out squared errors.

    Parameters
    ----------
    ridge
        Decomposition of the history's training kernel, (n_train, n_train).
    cross
        (n_held_out, n_train) kernel.
    targets
        (n, d), centred; training rows first.
    permutations
        (draws, n), from `stratum_permutations`.
    penalties
        The finite candidates.

    Returns
    -------
    errors
        (draws, n_held_out): squared error of each *target's* prompt, whose history was another prompt's.
    choices
        The penalty each draw chose.
    """
    n_train = len(ridge.values)
    training = targets[:n_train]
    gram = training @ training.T
    forms = ridge.cv_forms(penalties).reshape(len(penalties) + 1, -1)
    smoothers: dict[float, Floats] = {}
    errors = np.empty((len(permutations), len(targets) - n_train))
    choices = []
    for start in range(0, len(permutations), BATCH):
        batch = permutations[start : start + BATCH]
        shuffled = np.stack([gram[p[:n_train]][:, p[:n_train]].ravel() for p in batch])
        for i, scores in enumerate(shuffled @ forms.T):
            choice = choose(scores, penalties)
            choices.append(choice)
            if choice.penalty not in smoothers:
                smoothers[choice.penalty] = ridge.smoother(cross, choice.penalty)
            p = batch[i]
            missed = targets[p[n_train:]] - smoothers[choice.penalty] @ training[p[:n_train]]
            errors[start + i, p[n_train:] - n_train] = square_norms(missed)
    return errors, choices


def gaussian_kernel(kernel: Floats, frame: Frame, seed: int, draw: int) -> Floats:
    """Return the kernel of a Gaussian history with the real history's training covariance.

    With X the centred training history, rows Z X / sqrt(n_train) of standard normal Z have covariance
    X^T X / n_train and are independent across prompts; only Z and the kernel X X^T are needed.

    Parameters
    ----------
    kernel
        (n_train, n_train), the real history's.
    frame
        The prompts; the new features are centred by training stratum means like any others.
    seed, draw
        Which Z.

    Returns
    -------
    Floats
        (n, n_train), training rows first.
    """
    n_train = frame.n_train
    normal = np.random.default_rng([seed, 3, draw]).standard_normal((len(frame.rows), n_train))
    mixed = centre(normal, frame.strata, n_train)
    gaussian: Floats = (mixed @ kernel) @ mixed[:n_train].T / n_train
    return gaussian
