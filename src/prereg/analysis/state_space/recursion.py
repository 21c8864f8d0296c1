"""The recursion s[l+1] = A_l s[l] + B_l z[l]: fit on the state it is itself fed, and cross-fitted as it goes.

At each update, the functionals that the state at l+1 has to predict are regressed on the recursed state s[l], the
codes z[l], and the codes of the first update ahead, which are partialled out and leave again (see
`prereg.analysis.state_space.identification`). The training prompts' states are predicted by fits that have not seen
their subject, and it is these that the next step, and later C and D, are fit on: a state that has seen its prompt
would look better on training prompts than on any others. Held-out prompts get their states from A and B
alone; nothing of their updates enters.

Leaving a fold out costs no new decomposition: a fit that meets a point exactly is unchanged by it, so the fit
without a fold is the fit with the fold's targets replaced by their leave-out predictions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prereg.analysis.frame import Floats, Indices
from prereg.analysis.ridge import Choice
from prereg.analysis.settings import Penalties, Weights
from prereg.analysis.state_space.banded import LeftOut, beside, choose_path, remainder, unit_state
from prereg.analysis.threads import one_thread
from prereg.workers import Arrays

__all__ = ["Step", "recurse", "step"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of the recursion, for row vectors: s[l+1] = s[l] @ transition + k(z[l], training) @ dual.

    Parameters
    ----------
    transition
        (n, n), A_l transposed.
    dual
        (n_train, n), dual coefficients of B_l.
    state
        (n_train, n), the training prompts' cross-fitted s[l+1].
    """

    transition: Floats
    dual: Floats
    state: Floats


@one_thread
def recurse(
    *,
    kernels: Sequence[Floats],
    ahead: Sequence[Floats],
    functionals: Sequence[Floats],
    strata: Indices,
    subjects: Indices,
    folds: Indices,
    penalties: Penalties,
    weights: Weights,
) -> Arrays:
    """Fit A and B at every update, and let the states of all prompts run.

    Parameters
    ----------
    kernels
        (n, n_train) of the codes z[0], ..., z[last - 1].
    ahead
        (n_train, n_train) kernel partialled out of each step.
    functionals
        (n_train, n) targets of s[1], ..., s[last].
    strata, subjects, folds
        (n_train,) numbers.
    penalties, weights
        Candidates, chosen together at each step.

    Returns
    -------
    Arrays
        ``states`` (last + 1, n, n_state), training prompts cross-fitted, s[0] = 0; ``transitions`` (last, n_state,
        n_state); ``drives`` (last, n_state, n_state), training covariance of B_l z[l]; ``duals`` (last, n_train,
        n_state); ``choices`` (last, ...) as `Choice.as_row`; ``weights`` and ``weight_gains`` (last,), see
        `Chosen`.
    """
    n_train = kernels[0].shape[1]
    size = functionals[0].shape[1]
    states = np.zeros((len(kernels) + 1, len(kernels[0]), size))
    left_out = LeftOut.of(strata, subjects)
    steps, chosen = [], []
    for i, (kernel, nuisance, wanted) in enumerate(zip(kernels, ahead, functionals, strict=True)):
        square = kernel[:n_train]
        state, _ = unit_state(states[i, :n_train], strata)
        best = choose_path(square + nuisance, wanted, penalties, left_out, state, weights, finite=True)
        found = step(square, nuisance, states[i, :n_train], wanted, strata, folds, best.choice, best.weight)
        states[i + 1, :n_train] = found.state
        states[i + 1, n_train:] = states[i, n_train:] @ found.transition + kernel[n_train:] @ found.dual
        steps.append(found)
        chosen.append(best)
    return {
        "states": states,
        "transitions": np.stack([s.transition for s in steps]),
        "drives": np.stack([drive(k[:n_train], s.dual) for k, s in zip(kernels, steps, strict=True)]),
        "duals": np.stack([s.dual for s in steps]),
        "choices": np.stack([best.choice.as_row() for best in chosen]),
        "weights": np.array([best.weight for best in chosen]),
        "weight_gains": np.array([best.weight_gain for best in chosen]),
    }


def drive(kernel: Floats, dual: Floats) -> Floats:
    """Return B Sigma B', the training covariance of what codes put into the state, (n, n)."""
    put = kernel @ dual
    covariance: Floats = put.T @ put / len(put)
    return covariance


def step(
    kernel: Floats,
    nuisance: Floats,
    state: Floats,
    wanted: Floats,
    strata: Indices,
    folds: Indices,
    choice: Choice,
    weight: float,
) -> Step:
    """Fit one step at a chosen penalty and weight.

    Parameters
    ----------
    kernel, nuisance
        (n_train, n_train) of z[l], and of the codes that are partialled out.
    state
        (n_train, n), cross-fitted s[l].
    wanted
        (n_train, n), what s[l+1] has to predict.
    strata, folds
        (n_train,) numbers.
    choice, weight
        See `choose_path`.
    """
    n_train, size = wanted.shape
    if math.isinf(choice.penalty):
        return Step(np.zeros((size, size)), np.zeros((n_train, size)), np.zeros((n_train, size)))
    scaled, length = unit_state(state, strata)
    strength = choice.penalty * float(np.trace(kernel + nuisance)) / n_train
    left = beside(remainder(kernel + nuisance, strength), scaled, weight / strength)
    errors = LeftOut.of(strata, folds).errors(left, wanted)
    fitted = kernel + weight * (scaled @ scaled.T)
    crossed = np.empty_like(wanted)
    for fold in np.unique(folds):
        out = folds == fold
        imagined = wanted.copy()
        imagined[out] -= errors[out]
        share = fitted @ (left @ imagined)
        crossed[out] = (share - _means(share, strata, ~out))[out] / strength
    dual = left @ wanted / strength
    return Step((weight / length) * (scaled.T @ dual), dual, crossed)


def _means(values: Floats, strata: Indices, counted: np.ndarray) -> Floats:
    """Return for each row the mean of its stratum over the counted rows."""
    sums = np.zeros((int(strata.max()) + 1, values.shape[1]))
    np.add.at(sums, strata[counted], values[counted])
    counts = np.bincount(strata[counted], minlength=len(sums))
    means: Floats = (sums / np.maximum(counts, 1)[:, None])[strata]
    return means
