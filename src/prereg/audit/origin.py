"""Where a registration and its amendments first lie in the history, and the chain as it stood at each commit.

The first commit that carries a registration decides what was registered: what stands in its file later, or now, is
compared with that one. Our own definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prereg.audit.timeline import Timeline
from prereg.errors import RegistrationError
from prereg.registration.chain import Chain, link
from prereg.registration.records import Amendment, Registration, parse

__all__ = ["Link", "Origin", "read_origin"]


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain in the history.

    Parameters
    ----------
    root
        Its root digest.
    places
        Commits in which it lies though no parent holds it; empty where it was never committed. Several where it
        was picked to other branches, or removed and put back.
    """

    root: str
    places: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Origin:
    """The registration's own history.

    Parameters
    ----------
    registration
        As the first commit that carries it holds it; None where no commit does, or none that can be read.
    roots
        Of each commit: root of the registration that lies there; ``"?"`` for a file that can't be read as one,
        None where there is none.
    introduced
        Commits in which there is a file though no parent has one.
    removed
        Commits in which there is none though a parent has one.
    links
        Each link of the chain by root, the registration first.
    chains
        Of each commit: the chain that was in force there, None where the registration wasn't there yet.
    """

    registration: Registration | None
    roots: tuple[str | None, ...]
    introduced: tuple[int, ...]
    removed: tuple[int, ...]
    links: Mapping[str, Link]
    chains: tuple[Chain | None, ...]

    @property
    def first(self) -> int | None:
        """The first commit that carries it."""
        return self.introduced[0] if self.introduced else None


def read_origin(timeline: Timeline, file: str, amendments: str, folder: Path) -> Origin:
    """Walk the history of a registration.

    Parameters
    ----------
    timeline
        The history.
    file, amendments
        Paths of registration.json and of the folder of amendments, from the repository's root.
    folder
        The study's, for messages.
    """
    versions = timeline.repository.versions(file)
    records = {blob: _registration(timeline, blob) for blob in dict.fromkeys(versions)}
    roots = tuple(_root(blob, records[blob]) for blob in versions)
    introduced = tuple(
        i for i, root in enumerate(roots) if root is not None and not _held(timeline, roots, i)
    )
    removed = tuple(
        i
        for i, root in enumerate(roots)
        if root is None and any(roots[parent] is not None for parent in timeline.parents(i))
    )
    registration = records[versions[introduced[0]]] if introduced else None
    if registration is None:
        return Origin(None, roots, introduced, removed, {}, (None,) * len(roots))
    after = timeline.after(introduced[0])
    covered = [after[i] or i == introduced[0] for i in range(len(roots))]
    listings = timeline.repository.listings(amendments)
    found = _Amendments(timeline, registration, folder, listings)
    chains = tuple(found.chain(listings[i]) if inside else None for i, inside in enumerate(covered))
    links = {registration.root: Link(registration.root, _appeared(timeline, roots, registration.root))}
    for amendment in {a.root: a for listing in listings for a in found.records(listing)}.values():
        holds = tuple(
            amendment.root if any(a.root == amendment.root for a in found.records(listing)) else None
            for listing in listings
        )
        links[amendment.root] = Link(amendment.root, _appeared(timeline, holds, amendment.root))
    return Origin(registration, roots, introduced, removed, links, chains)


class _Amendments:
    """Amendments by the listing of their folder."""

    def __init__(
        self,
        timeline: Timeline,
        registration: Registration,
        folder: Path,
        listings: Sequence[Mapping[str, str]],
    ) -> None:
        self._timeline, self._registration, self._folder = timeline, registration, folder
        self._parsed: dict[str, Amendment | None] = {}
        self._records: dict[int, tuple[Amendment, ...]] = {}
        self._chains: dict[int, Chain] = {}
        distinct = {id(listing): listing for listing in listings}.values()
        timeline.load({blob for listing in distinct for blob in listing.values()})

    def records(self, listing: Mapping[str, str]) -> tuple[Amendment, ...]:
        """Return those that can be read and lie under their own name."""
        if id(listing) not in self._records:
            pairs = ((name, self._one(blob)) for name, blob in sorted(listing.items()))
            self._records[id(listing)] = tuple(
                a for name, a in pairs if a is not None and a.file_name == name
            )
        return self._records[id(listing)]

    def chain(self, listing: Mapping[str, str]) -> Chain:
        """Return the registration with the amendments of a listing."""
        if id(listing) not in self._chains:
            self._chains[id(listing)] = link(self._folder, self._registration, self.records(listing))
        return self._chains[id(listing)]

    def _one(self, blob: str) -> Amendment | None:
        if blob not in self._parsed:
            value = self._timeline.json(blob)
            try:
                self._parsed[blob] = None if value is None else parse(Amendment, value, blob)
            except RegistrationError:
                self._parsed[blob] = None
        return self._parsed[blob]


def _registration(timeline: Timeline, blob: str | None) -> Registration | None:
    value = timeline.json(blob)
    try:
        return None if value is None else parse(Registration, value, "registration.json")
    except RegistrationError:
        return None


def _root(blob: str | None, record: Registration | None) -> str | None:
    if blob is None:
        return None
    return "?" if record is None else record.root


def _held(timeline: Timeline, roots: Sequence[str | None], at: int) -> bool:
    return any(roots[parent] is not None for parent in timeline.parents(at))


def _appeared(timeline: Timeline, roots: Sequence[str | None], root: str) -> tuple[int, ...]:
    return tuple(
        i
        for i, found in enumerate(roots)
        if found == root and all(roots[parent] != root for parent in timeline.parents(i))
    )
