"""Ridge in its primal form: the fast path against explicit refits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prereg.analysis.frame import centre
from prereg.analysis.primal import fit_primal
from prereg.analysis.ridge import choose

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


def problem(n: int, q: int, d: int):
    """Return centred features and targets, groups and folds."""
    rng = np.random.default_rng(n + q + d)
    groups, folds = np.arange(n) % 2, (np.arange(n) // 2) % 3
    features = rng.standard_normal((n, q)) / np.arange(1, q + 1)
    targets = features @ rng.standard_normal((q, d)) + 0.5 * rng.standard_normal((n, d))
    return centre(features, groups, n), centre(targets, groups, n), groups, folds


def explicit(features, targets, groups, folds, penalties):
    """Return every penalty's leave-fold-out error by refitting means and ridge, and the final weights."""
    q = features.shape[1]
    unit = np.sum(features**2) / len(features)
    errors = []
    for strength in [c * unit for c in (*penalties, math.inf)]:
        total = 0.0
        for fold in np.unique(folds):
            out, kept = folds == fold, folds != fold
            x, y = features.copy(), targets.copy()
            for g in np.unique(groups):
                x[groups == g] -= features[kept & (groups == g)].mean(axis=0)
                y[groups == g] -= targets[kept & (groups == g)].mean(axis=0)
            missed = y[out]
            if math.isfinite(strength):
                normal = x[kept].T @ x[kept] + strength * np.eye(q)
                missed = missed - x[out] @ np.linalg.solve(normal, x[kept].T @ y[kept])
            total += np.sum(missed**2)
        errors.append(total)
    choice = choose(np.array(errors), penalties)
    normal = features.T @ features + choice.penalty * unit * np.eye(q)
    return choice, np.linalg.solve(normal, features.T @ targets)


@pytest.mark.parametrize(("n", "q", "d"), [(36, 5, 4), (24, 40, 4), (24, 5, 40), (18, 30, 30)])
def test_the_fast_path_equals_explicit_refits(n: int, q: int, d: int) -> None:
    """Whichever of samples, features and targets is the fewest, penalty, score and weights are exact."""
    features, targets, groups, folds = problem(n, q, d)

    fit = fit_primal(features, targets, groups, folds, PENALTIES)

    choice, weights = explicit(features, targets, groups, folds, PENALTIES)
    assert fit.choice.penalty == choice.penalty
    assert fit.choice.cv_r2 == pytest.approx(choice.cv_r2, rel=1e-9)
    np.testing.assert_allclose(fit.weights, weights, rtol=1e-8, atol=1e-10)
    assert fit.rounding < 1e-12


def test_features_without_variation_predict_the_mean() -> None:
    """Features of zeros leave the infinite penalty, and weights that are exactly zero."""
    features, targets, groups, folds = problem(36, 5, 3)

    fit = fit_primal(np.zeros_like(features), targets, groups, folds, PENALTIES)

    assert fit.choice.penalty == math.inf
    assert not fit.weights.any()
