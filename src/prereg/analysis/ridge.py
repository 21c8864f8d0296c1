"""Ridge regression in its dual form, with unpenalised stratum intercepts, for a whole penalty path.

Everything here is centred by training stratum means, which is what an unpenalised intercept per stratum
amounts to. With K the centred training kernel, P the projection on stratum indicators and lambda the
penalty, the hat matrix is H = P + K (K + lambda)^-1. Leaving a fold f out, *with its stratum means and its
ridge fit estimated anew*, gives exactly

    e_f = (I - H_ff)^-1 r_f,   r = (I - H) y,

the block form of the leave-one-out identity (Hastie, Tibshirani and Friedman, The Elements of Statistical
Learning, 2nd ed., section 7.10). Without P in H the leverage of removed means would be missed, and the
penalty would collapse.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.linalg

from prereg.analysis.frame import Floats, Indices
from prereg.errors import AnalysisError

__all__ = ["CHOICE_COLUMNS", "Choice", "Ridge", "choose"]


CHOICE_COLUMNS = (
    ("penalty", pa.float64()),
    ("infinite", pa.bool_()),
    ("at_lower_edge", pa.bool_()),
    ("at_upper_edge", pa.bool_()),
    ("edge_gain", pa.float64()),
    ("cv_r2", pa.float64()),
)
"""Columns of `Choice.as_record` in a side table."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A penalty chosen by cross-validation.

    Parameters
    ----------
    penalty
        Relative to the kernel's mean diagonal; infinite where the baseline itself was best.
    at_lower_edge, at_upper_edge
        Whether it is the first or the last *finite* candidate: the grid may be too short there.
    edge_gain
        What the last step towards the chosen edge gained, in units of `cv_r2`: over the second-lowest
        penalty at the lower edge, over the infinite one at the upper edge; 0 anywhere else. Where updates
        are near-deterministic the error falls flatly towards no penalty at all, and an edge costs nothing.
    cv_r2
        1 - error / error of the infinite penalty, both leave-fold-out: 0 where that one was chosen.
    """

    penalty: float
    at_lower_edge: bool
    at_upper_edge: bool
    edge_gain: float
    cv_r2: float

    def as_row(self) -> Floats:
        """Return the fields as numbers, for a checkpoint."""
        return np.array(dataclasses.astuple(self), dtype=np.float64)

    @classmethod
    def from_row(cls, row: Floats) -> Choice:
        """Read `as_row` back."""
        penalty, lower, upper, edge_gain, cv_r2 = (float(value) for value in row)
        return cls(penalty, bool(lower), bool(upper), edge_gain, cv_r2)

    def as_record(self) -> dict[str, object]:
        """Return the fields for a table, where an infinite penalty is null and named `infinite`."""
        infinite = math.isinf(self.penalty)
        record = dataclasses.asdict(self) | {"infinite": infinite}
        return record | {"penalty": None if infinite else self.penalty}


def choose(errors: Floats, penalties: Sequence[float]) -> Choice:
    """Choose the candidate of least error; of equals, the largest penalty.

    Parameters
    ----------
    errors
        (n_penalties + 1,) leave-fold-out errors, the last one of the infinite penalty.
    penalties
        The finite candidates, ascending.

    Raises
    ------
    AnalysisError
        If an error is not finite.
    """
    if not np.isfinite(errors).all() or len(errors) != len(penalties) + 1:
        raise AnalysisError(f"cross-validation gave {errors}; wanted a finite error for every penalty")
    best = len(errors) - 1 - int(np.argmin(errors[::-1]))
    last = len(penalties) - 1
    penalty = math.inf if best > last else penalties[best]
    if best > last:
        # So too for targets without any spread, which their mean explains: nothing is divided by zero.
        return Choice(penalty, False, False, 0.0, 0.0)
    gain = 1.0 - float(errors[best] / errors[-1])
    step = float((errors[1] - errors[0]) / errors[-1]) if best == 0 else 0.0
    return Choice(penalty, best == 0, best == last, gain if best == last else step, gain)


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """One eigen-decomposition of a centred training kernel: every penalty, every target.

    Parameters
    ----------
    values, vectors
        (n,) and (n, n). Eigenvalues below n * eps * the largest are exactly zero.
    unit
        Mean diagonal of the kernel: the unit of relative penalties.
    members
        Row numbers of each fold.
    means
        For each fold, the projection on stratum indicators between its own rows, P_ff.
    strata
        (n,) stratum numbers of the training rows.
    """

    values: Floats
    vectors: Floats
    unit: float
    members: tuple[Indices, ...]
    means: tuple[Floats, ...]
    strata: Indices

    @classmethod
    def of(cls, kernel: Floats, strata: Indices, folds: Indices) -> Ridge:
        """Decompose a training kernel whose features are centred by stratum, (n, n).

        Raises
        ------
        AnalysisError
            If the kernel has non-finite entries, or a stratum stands in a single fold.
        """
        if not np.isfinite(kernel).all():
            raise AnalysisError("a training kernel holds NaN or infinite values")
        sizes = np.bincount(strata)
        for fold in np.unique(folds):
            inside = np.bincount(strata[folds == fold], minlength=len(sizes))
            if ((inside == sizes) & (sizes > 0)).any():
                raise AnalysisError("a stratum stands in a single fold: its mean can't be left out")
        values, vectors = scipy.linalg.eigh(kernel, driver="evd", check_finite=False)
        # Rounding must not leak into the null space, where the intercepts live.
        values[values <= len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)] = 0.0
        members = tuple(np.flatnonzero(folds == fold) for fold in np.unique(folds))
        means = tuple(_mean_projection(strata, rows) for rows in members)
        unit = float(np.trace(kernel)) / len(kernel)
        return cls(values, vectors, unit, members, means, strata)

    def cv_errors(self, targets: Floats, penalties: Sequence[float]) -> Floats:
        """Return the summed squared leave-fold-out errors of each penalty, then of the infinite one.

        Parameters
        ----------
        targets
            (n, d), centred by training stratum means.
        penalties
            Relative finite candidates. Each is an absolute penalty of c * `unit` in every fold.

        Returns
        -------
        Floats
            (n_penalties + 1,). A kernel of zeros predicts the baseline whatever the penalty.
        """
        rotated = self.vectors.T @ targets
        errors = []
        for penalty in penalties:
            shrink = self._shrink(penalty)
            residuals = targets if shrink is None else self.vectors @ (shrink[:, None] * rotated)
            errors.append(sum(float(np.sum(e**2)) for e in self._left_out(residuals, shrink)))
        errors.append(sum(float(np.sum(e**2)) for e in self._left_out(targets, None)))
        return np.array(errors)

    def cv_forms(self, penalties: Sequence[float]) -> Floats:
        """Return M with cv_errors(y) = <M, y y^T>, (n_penalties + 1, n, n).

        M = A^T A, with A the map from targets to leave-fold-out errors. Permuted targets then cost one
        inner product: <M, (y y^T)[p][:, p]>.
        """
        n = len(self.values)
        centring = np.eye(n) - _mean_projection(self.strata, np.arange(n))
        forms = np.empty((len(penalties) + 1, n, n))
        for i, penalty in enumerate((*penalties, math.inf)):
            shrink = self._shrink(penalty)
            if shrink is None:
                residual_map = centring
            else:
                root = self.vectors * np.sqrt(shrink)
                residual_map = root @ root.T - (np.eye(n) - centring)
            errors = np.concatenate(self._left_out(residual_map, shrink))
            forms[i] = errors.T @ errors
        return forms

    def coefficients(self, targets: Floats, penalty: float) -> Floats:
        """Return the dual coefficients (n, d): predictions are kernel(new, training) @ coefficients."""
        shrink = self._shrink(penalty)
        if shrink is None:
            return np.zeros_like(targets)
        solved: Floats = self.vectors @ (self._inverse(penalty)[:, None] * (self.vectors.T @ targets))
        return solved

    def smoother(self, cross: Floats, penalty: float) -> Floats:
        """Return B (n_new, n) with predictions B @ targets, for a (n_new, n) cross kernel."""
        shrink = self._shrink(penalty)
        if shrink is None:
            return np.zeros_like(cross)
        applied: Floats = ((cross @ self.vectors) * self._inverse(penalty)) @ self.vectors.T
        return applied

    def _shrink(self, penalty: float) -> Floats | None:
        """Return what is left of each eigen-direction, or None where all of it is."""
        if math.isinf(penalty) or self.unit <= 0.0:
            return None
        strength = penalty * self.unit
        return strength / (self.values + strength)

    def _inverse(self, penalty: float) -> Floats:
        """Return 1 / (value + lambda), and 0 in the null space.

        No cross kernel reaches into the null space of the training kernel; left in, its large coefficients
        would have to cancel.
        """
        inverse: Floats = np.zeros_like(self.values)
        return np.divide(1.0, self.values + penalty * self.unit, out=inverse, where=self.values > 0)

    def _left_out(self, residuals: Floats, shrink: Floats | None) -> list[Floats]:
        errors = []
        for rows, mean in zip(self.members, self.means, strict=True):
            if shrink is None:
                rest = np.eye(len(rows)) - mean
            else:
                root = self.vectors[rows] * np.sqrt(shrink)
                rest = root @ root.T - mean
            factor = scipy.linalg.cho_factor(rest, lower=True, check_finite=False)
            errors.append(scipy.linalg.cho_solve(factor, residuals[rows], check_finite=False))
        return errors


def _mean_projection(strata: Indices, rows: Indices) -> Floats:
    """Return the rows' block of the projection on stratum indicators: 1 / size where strata agree."""
    sizes = np.bincount(strata)
    same = strata[rows][:, None] == strata[rows][None, :]
    block: Floats = same / sizes[strata[rows]]
    return block
