"""The registration and what was amended since, as one chain of root digests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from prereg.protocol import Protocol, ProtocolFile, digest
from prereg.protocol.changes import Change, changes, concerned, substantive
from prereg.registration.records import (
    AMENDMENTS,
    REGISTRATION,
    Amendment,
    Known,
    Registration,
    protocol_data,
    read_amendments,
    read_registration,
)

__all__ = ["RANK", "Chain", "link", "read_chain"]

RANK: dict[Known, int] = {"none": 0, "pilot": 1, "full": 2}
"""More is more."""


@dataclass(frozen=True, eq=False)
class Chain:
    """A registration with its amendments, in the order in which they follow each other.

    Parameters
    ----------
    folder
        The study's.
    registration
        The first link.
    amendments
        Those that follow it, each the one before.
    stray
        Amendments that follow none of these: the chain was cut, or two follow the same link.
    """

    folder: Path
    registration: Registration
    amendments: tuple[Amendment, ...]
    stray: tuple[Amendment, ...] = ()

    @property
    def links(self) -> tuple[Registration | Amendment, ...]:
        """All of them, the registration first."""
        return (self.registration, *self.amendments)

    @property
    def current(self) -> Registration | Amendment:
        """The link that is in force."""
        return self.links[-1]

    @property
    def roots(self) -> tuple[str, ...]:
        """Root digest of each link."""
        return tuple(link.root for link in self.links)

    @property
    def known(self) -> Known:
        """The most that was known of the data at the freeze or at any amendment."""
        return max((link.known for link in self.links), key=RANK.__getitem__)

    @cached_property
    def original(self) -> ProtocolFile:
        """The promise as it was frozen."""
        promise = self.registration.promise
        return ProtocolFile(self.folder / REGISTRATION, promise, digest(promise), {})

    @cached_property
    def amended(self) -> tuple[Change, ...]:
        """What the promise in force says otherwise than the frozen one; wording apart."""
        found = changes(self.registration.protocol, self.current.protocol)
        return tuple(change for change in found if substantive(change))

    def concerns(self, hypothesis: str) -> tuple[Change, ...]:
        """Return those of `amended` that concern one hypothesis."""
        old, new = self.registration.protocol, self.current.protocol
        return tuple(change for change in self.amended if hypothesis in concerned(change, old, new))

    def is_added(self, hypothesis: str) -> bool:
        """Tell whether a hypothesis was registered only after the freeze."""
        return hypothesis not in self.registration.promise.hypotheses

    def known_to(self, hypothesis: str, seen: frozenset[str]) -> Known:
        """Return the most that was known when what concerns a hypothesis was amended.

        Parameters
        ----------
        hypothesis
            Its id.
        seen
            Root digests under which the attempts log holds results; an amendment after one of these can't have
            been made without data, whatever it says.
        """
        most: Known = "none"
        for i, amendment in enumerate(self.amendments, start=1):
            old, new = self.links[i - 1].protocol, amendment.protocol
            moved = any(
                substantive(change) and hypothesis in concerned(change, old, new)
                for change in changes(old, new)
            )
            if moved:
                # What was known at an earlier link was known at this one too, whatever it says.
                said = max((one.known for one in self.links[: i + 1]), key=RANK.__getitem__)
                known: Known = "full" if seen & set(self.roots[:i]) else said
                most = max(most, known, key=RANK.__getitem__)
        return most

    def differs(self, protocol: Protocol) -> tuple[Change, ...]:
        """Return what a protocol says otherwise than the promise in force."""
        if digest(protocol) == self.current.components.protocol:
            return ()
        return changes(self.current.protocol, protocol_data(protocol))

    @property
    def is_forked(self) -> bool:
        """Whether two amendments follow the same link, as where two branches each made one and were merged."""
        known = {link.root for link in self.links}
        return any(a.previous in known for a in self.stray)

    def fault(self) -> str | None:
        """Say what is wrong with the chain itself, or None."""
        other = next((a for a in self.amendments if a.study != self.registration.study), None)
        if other is not None:
            return f"{AMENDMENTS}/{other.file_name}: it is of {other.study}, another study"
        if not self.stray:
            return None
        names = ", ".join(a.file_name for a in self.stray)
        if self.is_forked:
            return f"{AMENDMENTS}/{names} and another follow the same one: make one again on top of the other"
        return f"{AMENDMENTS}/{names}: an amendment before it is missing"


def read_chain(folder: Path) -> Chain | None:
    """Return the registration of the study in `folder` with its amendments, or None where there is none.

    Raises
    ------
    RegistrationError
        If a file can't be read, or doesn't hold together.
    """
    registration = read_registration(folder)
    if registration is None:
        return None
    return link(folder, registration, read_amendments(folder))


def link(folder: Path, registration: Registration, amendments: Sequence[Amendment]) -> Chain:
    """Put amendments into the order in which they follow each other."""
    left, ordered, last = list(amendments), list[Amendment](), registration.root
    while True:
        following = [a for a in left if a.previous == last and a.number == len(ordered) + 1]
        if len(following) != 1:
            break
        left.remove(following[0])
        ordered.append(following[0])
        last = following[0].root
    return Chain(folder, registration, tuple(ordered), tuple(left))
