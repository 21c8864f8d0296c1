"""A tiny model with one direction wired to the answers, and one that leads nowhere."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from prereg.activations.view import Activations
from prereg.analysis.interventions import InterventionSettings
from tests.analysis.interventions.fakes import FakeDictionary, FakeLibrary, observe
from tests.tiny_models import VOCAB_SIZE

UPDATE, WIRED, IDLE, D_MODEL, WIDTH, SCALE = 1, 3, 5, 32, 12, 0.37
ANSWERS = range(10, 20)
N_SUBJECTS, PER_SUBJECT = 48, 2
SEEN = frozenset(f"s{i:02d}" for i in range(16))
"""Training subjects that the dictionaries have seen; s16 to s31 train too, s32 to s47 are held out."""

SETTINGS = InterventionSettings(
    updates=("wired",),
    kind="topk",
    seed=7,
    candidates=6,
    min_subjects=3,
    group=3,
    random_draws=6,
    group_draws=6,
    random_seed=11,
    matched_features=2,
    batch_rows=64,
    parity_prompts=5,
    parity_tolerance=1e-5,
)
SETS = {"wired": (UPDATE,), "later": (2,), "again": (UPDATE,), "pair": (1, 2)}


def directions(seed: int = 4) -> np.ndarray:
    """Return orthonormal rows of zero mean, which a layer norm's centring leaves alone."""
    drawn = np.random.default_rng(seed).standard_normal((D_MODEL, WIDTH))
    rows: np.ndarray = np.linalg.qr(drawn - drawn.mean(axis=0))[0].T
    return rows


@cache
def model() -> Any:
    """Return a GPT-2 of three blocks.

    Block 1's bias writes the wired and the idle direction into every stream; later blocks hardly write. The head
    raises the answers' logits along the wired direction, and reads nothing of the idle one.
    """
    import torch
    import transformers as hf

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=VOCAB_SIZE,
                n_embd=D_MODEL,
                n_layer=3,
                n_head=4,
                n_positions=32,
                initializer_range=0.2,
                tie_word_embeddings=False,
            )
        ).eval()
    wired, idle = (torch.tensor(directions()[i], dtype=torch.float32) for i in (WIRED, IDLE))
    with torch.no_grad():
        made.transformer.h[UPDATE].mlp.c_proj.bias += 2.0 * wired + 2.0 * idle
        for parameter in made.transformer.h[2].parameters():
            parameter.mul_(0.1)
        head = made.lm_head.weight
        for direction in (wired, idle):
            head -= (head @ direction)[:, None] * direction
        head[list(ANSWERS)] += 3.0 * wired
    return made


@cache
def activations() -> Activations:
    """Return two prompts for each subject, of 3 to 7 tokens."""
    rng = np.random.default_rng(8)
    n = N_SUBJECTS * PER_SUBJECT
    ids = [rng.integers(20, VOCAB_SIZE, size=int(rng.integers(3, 8))).tolist() for _ in range(n)]
    answers = rng.choice(list(ANSWERS), size=n).tolist()
    subjects = [f"s{i // PER_SUBJECT:02d}" for i in range(n)]
    return observe(model(), ids, answers, subjects, np.array([int(s[1:]) >= 32 for s in subjects]), SETS)


def library(*, width: int = WIDTH, seen: frozenset[str] = SEEN) -> FakeLibrary:
    """Return dictionaries of the planted directions for both later updates."""
    bias = 0.05 * np.random.default_rng(2).standard_normal(D_MODEL)
    one = FakeDictionary(directions()[:width], SCALE, bias, k=6)
    return FakeLibrary({1: one, 2: one}, seen)


def reordered(found: Activations, order: np.ndarray) -> Activations:
    """Return the same prompts, listed in another order."""
    pick = {
        name: tuple(getattr(found, name)[i] for i in order)
        for name in ("prompts", "subjects", "relations", "templates", "answers")
    }
    assert found.tokens is not None
    assert found.answer_ids is not None
    return replace(
        found,
        held_out=found.held_out[order],
        resid=found.resid[:, order],
        answer_ids=found.answer_ids[order],
        tokens=replace(found.tokens, selected=found.tokens.selected[order]),
        **pick,
    )
