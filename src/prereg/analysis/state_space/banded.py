"""Ridge on codes with a state beside them, written as what the fit leaves over.

With K the training kernel of the codes (centred by stratum), S the training states (centred likewise), lambda the
codes' penalty and w the state's weight, everything needed is the n x n matrix

    R = lambda (K + w S S' + lambda)^-1,

which leaves residuals R y, dual coefficients R y / lambda, and, with P the projection on stratum indicators, the
leave-out errors (R_ff - P_ff)^-1 (R y)_f of a fold f: its stratum means and its fit estimated anew. Without P_ff the
leverage 1 / n_stratum of the removed means would be missed, and the penalty would collapse. Compare
`prereg.analysis.ridge`; here a low-rank block is exchanged (Woodbury) without another decomposition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from prereg.analysis.frame import Floats, Indices, centre
from prereg.analysis.ridge import Choice, choose

__all__ = [
    "Chosen",
    "Decomposition",
    "LeftOut",
    "baseline_error",
    "beside",
    "choose_path",
    "compressed",
    "remainder",
    "unit_state",
]


@dataclass(frozen=True, slots=True, eq=False)
class Decomposition:
    """Eigen-decomposition of a centred training kernel, for a whole path of penalties."""

    values: Floats
    vectors: Floats
    unit: float

    @classmethod
    def of(cls, kernel: Floats) -> Decomposition:
        """Decompose a symmetric (n, n) kernel; rounding below zero is cut off."""
        values, vectors = scipy.linalg.eigh(kernel, driver="evd", check_finite=False)
        return cls(np.maximum(values, 0.0), vectors, float(np.trace(kernel)) / len(kernel))

    def remainder(self, strength: float) -> Floats:
        """Return lambda (K + lambda)^-1 for an absolute penalty, (n, n)."""
        left: Floats = (self.vectors * (strength / (self.values + strength))) @ self.vectors.T
        return left


def remainder(kernel: Floats, strength: float) -> Floats:
    """Return lambda (K + lambda)^-1, (n, n), for a single penalty."""
    n = len(kernel)
    factor = scipy.linalg.cho_factor(kernel + strength * np.eye(n), lower=True, check_finite=False)
    left: Floats = strength * scipy.linalg.cho_solve(factor, np.eye(n), check_finite=False)
    return (left + left.T) / 2


def beside(left: Floats, state: Floats, ratio: float) -> Floats:
    """Put a state beside the codes: from lambda (K + lambda)^-1 to lambda (K + w S S' + lambda)^-1.

    Parameters
    ----------
    left
        (n, n). The identity stands for no codes at all.
    state
        (n, n_state), centred by stratum.
    ratio
        w / lambda; 0 changes nothing.
    """
    if ratio == 0.0:
        return left
    moved = left @ state
    inner = np.eye(state.shape[1]) / ratio + state.T @ moved
    changed: Floats = left - moved @ scipy.linalg.solve(inner, moved.T, assume_a="pos", check_finite=False)
    return changed


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """Groups of training rows that are left out together, gathered by size so that they are solved at once.

    Parameters
    ----------
    rows
        For each size m, (groups, m) row numbers.
    means
        For each size, (groups, m, m): the rows' blocks of the projection on stratum indicators.
    """

    rows: tuple[Indices, ...]
    means: tuple[Floats, ...]

    @classmethod
    def of(cls, strata: Indices, labels: Indices) -> LeftOut:
        """Group rows by label; both are (n,)."""
        members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        sizes = sorted({len(m) for m in members})
        rows = tuple(np.stack([m for m in members if len(m) == size]) for size in sizes)
        counts = np.bincount(strata)
        means = tuple(
            (strata[r][:, :, None] == strata[r][:, None, :]) / counts[strata[r]][:, :, None] for r in rows
        )
        return cls(rows, means)

    def errors(self, left: Floats, targets: Floats) -> Floats:
        """Return the leave-out errors, (n, q), of centred targets under a remainder (n, n)."""
        residuals = left @ targets
        errors = np.empty_like(residuals)
        for rows, mean in zip(self.rows, self.means, strict=True):
            block = left[rows[:, :, None], rows[:, None, :]] - mean
            errors[rows] = np.linalg.solve(block, residuals[rows])
        return errors


@dataclass(frozen=True, slots=True)
class Chosen:
    """A penalty, and the state's weight chosen with it.

    Parameters
    ----------
    choice
        The penalty, relative to the kernel's mean diagonal. With a state beside the codes, what the largest finite
        candidate gained is told over the one before it, not over the infinite one, which has no state either.
    weight
        0 where the penalty is infinite, or the kernel is zero.
    weight_gain
        Where the largest weight was chosen, what it gained over the one before, in cross-validated R2; else 0.
    """

    choice: Choice
    weight: float
    weight_gain: float


def choose_path(
    kernel: Floats,
    targets: Floats,
    penalties: Sequence[float],
    left_out: LeftOut,
    state: Floats | None = None,
    weights: Sequence[float] = (0.0,),
    *,
    finite: bool = False,
) -> Chosen:
    """Choose the penalty, and the state's weight with it, of least leave-out error.

    Parameters
    ----------
    kernel, targets
        (n, n) and (n, q), centred.
    penalties
        Finite candidates relative to the kernel's mean diagonal, ascending; the infinite one is added.
    left_out
        Rows that are left out together.
    state, weights
        (n, n_state) and the candidate weights of its kernel; of equal errors the smallest weight.
    finite
        Leave the infinite penalty out: the best finite one is wanted, however little it explains.
    """
    void = baseline_error(targets, left_out)
    decomposed = Decomposition.of(kernel)
    if decomposed.unit <= 0.0 or void <= 0.0:
        # Codes without spread, or nothing to explain: every penalty is as good as the infinite one.
        return Chosen(choose(np.full(len(penalties) + 1, void), penalties), 0.0, 0.0)
    errors = np.empty((len(weights), len(penalties) + 1))
    errors[:, -1] = void
    for i, penalty in enumerate(penalties):
        strength = penalty * decomposed.unit
        left = decomposed.remainder(strength)
        for j, weight in enumerate(weights):
            both = left if state is None else beside(left, state, weight / strength)
            errors[j, i] = float(np.sum(left_out.errors(both, targets) ** 2))
    take = _best_finite if finite else choose
    found = [take(each, penalties) for each in errors]
    best = max(range(len(found)), key=lambda i: found[i].cv_r2)
    if np.isinf(found[best].penalty):
        return Chosen(found[best], 0.0, 0.0)
    choice = found[best]
    if choice.at_upper_edge and weights[best] > 0.0:
        # Beyond the grid the codes go but the state stays: the step to be judged is the one from the penalty before.
        choice = replace(choice, edge_gain=float((errors[best, -3] - errors[best, -2]) / void))
    last = best == len(weights) - 1 > 0
    gain = found[best].cv_r2 - found[best - 1].cv_r2 if last else 0.0
    return Chosen(choice, weights[best], gain)


def _best_finite(errors: Floats, penalties: Sequence[float]) -> Choice:
    choice = choose(errors, penalties)
    if np.isfinite(choice.penalty):
        return choice
    best = len(penalties) - 1 - int(np.argmin(errors[-2::-1]))
    # The infinite penalty is better still: nothing lies undiscovered beyond an end of the grid.
    r2 = 1.0 - float(errors[best] / errors[-1])
    return Choice(penalties[best], best == 0, best == len(penalties) - 1, 0.0, r2)


def baseline_error(targets: Floats, left_out: LeftOut) -> float:
    """Return the summed squared leave-out error of the stratum means alone."""
    return float(np.sum(left_out.errors(np.eye(len(targets)), targets) ** 2))


def compressed(targets: Floats) -> tuple[Floats, Floats]:
    """Return (n, q) targets and an isometry (d, q), q = min(n, d), with targets = compressed @ isometry.T.

    No squared error of a linear fit changes; it is a change of coordinates, not a choice of components.
    """
    n, d = targets.shape
    if d <= n:
        return targets, np.eye(d)
    isometry, triangle = scipy.linalg.qr(targets.T, mode="economic", check_finite=False)
    return np.ascontiguousarray(triangle.T, dtype=np.float64), np.asarray(isometry, dtype=np.float64)


def unit_state(state: Floats, strata: Indices) -> tuple[Floats, float]:
    """Return a training state centred by stratum, with rows of unit mean squared length, and what divided it.

    A state of zeros stays one, divided by 1.
    """
    centred = centre(state, strata, len(state))
    size = float(np.sqrt(np.mean(np.sum(centred**2, axis=1))))
    return (centred / size, size) if size > 0.0 else (centred, 1.0)
