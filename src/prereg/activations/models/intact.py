"""Whether a folder's files are whole, told file by file, before a library reads them and says it worse."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from prereg.activations.models.folder import ModelFiles, restore
from prereg.errors import ModelError
from prereg.workers import refused_by_disk

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["require_intact"]

LENGTH = 8
"""Bytes that a safetensors file begins with: the length of its header, little-endian."""


def require_intact(folder: Path) -> None:
    """Refuse a folder one of whose files is cut, empty or garbled.

    The JSON files are parsed. A safetensors file must be as long as its own header says; its values are
    what the loader checks.

    Raises
    ------
    ModelError
        Names the file and what is wrong with it.
    StorageError
        Where a file can't be read.
    """
    files = ModelFiles.of(folder)
    for name in files.tokenizer:
        if name.endswith(".json"):
            _require_json(folder / name)
    for name in files.weights:
        if name.endswith(".safetensors"):
            _require_whole(folder / name)


def _require_json(path: Path) -> None:
    try:
        json.loads(path.read_bytes())
    except OSError as error:
        raise refused_by_disk(path, error, "can't be read") from error
    except ValueError as error:
        raise ModelError(f"{path} is damaged: not JSON: {error}", remedy=restore(path)) from error


def _require_whole(path: Path) -> None:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(LENGTH)
            length = struct.unpack("<Q", first)[0] if len(first) == LENGTH else size
            header = file.read(length) if length < size else b""
    except OSError as error:
        raise refused_by_disk(path, error, "can't be read") from error
    try:
        wanted = LENGTH + length + _end_of_data(json.loads(header))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{path} is damaged: its {size} bytes do not begin as a safetensors file does",
            remedy=restore(path),
        ) from error
    if size != wanted:
        raise ModelError(
            f"{path} is damaged: found {size} bytes, its header promises {wanted}", remedy=restore(path)
        )


def _end_of_data(header: dict[str, dict[str, list[int]]]) -> int:
    ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    return max(ends, default=0)
