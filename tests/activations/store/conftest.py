"""A small store made of random numbers: no model, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import blake3
import numpy as np
import pytest

from prereg.activations.store import CaptureRequest, Store, TokenizedPrompts
from prereg.activations.store.key import digest_of, key_fields
from prereg.activations.store.layout import Manifest, ModelShape, PlanRecord, array_specs, side_files
from prereg.activations.store.writer import StoreWriter

VERSIONS = {"torch": "0", "transformers": "0", "transformer-lens": "0"}
N_LAYERS, D_MODEL = 2, 6


@dataclass(frozen=True)
class Bench:
    """Everything that makes the store, so that a test can make it, break it and make it again."""

    root: Path
    prompts: TokenizedPrompts
    request: CaptureRequest
    manifest: Manifest
    blocks: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    arrays: Mapping[str, np.ndarray]

    @property
    def folder(self) -> Path:
        """Where the store lies."""
        return self.root / self.manifest.key

    def writer(self) -> StoreWriter:
        """Open (or take up) the store for writing."""
        return StoreWriter(self.folder, self.manifest, side_files(self.prompts), self.blocks)

    def share(self, index: int) -> dict[str, np.ndarray]:
        """Return one block of every array."""
        share = {}
        for spec in self.manifest.arrays:
            first, stop = spec.rows_of(*self.blocks[index])
            array = self.arrays[spec.name]
            share[spec.name] = array[:, first:stop] if spec.is_stack else array[first:stop]
        return share

    def build(self) -> tuple[Store, tuple[int, ...]]:
        """Write what is missing; return the store and the blocks that were written."""
        writer = self.writer()
        try:
            pending = writer.pending
            for index in pending:
                writer.write_block(index, self.share(index))
            return writer.finish(), pending
        finally:
            writer.close()


@pytest.fixture(params=["last", "all"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Ten prompts of 1 to 4 tokens in three blocks, read at the last token or at all."""
    rng = np.random.default_rng(7)
    ids = tuple(tuple(rng.integers(0, 50, size=1 + i % 4).tolist()) for i in range(10))
    prompts = TokenizedPrompts(ids, tuple(range(10)), tuple(f"p{i}" for i in range(10)))
    asked = CaptureRequest(stacks=("resid", "mlp_out"), position=request.param)
    fields = key_fields(prompts, asked, model_digest="m", attn_implementation="sdpa", versions=VERSIONS)
    offsets = prompts.offsets.tolist()
    blocks = tuple(((a, b), (offsets[a], offsets[b])) for a, b in ((0, 4), (4, 8), (8, 10)))
    specs = array_specs(prompts, asked, N_LAYERS, D_MODEL)
    manifest = Manifest(
        key=digest_of(fields),
        key_fields=fields,
        model=ModelShape(
            architecture="None",
            family="none",
            n_layers=N_LAYERS,
            d_model=D_MODEL,
            attn_implementation="sdpa",
        ),
        n_prompts=10,
        n_tokens=offsets[-1],
        arrays=specs,
        sites=(),
        plan=PlanRecord(
            token_budget=256,
            threads=1,
            blocks=3,
            batches=3,
            forwarded_prompts=10,
            forwarded_tokens=offsets[-1],
            padded_tokens=40,
            digest="d",
        ),
        side_files={n: blake3.blake3(data).hexdigest() for n, data in side_files(prompts).items()},
        parity={},
        provenance={"registration": "r1"},
    )
    arrays = {
        spec.name: rng.integers(0, 99, spec.shape).astype(spec.dtype)
        if spec.dtype == "int64"
        else rng.normal(size=spec.shape).astype(spec.dtype)
        for spec in specs
    }
    return Bench(tmp_path / "stores", prompts, asked, manifest, blocks, arrays)
