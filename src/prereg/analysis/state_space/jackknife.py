"""One replicate of the state path: the model fit anew without a group of training subjects.

The functionals that states predict and every penalty and weight stay those of the full sample; A, B, C, D, the means
of strata and the cross-fitting are estimated anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prereg.analysis.frame import Floats, Indices, centre
from prereg.analysis.ridge import Choice
from prereg.analysis.state_space.banded import remainder
from prereg.analysis.state_space.outputs import fit_joint
from prereg.analysis.state_space.path import energies
from prereg.analysis.state_space.recursion import drive, step
from prereg.analysis.threads import one_thread
from prereg.workers import Arrays

__all__ = ["kept_rows", "replicate"]


@one_thread
def replicate(
    *,
    kept: Indices,
    kernels: Sequence[Floats],
    ahead: Sequence[Floats],
    functionals: Sequence[Floats],
    targets: Sequence[Floats],
    first: int,
    strata: Indices,
    folds: Indices,
    choices: Floats,
    weights: Floats,
    strengths: Sequence[float],
    output_weights: Floats,
    ranks: Sequence[int | None],
) -> Arrays:
    """Fit the model on some of the training rows, and return the energies of its Markov parameters.

    Parameters
    ----------
    kept
        Numbers of the training rows that stay.
    kernels
        (n_train, n_train) each, of z[0], ..., z[last].
    ahead, functionals
        As `recurse` takes them.
    targets
        (n_train, q) each, of updates first, ..., last.
    first
        The first update with targets.
    strata, folds
        (n_train,) numbers.
    choices, weights
        What `recurse` chose.
    strengths
        Absolute penalty of the codes at each target.
    output_weights
        (n_ranks, n_targets), the state's weight in C and D.
    ranks
        D's ranks, None for an unrestricted one.

    Returns
    -------
    Arrays
        ``energies`` (n_ranks, n_targets, last).
    """
    codes, fold = strata[kept], folds[kept]
    square = [centred_square(kernel, kept, codes) for kernel in kernels]
    states = [np.zeros((len(kept), functionals[0].shape[1]))]
    transitions, drives = [], []
    for layer, wanted in enumerate(functionals):
        beyond = centred_square(ahead[layer], kept, codes)
        choice = Choice.from_row(choices[layer])
        aim = centre(wanted[kept], codes, len(kept))
        found = step(square[layer], beyond, states[layer], aim, codes, fold, choice, float(weights[layer]))
        states.append(found.state)
        transitions.append(found.transition)
        drives.append(drive(square[layer], found.dual))
    grams: list[list[Floats]] = [[] for _ in ranks]
    for i, target in enumerate(targets):
        base = remainder(square[first + i], strengths[i])
        y = centre(target[kept], codes, len(kept))
        for k, rank in enumerate(ranks):
            joint = fit_joint(
                base, states[first + i], y, rank, strengths[i], float(output_weights[k, i]), codes, None
            )
            grams[k].append(joint.outputs @ joint.outputs.T)
    return {"energies": np.stack([energies(gram, first, transitions, drives) for gram in grams])}


def kept_rows(groups: Indices, group: int, strata: Indices, folds: Indices) -> Indices:
    """Return the training rows that stay without a group.

    A stratum that would then stand in a single fold has no mean to be left out, and goes too.
    """
    rows = np.flatnonzero(groups != group)
    spread = [len(np.unique(folds[rows[strata[rows] == code]])) > 1 for code in range(int(strata.max()) + 1)]
    left: Indices = rows[np.array(spread)[strata[rows]]]
    return left


def centred_square(kernel: Floats, rows: Indices, strata: Indices) -> Floats:
    """Return a training kernel of some rows, centred by the stratum means of these rows."""
    square = np.ascontiguousarray(kernel[np.ix_(rows, rows)])
    half = centre(square, strata, len(rows))
    full = centre(half.T, strata, len(rows))
    return (full + full.T) / 2
