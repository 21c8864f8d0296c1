"""Token streams whose updates are made of a known sparse dictionary."""

from __future__ import annotations

import numpy as np

from prereg.activations.view import Activations, Tokens
from prereg.analysis.dictionaries import DictionarySettings

D_MODEL, FEATURES, ACTIVE, N_LAYERS = 24, 32, 3, 2
N_SUBJECTS, TEMPLATES, LENGTH = 60, 2, 12
OUTSIDE = 12
"""Subjects that are captured but not in the study."""

SETTINGS = DictionarySettings(
    baseline="template",
    updates="all",
    kinds=("topk", "l1"),
    seeds=(1, 2),
    width=FEATURES,
    k=ACTIVE,
    steps=300,
    batch=128,
    learning_rate=0.02,
    decay_share=0.4,
    norm_cap=10.0,
    dead_after=30,
    auxiliary_k=8,
    auxiliary_weight=0.1,
    penalty_start=0.3,
    control_share=0.7,
    control_every=5,
    control_gain=0.2,
    control_damping=0.5,
    share=0.5,
    share_seed=3,
    min_stratum_prompts=2,
    l0_tolerance=0.25,
    max_dead_share=0.2,
)
BRIEF = SETTINGS.model_copy(update={"steps": 20, "seeds": (1,), "width": 12})
"""For tests of the bookkeeping."""


def directions(seed: int = 0) -> np.ndarray:
    """Return (FEATURES, D_MODEL) unit rows: the truth."""
    rows = np.random.default_rng(seed).standard_normal((FEATURES, D_MODEL))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def token_ids(subject: int, template: int) -> tuple[int, ...]:
    """Return a prompt: a beginning that its template's prompts share, the subject, and what follows."""
    return (0, 1 + template, 3 + template, 10 + subject, *range(5, 5 + LENGTH - 4))


def update_of(prefix: tuple[int, ...], layer: int, *, readout_active: int = ACTIVE) -> np.ndarray:
    """Return delta[layer] of a token row: the same for the same tokens so far, as in a causal model."""
    rng = np.random.default_rng([layer, *prefix])
    active = readout_active if len(prefix) == LENGTH else ACTIVE
    chosen = rng.choice(FEATURES, active, replace=False)
    codes = 1.0 + np.abs(rng.standard_normal(active))
    delta = 5.0 * codes @ directions()[chosen] + 0.05 * rng.standard_normal(D_MODEL)
    return 1000.0 * delta if len(prefix) == 1 else delta


def world(*, readout_active: int = ACTIVE, n_subjects: int = N_SUBJECTS) -> Activations:
    """Return activations of `n_subjects` subjects, a third held out, and the tokens of `OUTSIDE` more."""
    who = [(s, t) for s in range(n_subjects + OUTSIDE) for t in range(TEMPLATES)]
    ids = tuple(token_ids(s, t) for s, t in who)
    v = np.zeros((N_LAYERS + 1, len(who) * LENGTH, D_MODEL))
    for p, prompt in enumerate(ids):
        for position in range(LENGTH):
            row, prefix = p * LENGTH + position, prompt[: position + 1]
            v[0, row] = np.random.default_rng(list(prefix)).standard_normal(D_MODEL)
            for layer in range(N_LAYERS):
                v[layer + 1, row] = v[layer, row] + update_of(prefix, layer, readout_active=readout_active)
    stream = v.astype(np.float32)
    inside = [p for p, (s, _) in enumerate(who) if s < n_subjects]
    study = [who[p] for p in inside]
    return Activations(
        prompts=tuple(f"p{s:02d}-{t}" for s, t in study),
        subjects=tuple(f"s{s:02d}" for s, _ in study),
        relations=tuple("r" for _ in study),
        templates=tuple(f"t{t}" for _, t in study),
        held_out=np.array([s % 3 == 0 for s, _ in study]),
        resid=np.ascontiguousarray(stream[:, [(p + 1) * LENGTH - 1 for p in inside]]),
        update_sets={"all": tuple(range(N_LAYERS)), "one": (0,)},
        tokens=Tokens(ids, tuple(f"s{s:02d}" for s, _ in who), stream, np.array(inside)),
    )
