"""Data drawn from a known state-space model give it back."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.analysis import state_space
from prereg.analysis.frame import Frame, centre
from prereg.analysis.state_space.fitting import fit_kind
from prereg.analysis.state_space.model import prepare
from prereg.analysis.state_space.path import profile, summary
from prereg.workers import Workers
from tests.analysis.state_space import planted
from tests.analysis.state_space.planted import D_MODEL, FIRST, N_LAYERS, SETTINGS, STATE

SYSTEM = planted.System.draw(1)
LEAN = SETTINGS.model_copy(update={"grid": ()})
F = planted.F


def markov_error(system: planted.System, n_subjects: int, *, common: float = 0.0) -> float:
    """Return the relative squared error of all Markov parameters, in raw units."""
    activations, library = planted.world(system, n_subjects=n_subjects, templates=1, common=common)
    stage = prepare(activations, LEAN, ("topk",), library, Workers())
    fits = fit_kind(stage, "topk", LEAN, Workers(), lean=True)
    n = stage.frame.n_train
    missed = total = 0.0
    puts = []
    for layer in range(stage.last):
        codes = centre(library.codes[layer][stage.frame.rows], stage.frame.strata, n)[:n]
        puts.append(codes.T @ fits.main["duals"][layer] / np.mean(np.sum(codes**2, axis=1)))
    for layer, target in zip(stage.updates, stage.targets, strict=True):
        carried = fits.outputs[layer]["outputs.ssm_full"] * np.sqrt(target.power)
        for j in range(layer - 1, -1, -1):
            wanted = system.markov(layer, j)
            missed += float(np.sum(((puts[j] @ carried).T - wanted) ** 2))
            total += float(np.sum(wanted**2))
            carried = fits.main["transitions"][j] @ carried
    return missed / total


def true_summary(system: planted.System) -> dict[str, float | None]:
    """Return half-lives and memory of the system itself, for codes of unit covariance, targets of unit variance."""
    found = np.zeros((N_LAYERS - FIRST, N_LAYERS - 1))
    for layer in range(FIRST, N_LAYERS):
        paths = [np.sum(system.markov(layer, j) ** 2) for j in range(layer)]
        power = sum(paths) + np.sum(system.D[layer] ** 2) + 0.25 * D_MODEL
        found[layer - FIRST, :layer] = np.array(paths) / power
    return summary(profile(found, FIRST, 0, SETTINGS.max_gap))


def test_markov_parameters_come_back_and_better_with_more_prompts() -> None:
    """Their error falls about as one over the number of prompts."""
    few, many = markov_error(SYSTEM, 90), markov_error(SYSTEM, 540)
    assert few < 0.2
    assert many < 0.03
    assert many < few / 3


def test_markov_parameters_come_back_where_codes_are_correlated() -> None:
    """Codes that share half their variance across updates don't pass for a path that is not there."""
    assert markov_error(SYSTEM, 540, common=0.5) < 0.1


def test_memory_and_order_come_back() -> None:
    """Memory is within 5% of the truth, somewhat short of it as a shrunken path is; two singular values stand out."""
    activations, library = planted.world(SYSTEM, n_subjects=360, templates=1)
    settings = SETTINGS.model_copy(update={"grid": ((4, 3),)})
    evidence = state_space.measure(activations, settings, Workers(), dictionaries=library)
    truth = true_summary(SYSTEM)
    rows = {row["quantity"]: row for row in evidence.side["memory"].to_pylist() if row["fit"] == "ssm_full"}
    for name in ("memory_energy", "memory_norm"):
        assert rows[name]["estimate"] == pytest.approx(truth[name], rel=0.05)
        assert rows[name]["low"] < rows[name]["estimate"] < rows[name]["high"]
        assert 0.0 < rows[name]["se"] < 0.05
    for update in range(FIRST, N_LAYERS):
        values = [
            row["singular_value"] for row in evidence.side["spectrum"].to_pylist() if row["update"] == update
        ]
        assert values[STATE - 1] > 2 * values[STATE]


def gradient_fit(system: planted.System, activations, library, frame: Frame) -> float:
    """Fit the same model by gradient descent on the same training prompts; return its mean held-out R2."""
    import torch

    torch.set_num_threads(1)
    n = frame.n_train
    z = torch.tensor(
        np.stack([centre(c[frame.rows], frame.strata, n) for c in library.codes]), dtype=torch.float32
    )
    y = np.stack([centre(activations.update(i)[frame.rows], frame.strata, n) for i in range(N_LAYERS)])
    y = torch.tensor(y / np.sqrt(np.mean(y[:, :n] ** 2, axis=(1, 2), keepdims=True)), dtype=torch.float32)
    draw = torch.Generator().manual_seed(1)
    shapes = ((STATE, STATE), (STATE, F), (D_MODEL, STATE), (D_MODEL, F))
    A, B, C, D = (0.3 * torch.randn((N_LAYERS, *s), generator=draw) for s in shapes)
    for parameter in (A, B, C, D):
        parameter.requires_grad_()

    def predict() -> torch.Tensor:
        state, out = torch.zeros((z.shape[1], STATE)), []
        for i in range(N_LAYERS):
            out.append(state @ C[i].T + z[i] @ D[i].T)
            state = state @ A[i].T + z[i] @ B[i].T
        return torch.stack(out)

    optimiser = torch.optim.Adam([A, B, C, D], lr=0.03)
    for _ in range(500):
        optimiser.zero_grad()
        loss = torch.sum((y - predict())[FIRST:, :n] ** 2) / n
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        missed = torch.sum((y - predict())[FIRST:, n:] ** 2, dim=(1, 2))
        return float(torch.mean(1 - missed / torch.sum(y[FIRST:, n:] ** 2, dim=(1, 2))))


@pytest.mark.parametrize("common", [0.0, 0.5])
def test_a_gradient_trained_fit_is_no_better_than_the_closed_form(common: float) -> None:
    """On held-out prompts the two agree to 0.02 R2."""
    activations, library = planted.world(SYSTEM, n_subjects=240, common=common)
    evidence = state_space.measure(activations, LEAN, Workers(), dictionaries=library, twin=True)
    closed = planted.r2(evidence, "ssm_full")
    trained = gradient_fit(SYSTEM, activations, library, Frame.of(activations, "relation"))
    assert closed == pytest.approx(trained, abs=0.02)
