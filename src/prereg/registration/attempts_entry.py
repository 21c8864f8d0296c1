"""One attempt: what was asked of which data, and what was answered. Its name is the digest of what it says."""

from __future__ import annotations

import heapq
import json
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from prereg.errors import RegistrationError
from prereg.protocol.base import Closed, Name, Sha256
from prereg.registration.records import content_digest, decode_json, parse

__all__ = [
    "MAX_BYTES",
    "MAX_PARENTS",
    "OUTCOMES",
    "Attempt",
    "AttemptOutcome",
    "Look",
    "alias",
    "parents_first",
    "read_attempt",
]

MAX_BYTES = 256 * 1024
MAX_PARENTS = 1_000

AttemptOutcome = Literal["supported", "refuted", "inconclusive", "invalid", "unverified", "exploratory"]
"""What an attempt may have ended in. A hypothesis that was not tested is no attempt."""

OUTCOMES: tuple[str, ...] = get_args(AttemptOutcome)


def alias(model: str) -> str:
    """Return a model's alias in its one spelling, Unicode's NFC.

    Raises
    ------
    ValueError
        If it holds a character that doesn't print: a report would show another name than the one that counts.
    """
    name = unicodedata.normalize("NFC", model)
    if not name.isprintable() or name != name.strip():
        raise ValueError("a model's alias is printable text without blanks around it")
    return name


class Look(Closed):
    """Which look at new data this was, counted from 1, and the alpha that it was tested at."""

    look: Annotated[int, Field(ge=1)]
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)]


class Attempt(Closed):
    """One run's new answers for one model.

    Attributes
    ----------
    study, model
        The study's name and the model's alias.
    registration
        Root digest of the registration that was in force, None where there was none.
    protocol
        Digest of the protocol.
    parents
        Ids of the attempts that no other named when this one was written, ascending.
    data
        Hypothesis -> digest of the data that answered it.
    outcomes
        Hypothesis -> what was answered; the same hypotheses as in `data`.
    looks
        Hypothesis -> its look, for those that spend alpha.
    at
        When, in UTC, by the author's clock: a claim, which nothing here relies on.
    """

    format: Literal[1]
    study: Name
    model: Annotated[str, StringConstraints(min_length=1, max_length=1_000), AfterValidator(alias)]
    registration: Sha256 | None
    protocol: Sha256
    parents: tuple[Sha256, ...] = Field(max_length=MAX_PARENTS)
    data: dict[Name, Sha256] = Field(min_length=1)
    outcomes: dict[Name, AttemptOutcome]
    looks: dict[Name, Look]
    at: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]

    @field_validator("parents")
    @classmethod
    def _ascending(cls, parents: tuple[str, ...]) -> tuple[str, ...]:
        if parents != tuple(sorted(set(parents))):
            raise ValueError("parents are named once each, in ascending order")
        return parents

    @field_validator("at")
    @classmethod
    def _is_a_time(cls, at: str) -> str:
        datetime.fromisoformat(at)
        return at

    @model_validator(mode="after")
    def _same_hypotheses(self) -> Attempt:
        if set(self.outcomes) != set(self.data):
            raise ValueError("data and outcomes must name the same hypotheses")
        if not set(self.looks) <= set(self.data):
            raise ValueError("looks names a hypothesis that data does not")
        return self

    @cached_property
    def id(self) -> str:
        """Sha256 of the canonical content, 64 hex characters: white space and line ends don't matter."""
        return content_digest(self.model_dump(mode="json"))

    @property
    def file_name(self) -> str:
        """The name it is kept under."""
        return f"{self.id}.json"

    def as_bytes(self) -> bytes:
        """Return the file's content: JSON for people to read, UTF-8, LF line ends."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=2, ensure_ascii=False)
        return (text + "\n").encode()


def read_attempt(raw: bytes, name: str) -> Attempt:
    """Return the attempt that a file of that name holds.

    Raises
    ------
    RegistrationError
        If the bytes are no attempt, or are one that belongs under another name: it was edited or renamed.
    """
    value = decode_json(raw, name, limit=MAX_BYTES)
    attempt = parse(Attempt, value, name)
    # The model takes `true` for the 1 of `format`; another reader may not, so what is written counts as well.
    for found in (content_digest(value), attempt.id):
        if f"{found}.json" != name:
            raise RegistrationError(f"{name}: what it holds has the digest {found}: it was edited or renamed")
    return attempt


def parents_first(entries: Mapping[str, Attempt]) -> tuple[Attempt, ...]:
    """Order attempts so that each follows its parents, the lowest id first among those that are free.

    A circle can't be: each id would have to be the digest of content that holds it.
    """
    waiting = {id_: sum(parent in entries for parent in entry.parents) for id_, entry in entries.items()}
    children: dict[str, list[str]] = {}
    for id_, entry in entries.items():
        for parent in entry.parents:
            children.setdefault(parent, []).append(id_)
    free = [id_ for id_, count in waiting.items() if count == 0]
    heapq.heapify(free)
    ordered = []
    while free:
        id_ = heapq.heappop(free)
        ordered.append(entries[id_])
        for child in children.get(id_, ()):
            waiting[child] -= 1
            if waiting[child] == 0:
                heapq.heappush(free, child)
    return tuple(ordered)
