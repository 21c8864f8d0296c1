"""The short way through the later blocks gives the number of a whole forward pass, in every family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prereg.analysis.interventions.continuation import Continuation
from prereg.errors import AnalysisError
from tests.tiny_models import FAMILIES, VOCAB_SIZE, make_checkpoint

TOLERANCE = 1e-5
FOUND = Path(__file__).parents[3] / "fixtures" / "pythia-tiny"


@pytest.fixture(scope="module", params=[*FAMILIES, "pythia-tiny", "softcapped"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give one model of each family, the project's own, and one whose logits are capped."""
    from transformers import AutoModelForCausalLM

    name = request.param
    if name == "pythia-tiny":
        return AutoModelForCausalLM.from_pretrained(FOUND, dtype="float32").eval()
    family = "gemma3" if name == "softcapped" else name
    folder = make_checkpoint(family, tmp_path_factory.mktemp(name) / "model")
    options = {"final_logit_softcapping": 2.0} if name == "softcapped" else {}
    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32", **options).eval()


def draws(model: Any, length: int, prompts: int = 3, seed: int = 0) -> tuple[Any, Any, np.ndarray]:
    """Return ids, answers, and large vectors to remove."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(3, VOCAB_SIZE, size=(prompts, length)).tolist()
    answers = rng.integers(3, VOCAB_SIZE, size=prompts).tolist()
    return ids, answers, 2.0 * rng.standard_normal((prompts, model.config.hidden_size))


@pytest.mark.parametrize("length", [1, 2, 7, 13])
def test_continuation_is_the_whole_pass(model: Any, length: int) -> None:
    """At every update, prefixes shorter and longer than a sliding window, the two ways agree to 1e-5 nats."""
    ids, answers, removed = draws(model, length)
    way = Continuation(model, batch_rows=64)
    updates = range(way.n_layers)
    readout = way.read(ids, answers, updates)
    for update in updates:
        for vectors in (np.zeros_like(removed), removed):
            short = way.resume(readout, update, np.arange(3), vectors)
            whole = [way.whole_pass(i, a, update, v) for i, a, v in zip(ids, answers, vectors, strict=True)]
            np.testing.assert_allclose(short, whole, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(
            way.resume(readout, update, np.arange(3), np.zeros_like(removed)),
            readout.log_probability,
            rtol=0,
            atol=TOLERANCE,
        )


def test_intervention_matters(model: Any) -> None:
    """The vectors of these tests move the answer by far more than the tolerance, so agreement is no accident."""
    ids, answers, removed = draws(model, 7)
    way = Continuation(model, batch_rows=64)
    readout = way.read(ids, answers, [0, way.n_layers - 1])
    for update in (0, way.n_layers - 1):
        moved = way.resume(readout, update, np.arange(3), removed) - readout.log_probability
        assert (np.abs(moved) > 100 * TOLERANCE).any()


def test_batch_and_order_do_not_matter(model: Any) -> None:
    """One row at a time, all at once, in another order, after other passes: the same numbers."""
    ids, answers, removed = draws(model, 9)
    owners = np.array([2, 0, 1, 1, 0, 2, 2])
    vectors = removed[[0, 1, 2, 0, 1, 2, 1]]
    at_once = Continuation(model, batch_rows=64)
    readout = at_once.read(ids, answers, [1])
    wanted = at_once.resume(readout, 1, owners, vectors)
    alone = Continuation(model, batch_rows=1)
    np.testing.assert_allclose(
        alone.resume(alone.read(ids, answers, [1]), 1, owners, vectors), wanted, rtol=0, atol=TOLERANCE
    )
    np.testing.assert_allclose(
        at_once.resume(readout, 1, owners[::-1].copy(), vectors[::-1].copy())[::-1],
        wanted,
        rtol=0,
        atol=TOLERANCE,
    )


def test_stream_is_the_models_own(model: Any) -> None:
    """What is kept after a block is what a whole pass has there at the last position."""
    import torch

    from prereg.activations.capture.sites import find_sites

    ids, answers, _ = draws(model, 9)
    seen = []
    handle = (
        find_sites(model)
        .blocks[1]
        .register_forward_hook(
            lambda _m, _a, output: seen.append(output[0] if isinstance(output, tuple) else output)
        )
    )
    with torch.inference_mode():
        model(input_ids=torch.tensor(ids), use_cache=False)
    handle.remove()
    kept = Continuation(model, batch_rows=8).read(ids, answers, [1]).after[1]
    np.testing.assert_allclose(kept.numpy(), seen[0][:, -1].numpy(), rtol=1e-4, atol=1e-5)


def test_model_is_left_as_it_was(model: Any) -> None:
    """After a continuation, also one that fails, every block computes again."""
    import torch

    ids, answers, removed = draws(model, 5)
    with torch.inference_mode():
        before = model(input_ids=torch.tensor(ids), use_cache=False).logits
    way = Continuation(model, batch_rows=8)
    readout = way.read(ids, answers, [1])
    way.resume(readout, 1, np.arange(3), removed)
    with pytest.raises(RuntimeError):
        way.resume(readout, 1, np.arange(3), removed[:, :-1])
    with torch.inference_mode():
        after = model(input_ids=torch.tensor(ids), use_cache=False).logits
    assert torch.equal(before, after)


@pytest.mark.parametrize("ids", [[[3, 4], [5]], [[]], []])
def test_lengths_must_agree(ids: list[list[int]], tmp_path: Path) -> None:
    """Prompts of several lengths, or of none, are refused."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(make_checkpoint("gpt2", tmp_path / "m"), dtype="float32")
    with pytest.raises(AnalysisError, match="one length"):
        Continuation(model.eval(), batch_rows=8).read(ids, [3] * len(ids), [0])
