"""A history as the audit asks about it: what came first, what came when, what a file said then.

A commit is meant by its place among `Repository.commits`, where parents come before their children.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg.errors import PreregError, RegistrationError
from prereg.protocol import canonical_json
from prereg.protocol.reader import parse_protocol
from prereg.registration.history import Commit, Repository
from prereg.registration.records import decode_json

__all__ = ["Arrival", "Said", "Timeline"]

MAX_BLOB = 8_000_000
BATCH = 1_000
"""Blobs that are read at once."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file's content at the commit at which it first lies there: no parent has it at that path.

    Parameters
    ----------
    path
        From the repository's root.
    blob
        Its id; see `Repository.listings`.
    at
        The commit's place.
    """

    path: str
    blob: str
    at: int


@dataclass(frozen=True, slots=True)
class Said:
    """What a protocol.toml said at some commit.

    Parameters
    ----------
    digest
        Of its promise; None where it can't be read as one.
    data
        The promise as plain data; empty where there is none.
    fault
        Why it can't be read.
    """

    digest: str | None
    data: Mapping[str, Any]
    fault: str | None = None


class Timeline:
    """What lies in a repository's history; each question is answered once.

    Parameters
    ----------
    repository
        The whole of what can be seen of it.
    """

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.commits = repository.commits
        self._after: dict[int, tuple[bool, ...]] = {}
        self._before: dict[int, tuple[bool, ...]] = {}
        self._arrivals: dict[str, tuple[Arrival, ...]] = {}
        self._json: dict[str, Any] = {}
        self._digests: dict[str, str | None] = {}
        self._said: dict[str | None, Said] = {}

    @property
    def head(self) -> int:
        """The place of HEAD."""
        return self.repository.index[self.repository.head]

    def commit(self, at: int) -> Commit:
        """Return the commit at a place."""
        return self.commits[at]

    def parents(self, at: int) -> list[int]:
        """Return the places of a commit's parents; those that a shallow clone lacks are left out."""
        index = self.repository.index
        return [index[parent] for parent in self.commits[at].parents if parent in index]

    def after(self, at: int) -> tuple[bool, ...]:
        """Tell of each commit whether it descends from the one at this place; that one itself doesn't."""
        if at not in self._after:
            found = [False] * len(self.commits)
            for i in range(at + 1, len(self.commits)):
                found[i] = any(parent == at or found[parent] for parent in self.parents(i))
            self._after[at] = tuple(found)
        return self._after[at]

    def before(self, at: int) -> tuple[bool, ...]:
        """Tell of each commit whether it is an ancestor of the one at this place; that one itself isn't."""
        if at not in self._before:
            found = [False] * len(self.commits)
            for i in range(at, -1, -1):
                if i == at or found[i]:
                    for parent in self.parents(i):
                        found[parent] = True
            self._before[at] = tuple(found)
        return self._before[at]

    def arrivals(self, folder: str) -> tuple[Arrival, ...]:
        """Return every content of every file under a folder, at each commit at which it appears."""
        if folder not in self._arrivals:
            listings = self.repository.listings(folder)
            prefix = "" if folder == "." else f"{folder}/"
            self._arrivals[folder] = tuple(
                Arrival(f"{prefix}{path}", blob, at)
                for at, now in enumerate(listings)
                for earlier in ([listings[parent] for parent in self.parents(at)],)
                if not any(now is other for other in earlier)
                for path, blob in sorted(now.items())
                if all(other.get(path) != blob for other in earlier)
            )
        return self._arrivals[folder]

    def load(self, blobs: Iterable[str | None]) -> None:
        """Read many small JSON files at once; what can't be read or is no JSON counts as None."""
        wanted = sorted({b for b in blobs if b is not None and ":" not in b and b not in self._json})
        for blob, raw in self._read(wanted).items():
            try:
                self._json[blob] = decode_json(raw, blob, limit=MAX_BLOB)
            except RegistrationError:
                self._json[blob] = None

    def json(self, blob: str | None) -> Any:
        """Return what a small JSON file holds, None where it isn't one."""
        if blob is None or ":" in blob:
            return None
        if blob not in self._json:
            self.load([blob])
        return self._json.get(blob)

    def text_digests(self, blobs: Iterable[str | None]) -> Mapping[str, str | None]:
        """Return the sha256 of each text file with LF line ends; None for what is no readable file."""
        distinct = {blob for blob in blobs if blob is not None}
        wanted = sorted(b for b in distinct if b not in self._digests and ":" not in b)
        for blob, raw in self._read(wanted).items():
            self._digests[blob] = hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()
        return {blob: self._digests.get(blob) for blob in distinct}

    def load_protocols(self, blobs: Iterable[str | None]) -> None:
        """Read many protocols at once."""
        wanted = sorted({b for b in blobs if b is not None and ":" not in b and b not in self._said})
        for blob, raw in self._read(wanted).items():
            self._said[blob] = _promise(raw)

    def said(self, blob: str | None) -> Said:
        """Return what a protocol.toml of this content promises."""
        if blob not in self._said:
            self._said[blob] = self._asked(blob)
        return self._said[blob]

    def first(self, places: Sequence[int]) -> tuple[int, ...]:
        """Return those places that descend from none of the others."""
        return tuple(p for p in places if not any(self.after(other)[p] for other in places if other < p))

    def _read(self, blobs: Sequence[str]) -> dict[str, bytes]:
        """Read blobs; where one of many can't be read, each is asked for by itself."""
        found: dict[str, bytes] = {}
        for start in range(0, len(blobs), BATCH):
            batch = blobs[start : start + BATCH]
            try:
                found |= self.repository.read_many(batch, MAX_BLOB)
            except RegistrationError:
                found |= self._one_by_one(batch)
        return found

    def _one_by_one(self, blobs: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for blob in blobs:
            with contextlib.suppress(RegistrationError):
                found[blob] = self.repository.read(blob, MAX_BLOB)
        return found

    def _asked(self, blob: str | None) -> Said:
        if blob is None:
            return Said(None, {}, "it was not there")
        if ":" in blob:
            return Said(None, {}, f"a {blob.partition(':')[0]} lay in its place")
        try:
            raw = self.repository.read(blob, MAX_BLOB)
        except RegistrationError as error:
            return Said(None, {}, error.message)
        return _promise(raw)


def _promise(raw: bytes) -> Said:
    try:
        found = parse_protocol(raw, Path("protocol.toml"))
    except PreregError as error:
        return Said(None, {}, error.message)
    return Said(found.digest, json.loads(canonical_json(found.protocol)))
