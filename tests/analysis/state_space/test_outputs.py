"""C and D, fit together."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.analysis import state_space
from prereg.analysis.frame import centre
from prereg.analysis.state_space.banded import LeftOut, remainder, unit_state
from prereg.analysis.state_space.outputs import fit_joint
from prereg.workers import Workers
from tests.analysis.state_space import planted

N, Q, K, D = 40, 12, 2, 6
STRATA = np.repeat([0, 1], 20)
RNG = np.random.default_rng(1)
Z, S, Y = (centre(RNG.standard_normal((N, q)), STRATA, N) for q in (Q, K, D))
Y = Y + Z @ RNG.standard_normal((Q, D)) + 2 * S @ RNG.standard_normal((K, D))
STRENGTH, WEIGHT = 0.8, 3.0
BASE = remainder(Z @ Z.T, STRENGTH)
SCALED, LENGTH = unit_state(S, STRATA)


def criterion(C: np.ndarray, W: np.ndarray) -> float:
    """Return the penalised squared error of Y ~ SCALED C + Z W."""
    missed = Y - SCALED @ C - Z @ W
    return float(np.sum(missed**2) + STRENGTH * np.sum(W**2) + STRENGTH / WEIGHT * np.sum(C**2))


def joint(rank: int | None):
    found = fit_joint(BASE, S, Y, rank, STRENGTH, WEIGHT, STRATA, LeftOut.of(STRATA, np.arange(N)))
    return found, found.outputs * LENGTH, Z.T @ found.dual


def test_an_unrestricted_d_beside_a_state_is_one_ridge() -> None:
    """C and D are the solution of the stacked normal equations."""
    _, C, W = joint(None)
    x = np.concatenate([SCALED, Z], axis=1)
    penalties = np.diag([STRENGTH / WEIGHT] * K + [STRENGTH] * Q)
    both = np.linalg.solve(x.T @ x + penalties, x.T @ Y)
    np.testing.assert_allclose(np.concatenate([C, W]), both, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_restricted_d_minimises_the_joint_criterion(rank: int) -> None:
    """No alternation between C and a D of that rank, from any start, ends lower."""
    _, C, W = joint(rank)
    assert np.linalg.matrix_rank(W, tol=1e-8) == rank
    best = criterion(C, W)
    augmented = np.concatenate([Z, np.sqrt(STRENGTH) * np.eye(Q)])
    ends = []
    for start in range(3):
        c = np.random.default_rng(start).standard_normal((K, D)) * start
        for _ in range(300):
            full = np.linalg.solve(Z.T @ Z + STRENGTH * np.eye(Q), Z.T @ (Y - SCALED @ c))
            basis = np.linalg.svd(augmented @ full, full_matrices=False)[2][:rank]
            w = full @ basis.T @ basis
            c = np.linalg.solve(SCALED.T @ SCALED + STRENGTH / WEIGHT * np.eye(K), SCALED.T @ (Y - Z @ w))
        ends.append(criterion(c, w))
    assert best <= min(ends) + 1e-8
    assert min(ends) == pytest.approx(best, rel=1e-4)


def test_the_leave_out_error_refits_without_the_prompt() -> None:
    """For an unrestricted D it is that of explicit refits."""
    found, *_ = joint(None)
    x = np.concatenate([np.sqrt(WEIGHT) * SCALED, Z], axis=1)
    total = 0.0
    for i in range(N):
        out = np.arange(N) == i
        order = np.concatenate([np.flatnonzero(~out), [i]])
        a, b = centre(x[order], STRATA[order], N - 1), centre(Y[order], STRATA[order], N - 1)
        weights = np.linalg.solve(a[:-1].T @ a[:-1] + STRENGTH * np.eye(Q + K), a[:-1].T @ b[:-1])
        total += float(np.sum((b[-1] - a[-1] @ weights) ** 2))
    assert found.error == pytest.approx(total, rel=1e-9)


def test_a_full_rank_d_is_an_unrestricted_one() -> None:
    """The two closed forms meet where the rank is no restriction, errors and all."""
    free, C, W = joint(None)
    full, c, w = joint(D)
    np.testing.assert_allclose(C, c, atol=1e-9)
    np.testing.assert_allclose(W, w, atol=1e-9)
    assert full.error == pytest.approx(free.error)


def test_against_a_frozen_decoder_the_refit_alone_would_look_like_a_state() -> None:
    """Without any path SSM gains nothing over a readout fit on the same prompts, but much over a frozen one."""
    activations, library = planted.world(planted.System.draw(3, path=0.0), n_subjects=90, noise=1.0)
    settings = planted.SETTINGS
    refit = state_space.measure(activations, settings, Workers(), dictionaries=library, twin=True)
    apart = np.array([int(s[1:]) % 3 != 1 for s in activations.subjects])
    seen = apart & ~activations.held_out
    few = planted.KnownLibrary(library.codes, activations, seen=seen)
    frozen = state_space.measure(activations, settings, Workers(), dictionaries=few, twin=True)
    gain = planted.r2(refit, "ssm_full") - planted.r2(refit, "readout_full")
    careless = planted.r2(refit, "ssm_full") - planted.r2(frozen, "readout_full")
    assert abs(gain) < 0.003
    assert careless > 0.02
