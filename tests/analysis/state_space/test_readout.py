"""The readout of an update from its own codes."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.analysis.frame import Frame, centre
from prereg.analysis.ridge import Choice
from prereg.analysis.state_space.readout import finite_strength, leading, read_out
from prereg.analysis.state_space.sources import code_kernel, target_of, unit_codes
from tests.analysis.state_space import planted

LAYER = 3


@pytest.fixture(scope="module")
def setting():
    """One update of a small world: frame, features, target, and its readouts."""
    activations, library = planted.world(planted.System.draw(1), n_subjects=60)
    frame = Frame.of(activations, "relation")
    codes = library.codes[LAYER][frame.rows]
    target = target_of(activations.update(LAYER)[frame.rows], frame)
    subjects = np.unique(frame.subjects[: frame.n_train], return_inverse=True)[1]
    read = read_out(
        kernel=code_kernel(codes, frame),
        target=target,
        strata=frame.strata[: frame.n_train],
        subjects=subjects,
        penalties=planted.PENALTIES,
        ranks=(1, 3, planted.D_MODEL),
    )
    return activations, frame, unit_codes(codes, frame), target, read


def test_the_full_readout_is_a_plain_ridge(setting) -> None:
    """Its held-out errors are those of the primal solution at the chosen penalty."""
    _, frame, z, target, read = setting
    n = frame.n_train
    y = target.training @ target.isometry.T
    strength = Choice.from_row(read["choice"]).penalty * np.sum(z[:n] ** 2) / n
    weights = np.linalg.solve(z[:n].T @ z[:n] + strength * np.eye(z.shape[1]), z[:n].T @ y)
    wanted = np.sum((target.held_out - z[n:] @ weights) ** 2, axis=1)
    np.testing.assert_allclose(read["sse.full"], wanted, rtol=1e-9)


def test_a_truncated_readout_is_the_truncated_svd_of_the_penalised_fit(setting) -> None:
    """With the penalty written as further rows, PL(r) projects on the fit's leading right singular vectors."""
    _, frame, z, target, read = setting
    n = frame.n_train
    y = target.training @ target.isometry.T
    strength = Choice.from_row(read["choice"]).penalty * np.sum(z[:n] ** 2) / n
    weights = np.linalg.solve(z[:n].T @ z[:n] + strength * np.eye(z.shape[1]), z[:n].T @ y)
    augmented = np.concatenate([z[:n], np.sqrt(strength) * np.eye(z.shape[1])]) @ weights
    basis = np.linalg.svd(augmented, full_matrices=False)[2]
    for rank in (1, 3):
        low = weights @ basis[:rank].T @ basis[:rank]
        wanted = np.sum((target.held_out - z[n:] @ low) ** 2, axis=1)
        np.testing.assert_allclose(read[f"sse.{rank}"], wanted, rtol=1e-8)
    np.testing.assert_allclose(read[f"sse.{planted.D_MODEL}"], read["sse.full"], rtol=1e-9)


def test_errors_count_every_dimension_of_the_update(setting) -> None:
    """Squared errors are distances in the full space: those of a few components would be smaller (inflated R2)."""
    activations, frame, _, target, _ = setting
    n = frame.n_train
    delta = centre(activations.update(LAYER)[frame.rows], frame.strata, n)
    total = np.sum(delta[n:] ** 2, axis=1)
    np.testing.assert_allclose(np.sum(target.held_out**2, axis=1) * target.power, total, rtol=1e-12)
    components = np.linalg.svd(delta[:n], full_matrices=False)[2][:4]
    assert np.sum((delta[n:] @ components.T) ** 2) < 0.95 * total.sum()


def test_updates_that_do_not_vary_have_targets_of_zero(setting) -> None:
    """A near-deterministic update is not blown up into rounding of unit variance."""
    _, frame, *_ = setting
    flat = np.repeat(np.arange(len(frame.rows))[:, None] * 0.0 + 5.0, 3, axis=1)
    target = target_of(flat + 1e-12 * np.random.default_rng(1).standard_normal(flat.shape), frame)
    assert target.power == 0.0
    assert not target.training.any()
    assert not target.held_out.any()


def test_beside_a_state_the_codes_penalty_is_finite(setting) -> None:
    """Where the readout predicts nothing the largest finite candidate takes its place."""
    kernel = np.eye(4) * 2.0
    infinite = Choice(np.inf, False, False, 0.0, 0.0)
    assert finite_strength(infinite, (0.1, 3.0), kernel) == 6.0
    assert finite_strength(Choice(0.1, True, False, 0.0, 0.5), (0.1, 3.0), kernel) == pytest.approx(0.2)
    assert finite_strength(infinite, (0.1, 3.0), np.zeros((4, 4))) == 3.0


def test_the_leading_eigenvectors_come_largest_first() -> None:
    """A rank beyond the size gives all of them."""
    matrix = np.diag([1.0, 5.0, 3.0])
    np.testing.assert_allclose(np.abs(leading(matrix, 2)), [[0, 0], [1, 0], [0, 1]], atol=1e-12)
    assert leading(matrix, 9).shape == (3, 3)
