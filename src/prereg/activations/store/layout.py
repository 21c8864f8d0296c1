"""What lies in a store's folder: the arrays, where each block's bytes are, and the manifest.

Stacks are .npy files of shape [layer, row, d_model]: an analysis reads one layer of all prompts, which
is then one contiguous range; a block is one short range in every layer.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from prereg.activations.store.files import disk_errors
from prereg.activations.store.journal import Block
from prereg.activations.store.key import canonical, digest_of
from prereg.activations.store.request import CaptureRequest, TokenizedPrompts
from prereg.errors import StoreCorrupt

__all__ = [
    "JOURNAL",
    "MANIFEST",
    "ArraySpec",
    "Manifest",
    "ModelShape",
    "PlanRecord",
    "array_specs",
    "block_extents",
    "has_manifest",
    "header",
    "read_manifest",
    "side_files",
]

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ArraySpec(_Record):
    """One .npy file. `unit` says what the row axis (axis 1 of a stack, axis 0 of a vector) counts."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    unit: Literal["prompt", "token"]

    @property
    def file(self) -> str:
        """The file's name in the store's folder."""
        return f"{self.name}.npy"

    @property
    def is_stack(self) -> bool:
        """Whether it has a layer axis; a vector has none."""
        return len(self.shape) == 3

    @property
    def layers(self) -> int:
        """Length of the layer axis; 1 for a vector."""
        return self.shape[0] if self.is_stack else 1

    @property
    def n_rows(self) -> int:
        """Length of the row axis."""
        return self.shape[1] if self.is_stack else self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of one layer."""
        width = self.shape[2] if self.is_stack else 1
        return width * np.dtype(self.dtype).itemsize

    @property
    def size(self) -> int:
        """Bytes of the whole file, header included."""
        return len(header(self)) + self.layers * self.n_rows * self.row_bytes

    def rows_of(self, prompts: tuple[int, int], tokens: tuple[int, int]) -> tuple[int, int]:
        """Return the range of this array's rows that these prompts, with these tokens, take."""
        return prompts if self.unit == "prompt" else tokens

    def rows(self, block: Block) -> tuple[int, int]:
        """Return the range of this array's rows that `block` holds."""
        return self.rows_of(block.prompts, block.tokens)


class ModelShape(_Record):
    """The model as the capture found it; its identity is the digest in the key."""

    architecture: str
    family: str
    n_layers: int
    d_model: int
    attn_implementation: str


class PlanRecord(_Record):
    """The batch plan, by its figures and its digest."""

    token_budget: int
    threads: int
    blocks: int
    batches: int
    forwarded_prompts: int
    forwarded_tokens: int
    padded_tokens: int
    digest: str


class Manifest(_Record):
    """What a store says of itself. `provenance` is the caller's and is not part of the key."""

    format: Literal["prereg-store/1"] = "prereg-store/1"
    key: str
    key_fields: dict[str, JsonValue]
    model: ModelShape
    n_prompts: int
    n_tokens: int
    arrays: tuple[ArraySpec, ...]
    sites: tuple[str, ...]
    plan: PlanRecord
    side_files: dict[str, str]
    parity: dict[str, JsonValue]
    provenance: dict[str, str]

    def to_bytes(self) -> bytes:
        """Return the canonical JSON that is written to disk."""
        return canonical(self.model_dump(mode="json")) + b"\n"

    @property
    def size(self) -> int:
        """Bytes of all arrays."""
        return sum(spec.size for spec in self.arrays)

    def array(self, name: str) -> ArraySpec | None:
        """Return the array called `name`, or None."""
        return next((spec for spec in self.arrays if spec.name == name), None)

    def differences(self, wanted: Manifest) -> list[str]:
        """Return what differs from `wanted`, with both values; parity and provenance may differ."""
        lines = []
        for name in ("key_fields", "model", "n_prompts", "n_tokens", "arrays", "sites", "plan", "side_files"):
            mine, other = self.model_dump(mode="json")[name], wanted.model_dump(mode="json")[name]
            lines += [f"{name}{where}: found {a!r}, wanted {b!r}" for where, a, b in _leaves(mine, other)]
        return lines


def _leaves(found: Any, wanted: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in sorted(found.keys() | wanted.keys()):
            yield from _leaves(found.get(name), wanted.get(name), f"{where}.{name}")
    elif found != wanted:
        yield where, found, wanted


def has_manifest(folder: Path) -> bool:
    """Tell whether a manifest stands in `folder`; one that is not even JSON says nothing, as if it were lost."""
    return _manifest_text(folder / MANIFEST) is not None


def _manifest_text(file: Path) -> bytes | None:
    with disk_errors(file):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
    try:
        json.loads(data)
    except ValueError:
        return None
    return data


def read_manifest(folder: Path) -> Manifest:
    """Read a store's manifest and check that it describes the folder that it lies in.

    Raises
    ------
    StoreCorrupt
        If it isn't one, or its key is not the digest of its own fields or not the folder's name.
    """
    file = folder / MANIFEST
    remedy = f"remove {folder} and run the capture again"
    data = _manifest_text(file)
    if data is None:
        raise StoreCorrupt(
            f"{file} is not a store's manifest: it is lost, or is no JSON",
            remedy="run the capture again: it writes a new one",
        )
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        raise StoreCorrupt(
            f"{file} is not a store's manifest: {error.errors()[0]['msg']}", remedy=remedy
        ) from error
    computed = digest_of(manifest.key_fields)
    if not manifest.key == computed == folder.name:
        raise StoreCorrupt(
            f"{file}: the folder is {folder.name}, the manifest's key {manifest.key}, "
            f"the digest of its fields {computed}; wanted the same three times",
            remedy=remedy,
        )
    return manifest


def header(spec: ArraySpec) -> bytes:
    """Return the .npy header of `spec`, always the same bytes."""
    buffer = io.BytesIO()
    fields = {
        "descr": np.dtype(spec.dtype).newbyteorder("<").str,
        "fortran_order": False,
        "shape": spec.shape,
    }
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def block_extents(spec: ArraySpec, block: Block) -> Iterator[tuple[int, int]]:
    """Yield (offset, size) in the file of each layer's share of `block`, in layer order."""
    first, stop = spec.rows(block)
    start = len(header(spec))
    for layer in range(spec.layers):
        yield start + (layer * spec.n_rows + first) * spec.row_bytes, (stop - first) * spec.row_bytes


def array_specs(
    prompts: TokenizedPrompts, request: CaptureRequest, n_layers: int, d_model: int
) -> tuple[ArraySpec, ...]:
    """Return the arrays that a capture writes: its stacks, ``top1`` and, with answers, ``answer_logprob``."""
    n, n_tokens = len(prompts.ids), int(prompts.lengths.sum())
    unit: Literal["prompt", "token"] = "prompt" if request.position == "last" else "token"
    rows = n if unit == "prompt" else n_tokens
    depth = {"resid": n_layers + 1}
    specs = [
        ArraySpec(
            name=stack, shape=(depth.get(stack, n_layers), rows, d_model), dtype=request.dtype, unit=unit
        )
        for stack in request.stacks
    ]
    specs.append(ArraySpec(name="top1", shape=(n,), dtype="int64", unit="prompt"))
    if prompts.answer_ids is not None:
        specs.append(ArraySpec(name="answer_logprob", shape=(n,), dtype="float32", unit="prompt"))
    return tuple(specs)


def side_files(prompts: TokenizedPrompts) -> dict[str, bytes]:
    """Return the small files that make a store readable on its own: ids, offsets, answers, labels."""
    files = {"tokens.npy": _npy(prompts.tokens), "offsets.npy": _npy(prompts.offsets)}
    if prompts.answer_ids is not None:
        files["answer_ids.npy"] = _npy(np.asarray(prompts.answer_ids, np.int64))
    files["prompt_ids.json"] = canonical(list(prompts.prompt_ids))
    return files


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
