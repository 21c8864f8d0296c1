"""Ridge in its dual form: every shortcut against the long way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prereg.analysis.frame import centre
from prereg.analysis.ridge import Choice, Ridge, choose
from prereg.errors import AnalysisError

PENALTIES = (1e-4, 1e-2, 1.0, 100.0)
N, Q, D = 30, 7, 3


@pytest.fixture
def problem():
    """Features, raw targets, uneven strata, and folds that spread them."""
    rng = np.random.default_rng(3)
    strata = np.array([0] * 16 + [1] * 9 + [2] * 5)
    folds = np.arange(N) % 3
    features = rng.standard_normal((N, Q)) + strata[:, None]
    targets = features @ rng.standard_normal((Q, D)) + rng.standard_normal((N, D)) - 2 * strata[:, None]
    return features, targets, strata, folds


def decomposed(features, strata, folds):
    """Return the ridge of centred features and the centred features."""
    centred = centre(features, strata, N)
    return Ridge.of(centred @ centred.T, strata, folds), centred


def left_out_explicitly(features, targets, strata, folds, strength):
    """Refit means and ridge without each fold, and return all errors of the folds."""
    errors = np.empty_like(targets)
    for fold in np.unique(folds):
        out, kept = folds == fold, folds != fold
        x, y = np.empty_like(features), np.empty_like(targets)
        for s in np.unique(strata):
            x[strata == s] = features[strata == s] - features[kept & (strata == s)].mean(axis=0)
            y[strata == s] = targets[strata == s] - targets[kept & (strata == s)].mean(axis=0)
        errors[out] = y[out]
        if math.isfinite(strength):
            normal = x[kept].T @ x[kept] + strength * np.eye(Q)
            errors[out] -= x[out] @ np.linalg.solve(normal, x[kept].T @ y[kept])
    return errors


def test_leaving_folds_out_in_closed_form_equals_refitting_means_and_ridge(problem) -> None:
    """The block identity gives the errors of explicit refits, stratum means refit too."""
    features, targets, strata, folds = problem
    ridge, _ = decomposed(features, strata, folds)

    found = ridge.cv_errors(centre(targets, strata, N), PENALTIES)

    wanted = [
        np.sum(left_out_explicitly(features, targets, strata, folds, c * ridge.unit) ** 2)
        for c in (*PENALTIES, math.inf)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_the_leverage_of_removed_means_is_that_of_the_stratum(problem) -> None:
    """Pitfall 1: with means of strata removed, a left-out row's leverage is 1 / n_stratum and not 1 / n."""
    _, targets, strata, _ = problem
    centred = centre(targets, strata, N)
    ridge, _ = decomposed(np.zeros((N, Q)), strata, np.arange(N))

    found = ridge.cv_errors(centred, (1.0,))[-1]

    own = 1.0 - 1.0 / np.bincount(strata)[strata]
    assert found == pytest.approx(np.sum((centred / own[:, None]) ** 2), rel=1e-12)
    assert found > 1.02 * np.sum((centred / (1.0 - 1.0 / N)) ** 2)


def test_the_dual_solution_is_ridge_with_unpenalised_stratum_intercepts(problem) -> None:
    """Predictions equal least squares on features augmented by the penalty and stratum indicators."""
    features, targets, strata, folds = problem
    ridge, centred = decomposed(features, strata, folds)
    strength = 0.1 * ridge.unit
    indicators = np.eye(3)[strata]
    left = np.block([[indicators, features], [np.zeros((Q, 3)), math.sqrt(strength) * np.eye(Q)]])
    solution = np.linalg.lstsq(left, np.concatenate([targets, np.zeros((Q, D))]), rcond=None)[0]

    dual = centred @ centred.T @ ridge.coefficients(centre(targets, strata, N), 0.1)

    means = targets - centre(targets, strata, N)
    np.testing.assert_allclose(dual + means, indicators @ solution[:3] + features @ solution[3:], rtol=1e-9)


def test_quadratic_forms_give_the_errors_of_permuted_targets(problem) -> None:
    """<M, G[p][:, p]> equals the cross-validation error computed from permuted targets."""
    features, targets, strata, folds = problem
    ridge, _ = decomposed(features, strata, folds)
    y = centre(targets, strata, N)
    p = np.concatenate([np.random.default_rng(1).permutation(np.flatnonzero(strata == s)) for s in range(3)])

    gram = (y @ y.T)[p][:, p]
    found = np.einsum("kij,ij->k", ridge.cv_forms(PENALTIES), gram)

    np.testing.assert_allclose(found, ridge.cv_errors(y[p], PENALTIES), rtol=1e-9)


def test_the_smoother_and_the_coefficients_predict_the_same(problem) -> None:
    """B @ y and K @ coefficients(y) are two ways to one prediction."""
    features, targets, strata, folds = problem
    ridge, centred = decomposed(features, strata, folds)
    cross = np.random.default_rng(2).standard_normal((4, Q)) @ centred.T
    y = centre(targets, strata, N)

    np.testing.assert_allclose(
        ridge.smoother(cross, 0.01) @ y, cross @ ridge.coefficients(y, 0.01), rtol=1e-9
    )


def test_an_infinite_penalty_predicts_the_baseline(problem) -> None:
    """At infinity, and for a kernel of zeros at any penalty, nothing is predicted beyond the mean."""
    features, targets, strata, folds = problem
    y = centre(targets, strata, N)
    ridge, _ = decomposed(features, strata, folds)
    void, _ = decomposed(np.zeros((N, Q)), strata, folds)

    assert not ridge.coefficients(y, math.inf).any()
    assert not void.coefficients(y, 1.0).any()
    errors = void.cv_errors(y, PENALTIES)
    assert choose(errors, PENALTIES).penalty == math.inf


def test_of_equal_errors_the_larger_penalty_is_chosen() -> None:
    """A tie is settled for the simpler fit, and the edges of the finite grid are named."""
    assert choose(np.array([2.0, 1.0, 1.0, 3.0]), (1.0, 2.0, 3.0)).penalty == 3.0
    assert choose(np.array([2.0, 1.0, 1.0, 3.0]), (1.0, 2.0, 3.0)).at_upper_edge
    assert choose(np.array([1.0, 2.0, 2.0, 3.0]), (1.0, 2.0, 3.0)).at_lower_edge
    infinite = choose(np.array([2.0, 2.0, 2.0, 1.0]), (1.0, 2.0, 3.0))
    assert (infinite.penalty, infinite.at_upper_edge, infinite.cv_r2) == (math.inf, False, 0.0)


def test_what_the_last_step_to_an_edge_gained_is_kept() -> None:
    """At the lower edge over its neighbour, at the upper edge over the baseline; elsewhere nothing."""

    def gain(*errors: float) -> float:
        return choose(np.array(errors), (1.0, 2.0, 3.0)).edge_gain

    assert gain(1.0, 1.5, 2.0, 4.0) == 0.125
    assert gain(3.0, 2.5, 2.0, 4.0) == 0.5
    assert gain(3.0, 2.0, 3.0, 4.0) == 0.0
    assert gain(3.0, 3.0, 3.0, 2.0) == 0.0


def test_a_choice_survives_its_checkpoint() -> None:
    """Numbers out, the same choice back; a table shows an infinite penalty as null."""
    choice = choose(np.array([2.0, 2.0, 2.0, 1.0]), (1.0, 2.0, 3.0))

    assert Choice.from_row(choice.as_row()) == choice
    assert (choice.as_record()["penalty"], choice.as_record()["infinite"]) == (None, True)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_error_that_is_not_finite_chooses_nothing(bad: float) -> None:
    """NaN would win every argmin: it is refused instead."""
    with pytest.raises(AnalysisError, match="finite error for every penalty"):
        choose(np.array([bad, 1.0, 2.0]), (1.0, 2.0))


def test_a_stratum_in_a_single_fold_is_refused(problem) -> None:
    """Its mean would vanish with the fold, and the closed form would divide by zero."""
    features, _, strata, _ = problem

    with pytest.raises(AnalysisError, match="single fold"):
        decomposed(features, strata, strata)


def test_a_kernel_with_nan_is_refused(problem) -> None:
    """NaN in a kernel is named before a decomposition can spread it."""
    _, _, strata, folds = problem

    with pytest.raises(AnalysisError, match="NaN"):
        Ridge.of(np.full((N, N), math.nan), strata, folds)
