"""Ridge regression in its primal form, for many samples of few features, with group intercepts.

The leave-fold-out errors are explicit refits: each fold's means and normal equations are computed anew from
the other folds. One eigen-decomposition a fold serves the whole penalty path, since with U, s that of the
normal matrix, P = X_f U, Q = U' X' Y and w = 1 / (s + lambda),

    |Y_f - P w Q|^2 = |Y_f|^2 - 2 w . diag(Q Y_f' P) + w' ((P'P) * (QQ')) w.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from prereg.analysis.frame import Floats, Indices, centre, relative_difference
from prereg.analysis.ridge import Choice, choose

__all__ = ["PrimalFit", "fit_primal"]


@dataclass(frozen=True, slots=True, eq=False)
class PrimalFit:
    """A fitted map from q features to d targets.

    Parameters
    ----------
    weights
        (q, d).
    choice
        The penalty, relative to the mean squared length of a centred sample.
    rounding
        Relative difference of the chosen penalty's cross-validation error between its quadratic form and
        plain predictions.
    """

    weights: Floats
    choice: Choice
    rounding: float


def fit_primal(
    features: Floats, targets: Floats, groups: Indices, folds: Indices, penalties: Sequence[float]
) -> PrimalFit:
    """Fit one ridge with unpenalised group intercepts, its penalty chosen by leave-fold-out errors.

    Parameters
    ----------
    features, targets
        (n, q) and (n, d), centred by group.
    groups
        (n,) numbers of the groups whose means are removed, anew in every fold.
    folds
        (n,) fold numbers; every group stands in at least two.
    penalties
        Relative finite candidates, ascending.

    Returns
    -------
    PrimalFit
        Weights for features centred by the same group means.
    """
    basis = None
    if features.shape[1] > len(features):
        # Ridge weights lie in the span of the samples: an orthonormal basis of it loses nothing.
        basis = scipy.linalg.qr(features.T, mode="economic", check_finite=False)[0]
        features = features @ basis
    scored: Floats = targets
    if targets.shape[1] > len(targets):
        # An isometry of the targets leaves every squared error as it is.
        triangle = scipy.linalg.qr(targets.T, mode="r", check_finite=False)[0]
        scored = np.asarray(triangle[: len(targets)].T, dtype=np.float64)
    unit = float(np.sum(features**2)) / len(features)
    strengths = [penalty * unit for penalty in penalties]
    paths = [_Fold.of(features, scored, groups, folds == fold) for fold in np.unique(folds)]
    errors = np.sum([path.errors(strengths) for path in paths], axis=0)
    choice = choose(errors, penalties)
    strength = choice.penalty * unit
    plain = np.array([sum(path.plain_error(strength) for path in paths)])
    found = errors[[_position(choice, penalties)]]
    weights = _solve(features, targets, strength)
    if basis is not None:
        weights = basis @ weights
    return PrimalFit(weights, choice, relative_difference(found, plain))


@dataclass(frozen=True, slots=True, eq=False)
class _Fold:
    """One fold left out: s, P, Q of the others, and its own targets less the others' means."""

    values: Floats
    projected: Floats
    moments: Floats
    targets: Floats

    @classmethod
    def of(cls, features: Floats, targets: Floats, groups: Indices, out: np.ndarray) -> _Fold:
        order = np.concatenate([np.flatnonzero(~out), np.flatnonzero(out)])
        n_train = int(np.sum(~out))
        x = centre(features[order], groups[order], n_train)
        y = centre(targets[order], groups[order], n_train)
        values, vectors = _decompose(x[:n_train])
        moments = vectors.T @ (x[:n_train].T @ y[:n_train])
        return cls(values, x[n_train:] @ vectors, moments, y[n_train:])

    def errors(self, strengths: Sequence[float]) -> Floats:
        """Return the fold's squared error for each strength, then for an infinite one."""
        total = float(np.sum(self.targets**2))
        linear = np.einsum("ij,ji->i", self.moments, self.targets.T @ self.projected)
        square = (self.projected.T @ self.projected) * (self.moments @ self.moments.T)
        errors = []
        for strength in strengths:
            w = _inverse(self.values, strength)
            errors.append(total - 2.0 * float(w @ linear) + float(w @ square @ w))
        return np.array([*errors, total])

    def plain_error(self, strength: float) -> float:
        """Return the same for one strength, from predictions."""
        predicted = (self.projected * _inverse(self.values, strength)) @ self.moments
        return float(np.sum((self.targets - predicted) ** 2))


def _decompose(features: Floats) -> tuple[Floats, Floats]:
    normal = features.T @ features
    values, vectors = scipy.linalg.eigh(normal, driver="evd", check_finite=False)
    values[values <= len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)] = 0.0
    return values, vectors


def _inverse(values: Floats, strength: float) -> Floats:
    if math.isinf(strength) or math.isnan(strength) or strength <= 0.0:
        # The infinite penalty, or features of zeros: nothing is predicted beyond the mean.
        return np.zeros_like(values)
    inverse: Floats = 1.0 / (values + strength)
    return inverse


def _solve(features: Floats, targets: Floats, strength: float) -> Floats:
    values, vectors = _decompose(features)
    rotated = vectors.T @ (features.T @ targets)
    weights: Floats = vectors @ (_inverse(values, strength)[:, None] * rotated)
    return weights


def _position(choice: Choice, penalties: Sequence[float]) -> int:
    return len(penalties) if math.isinf(choice.penalty) else list(penalties).index(choice.penalty)
