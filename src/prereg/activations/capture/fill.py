"""Compute the blocks that a store still lacks, one at a time, in buffers allocated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from prereg.activations.capture.forward import Tap, last_logits, readout
from prereg.activations.capture.sites import site_name
from prereg.errors import ActivationsError

if TYPE_CHECKING:
    from prereg.activations.capture.plan import Plan, PlannedBlock
    from prereg.activations.capture.sites import Sites
    from prereg.activations.store.layout import ArraySpec
    from prereg.activations.store.request import CaptureRequest, TokenizedPrompts
    from prereg.activations.store.writer import StoreWriter
    from prereg.workers import Progress

__all__ = ["Job"]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A capture in progress: the model, what is asked of it, and the store that takes it."""

    model: Any
    tokenizer: Any | None
    sites: Sites
    prompts: TokenizedPrompts
    request: CaptureRequest
    plan: Plan
    writer: StoreWriter
    offsets: np.ndarray

    def fill(self, progress: Progress) -> None:
        """Compute, check and write every pending block.

        Raises
        ------
        ActivationsError
            If a value is not finite, or does not fit the asked storage dtype.
        """
        pending = set(self.writer.pending)
        blocks = self.plan.blocks
        progress.start(len(self.prompts.ids), "capture")
        try:
            progress.advance(sum(_size(b) for i, b in enumerate(blocks) if i not in pending))
            if pending:
                buffers = self._allocate(max(pending, key=lambda i: self._rows(blocks[i])))
                with (
                    Tap(self.sites, self.request.stacks, self.request.position) as tap,
                    torch.inference_mode(),
                ):
                    for index in sorted(pending):
                        self._compute(tap, blocks[index], buffers, progress)
                        self.writer.write_block(index, self._checked(blocks[index], buffers))
        finally:
            progress.finish()

    def _rows(self, block: PlannedBlock) -> int:
        first, stop = block.prompts if self.request.position == "last" else block.tokens
        return stop - first

    def _allocate(self, largest: int) -> dict[str, np.ndarray]:
        block = self.plan.blocks[largest]
        longest = max(_size(b) for b in self.plan.blocks)
        shapes = {}
        for spec in self.writer.manifest.arrays:
            shape = (spec.layers, self._rows(block), self.sites.d_model) if spec.is_stack else (longest,)
            # Stacks are computed in float32 whatever they are stored as: the check for overflow comes first.
            shapes[spec.name] = np.empty(shape, np.float32 if spec.is_stack else np.dtype(spec.dtype))
        return shapes

    def _compute(
        self, tap: Tap, block: PlannedBlock, buffers: dict[str, np.ndarray], progress: Progress
    ) -> None:
        stacks = {name: torch.from_numpy(array) for name, array in buffers.items() if array.ndim == 3}
        first, ids, answers = block.prompts[0], self.prompts.ids, self.prompts.answer_ids
        offsets = self.offsets - block.tokens[0]
        for batch in block.batches:
            rows = [i - first if self.request.position == "last" else int(offsets[i]) for i in batch]
            tap.aim(stacks, rows, [len(ids[i]) for i in batch])
            logits = last_logits(self.model, [ids[i] for i in batch])
            top1, logprob = readout(logits, None if answers is None else [answers[i] for i in batch])
            places = np.asarray(batch) - first
            buffers["top1"][places] = top1.numpy()
            if logprob is not None:
                buffers["answer_logprob"][places] = logprob.numpy()
            progress.advance(len(batch))
        self._copy_duplicates(block, buffers)
        progress.advance(len(block.copies))

    def _copy_duplicates(self, block: PlannedBlock, buffers: dict[str, np.ndarray]) -> None:
        if not block.copies:
            return
        for spec in self.writer.manifest.arrays:
            targets, sources = self._row_pairs(spec, block)
            start = spec.rows_of(block.prompts, block.tokens)[0]
            buffer, written = buffers[spec.name], sources < start
            if written.any():
                _put(buffer, targets[written] - start, self.writer.rows(spec.name, sources[written]))
            inside = ~written
            _put(
                buffer, targets[inside] - start, buffer.take(sources[inside] - start, axis=_row_axis(buffer))
            )

    def _row_pairs(self, spec: ArraySpec, block: PlannedBlock) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that duplicates fill and the rows that they copy, over the whole array."""
        targets, sources = np.asarray(block.copies).T
        if spec.unit == "prompt":
            return targets, sources
        lengths = np.diff(self.offsets)[targets]
        within = np.concatenate([np.arange(length) for length in lengths])
        return (
            np.repeat(self.offsets[targets], lengths) + within,
            np.repeat(self.offsets[sources], lengths) + within,
        )

    def _checked(self, block: PlannedBlock, buffers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        data = {}
        for spec in self.writer.manifest.arrays:
            first, stop = spec.rows_of(block.prompts, block.tokens)
            array = buffers[spec.name]
            array = array[:, : stop - first] if array.ndim == 3 else array[: stop - first]
            for layer, values in enumerate(array if array.ndim == 3 else array[None]):
                self._refuse_unfit(spec, block, layer, values)
            data[spec.name] = array.astype(np.dtype(spec.dtype), copy=False)
        return data

    def _refuse_unfit(self, spec: ArraySpec, block: PlannedBlock, layer: int, values: np.ndarray) -> None:
        # Two reductions without a temporary array; NaN passes through both.
        largest = max(abs(float(values.min())), abs(float(values.max())))
        limit = float(np.finfo(np.float16 if spec.dtype == "float16" else np.float32).max)
        if largest <= limit or values.dtype.kind == "i":
            return
        bad = np.abs(values.reshape(len(values), -1)).max(axis=1).astype(np.float64)
        row = int(np.flatnonzero(~(bad <= limit))[0])
        start = spec.rows_of(block.prompts, block.tokens)[0]
        index = (
            start + row
            if spec.unit == "prompt"
            else int(np.searchsorted(self.offsets, start + row, "right")) - 1
        )
        site = site_name(spec.name, layer, self.sites.n_layers) if spec.is_stack else spec.name
        where = f"{site}, prompt {self._show(index)}"
        if np.isfinite(bad[row]):
            raise ActivationsError(
                f"{where}: found {bad[row]:.6g}, float16 holds at most {limit:g}",
                remedy='store this model with dtype = "float32"',
            )
        raise ActivationsError(
            f"{where}: found {bad[row]}, wanted finite values; the block was not written",
            remedy="check the model's weights: a damaged or wrongly converted file gives such values",
        )

    def _show(self, index: int) -> str:
        label = repr(self.prompts.prompt_ids[index])
        if self.tokenizer is None:
            return label
        return f"{label} ({self.tokenizer.decode(list(self.prompts.ids[index]))!r})"


def _size(block: PlannedBlock) -> int:
    return block.prompts[1] - block.prompts[0]


def _row_axis(buffer: np.ndarray) -> int:
    return 1 if buffer.ndim == 3 else 0


def _put(buffer: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    if buffer.ndim == 3:
        buffer[:, rows] = values
    else:
        buffer[rows] = values
