"""Requests and keys: what can't be meant is refused, and what changes the bytes changes the key."""

from __future__ import annotations

import dataclasses

import pytest

from prereg.activations.store import CaptureRequest, TokenizedPrompts, store_key
from prereg.errors import ActivationsError

PROMPTS = TokenizedPrompts(((1, 2), (3,), (1, 2, 4)), (7, 8, 9), ("a", "b", "c"))
VERSIONS = {"torch": "1", "transformers": "2", "transformer-lens": "3"}


def key(prompts=PROMPTS, request=None, model="m", attention="sdpa", versions=None) -> str:
    """Return a key with one thing changed."""
    return store_key(
        prompts,
        request or CaptureRequest(),
        model_digest=model,
        attn_implementation=attention,
        versions=versions or VERSIONS,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"ids": ()},
        {"ids": ((1,), (), (2,))},
        {"ids": ((1,), (-2,), (2,))},
        {"ids": ((1,), [2], (2,))},
        {"ids": ((1,), (2,))},
        {"answer_ids": (1, 2)},
        {"answer_ids": (1, 2, -3)},
        {"prompt_ids": ("a", "b")},
        {"prompt_ids": ("a", "b", "a")},
    ],
)
def test_prompts_that_can_not_be_meant_are_refused(change):
    """No prompts, an empty prompt, a negative id, lengths that differ and a repeated label are errors."""
    with pytest.raises(ActivationsError):
        dataclasses.replace(PROMPTS, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"stacks": ()},
        {"stacks": ("resid_mid",)},
        {"position": "first"},
        {"dtype": "bfloat16"},
        {"token_budget": 0},
        {"threads": 0},
        {"threads": True},
        {"token_budget": 1.5},
        {"block_rows": 0},
        {"token_budget": None},
    ],
)
def test_requests_that_can_not_be_meant_are_refused(change):
    """Unknown names and numbers below 1 are errors."""
    with pytest.raises(ActivationsError):
        CaptureRequest(**change)


def test_stacks_have_one_order():
    """The order in which stacks are named, and a repeat, make no difference."""
    assert CaptureRequest(stacks=("mlp_out", "resid", "resid")) == CaptureRequest(stacks=("resid", "mlp_out"))


OTHERS = {
    "prompts in another order": {
        "prompts": TokenizedPrompts(((3,), (1, 2), (1, 2, 4)), (8, 7, 9), ("b", "a", "c"))
    },
    "tokens cut elsewhere": {"prompts": dataclasses.replace(PROMPTS, ids=((1,), (2, 3), (1, 2, 4)))},
    "other answers": {"prompts": dataclasses.replace(PROMPTS, answer_ids=(7, 8, 8))},
    "no answers": {"prompts": dataclasses.replace(PROMPTS, answer_ids=None)},
    "other labels": {"prompts": dataclasses.replace(PROMPTS, prompt_ids=("a", "bc", ""))},
    "other stacks": {"request": CaptureRequest(stacks=("resid", "mlp_out"))},
    "all positions": {"request": CaptureRequest(position="all")},
    "float16": {"request": CaptureRequest(dtype="float16")},
    "another budget": {"request": CaptureRequest(token_budget=255)},
    "more threads": {"request": CaptureRequest(threads=2)},
    "other blocks": {"request": CaptureRequest(block_rows=16)},
    "another model": {"model": "n"},
    "another attention": {"attention": "eager"},
    "another torch": {"versions": {**VERSIONS, "torch": "2"}},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_whatever_changes_the_bytes_changes_the_key(change):
    """No two of these captures may share a folder."""
    assert key(**change) != key()


def test_all_keys_differ():
    """And none of the changes above is mistaken for another."""
    keys = [key(**change) for change in OTHERS.values()]
    assert len(set(keys)) == len(keys)


def test_a_key_is_reproducible():
    """The key of these prompts is a constant: a change of the key's definition must be on purpose."""
    assert key() == KNOWN


KNOWN = "37f69c3d19deab907756d4a3a7ad5954b1aa9b65281cbd461d06b06d38fd1298"


def test_a_key_needs_a_model():
    """An empty digest would make all models one."""
    with pytest.raises(ActivationsError, match="model's digest"):
        key(model="")


def test_a_missing_library_is_named(monkeypatch):
    """Without torch installed the key can't be known: the error says what to install."""
    monkeypatch.setattr("prereg.activations.store.key.LIBRARIES", ("torch", "no-such-package"))
    with pytest.raises(ActivationsError, match=r"no-such-package[\s\S]*prereg-gates\[capture\]"):
        store_key(PROMPTS, CaptureRequest(), model_digest="m")
