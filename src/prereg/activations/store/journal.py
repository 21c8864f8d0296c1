"""The journal: one checksummed line per finished block, on disk only after the block is.

A line is the canonical JSON of its body with the body's blake3. A line that was cut by a crash fails its
checksum and counts as not written: the block is redone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg.activations.store.files import disk_errors, replace_bytes, sync_folder
from prereg.activations.store.key import canonical, digest_of

__all__ = ["Block", "Completion", "Journal", "append", "read_journal", "rewrite"]


@dataclass(frozen=True, slots=True)
class Block:
    """A finished block: its range of prompts and of tokens, and the blake3 of each array's share of it."""

    index: int
    prompts: tuple[int, int]
    tokens: tuple[int, int]
    hashes: Mapping[str, str]

    def body(self) -> dict[str, Any]:
        """Return the line's content."""
        return {
            "event": "block",
            "index": self.index,
            "prompts": list(self.prompts),
            "tokens": list(self.tokens),
            "blake3": dict(self.hashes),
        }


@dataclass(frozen=True, slots=True)
class Completion:
    """The mark of a complete store: how many blocks, the manifest's blake3 and the store's digest."""

    blocks: int
    manifest: str
    digest: str

    def body(self) -> dict[str, Any]:
        """Return the line's content."""
        return {"event": "complete", "blocks": self.blocks, "manifest": self.manifest, "digest": self.digest}


@dataclass(frozen=True, slots=True)
class Journal:
    """What a journal says: its blocks by index, its completion mark, and how many lines were unreadable."""

    blocks: Mapping[int, Block]
    completion: Completion | None
    broken_lines: int


def read_journal(file: Path) -> Journal:
    """Read `file`; a missing one is empty, a line that fails its checksum is dropped and counted."""
    with disk_errors(file):
        data = file.read_bytes() if file.exists() else b""
    # What follows the last newline was cut off while it was written, whole as it may look.
    *lines, torn = data.split(b"\n")
    blocks: dict[int, Block] = {}
    completion: Completion | None = None
    broken = int(bool(torn))
    for line in filter(None, lines):
        entry = _parse(line)
        if isinstance(entry, Block):
            blocks[entry.index] = entry
        elif isinstance(entry, Completion):
            completion = entry
        else:
            broken += 1
    return Journal(blocks, completion, broken)


def _parse(line: bytes) -> Block | Completion | None:
    try:
        record = json.loads(line)
        body = record["body"]
        if record["blake3"] != digest_of(body):
            return None
        if body["event"] == "block":
            (first, stop), (begin, end) = body["prompts"], body["tokens"]
            return Block(body["index"], (first, stop), (begin, end), body["blake3"])
        return Completion(body["blocks"], body["manifest"], body["digest"])
    except (ValueError, KeyError, TypeError):
        return None


def _line(entry: Block | Completion) -> bytes:
    body = entry.body()
    return canonical({"body": body, "blake3": digest_of(body)}) + b"\n"


def append(file: Path, entry: Block | Completion) -> None:
    """Add one line and force it to disk. Call it only once what it tells of is on disk."""
    with disk_errors(file), file.open("ab") as handle:
        handle.write(_line(entry))
        handle.flush()
        os.fsync(handle.fileno())


def rewrite(file: Path, entries: Iterable[Block]) -> None:
    """Put a journal of `entries` alone in `file`'s place, in one step (drops torn lines and the mark)."""
    replace_bytes(file, b"".join(map(_line, entries)))
    sync_folder(file.parent)
