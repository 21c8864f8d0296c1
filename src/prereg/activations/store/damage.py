"""Find what of a store is not what was written: sizes and headers cheaply, contents by hashing them all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import blake3
import numpy as np

from prereg.activations.store.files import as_bytes, disk_errors, pread_exactly
from prereg.activations.store.journal import Block
from prereg.activations.store.layout import ArraySpec, Manifest, block_extents, header

__all__ = ["Damage", "block_hash", "damaged_blocks", "damaged_files", "damaged_side_files"]


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that differs: which file, which part of it, what was found and what was wanted."""

    file: str
    where: str
    found: str
    wanted: str
    block: int | None = None

    def __str__(self) -> str:
        return f"{self.file}, {self.where}: found {self.found}, wanted {self.wanted}"


def damaged_files(folder: Path, manifest: Manifest) -> list[Damage]:
    """Return the arrays that are missing, cut, too long, or whose header is not the manifest's."""
    found = []
    for spec in manifest.arrays:
        file, wanted = folder / spec.file, header(spec)
        with disk_errors(file):
            if not file.is_file():
                found.append(Damage(spec.file, "whole file", "no file", f"{spec.size} bytes"))
                continue
            size = file.stat().st_size
            with file.open("rb") as handle:
                first = handle.read(len(wanted))
        if size != spec.size:
            found.append(Damage(spec.file, "size", f"{size} bytes", f"{spec.size} bytes"))
        if first != wanted:
            found.append(Damage(spec.file, "header", repr(first[-80:]), repr(wanted[-80:])))
    return found


def damaged_side_files(folder: Path, manifest: Manifest) -> list[Damage]:
    """Return the side files that are missing or don't hash to what the manifest says."""
    found = []
    for name, wanted in manifest.side_files.items():
        file = folder / name
        with disk_errors(file):
            value = blake3.blake3(file.read_bytes()).hexdigest() if file.is_file() else "no file"
        if value != wanted:
            found.append(Damage(name, "whole file", value, wanted))
    return found


def damaged_blocks(
    folder: Path, arrays: Iterable[ArraySpec], blocks: Iterable[Block]
) -> Iterator[list[Damage]]:
    """Hash every block of every array again; yield, block by block, what differs (nothing: an empty list)."""
    arrays = tuple(arrays)
    handles: dict[str, int] = {}
    try:
        for spec in arrays:
            with disk_errors(folder / spec.file):
                if (folder / spec.file).is_file():
                    handles[spec.name] = os.open(folder / spec.file, os.O_RDONLY)
        for block in blocks:
            with disk_errors(folder):
                found = [d for spec in arrays for d in _compare(handles.get(spec.name), spec, block)]
            yield found
    finally:
        for fd in handles.values():
            os.close(fd)


def _compare(fd: int | None, spec: ArraySpec, block: Block) -> Iterator[Damage]:
    wanted = block.hashes.get(spec.name, "no hash")
    found = "no file"
    if fd is not None:
        # Read, not mapped: mapped pages would count as this process's memory.
        hasher = blake3.blake3()
        for offset, size in block_extents(spec, block):
            hasher.update(pread_exactly(fd, size, offset))
        found = hasher.hexdigest()
    if found != wanted:
        first, stop = spec.rows(block)
        yield Damage(
            spec.file, f"{spec.unit} rows {first}:{stop} (block {block.index})", found, wanted, block.index
        )


def block_hash(data: np.ndarray) -> str:
    """Return the blake3 of one block of one array, (layers, rows, d) or (rows,), in C order."""
    hasher = blake3.blake3()
    for layer in data if data.ndim == 3 else data[None]:
        hasher.update(as_bytes(layer))
    return str(hasher.hexdigest())
