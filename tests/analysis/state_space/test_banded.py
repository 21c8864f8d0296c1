"""What a banded ridge leaves over: against explicit refits."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.analysis.frame import centre
from prereg.analysis.state_space.banded import (
    Decomposition,
    LeftOut,
    beside,
    choose_path,
    compressed,
    remainder,
    unit_state,
)

N, Q, K, D = 36, 20, 3, 5
STRATA = np.repeat(np.arange(3), 12)
SUBJECTS = np.repeat(np.arange(14), [2, 3, 3, 2, 2, 3, 3, 2, 2, 4, 3, 2, 3, 2])
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def features(seed: int, columns: int) -> np.ndarray:
    return centre(np.random.default_rng(seed).standard_normal((N, columns)), STRATA, N)


Z, S, Y = features(1, Q), features(2, K), features(3, D)


def left_out_by_hand(
    x: np.ndarray, penalties: np.ndarray, out: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """Return a left-out group's errors after estimating its stratum means and the ridge anew."""
    order = np.concatenate([np.flatnonzero(~out), np.flatnonzero(out)])
    n = int((~out).sum())
    a, b = (centre(values[order], STRATA[order], n) for values in (x, targets))
    weights = np.linalg.solve(a[:n].T @ a[:n] + np.diag(penalties), a[:n].T @ b[:n])
    return b[n:] - a[n:] @ weights


def test_a_state_beside_the_codes_is_an_exchange_of_a_block() -> None:
    """The remainder with a state equals that of the summed kernel, and weight 0 changes nothing."""
    kernel, strength, weight = Z @ Z.T, 0.7, 5.0
    left = beside(remainder(kernel, strength), S, weight / strength)
    np.testing.assert_allclose(left, remainder(kernel + weight * S @ S.T, strength), atol=1e-12)
    base = Decomposition.of(kernel).remainder(strength)
    np.testing.assert_allclose(base, remainder(kernel, strength), atol=1e-12)
    assert beside(base, S, 0.0) is base


@pytest.mark.parametrize("weight", [0.0, 4.0])
def test_leaving_a_subject_out_estimates_means_and_ridge_anew(weight: float) -> None:
    """Closed-form errors equal explicit refits; with a leverage of 0 for the removed means they would not."""
    strength = 0.5
    left = beside(remainder(Z @ Z.T, strength), S, weight / strength)
    left_out = LeftOut.of(STRATA, SUBJECTS)
    found = left_out.errors(left, Y)
    x = np.concatenate([Z, np.sqrt(weight) * S], axis=1)
    for subject in np.unique(SUBJECTS):
        out = subject == SUBJECTS
        wanted = left_out_by_hand(x, np.full(x.shape[1], strength), out, Y)
        np.testing.assert_allclose(found[out], wanted, atol=1e-9)
    careless = LeftOut(left_out.rows, tuple(np.zeros_like(m) for m in left_out.means)).errors(left, Y)
    assert np.sum(careless**2) < 0.97 * np.sum(found**2)


def test_without_the_means_leverage_the_penalty_collapses() -> None:
    """Where codes explain nothing the honest criterion says so; the careless one takes the smallest penalty."""
    strata = np.repeat(np.arange(12), 3)
    z = centre(np.random.default_rng(5).standard_normal((N, 60)), strata, N)
    y = centre(np.random.default_rng(6).standard_normal((N, 200)), strata, N)
    rows = LeftOut.of(strata, np.arange(N))
    careless = LeftOut(rows.rows, tuple(np.zeros_like(m) for m in rows.means))
    honest = choose_path(z @ z.T, y, PENALTIES, rows).choice
    collapsed = choose_path(z @ z.T, y, PENALTIES, careless).choice
    assert np.isinf(honest.penalty) or honest.penalty == PENALTIES[-1]
    assert collapsed.penalty == PENALTIES[0]


def test_a_useless_state_gets_no_weight_and_a_useful_one_does() -> None:
    """The weight is chosen by leave-out error, among equals the smallest."""
    rows = LeftOut.of(STRATA, SUBJECTS)
    state, _ = unit_state(S, STRATA)
    target = 0.1 * features(7, 60)
    weights = (0.0, 1.0, 100.0)
    assert choose_path(Z @ Z.T, target, PENALTIES, rows, state, weights).weight == 0.0
    useful = target + S @ np.random.default_rng(8).standard_normal((K, 60))
    found = choose_path(Z @ Z.T, useful, PENALTIES, rows, state, weights)
    assert found.weight == 100.0
    assert found.choice.cv_r2 > 0.8
    # The largest weight tells what it gained over the one before; with room above it, none is told.
    before = choose_path(Z @ Z.T, useful, PENALTIES, rows, state, weights[:2])
    assert found.weight_gain == pytest.approx(found.choice.cv_r2 - before.choice.cv_r2)
    assert before.weight_gain > found.weight_gain > 0.0
    roomy = choose_path(Z @ Z.T, useful, PENALTIES, rows, state, (*weights, 1e9))
    assert roomy.weight_gain < found.weight_gain


@pytest.mark.parametrize(("kernel", "target"), [(np.zeros((N, N)), Y), (Z @ Z.T, np.zeros((N, D)))])
def test_nothing_to_explain_or_to_explain_with_takes_the_infinite_penalty(kernel, target) -> None:
    """Codes without spread, or targets without any, choose the mean, and nothing is divided by zero."""
    found = choose_path(kernel, target, PENALTIES, LeftOut.of(STRATA, SUBJECTS))
    assert np.isinf(found.choice.penalty)
    assert found.weight == 0.0


@pytest.mark.parametrize("columns", [D, 50])
def test_compressed_targets_are_the_targets(columns: int) -> None:
    """An isometry brings the full targets back: nothing is dropped."""
    targets = features(9, columns)
    small, isometry = compressed(targets)
    assert small.shape[1] == min(columns, N)
    np.testing.assert_allclose(small @ isometry.T, targets, atol=1e-12)
    np.testing.assert_allclose(isometry.T @ isometry, np.eye(small.shape[1]), atol=1e-12)


def test_a_unit_state_has_unit_mean_squared_length() -> None:
    """It is centred by stratum, and a state of zeros stays one."""
    raw = 3.0 * S + STRATA[:, None]
    scaled, length = unit_state(raw, STRATA)
    assert np.mean(np.sum(scaled**2, axis=1)) == pytest.approx(1.0)
    np.testing.assert_allclose(scaled * length, 3.0 * S, atol=1e-12)
    zeros, one = unit_state(np.zeros((N, K)), STRATA)
    assert one == 1.0
    assert not zeros.any()


def test_a_finite_penalty_is_found_where_none_is_worth_having() -> None:
    """The best finite candidate is taken at a loss, and an end of the grid is no reproach: nothing lies beyond."""
    rows = LeftOut.of(STRATA, SUBJECTS)
    target = features(10, 200)
    assert np.isinf(choose_path(Z @ Z.T, target, PENALTIES, rows).choice.penalty)
    choice = choose_path(Z @ Z.T, target, PENALTIES, rows, finite=True).choice
    assert choice.penalty == PENALTIES[-1]
    assert choice.at_upper_edge
    assert choice.edge_gain == 0.0
    assert choice.cv_r2 < 0.0
    useful = target + Z @ np.random.default_rng(11).standard_normal((Q, 200))
    same = [choose_path(Z @ Z.T, useful, PENALTIES, rows, finite=finite) for finite in (False, True)]
    assert same[0] == same[1]


def test_at_the_upper_end_a_state_is_not_charged_with_what_it_explains_itself() -> None:
    """Codes that are worth nothing beside a state take the largest penalty; the last step to it gained little."""
    rows = LeftOut.of(STRATA, SUBJECTS)
    state, _ = unit_state(S, STRATA)
    target = S @ np.random.default_rng(12).standard_normal((K, 60)) + 0.1 * features(13, 60)
    found = choose_path(Z @ Z.T, target, PENALTIES, rows, state, (0.0, 1000.0))
    errors = [
        np.sum(
            rows.errors(
                beside(
                    remainder(Z @ Z.T, p * np.trace(Z @ Z.T) / N), state, 1000.0 / (p * np.trace(Z @ Z.T) / N)
                ),
                target,
            )
            ** 2
        )
        for p in PENALTIES[-2:]
    ]
    void = np.sum(rows.errors(np.eye(N), target) ** 2)
    assert found.choice.at_upper_edge
    assert found.choice.edge_gain == pytest.approx((errors[0] - errors[1]) / void)
    assert found.choice.edge_gain < 0.05 < 0.9 < found.choice.cv_r2
