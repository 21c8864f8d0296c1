"""Open a finished store: numpy only, memory-mapped, never a pickle."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import blake3
import numpy as np

from prereg.activations.store.damage import damaged_blocks, damaged_files, damaged_side_files
from prereg.activations.store.files import disk_errors
from prereg.activations.store.journal import Block, Journal, read_journal
from prereg.activations.store.key import digest_of
from prereg.activations.store.layout import JOURNAL, MANIFEST, Manifest, read_manifest
from prereg.activations.store.request import TokenizedPrompts
from prereg.errors import ActivationsError, StoreCorrupt

__all__ = ["Store", "store_digest"]

_SITE = re.compile(r"blocks\.(\d+)\.hook_(resid_pre|resid_post|attn_out|mlp_out)")
_REPAIR = "run the capture again: it redoes only what is damaged"


def store_digest(manifest: Manifest, blocks: Mapping[int, Block]) -> str:
    """Return the digest of a store's content: its key, its side files and every block's hashes.

    Provenance and parity figures stand outside of it: the same bytes have the same digest.
    """
    return digest_of(
        {
            "key": manifest.key,
            "side_files": manifest.side_files,
            "blocks": [blocks[index].body() for index in sorted(blocks)],
        }
    )


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """A finished capture on disk.

    Open it with `Store.open` or `find_store`. Opening checks the journal, the sizes and the headers;
    `verify` hashes everything.
    """

    folder: Path
    manifest: Manifest
    digest: str

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open the store in `folder`.

        Raises
        ------
        StoreCorrupt
            If it is incomplete, or its manifest, journal, sizes or headers are not those that were written.
        """
        manifest = read_manifest(folder)
        digest = _check_journal(folder, manifest, read_journal(folder / JOURNAL))
        damage = damaged_files(folder, manifest)
        if damage:
            raise StoreCorrupt("\n".join(map(str, damage)), remedy=_REPAIR)
        return cls(folder, manifest, digest)

    @property
    def key(self) -> str:
        """The folder's name: the digest of everything that the bytes depend on."""
        return self.manifest.key

    @property
    def n_prompts(self) -> int:
        """Number of prompts n."""
        return self.manifest.n_prompts

    @property
    def n_layers(self) -> int:
        """Number of blocks L."""
        return self.manifest.model.n_layers

    @property
    def d_model(self) -> int:
        """Width of the residual stream."""
        return self.manifest.model.d_model

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        with disk_errors(self.folder):
            return sum(file.stat().st_size for file in self.folder.iterdir())

    def stack(self, name: str) -> np.memmap:
        """Return a stack, memory-mapped and read-only.

        Returns
        -------
        np.memmap
            ``resid`` is (n_layers + 1, rows, d_model), ``attn_out`` and ``mlp_out``
            (n_layers, rows, d_model), ``top1`` and ``answer_logprob`` (n,). A row is a prompt at its last
            token, or with ``position="all"`` a token (see `offsets`).

        Raises
        ------
        ActivationsError
            If the store does not hold it.
        StoreCorrupt
            If the file can't be read as the array that the manifest describes.
        """
        spec = self.manifest.array(name)
        if spec is None:
            held = ", ".join(array.name for array in self.manifest.arrays)
            raise ActivationsError(
                f"store {self.key[:12]} holds {held}, not {name}",
                remedy=f"capture again with {name} among the stacks",
            )
        file = self.folder / spec.file
        try:
            with disk_errors(file):
                array = np.load(file, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise StoreCorrupt(f"{file}: {error}", remedy=_REPAIR) from error
        if not isinstance(array, np.memmap) or (array.shape, array.dtype) != (
            spec.shape,
            np.dtype(spec.dtype),
        ):
            raise StoreCorrupt(
                f"{file}: found {array.shape} {array.dtype}, wanted {spec.shape} {spec.dtype}", remedy=_REPAIR
            )
        return array

    def site(self, name: str) -> np.ndarray:
        """Return one site by its transformer-lens name, (rows, d_model), memory-mapped.

        ``hook_resid_post`` of block l is ``hook_resid_pre`` of block l + 1; that of the last block is the
        stream before the final norm.

        Raises
        ------
        ActivationsError
            If there is no such site in this store.
        """
        match = _SITE.fullmatch(name)
        if match is None or int(match[1]) >= self.n_layers:
            raise ActivationsError(
                f"no site {name!r}: wanted blocks.<0..{self.n_layers - 1}>"
                ".hook_<resid_pre|resid_post|attn_out|mlp_out>"
            )
        layer, hook = int(match[1]), match[2]
        if hook in ("resid_pre", "resid_post"):
            return np.asarray(self.stack("resid")[layer + (hook == "resid_post")])
        return np.asarray(self.stack(hook)[layer])

    @property
    def top1(self) -> np.ndarray:
        """(n,) int64: the model's most probable next token after each prompt."""
        return np.asarray(self.stack("top1"))

    @property
    def answer_logprob(self) -> np.ndarray | None:
        """(n,) float32, nats: log-probability of each answer's first token; None without answers."""
        if self.manifest.array("answer_logprob") is None:
            return None
        return np.asarray(self.stack("answer_logprob"))

    @property
    def offsets(self) -> np.ndarray:
        """(n + 1,) int64: with ``position="all"``, prompt i has rows ``offsets[i]:offsets[i + 1]``."""
        return self._side_array("offsets.npy")

    @property
    def prompt_ids(self) -> tuple[str, ...]:
        """The n labels, in row order."""
        return tuple(json.loads(self._side("prompt_ids.json")))

    def prompts(self) -> TokenizedPrompts:
        """Return the prompts that were captured, in row order."""
        tokens, offsets = self._side_array("tokens.npy").tolist(), self.offsets.tolist()
        ids = tuple(tuple(tokens[a:b]) for a, b in itertools.pairwise(offsets))
        answers = None
        if "answer_ids.npy" in self.manifest.side_files:
            answers = tuple(self._side_array("answer_ids.npy").tolist())
        return TokenizedPrompts(ids, answers, self.prompt_ids)

    def verify(self) -> None:
        """Hash everything again.

        Raises
        ------
        StoreCorrupt
            If anything differs from what was written: names the file, the rows, and both hashes.
        """
        blocks = read_journal(self.folder / JOURNAL).blocks
        damage = damaged_files(self.folder, self.manifest) + damaged_side_files(self.folder, self.manifest)
        ordered = [blocks[index] for index in sorted(blocks)]
        for found in damaged_blocks(self.folder, self.manifest.arrays, ordered):
            damage += found
        if damage:
            shown = "\n".join(map(str, damage[:8]))
            more = f"\nand {len(damage) - 8} more" if len(damage) > 8 else ""
            raise StoreCorrupt(f"store {self.key[:12]} is damaged:\n{shown}{more}", remedy=_REPAIR)

    def _side(self, name: str) -> bytes:
        file = self.folder / name
        with disk_errors(file):
            data = file.read_bytes()
        found, wanted = blake3.blake3(data).hexdigest(), self.manifest.side_files[name]
        if found != wanted:
            raise StoreCorrupt(f"{file}: found blake3 {found}, wanted {wanted}", remedy=_REPAIR)
        return data

    def _side_array(self, name: str) -> np.ndarray:
        array: np.ndarray = np.load(io.BytesIO(self._side(name)), allow_pickle=False)
        return array


def _check_journal(folder: Path, manifest: Manifest, journal: Journal) -> str:
    mark, blocks = journal.completion, journal.blocks
    if mark is None:
        raise StoreCorrupt(
            f"{folder}: the capture is not complete", remedy="run the capture again: it resumes"
        )
    with disk_errors(folder / MANIFEST):
        found = blake3.blake3((folder / MANIFEST).read_bytes()).hexdigest()
    if found != mark.manifest:
        raise StoreCorrupt(
            f"{folder / MANIFEST} was changed since: found blake3 {found}, wanted {mark.manifest}",
            remedy=f"remove {folder} and run the capture again",
        )
    ends = [0] + [blocks[index].prompts[1] for index in sorted(blocks)]
    starts = [blocks[index].prompts[0] for index in sorted(blocks)] + [manifest.n_prompts]
    whole = (
        sorted(blocks) == list(range(mark.blocks)) and ends == starts and mark.blocks == manifest.plan.blocks
    )
    if not whole or journal.broken_lines:
        raise StoreCorrupt(
            f"{folder / JOURNAL}: found {len(blocks)} blocks and {journal.broken_lines} unreadable lines, "
            f"wanted {manifest.plan.blocks} blocks that cover {manifest.n_prompts} prompts",
            remedy=_REPAIR,
        )
    computed = store_digest(manifest, blocks)
    if computed != mark.digest:
        raise StoreCorrupt(
            f"{folder / JOURNAL}: its blocks have digest {computed}, its mark says {mark.digest}",
            remedy=_REPAIR,
        )
    return computed
