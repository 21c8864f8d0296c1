"""The numbers: what is stored is the model's own stream, whatever the batch it went through in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prereg.activations.capture import CaptureRequest, capture
from prereg.activations.capture.forward import Tap, last_logits, readout
from prereg.activations.capture.plan import fill_batches
from prereg.activations.capture.sites import find_sites
from tests.activations.capture.conftest import PRE_NORM, random_prompts, some_prompts
from tests.tiny_models import FAMILIES

ALL = ("resid", "attn_out", "mlp_out")
BATCH_RTOL = 4e-6


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest |found - wanted| / |wanted| over d_model."""
    return float(np.max(np.linalg.norm(found - wanted, axis=-1) / np.linalg.norm(wanted, axis=-1)))


def alone(model, ids) -> tuple[list[np.ndarray], np.ndarray]:
    """Run one prompt without padding: transformers' own hidden states, each (tokens, width), and the logits."""
    with torch.inference_mode():
        out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return [hidden[0].numpy() for hidden in out.hidden_states], out.logits[0].numpy()


def final_norm(model, resid: np.ndarray) -> np.ndarray:
    """Apply what stands between the last block and the LM head."""
    body = model.base_model
    decoder = getattr(body, "decoder", body)
    for name in ("final_layer_norm", "ln_f", "norm", "project_out"):
        module = getattr(decoder, name, None)
        if module is not None:
            with torch.inference_mode():
                resid = module(torch.from_numpy(np.array(resid))).numpy()
    return resid


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("position", ["last", "all"])
def test_the_stored_stream_is_the_models_own(family, position, model_of, tmp_path, offline):
    """Padded batches store what transformers gives for each prompt alone, to 4e-6, and the right readout."""
    model, prompts = model_of(family), some_prompts()
    request = CaptureRequest(position=position, token_budget=64, block_rows=50)
    store = capture(model, None, prompts, request, root=tmp_path, model_digest="m", provenance={})
    resid, offsets = store.stack("resid"), store.offsets
    for i, ids in enumerate(prompts.ids):
        hidden, logits = alone(model, ids)
        rows = resid[:, i : i + 1] if position == "last" else resid[:, offsets[i] : offsets[i + 1]]
        wanted = [state[-1:] if position == "last" else state for state in hidden]
        assert len(rows) == len(wanted)
        for mine, state in zip(rows[:-1], wanted[:-1], strict=True):
            assert relative(mine, state) <= BATCH_RTOL
        # hidden_states[-1] is after the final norm; ours is before it.
        assert relative(final_norm(model, rows[-1]), wanted[-1]) <= BATCH_RTOL
        logprob = torch.log_softmax(torch.from_numpy(logits[-1]).double(), 0).numpy()
        assert store.top1[i] == logits[-1].argmax()
        assert store.answer_logprob[i] == pytest.approx(logprob[prompts.answer_ids[i]], abs=2e-5)


@pytest.mark.parametrize("family", PRE_NORM)
@pytest.mark.parametrize("position", ["last", "all"])
def test_the_terms_add_up_to_the_next_residual(family, position, model_of, tmp_path):
    """resid_pre + attn_out + mlp_out is the stream that leaves the block, after post-norms and in parallel."""
    request = CaptureRequest(stacks=ALL, position=position)
    store = capture(
        model_of(family), None, some_prompts(), request, root=tmp_path, model_digest="m", provenance={}
    )
    resid = store.stack("resid")
    total = resid[:-1] + store.stack("attn_out") + store.stack("mlp_out")
    assert relative(total, resid[1:]) <= 1e-6
    # Neither term is the whole of it.
    assert relative(resid[:-1] + store.stack("mlp_out"), resid[1:]) > 1e-3


def test_post_norm_terms_are_refused(model_of, tmp_path):
    """Where the norm stands after the addition no sublayer's output is a term: the request is refused."""
    from prereg.errors import ActivationsError

    with pytest.raises(ActivationsError, match=r"mlp_out can't be captured from this opt model: its norms"):
        capture(
            model_of("opt_post_ln"),
            None,
            some_prompts(),
            CaptureRequest(stacks=("resid", "mlp_out")),
            root=tmp_path,
            model_digest="m",
            provenance={},
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    budget=st.integers(1, 200),
    seed=st.integers(0, 99),
)
def test_a_batch_gives_what_its_prompts_give_alone(family, model_of, lengths, budget, seed):
    """Any mix of lengths, any budget, every site: batched equals single to 4e-6 relative."""
    model = model_of(family)
    sites, prompts = find_sites(model), random_prompts(lengths, seed)

    def run(batches):
        buffers = {
            stack: torch.full((sites.n_layers + (stack == "resid"), len(lengths), sites.d_model), torch.nan)
            for stack in sites.stacks
        }
        logprobs = np.full(len(lengths), np.nan)
        with Tap(sites, sites.stacks, "last") as tap, torch.inference_mode():
            for batch in batches:
                tap.aim(buffers, batch, [lengths[i] for i in batch])
                logits = last_logits(model, [prompts.ids[i] for i in batch])
                logprobs[list(batch)] = readout(logits, [prompts.answer_ids[i] for i in batch])[1].numpy()
        return {stack: buffer.numpy() for stack, buffer in buffers.items()}, logprobs

    batched, logprobs = run(fill_batches(list(range(len(lengths))), lengths, budget))
    single, wanted = run([(i,) for i in range(len(lengths))])
    for stack, values in single.items():
        assert relative(batched[stack], values) <= BATCH_RTOL, stack
    np.testing.assert_allclose(logprobs, wanted, atol=2e-5)


def test_a_duplicate_takes_the_rows_of_the_first(model_of, tmp_path):
    """Equal prompts are run once, within a block and across blocks, and each keeps its row."""
    base = some_prompts(8)
    order = [0, 1, 0, 2, 3, 1, 4, 5, 0, 6, 7, 7]
    twice = type(base)(
        tuple(base.ids[i] for i in order),
        tuple(base.answer_ids[i] for i in order),
        tuple(f"row {k}" for k in range(len(order))),
    )
    for position in ("last", "all"):
        request = CaptureRequest(stacks=ALL, position=position, block_rows=4 if position == "last" else 40)
        store = capture(
            model_of("gpt_neox"), None, twice, request, root=tmp_path, model_digest="m", provenance={}
        )
        assert store.manifest.plan.forwarded_prompts == 8
        assert store.manifest.plan.blocks > 1
        offsets = store.offsets
        for name in ALL:
            stack = store.stack(name)
            for row, i in enumerate(order):
                first = order.index(i)
                if position == "last":
                    np.testing.assert_array_equal(stack[:, row], stack[:, first])
                else:
                    mine = stack[:, offsets[row] : offsets[row + 1]]
                    np.testing.assert_array_equal(mine, stack[:, offsets[first] : offsets[first + 1]])
        single = capture(
            model_of("gpt_neox"), None, base, request, root=tmp_path, model_digest="m", provenance={}
        )
        if position == "last":
            assert relative(store.stack("resid"), single.stack("resid")[:, order]) <= BATCH_RTOL
        np.testing.assert_array_equal(store.top1, single.top1[order])
        np.testing.assert_allclose(store.answer_logprob, single.answer_logprob[order], atol=2e-5)


def test_the_same_prompt_with_two_answers_has_two_log_probabilities(model_of, tmp_path):
    """A duplicate is a duplicate only if its answer is too."""
    base = random_prompts([5])
    both = type(base)(base.ids * 2, (7, 9), ("a", "b"))
    store = capture(
        model_of("gpt2"), None, both, CaptureRequest(), root=tmp_path, model_digest="m", provenance={}
    )
    _, logits = alone(model_of("gpt2"), base.ids[0])
    wanted = torch.log_softmax(torch.from_numpy(logits[-1]), 0)[[7, 9]]
    np.testing.assert_allclose(store.answer_logprob, wanted, atol=2e-5)


def test_the_same_capture_gives_the_same_bits(model_of, tmp_path):
    """Two captures under one plan have one digest."""
    digests = {
        capture(
            model_of("llama"),
            None,
            some_prompts(),
            CaptureRequest(stacks=ALL, block_rows=10),
            root=tmp_path / str(run),
            model_digest="m",
            provenance={"run": str(run)},
        ).digest
        for run in range(2)
    }
    assert len(digests) == 1


def test_float16_rounds_and_says_so(model_of, tmp_path):
    """float16 storage is float32's values rounded, and another store."""
    stores = [
        capture(
            model_of("gpt2"),
            None,
            some_prompts(),
            CaptureRequest(dtype=dtype),
            root=tmp_path,
            model_digest="m",
            provenance={},
        )
        for dtype in ("float32", "float16")
    ]
    assert stores[0].key != stores[1].key
    np.testing.assert_array_equal(stores[0].stack("resid").astype(np.float16), stores[1].stack("resid"))


def test_without_answers_there_is_no_log_probability(model_of, tmp_path):
    """top1 is always there; answer_logprob only with answers."""
    base = some_prompts(5)
    plain = type(base)(base.ids, None, base.prompt_ids)
    store = capture(
        model_of("gpt2"), None, plain, CaptureRequest(), root=tmp_path, model_digest="m", provenance={}
    )
    assert store.answer_logprob is None
    assert store.top1.shape == (5,)
    assert store.prompts() == plain
