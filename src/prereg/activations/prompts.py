"""Facts become token ids, and known facts become the study's prompts.

Both steps are rules of the protocol, carried out the same way for every model. A subject's side of the
split, and which prompts stay when a template has too many, are drawn by hashing names with the registered
seed: so they don't depend on the model, on the order of the facts, or on which other facts are known.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from prereg.activations.facts import Fact, FactSet
from prereg.errors import ActivationsError
from prereg.protocol.models import Prompts, Split

__all__ = ["Cloze", "Selection", "clozes", "select"]

Status = Literal["train", "held_out", "unknown", "unclear_token", "over_cap", "thin_template"]


@dataclass(frozen=True, slots=True)
class Cloze:
    """A fact as a model reads it.

    Parameters
    ----------
    fact
        Where it came from.
    ids
        Token ids of the prompt; the last one is the readout position.
    answer_id
        First token of the answer as it continues the prompt; None where there is no clean one, or where it
        doesn't tell this answer from another of the relation.
    """

    fact: Fact
    ids: tuple[int, ...]
    answer_id: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which prompts make up the study for one model, and what became of the others.

    Parameters
    ----------
    index
        (n,) int64: rows of the clozes that were selected, ascending.
    held_out
        (n,) bool, the side of each selected row.
    status
        One for every cloze, in their order.
    """

    index: np.ndarray
    held_out: np.ndarray
    status: tuple[Status, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many clozes met which fate."""
        return dict(sorted(Counter(self.status).items()))


def clozes(
    facts: FactSet, encode: Callable[[str], list[int]], decode: Callable[[list[int]], str]
) -> tuple[Cloze, ...]:
    """Tokenise every fact.

    The answer's first token is what the tokenizer adds when the prompt is continued by a blank and the
    answer. If that changes the prompt's own tokens, or the token carries no visible character, the fact has
    no clean first token for this tokenizer. If two answers of a relation begin with the same token, a right
    guess of it would not tell them apart. Neither kind can be called known, and neither takes part.

    Parameters
    ----------
    facts
        The facts, in file order.
    encode, decode
        The model's own tokenizer: text to ids (special tokens as the model expects them) and back.

    Raises
    ------
    ActivationsError
        If a prompt encodes to nothing, or no fact at all has a clean answer token.
    """
    rows: list[Cloze] = []
    for fact in facts.facts:
        ids = tuple(encode(fact.prompt))
        if not ids:
            raise ActivationsError(f"the tokenizer makes nothing of the prompt {fact.prompt!r}")
        full = tuple(encode(f"{fact.prompt} {fact.answer}"))
        clean = len(full) > len(ids) and full[: len(ids)] == ids and decode([full[len(ids)]]).strip() != ""
        rows.append(Cloze(fact, ids, full[len(ids)] if clean else None))
    if all(row.answer_id is None for row in rows):
        raise ActivationsError(
            f"the tokenizer splits every one of {len(rows)} answers oddly: no prompt keeps its own tokens "
            "when the answer follows",
            remedy="check that the model's tokenizer files belong to it",
        )
    answers: defaultdict[tuple[str, int | None], set[str]] = defaultdict(set)
    for row in rows:
        answers[row.fact.relation, row.answer_id].add(row.fact.answer)
    return tuple(
        row if len(answers[row.fact.relation, row.answer_id]) == 1 else replace(row, answer_id=None)
        for row in rows
    )


def select(rows: Sequence[Cloze], top1: np.ndarray | None, prompts: Prompts, split: Split) -> Selection:
    """Choose the study's prompts and their sides by the protocol's rules.

    Parameters
    ----------
    rows
        All clozes, in file order.
    top1
        (len(rows),) the pretrained model's top next token; None only where every fact is included.
    prompts, split
        The protocol's ``[prompts]`` and ``[split]``.

    Raises
    ------
    ActivationsError
        If `top1` doesn't fit the rows, or too few subjects are left on a side.
    """
    clear = np.array([row.answer_id is not None for row in rows])
    known = clear.copy()
    if prompts.inclusion == "known":
        if top1 is None or top1.shape != (len(rows),):
            found = None if top1 is None else top1.shape
            raise ActivationsError(f"top-1 tokens of shape {found} for {len(rows)} prompts")
        known &= top1 == np.array([-1 if row.answer_id is None else row.answer_id for row in rows])

    status: list[Status] = ["unknown" if c else "unclear_token" for c in clear]
    by_template: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row_number in np.flatnonzero(known).tolist():
        fact = rows[row_number].fact
        by_template[fact.relation, fact.template].append(row_number)
    for members in by_template.values():
        ranked = sorted(members, key=lambda i: _uniform(prompts.seed, "prompt", rows[i].fact.prompt_id))
        keep, rest = ranked[: prompts.max_per_template], ranked[prompts.max_per_template :]
        out = [_uniform(split.seed, "subject", rows[i].fact.subject) < split.held_out for i in keep]
        thin = min(out.count(True), out.count(False)) < prompts.minimum_per_template
        for i, is_out in zip(keep, out, strict=True):
            status[i] = "thin_template" if thin else "held_out" if is_out else "train"
        for i in rest:
            status[i] = "over_cap"

    index = np.array([i for i, s in enumerate(status) if s in ("train", "held_out")], dtype=np.int64)
    held_out = np.array([status[i] == "held_out" for i in index], dtype=bool)
    selection = Selection(index, held_out, tuple(status))
    _enough(rows, selection, prompts)
    return selection


def _enough(rows: Sequence[Cloze], selection: Selection, prompts: Prompts) -> None:
    for side, name in ((True, "held out"), (False, "for training")):
        subjects = {rows[i].fact.subject for i in selection.index[selection.held_out == side]}
        if len(subjects) < prompts.minimum_subjects:
            raise ActivationsError(
                f"only {len(subjects)} subjects are {name}, the protocol wants {prompts.minimum_subjects}; "
                f"of {len(rows)} facts: {selection.counts}",
                remedy="use a model that knows more of these facts, more facts, or another share in [split]",
            )


def _uniform(seed: int, role: str, name: str) -> float:
    """Return a number in [0, 1) that depends on the seed, the role and the name alone."""
    digest = hashlib.blake2b(f"{seed}\x1f{role}\x1f{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2.0**64
