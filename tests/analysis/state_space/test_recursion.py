"""States: what they are fit on, and what they may not see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prereg.analysis.frame import centre
from prereg.analysis.ridge import Choice
from prereg.analysis.state_space.model import bases, prepare, readouts, recursions
from prereg.analysis.state_space.recursion import step
from prereg.analysis.state_space.sources import unit_codes
from prereg.workers import Workers
from tests.analysis.state_space import planted
from tests.analysis.state_space.planted import SETTINGS, STATE


def states_of(activations, library, settings=SETTINGS):
    """Run all stages up to the recursion."""
    stage = prepare(activations, settings, ("topk",), library, Workers())
    read = readouts(stage, "topk", settings, (1,), Workers())
    (own,) = bases(stage, "topk", settings, read, STATE, Workers())
    return stage, own, recursions(stage, settings, {"own": (own, STATE)}, Workers(), "own")["own"]


@pytest.fixture(scope="module")
def ran():
    """The states of a world with a path."""
    activations, library = planted.world(planted.System.draw(1), n_subjects=90)
    return activations, library, *states_of(activations, library)


def test_cross_fitted_states_come_from_fits_without_the_fold() -> None:
    """They equal explicit refits, stratum means and all, with the nuisance's share taken out again."""
    rng = np.random.default_rng(3)
    n, strata = 40, np.repeat([0, 1], 20)
    folds = np.tile(np.arange(4), 10)
    z, ahead, state, wanted = (centre(rng.standard_normal((n, q)), strata, n) for q in (7, 5, STATE, STATE))
    choice, weight = Choice(0.3, False, False, 0.0, 0.5), 2.0
    found = step(z @ z.T, ahead @ ahead.T, state, wanted, strata, folds, choice, weight)
    length = np.sqrt(np.mean(np.sum(state**2, axis=1)))
    strength = 0.3 * (np.sum(z**2) + np.sum(ahead**2)) / n
    x = np.concatenate([z, np.sqrt(weight) * state / length, ahead], axis=1)
    for fold in range(4):
        out = folds == fold
        order = np.concatenate([np.flatnonzero(~out), np.flatnonzero(out)])
        m = int((~out).sum())
        a, b = centre(x[order], strata[order], m), centre(wanted[order], strata[order], m)
        weights = np.linalg.solve(a[:m].T @ a[:m] + strength * np.eye(a.shape[1]), a[:m].T @ b[:m])
        weights[z.shape[1] + STATE :] = 0.0
        np.testing.assert_allclose(found.state[out], (a @ weights)[m:], atol=1e-9)
    weights = np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ wanted)
    np.testing.assert_allclose(z @ z.T @ found.dual, z @ weights[: z.shape[1]], atol=1e-9)
    block = np.sqrt(weight) / length * weights[z.shape[1] : z.shape[1] + STATE]
    np.testing.assert_allclose(found.transition, block, atol=1e-9)


def test_held_out_states_follow_the_recursion_alone(ran) -> None:
    """Starting from zero, A and B with the prompt's own codes give them at every update."""
    _, library, stage, _, result = ran
    n = stage.frame.n_train
    state = np.zeros((len(stage.frame.rows) - n, STATE))
    for layer, (transition, dual) in enumerate(zip(result["transitions"], result["duals"], strict=True)):
        z = unit_codes(library.codes[layer][stage.frame.rows], stage.frame)
        state = state @ transition + z[n:] @ (z[:n].T @ dual)
        np.testing.assert_allclose(result["states"][layer + 1, n:], state, atol=1e-10)


def test_held_out_states_do_not_see_their_updates(ran) -> None:
    """Other updates with the same codes leave every held-out state where it was."""
    activations, library, _, _, result = ran
    resid = activations.resid.copy()
    noise = np.random.default_rng(4).standard_normal(resid[:, activations.held_out].shape).astype(np.float32)
    resid[:, activations.held_out] += noise
    changed = replace(activations, resid=resid)
    again = states_of(changed, planted.KnownLibrary(library.codes, changed))[-1]
    np.testing.assert_array_equal(again["states"], result["states"])


def test_states_begin_at_zero_and_know_only_earlier_codes(ran) -> None:
    """s[0] is zero, and s[1] is made of the codes of update 0 and of nothing else."""
    _, _, stage, _, result = ran
    n = stage.frame.n_train
    assert not result["states"][0].any()
    wanted = stage.codes["topk"].kernels[0][n:] @ result["duals"][0]
    np.testing.assert_allclose(result["states"][1, n:], wanted, atol=1e-12)


def test_training_states_are_as_large_as_held_out_ones() -> None:
    """Cross-fitted states have the held-out ones' size; states that saw their prompt are far larger."""
    activations, library = planted.world(planted.System.draw(2), n_subjects=45, noise=3.0)
    stage, own, result = states_of(activations, library)
    n, layer = stage.frame.n_train, 4
    states = result["states"][layer]
    size = np.mean(np.sum(states**2, axis=1)[:n]), np.mean(np.sum(states**2, axis=1)[n:])
    assert 0.5 < size[0] / size[1] < 2.0
    before = result["states"][layer - 1, :n]
    seen = stage.codes["topk"].kernels[layer - 1][:n] @ result["duals"][layer - 1]
    seen += before @ result["transitions"][layer - 1]
    aim = own.found[layer - 1]["functionals"][:, :STATE]
    # What the states share with the functionals' own noise: cross-fitted ones predict, seen ones remember.
    assert np.sum((aim - seen) ** 2) < np.sum((aim - states[:n]) ** 2)
