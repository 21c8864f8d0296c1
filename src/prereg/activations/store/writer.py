"""Write a store block by block, so that a kill at any moment loses one block at most.

The order of forced writes is the whole guarantee: the block's bytes in every array, then its journal line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import blake3
import numpy as np

from prereg.activations.store.damage import block_hash, damaged_blocks, damaged_side_files
from prereg.activations.store.files import (
    DATA_SYNC,
    as_bytes,
    disk_errors,
    pwrite_all,
    replace_bytes,
    require_space,
    reserve,
    sync_folder,
)
from prereg.activations.store.journal import Block, Completion, append, read_journal, rewrite
from prereg.activations.store.layout import (
    JOURNAL,
    MANIFEST,
    Manifest,
    block_extents,
    has_manifest,
    header,
    read_manifest,
)
from prereg.activations.store.reader import Store, store_digest
from prereg.errors import ActivationsError, StoreCorrupt

__all__ = ["StoreWriter"]


class StoreWriter:
    """The one writer of one store; the caller holds the store's lock.

    Opening it prepares the folder, or takes up what an earlier run left: journaled blocks are hashed again,
    and those that differ are forgotten. Close it when done; what was journaled stays.

    Parameters
    ----------
    folder
        The store's folder, created if need be; its name is the key.
    manifest
        What the finished store will say. A folder with another manifest is refused; the parity and the
        provenance of the run that began the store are kept. One that is lost or garbled is
        written anew; blocks whose seal is not on just that manifest are redone.
    side
        The side files' bytes, by name.
    blocks
        The plan's blocks: (prompts, tokens) ranges in order.

    Raises
    ------
    StoreCorrupt
        If the folder holds something else.
    StorageError
        If the disk is full or may not be written.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        side: Mapping[str, bytes],
        blocks: tuple[tuple[tuple[int, int], tuple[int, int]], ...],
    ) -> None:
        self.folder = folder
        self._ranges = blocks
        self._fds: dict[str, int] = {}
        with disk_errors(folder, manifest.size):
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob(".*.part"):
                leftover.unlink()
        self.manifest = self._settle_manifest(manifest)
        self._settle_side_files(side)
        try:
            self._open_arrays()
            self.done = self._trusted_blocks()
        except BaseException:
            self.close()
            raise

    @property
    def pending(self) -> tuple[int, ...]:
        """Blocks that still have to be computed, in order."""
        return tuple(index for index in range(len(self._ranges)) if index not in self.done)

    def write_block(self, index: int, data: Mapping[str, np.ndarray]) -> None:
        """Write, force and journal one block; `data` holds its share of every array, in the array's dtype."""
        self._require_shapes(index, data)
        prompts, tokens = self._ranges[index]
        block = Block(index, prompts, tokens, {name: block_hash(array) for name, array in data.items()})
        for spec in self.manifest.arrays:
            array = data[spec.name]
            with disk_errors(self.folder / spec.file, self.manifest.size):
                layers = array if spec.is_stack else array[None]
                for (offset, _), layer in zip(block_extents(spec, block), layers, strict=True):
                    pwrite_all(self._fds[spec.name], as_bytes(layer), offset)
                DATA_SYNC(self._fds[spec.name])
        append(self.folder / JOURNAL, block)
        self.done[index] = block

    def _require_shapes(self, index: int, data: Mapping[str, np.ndarray]) -> None:
        for spec in self.manifest.arrays:
            first, stop = spec.rows_of(*self._ranges[index])
            rows = (stop - first,)
            wanted = (spec.layers, *rows, spec.shape[2]) if spec.is_stack else rows
            found = data[spec.name]
            if (found.shape, found.dtype) != (wanted, np.dtype(spec.dtype)):
                raise ActivationsError(
                    f"block {index} of {spec.name}: found {found.shape} {found.dtype}, "
                    f"wanted {wanted} {spec.dtype}"
                )

    def rows(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return rows that an earlier block wrote, (layers, len(rows), d) or (len(rows),)."""
        with disk_errors(self.folder / f"{name}.npy"):
            array = np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return np.array(array[:, rows] if array.ndim == 3 else array[rows])

    def finish(self) -> Store:
        """Mark the store complete and open it."""
        if self.pending:
            raise StoreCorrupt(
                f"{self.folder}: blocks {list(self.pending)[:5]} are missing, can't mark it complete"
            )
        self.close()
        if read_journal(self.folder / JOURNAL).completion is None:
            digest = store_digest(self.manifest, self.done)
            sealed = blake3.blake3(self.manifest.to_bytes()).hexdigest()
            append(self.folder / JOURNAL, Completion(len(self.done), sealed, digest))
            sync_folder(self.folder)
        return Store.open(self.folder)

    def close(self) -> None:
        """Close the files; nothing is lost."""
        while self._fds:
            os.close(self._fds.popitem()[1])

    def _settle_manifest(self, wanted: Manifest) -> Manifest:
        file = self.folder / MANIFEST
        if not has_manifest(self.folder):
            require_space(self.folder, wanted.size)
            self._disown_unsealed(wanted)
            replace_bytes(file, wanted.to_bytes())
            sync_folder(self.folder)
            return wanted
        found = read_manifest(self.folder)
        lines = found.differences(wanted)
        mark = read_journal(self.folder / JOURNAL).completion
        with disk_errors(file):
            sealed = blake3.blake3(file.read_bytes()).hexdigest()
        if mark is not None and sealed != mark.manifest:
            lines.append(f"blake3: found {sealed}, wanted {mark.manifest}")
        if lines:
            raise StoreCorrupt(
                f"{file} is not this capture's manifest:\n" + "\n".join(lines[:8]),
                remedy=f"remove {self.folder} and run the capture again",
            )
        return found

    def _disown_unsealed(self, manifest: Manifest) -> None:
        """Forget blocks that no manifest speaks for: only a seal on just this one shows under what they were made."""
        journal = read_journal(self.folder / JOURNAL)
        sealed = blake3.blake3(manifest.to_bytes()).hexdigest()
        if journal.blocks and (journal.completion is None or journal.completion.manifest != sealed):
            rewrite(self.folder / JOURNAL, [])

    def _settle_side_files(self, side: Mapping[str, bytes]) -> None:
        for damage in damaged_side_files(self.folder, self.manifest):
            replace_bytes(self.folder / damage.file, side[damage.file])

    def _open_arrays(self) -> None:
        for spec in self.manifest.arrays:
            file = self.folder / spec.file
            with disk_errors(file, self.manifest.size):
                fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
                self._fds[spec.name] = fd
                if os.fstat(fd).st_size != spec.size:
                    reserve(fd, spec.size)
                if os.pread(fd, len(header(spec)), 0) != header(spec):
                    pwrite_all(fd, memoryview(header(spec)), 0)
                DATA_SYNC(fd)
        sync_folder(self.folder)

    def _trusted_blocks(self) -> dict[int, Block]:
        """Hash every journaled block; rewrite the journal if anything in it can't be trusted."""
        journal = read_journal(self.folder / JOURNAL)
        claimed = [block for block in journal.blocks.values() if self._is_planned(block)]
        findings = damaged_blocks(self.folder, self.manifest.arrays, claimed)
        good = {block.index: block for block, damage in zip(claimed, findings, strict=True) if not damage}
        whole = len(good) == len(self._ranges)
        if (
            journal.broken_lines
            or len(good) != len(journal.blocks)
            or (journal.completion is not None and not whole)
        ):
            rewrite(self.folder / JOURNAL, [good[index] for index in sorted(good)])
        return good

    def _is_planned(self, block: Block) -> bool:
        planned = 0 <= block.index < len(self._ranges)
        return planned and (block.prompts, block.tokens) == self._ranges[block.index]
