"""Small residual streams whose truth is known, and settings to measure them with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prereg.activations.view import Activations
from prereg.analysis.band_kernels import BandKernelSettings
from prereg.analysis.kernels import KernelSettings

N_SUBJECTS, TEMPLATES, D_MODEL, N_LAYERS = 48, 2, 6, 8
PENALTIES = tuple(float(f"{10.0**e:.6g}") for e in np.arange(-6, 3.1, 0.5))

KERNELS = KernelSettings(
    baseline="template",
    updates="late",
    orders=(1, 2, 3),
    joint_orders=(1, 2),
    primary_order=1,
    penalties=PENALTIES,
    edge_tolerance=0.001,
    history_weights=(0.0, 0.1, 1.0),
    folds=4,
    fold_seed=5,
    shuffles=19,
    shuffle_seed=6,
    joint_shuffles=3,
    random_draws=3,
    random_seed=7,
    min_stratum_prompts=2,
)
BANDS = BandKernelSettings(
    baseline="template",
    bands=("band_1", "band_2"),
    order=1,
    penalties=PENALTIES,
    edge_tolerance=0.001,
    folds=4,
    fold_seed=5,
    min_stratum_prompts=2,
)
SETS = {"late": (2, 3, 4, 5, 6, 7), "band_1": (1, 2, 3), "band_2": (4, 5, 6, 7), "early": (0, 1)}


def world(
    kernels: np.ndarray | None, noise: float = 0.3, seed: int = 0, n_layers: int = N_LAYERS
) -> Activations:
    """Return a stream with delta[l] = kernels[l] delta[l-1] + a template's offset + noise.

    `kernels` is (n_layers, d, d), or None for updates that know nothing of each other. A third of the
    subjects is held out; v[0] is a template's own, as where templates end in one token.
    """
    rng = np.random.default_rng(seed)
    who = [(s, t) for s in range(N_SUBJECTS) for t in range(TEMPLATES)]
    stratum = np.array([2 * (s % 2) + t for s, t in who])
    n = len(who)
    v = np.zeros((n_layers + 1, n, D_MODEL))
    v[0] = rng.standard_normal((4, D_MODEL))[stratum] * 3
    delta = rng.standard_normal((n, D_MODEL))
    for layer in range(n_layers):
        if layer > 0:
            carried = delta @ kernels[layer].T if kernels is not None else 0.0
            size = noise if kernels is not None else 1.0
            delta = carried + size * rng.standard_normal((n, D_MODEL))
        v[layer + 1] = v[layer] + delta + rng.standard_normal((4, D_MODEL))[stratum]
    return Activations(
        prompts=tuple(f"p{s:02d}-{t}" for s, t in who),
        subjects=tuple(f"s{s:02d}" for s, _ in who),
        relations=tuple(f"r{s % 2}" for s, _ in who),
        templates=tuple(f"t{t}" for _, t in who),
        held_out=np.array([s % 6 in (2, 3) for s, _ in who]),
        resid=v.astype(np.float32),
        update_sets={k: tuple(i for i in u if i < n_layers) for k, u in SETS.items()},
    )


def rotations(seed: int, n_layers: int = N_LAYERS, *, same: bool) -> np.ndarray:
    """Return (n_layers, d, d) rotations, one and the same or each its own."""
    rng = np.random.default_rng(seed)
    turns = [np.linalg.qr(rng.standard_normal((D_MODEL, D_MODEL)))[0] for _ in range(n_layers)]
    return np.stack([turns[0]] * n_layers if same else turns)


def reordered(activations: Activations, order: np.ndarray) -> Activations:
    """Return the same prompts, listed in another order."""
    pick = {
        name: tuple(getattr(activations, name)[i] for i in order)
        for name in ("prompts", "subjects", "relations", "templates")
    }
    return replace(
        activations, held_out=activations.held_out[order], resid=activations.resid[:, order], **pick
    )
