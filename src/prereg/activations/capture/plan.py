"""Which prompts go through the model together, fixed before the first of them does.

A batch's shape changes the last bits of its activations (up to 4e-6), so the plan is deterministic, recorded
in the manifest, and part of a store's key. Prompts are cut into blocks in their own order, since a block is
what is written and redone; within a block they are sorted by length, so that little is spent on padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prereg.activations.store.key import digest_of
from prereg.activations.store.request import CaptureRequest, TokenizedPrompts

__all__ = ["Plan", "PlannedBlock", "fill_batches", "make_plan"]

_BLOCK_BYTES = 48 * 2**20
_MIN_ROWS, _MAX_ROWS = 16, 2048


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """One block.

    Parameters
    ----------
    prompts, tokens
        Its ranges of prompts and of their concatenated tokens.
    batches
        Prompt indices, each distinct prompt once, shortest first.
    copies
        (prompt, source) pairs: a prompt with the ids and the answer of an earlier one takes its rows.
    """

    prompts: tuple[int, int]
    tokens: tuple[int, int]
    batches: tuple[tuple[int, ...], ...]
    copies: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Every block in order, with the work they amount to (tokens, without and with padding)."""

    blocks: tuple[PlannedBlock, ...]
    batches: int
    forwarded_prompts: int
    forwarded_tokens: int
    padded_tokens: int
    digest: str


def make_plan(prompts: TokenizedPrompts, request: CaptureRequest, row_bytes: int) -> Plan:
    """Plan a capture; the same arguments give the same plan.

    Parameters
    ----------
    prompts, request
        As given to `capture`.
    row_bytes
        Bytes that one stored row takes in memory, over all layers of all stacks.
    """
    max_rows = request.block_rows or min(max(_BLOCK_BYTES // row_bytes, _MIN_ROWS), _MAX_ROWS)
    lengths = [len(ids) for ids in prompts.ids]
    offsets = prompts.offsets.tolist()
    source = _first_of_its_kind(prompts)
    blocks = []
    for first, stop in _cut(lengths if request.position == "all" else [1] * len(lengths), max_rows):
        fresh = [i for i in range(first, stop) if source[i] == i]
        batches = tuple(fill_batches(fresh, lengths, request.token_budget))
        copies = tuple((i, source[i]) for i in range(first, stop) if source[i] != i)
        blocks.append(PlannedBlock((first, stop), (offsets[first], offsets[stop]), batches, copies))
    every = [batch for block in blocks for batch in block.batches]
    return Plan(
        blocks=tuple(blocks),
        batches=len(every),
        forwarded_prompts=sum(map(len, every)),
        forwarded_tokens=sum(lengths[i] for batch in every for i in batch),
        padded_tokens=sum(len(batch) * max(lengths[i] for i in batch) for batch in every),
        digest=digest_of(
            [[list(block.prompts), [list(batch) for batch in block.batches]] for block in blocks]
        ),
    )


def fill_batches(indices: list[int], lengths: list[int], token_budget: int) -> Iterator[tuple[int, ...]]:
    """Yield batches of at most `token_budget` padded tokens, by length, ties in their own order."""
    batch: list[int] = []
    for index in sorted(indices, key=lambda i: (lengths[i], i)):
        # Sorted, so the newcomer is the longest: it sets the width of the whole batch.
        if batch and (len(batch) + 1) * lengths[index] > token_budget:
            yield tuple(batch)
            batch = []
        batch.append(index)
    if batch:
        yield tuple(batch)


def _cut(rows: list[int], max_rows: int) -> Iterator[tuple[int, int]]:
    first = held = 0
    for index, count in enumerate(rows):
        if held and held + count > max_rows:
            yield first, index
            first, held = index, 0
        held += count
    yield first, len(rows)


def _first_of_its_kind(prompts: TokenizedPrompts) -> list[int]:
    # The same prompt with another answer has another log-probability: it is not a duplicate.
    seen: dict[tuple[tuple[int, ...], int | None], int] = {}
    answers = prompts.answer_ids or [None] * len(prompts.ids)
    return [seen.setdefault(kind, i) for i, kind in enumerate(zip(prompts.ids, answers, strict=True))]
