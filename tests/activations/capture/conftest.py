"""Tiny models of every family, made once, and random prompts of any mix of lengths."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from prereg.activations.store import TokenizedPrompts
from tests.tiny_models import FAMILIES, VOCAB_SIZE, make_checkpoint

PRE_NORM = tuple(family for family in FAMILIES if family != "opt_post_ln")


@pytest.fixture(scope="session")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Give a model of a family, loaded from disk as a user's would be; tests must leave it as it is."""
    from transformers import AutoModelForCausalLM

    made: dict[str, Any] = {}

    def model(family: str) -> Any:
        if family not in made:
            folder = make_checkpoint(family, tmp_path_factory.mktemp(family) / "model")
            made[family] = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        return made[family]

    return model


@pytest.fixture
def llama(model_of: Callable[[str], Any]) -> Any:
    """Give a tiny Llama of this test's own: it may be changed."""
    import copy

    return copy.deepcopy(model_of("llama"))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to reach a network fails the test."""

    def refuse(*_args: object) -> None:
        pytest.fail("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def random_prompts(lengths: Sequence[int], seed: int = 0) -> TokenizedPrompts:
    """Return prompts of these lengths, each with a random answer."""
    rng = np.random.default_rng(seed)
    ids = tuple(tuple(rng.integers(3, VOCAB_SIZE, size=n).tolist()) for n in lengths)
    answers = tuple(rng.integers(3, VOCAB_SIZE, size=len(ids)).tolist())
    return TokenizedPrompts(ids, answers, tuple(f"p{i}" for i in range(len(ids))))


def some_prompts(n: int = 24, seed: int = 0, longest: int = 30) -> TokenizedPrompts:
    """Return n prompts of random lengths."""
    return random_prompts(np.random.default_rng(seed + 100).integers(1, longest + 1, size=n).tolist(), seed)
