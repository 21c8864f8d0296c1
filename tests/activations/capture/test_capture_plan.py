"""The plan: every prompt once, within the budget, and the same each time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prereg.activations.capture.plan import fill_batches, make_plan
from prereg.activations.store import CaptureRequest, TokenizedPrompts
from tests.activations.capture.conftest import random_prompts

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=60)


@given(lengths=LENGTHS, budget=st.integers(1, 300))
def test_batches_hold_each_prompt_once_within_the_budget(lengths, budget):
    """A batch goes over the budget only if it is one prompt that does so alone."""
    batches = list(fill_batches(list(range(len(lengths))), lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1
    flat = [lengths[i] for batch in batches for i in batch]
    assert flat == sorted(flat)


@given(
    lengths=LENGTHS,
    rows=st.integers(1, 30),
    position=st.sampled_from(["last", "all"]),
    vocabulary=st.integers(1, 3),
)
def test_blocks_tile_the_prompts_and_copies_point_back(lengths, rows, position, vocabulary):
    """Blocks follow each other without gaps; each prompt is run once or copied from an earlier equal one."""
    rng = np.random.default_rng(sum(lengths))
    ids = tuple(tuple(rng.integers(0, vocabulary, size=n).tolist()) for n in lengths)
    prompts = TokenizedPrompts(ids, None, tuple(map(str, range(len(ids)))))
    plan = make_plan(prompts, CaptureRequest(position=position, block_rows=rows), row_bytes=100)
    assert [b.prompts[0] for b in plan.blocks[1:]] == [b.prompts[1] for b in plan.blocks[:-1]]
    assert (plan.blocks[0].prompts[0], plan.blocks[-1].prompts[1]) == (0, len(ids))
    for block in plan.blocks:
        first, stop = block.prompts
        held = stop - first if position == "last" else block.tokens[1] - block.tokens[0]
        assert held <= rows or stop - first == 1
        run = [i for batch in block.batches for i in batch]
        assert sorted(run + [target for target, _ in block.copies]) == list(range(first, stop))
        assert all(source < target and ids[source] == ids[target] for target, source in block.copies)
    assert plan.forwarded_prompts == len(set(ids))
    assert plan.padded_tokens >= plan.forwarded_tokens


def test_a_plan_is_reproducible_and_its_digest_tells_plans_apart():
    """Equal arguments give an equal digest; another budget gives another."""
    prompts = random_prompts([3, 9, 4, 1, 30, 2])
    plans = [make_plan(prompts, CaptureRequest(token_budget=b), row_bytes=100) for b in (64, 64, 8)]
    assert plans[0] == plans[1]
    assert plans[0].digest != plans[2].digest


def test_automatic_blocks_shrink_with_the_model():
    """A block's buffers stay at some 48 MiB: fewer rows for a wider or deeper model, never fewer than 16."""
    prompts = random_prompts([1] * 3000)
    sizes = [
        make_plan(prompts, CaptureRequest(), row_bytes).blocks[0].prompts[1]
        for row_bytes in (100, 100_000, 10_000_000)
    ]
    assert sizes == [2048, 503, 16]
