"""One arm's dictionaries: trains what is missing, keeps what is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prereg.activations.view import Activations
from prereg.analysis.dictionaries.dictionary import Dictionary
from prereg.analysis.dictionaries.files import Record, read_dictionary
from prereg.analysis.dictionaries.rows import Selection, rows_digest, select_rows, tokens_of
from prereg.analysis.dictionaries.settings import DictionarySettings, Kind
from prereg.analysis.dictionaries.tasks import train_one
from prereg.analysis.dictionaries.training import one_torch_thread
from prereg.errors import AnalysisError, StoreCorrupt
from prereg.evidence import digest_of
from prereg.workers import Task, Workers

__all__ = ["Library", "Wanted"]

Wanted = tuple[Kind, int, int]
"""Kind, seed and update of a dictionary."""

NOT_TRAINING = {
    "baseline",
    "updates",
    "kinds",
    "seeds",
    "min_stratum_prompts",
    "l0_tolerance",
    "max_dead_share",
}
"""Settings that no dictionary depends on: changing them trains nothing anew."""

FORMAT = 1


class Library:
    """The dictionaries of one arm of a study. Made by `Library.open`.

    A dictionary takes seconds, so an interrupted run loses at most those that were being trained: there are no
    checkpoints within one.

    Parameters
    ----------
    folder
        Where dictionaries are kept.
    stream
        (n_layers + 1, n_tokens, d_model), the token stream.
    selection
        Which of its rows they are trained on.
    settings
        The protocol's.
    identity
        Digest of where the activations come from.
    device
        Where torch works.
    """

    def __init__(
        self,
        folder: Path,
        stream: np.ndarray,
        selection: Selection,
        settings: DictionarySettings,
        identity: str,
        device: str,
    ) -> None:
        self.folder = folder
        self.stream = stream
        self.selection = selection
        self.settings = settings
        self.identity = identity
        self.device = device
        self._rows: dict[int, str] = {}
        self._ready: set[str] = set()

    @classmethod
    def open(
        cls,
        folder: Path,
        activations: Activations,
        settings: DictionarySettings,
        *,
        identity: str,
        device: str = "cpu",
    ) -> Library:
        """Return the library of one arm; nothing is trained yet.

        Parameters
        ----------
        folder
            Where dictionaries are kept; several arms and studies may share it.
        activations
            One arm's, with tokens.
        settings
            The protocol's.
        identity
            The caller's digest of where the activations come from.
        device
            Where torch works. The same seed gives the same bits on a CPU with one thread.

        Raises
        ------
        AnalysisError
            If the activations have no tokens, or too few to train on.
        """
        tokens = tokens_of(activations)
        return cls(folder, tokens.stream, select_rows(activations, settings), settings, identity, device)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The registered seeds."""
        return self.settings.seeds

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The registered kinds."""
        return self.settings.kinds

    def fresh(self, activations: Activations) -> npt.NDArray[np.bool_]:
        """Return (n,) bool: prompts that no dictionary has seen, nor anything of their subject.

        Raises
        ------
        AnalysisError
            If these are not the activations that the library was opened with.
        """
        if len(activations.prompts) != len(self.selection.fresh):
            raise AnalysisError(
                f"a library of {len(self.selection.fresh)} prompts was asked about {len(activations.prompts)}"
            )
        return self.selection.fresh.copy()

    def ensure(self, wanted: Sequence[Wanted], workers: Workers) -> None:
        """Train what is missing or damaged.

        L1 is matched to TopK, so the TopK dictionaries of the same seeds and updates are trained first. The results
        don't depend on how many workers there are.

        Raises
        ------
        AnalysisError
            If something is wanted that the settings or the model don't have, or training fails.
        StorageError
            If the folder can't be read or written.
        """
        for one in wanted:
            self._refuse_unknown(one)
        topk: list[Wanted] = [("topk", seed, update) for _, seed, update in wanted]
        l1: list[Wanted] = [one for one in wanted if one[0] == "l1"]
        # Finished dictionaries lie in the folder, each hashed: the workers' own checkpoints would only be a second
        # opinion, and one that survives a damaged file.
        hands = Workers(workers.jobs, workers.engine, workers.progress)
        for kind, group in (("topk", topk), ("l1", l1)):
            missing = [one for one in dict.fromkeys(group) if not self._present(one)]
            if missing:
                with one_torch_thread():
                    hands.map([self._task(one) for one in missing], f"{kind} dictionaries")
                for one in missing:
                    self._read(one)

    def dictionary(self, kind: Kind, seed: int, update: int) -> Dictionary:
        """Return a dictionary that `ensure` has made.

        Raises
        ------
        AnalysisError
            If it was not asked for with `ensure`.
        StoreCorrupt
            If its file was damaged since.
        """
        return self._read((kind, seed, update))[0]

    def record(self, kind: Kind, seed: int, update: int) -> Record:
        """Return the record of a dictionary that `ensure` has made; as `dictionary`."""
        return self._read((kind, seed, update))[1]

    def key(self, one: Wanted) -> str:
        """Return the digest of everything that a dictionary's bits depend on."""
        return digest_of([FORMAT, self._origin(one)])

    def _origin(self, one: Wanted) -> dict[str, Any]:
        kind, seed, update = one
        if update not in self._rows:
            self._rows[update] = rows_digest(self.stream, self.selection, update)
        return {
            "kind": kind,
            "seed": seed,
            "update": update,
            "identity": self.identity,
            "rows": self._rows[update],
            "settings": self.settings.model_dump(mode="json", exclude=NOT_TRAINING),
            "source": _source_digest(),
            "libraries": {name: version(name) for name in ("numpy", "torch")},
            "device": self.device,
        }

    def _refuse_unknown(self, one: Wanted) -> None:
        kind, seed, update = one
        if kind not in self.kinds or seed not in self.seeds or not 0 <= update < len(self.stream) - 1:
            raise AnalysisError(
                f"no dictionary of kind {kind}, seed {seed}, update {update}: kinds are {list(self.kinds)}, seeds "
                f"{list(self.seeds)}, updates 0 to {len(self.stream) - 2}",
                remedy="change [analyses.dictionaries] in the protocol, or what asks for it",
            )

    def _present(self, one: Wanted) -> bool:
        key = self.key(one)
        if key not in self._ready and read_dictionary(self.folder, key) is not None:
            self._ready.add(key)
        return key in self._ready

    def _read(self, one: Wanted) -> tuple[Dictionary, Record]:
        key = self.key(one)
        found = read_dictionary(self.folder, key)
        name = f"the {one[0]} dictionary of seed {one[1]}, update {one[2]}"
        if found is None and key not in self._ready:
            raise AnalysisError(f"{name} is not there: it was not asked for before it was used")
        if found is None:
            self._ready.discard(key)
            raise StoreCorrupt(
                f"{self.folder / key}.safetensors: {name} was damaged while it was in use",
                remedy="run the same command again: it is trained anew",
            )
        self._ready.add(key)
        return found

    def _task(self, one: Wanted) -> Task:
        kind, seed, update = one
        target = None if kind == "topk" else self.record("topk", seed, update).l0_readout
        return Task(
            f"{kind}-{seed}-{update:03d}",
            train_one,
            {
                "folder": self.folder,
                "stream": self.stream,
                "selection": self.selection,
                "settings": self.settings,
                "origin": self._origin(one),
                "key": self.key(one),
                "target": target,
            },
        )


@cache
def _source_digest() -> str:
    """Return the digest of the source that trains: dictionaries of another version are not taken up."""
    folder = Path(__file__).parent
    return digest_of({f.name: f.read_text("utf-8") for f in sorted(folder.glob("*.py"))})
