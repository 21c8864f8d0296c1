"""C and D, fit together: y[l] = C_l s[l] + D_l z[l], with D unrestricted or of a given rank.

The decoder is never a frozen one: with a state beside it D is fit anew, under the readout's own penalty, so that a
state can't be credited with what a second fit of D would have found. The state's weight is chosen by leaving out one
training subject at a time, apart for each rank; weight 0 leaves exactly the readout PL or PL(r).

For D of rank r the state is profiled out first (Frisch, Waugh and Lovell, with a penalty mu = lambda / w on C). With
M = (1 + S S' / mu)^-1 what remains is a reduced-rank ridge of M^(1/2) Y on M^(1/2) Z, whose projection is on the r
leading eigenvectors V of Y' (M - R) Y, R the joint remainder. Given V, the fit falls in two plain ridges: Y V on
both, and the rest of Y on the state alone. The leave-out errors hold V fixed; it is the same for all fits of a
weight, and free to differ between weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prereg.analysis.frame import Floats, Indices
from prereg.analysis.ridge import Choice
from prereg.analysis.settings import Penalties, Weights
from prereg.analysis.state_space.banded import LeftOut, baseline_error, beside, remainder, unit_state
from prereg.analysis.state_space.readout import errors_of, finite_strength, leading
from prereg.analysis.state_space.sources import Target
from prereg.analysis.threads import one_thread
from prereg.workers import Arrays

__all__ = ["Ask", "Joint", "fit_outputs"]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A fit that is wanted: its name, its states (n, n_state), and D's rank, None for an unrestricted one."""

    name: str
    states: Floats
    rank: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """C and D at one weight, in the coordinates of the compressed targets.

    Parameters
    ----------
    outputs
        (n_state, q), C_l transposed, for states in their own units.
    dual
        (n_train, q), dual coefficients of D_l.
    error
        Summed squared leave-one-subject-out error.
    """

    outputs: Floats
    dual: Floats
    error: float


@one_thread
def fit_outputs(
    *,
    kernel: Floats,
    target: Target,
    asks: Sequence[Ask],
    readout: Floats,
    readout_errors: Mapping[str, Floats],
    strata: Indices,
    subjects: Indices,
    penalties: Penalties,
    weights: Weights,
) -> Arrays:
    """Fit C and D at one update, for each ask.

    Parameters
    ----------
    kernel
        (n, n_train), of this update's codes.
    target
        This update's.
    asks
        What is wanted.
    readout, readout_errors
        PL's `Choice.as_row`; the held-out errors of PL and its truncations by ``full`` and rank, taken where
        the weight is 0.
    strata, subjects
        (n_train,) numbers.
    penalties
        The readout's candidates.
    weights
        Candidate weights of the state, 0 first.

    Returns
    -------
    Arrays
        ``sse.<name>`` (n_held_out,); ``weight.<name>`` and ``weight_gain.<name>`` (1,), see `Chosen`;
        ``outputs.<name>`` (n_state, d_model), C_l transposed.
    """
    n_train = kernel.shape[1]
    strength = finite_strength(Choice.from_row(readout), penalties, kernel)
    base = remainder(kernel[:n_train], strength)
    left_out = LeftOut.of(strata, subjects)
    results: dict[str, np.ndarray] = {}
    for ask in asks:
        state = ask.states[:n_train]
        weight, joint, gain = _best(
            base, state, target.training, ask.rank, strength, weights, strata, left_out
        )
        if weight == 0.0:
            results[f"sse.{ask.name}"] = readout_errors["full" if ask.rank is None else str(ask.rank)]
        else:
            predicted = kernel[n_train:] @ joint.dual + ask.states[n_train:] @ joint.outputs
            results[f"sse.{ask.name}"] = errors_of(target, predicted)
        results[f"weight.{ask.name}"] = np.array([weight])
        results[f"weight_gain.{ask.name}"] = np.array([gain])
        results[f"outputs.{ask.name}"] = joint.outputs @ target.isometry.T
    return results


def _best(
    base: Floats,
    state: Floats,
    targets: Floats,
    rank: int | None,
    strength: float,
    weights: Iterable[float],
    strata: Indices,
    left_out: LeftOut,
) -> tuple[float, Joint, float]:
    tried = [weight for weight in weights if weight == 0.0 or state.any()]
    found = [fit_joint(base, state, targets, rank, strength, weight, strata, left_out) for weight in tried]
    best = min(range(len(found)), key=lambda i: found[i].error)
    gain = 0.0
    if best == len(tried) - 1 > 0:
        gain = (found[best - 1].error - found[best].error) / baseline_error(targets, left_out)
    return tried[best], found[best], gain


def fit_joint(
    base: Floats,
    state: Floats,
    targets: Floats,
    rank: int | None,
    strength: float,
    weight: float,
    strata: Indices,
    left_out: LeftOut | None,
) -> Joint:
    """Fit C and D at one weight.

    Parameters
    ----------
    base
        (n_train, n_train), the remainder of the codes alone at `strength`.
    state
        (n_train, n_state), cross-fitted.
    targets
        (n_train, q), centred.
    rank
        D's; None leaves it free.
    strength, weight
        Absolute penalty of the codes; weight of the state's kernel, its rows brought to unit mean squared length.
    strata
        (n_train,) numbers.
    left_out
        Rows that are left out together for the error; None wants no error, and gives 0.
    """
    scaled, length = unit_state(state, strata)
    ratio = weight / strength
    left = beside(base, scaled, ratio)
    residual = left @ targets
    if rank is None:
        error = 0.0 if left_out is None else float(np.sum(left_out.errors(left, targets) ** 2))
        return Joint((ratio / length) * (scaled.T @ residual), residual / strength, error)
    alone = beside(np.eye(len(targets)), scaled, ratio)
    basis = leading(targets.T @ (alone @ targets - residual), rank)
    within = targets @ basis
    rest = targets - within @ basis.T
    error = 0.0
    if left_out is not None:
        error = float(np.sum(left_out.errors(left, within) ** 2))
        error += float(np.sum(left_out.errors(alone, rest) ** 2))
    kept = (residual @ basis) @ basis.T
    outputs = (ratio / length) * (scaled.T @ (kept + alone @ rest))
    return Joint(outputs, kept / strength, error)
