"""From a protocol and a model to activations: load, tokenise, capture, select.

Nothing here is imported until a capture must really be opened: it needs torch and a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prereg.activations.capture import (
    CaptureRequest,
    RecomputeReport,
    Store,
    TokenizedPrompts,
    capture,
    recompute,
)
from prereg.activations.facts import read_facts
from prereg.activations.models import LoadedModel, LocalModel, ModelEntry, encode, ensure, load, load_twin
from prereg.activations.prompts import Cloze, Selection, clozes, select
from prereg.activations.view import Activations, Tokens
from prereg.errors import StudyError
from prereg.pipeline.options import RunOptions
from prereg.protocol import ProtocolFile

__all__ = ["Captured", "Capturing"]

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """One arm's activations: what an analysis sees, the store behind it, and the model it came from."""

    view: Activations
    store: Store
    loaded: LoadedModel


class Capturing:
    """The model side of one study on one model; what it has loaded and chosen, it remembers."""

    def __init__(
        self,
        protocol_file: ProtocolFile,
        entry: ModelEntry,
        options: RunOptions,
        registration: str | None = None,
    ) -> None:
        self.protocol_file = protocol_file
        self.protocol = protocol_file.protocol
        self.entry = entry
        self.options = options
        self.registration = registration
        self._local: LocalModel | None = None
        self._loaded: LoadedModel | None = None
        self._rows: tuple[Cloze, ...] | None = None
        self._selection: Selection | None = None
        self._model_store: Store | None = None

    def fetch(self) -> LocalModel:
        """Return the model's files, fetching them first where they are missing."""
        if self._local is None:
            self._local = ensure(
                self.entry,
                self.options.cache,
                root=self.options.root,
                offline=self.options.offline,
                progress=self.options.progress(),
            )
        return self._local

    def capture(self, arm: str) -> Captured:
        """Return one arm's activations, capturing them first where they are missing."""
        rows, chosen = self.prompts(), self.select()
        if arm == "model":
            loaded, store, held = self._load(), self._every_fact(), np.arange(len(rows))
        else:
            loaded, held = self._twin(arm), self._of_a_twin()
            store = self._store(loaded, held.tolist(), arm)
        selected = np.searchsorted(held, chosen.index)
        every = self.protocol.capture.position == "all"
        stream = store.stack("resid")
        # The readout position is a prompt's last.
        resid = stream[:, store.offsets[1:][selected] - 1 if every else selected]
        facts = [rows[i].fact for i in chosen.index]
        answer_ids = [rows[i].answer_id for i in chosen.index]
        view = Activations(
            prompts=tuple(f.prompt_id for f in facts),
            subjects=tuple(f.subject for f in facts),
            relations=tuple(f.relation for f in facts),
            templates=tuple(f.template for f in facts),
            held_out=chosen.held_out,
            resid=resid,
            update_sets=self._update_sets(int(resid.shape[0]) - 1),
            answers=tuple(f.answer for f in facts),
            answer_ids=None if None in answer_ids else np.array(answer_ids, np.int64),
            tokens=Tokens(
                tuple(rows[i].ids for i in held), tuple(rows[i].fact.subject for i in held), stream, selected
            )
            if every
            else None,
        )
        return Captured(view, store, loaded)

    def _of_a_twin(self) -> Indices:
        """Return the rows that an untrained twin is asked: the study's prompts.

        Where every position is captured, all others are asked too but those about held-out subjects: dictionaries may
        learn from them.
        """
        rows, chosen = self.prompts(), self.select()
        if self.protocol.capture.position != "all":
            return chosen.index
        held_out = {rows[i].fact.subject for i in chosen.index[chosen.held_out]}
        others = [i for i, row in enumerate(rows) if row.fact.subject not in held_out]
        return np.union1d(chosen.index, np.array(others, np.int64))

    def verify(self, arm: str, sample: int) -> RecomputeReport:
        """Hash every byte of one arm's store again, and recompute a sample of its prompts."""
        captured = self.capture(arm)
        captured.store.verify()
        return recompute(
            captured.store, captured.loaded, model_digest=captured.loaded.identity.digest, sample=sample
        )

    def prompts(self) -> tuple[Cloze, ...]:
        """Return every fact as the model reads it, in file order."""
        if self._rows is None:
            wanted = self.protocol.facts.for_model(self.entry.alias)
            facts = read_facts(self.options.root / wanted.path, expected_sha256=wanted.sha256)
            loaded = self._load()
            self._rows = clozes(facts, lambda text: encode(loaded, text), loaded.tokenizer.decode)
        return self._rows

    def select(self) -> Selection:
        """Return the study's prompts among them, and their sides."""
        if self._selection is None:
            top1 = self._every_fact().top1
            self._selection = select(self.prompts(), top1, self.protocol.prompts, self.protocol.split)
            self.options.say(f"prompts of {self.entry.alias}: {self._selection.counts}")
        return self._selection

    def selection_table(self) -> pa.Table:
        """Return how many facts of each relation met which fate."""
        rows, chosen = self.prompts(), self.select()
        counts = Counter((row.fact.relation, s) for row, s in zip(rows, chosen.status, strict=True))
        keys = sorted(counts)
        return pa.table(
            {
                "relation": [relation for relation, _ in keys],
                "status": [status for _, status in keys],
                "prompts": pa.array([counts[key] for key in keys], pa.int64()),
            }
        )

    def _update_sets(self, n_layers: int) -> dict[str, tuple[int, ...]]:
        try:
            return self.protocol.resolve_updates(n_layers)
        except ValueError as error:
            raise StudyError(f"{self.protocol_file.path}: {error}") from error

    def _load(self) -> LoadedModel:
        if self._loaded is None:
            self._loaded = load(self.fetch(), device=self.options.device, dtype=self.options.dtype)
        return self._loaded

    def _twin(self, arm: str) -> LoadedModel:
        seed = self.protocol.twins.seeds[int(arm.removeprefix("twin-")) - 1]
        return load_twin(self.fetch(), seed, device=self.options.device, dtype=self.options.dtype)

    def _every_fact(self) -> Store:
        """Return the model's store: it is asked every fact, to learn which it knows; its twins only those selected.

        Opened once: opening hashes every byte again.
        """
        if self._model_store is None:
            self._model_store = self._store(self._load(), range(len(self.prompts())), "model")
        return self._model_store

    def _store(self, loaded: LoadedModel, index: Iterable[int], arm: str) -> Store:
        rows = [self.prompts()[i] for i in index]
        prompts = TokenizedPrompts(
            ids=tuple(row.ids for row in rows),
            answer_ids=None,
            prompt_ids=tuple(row.fact.prompt_id for row in rows),
        )
        spec = self.protocol.capture
        request = CaptureRequest(
            stacks=spec.stacks,
            position=spec.position,
            dtype=spec.dtype,
            token_budget=spec.token_budget,
            registration=self.registration,
        )
        self.options.say(f"activations of {self.entry.alias} ({arm}): {len(prompts.ids)} prompts")
        return capture(
            loaded.model,
            loaded.tokenizer,
            prompts,
            request,
            root=self.options.cache / "stores",
            model_digest=loaded.identity.digest,
            provenance={"study": self.protocol.study.name, "arm": arm, "protocol": self.protocol_file.digest},
            progress=self.options.progress(),
        )
