"""What ties a measurement to a registration: the root digest that new evidence may carry, and which old is accepted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prereg.hostile import printable
from prereg.protocol import ProtocolFile
from prereg.registration.chain import Chain
from prereg.registration.components import library_versions
from prereg.registration.records import Amendment, Registration
from prereg.registration.standing import moved_components

__all__ = ["Binding"]


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """The registration under which a study measures.

    Parameters
    ----------
    chain
        The study's registration and amendments.
    protocol_file
        The protocol that measures: as it lies in the working tree, or the frozen one.
    root
        The project's root.
    """

    chain: Chain
    protocol_file: ProtocolFile
    root: Path

    @property
    def origin(self) -> str:
        """Root of the first freeze: activations are captured for it, whatever is amended later."""
        return self.chain.registration.root

    @property
    def accepted(self) -> tuple[str, ...]:
        """Roots under which evidence answers the registered question: the freeze's and its amendments'."""
        return self.chain.roots

    @property
    def link(self) -> Registration | Amendment:
        """The link that this protocol is measured under: the last one that promises it, else the one in force."""
        promised = [x for x in self.chain.links if x.components.protocol == self.protocol_file.digest]
        return promised[-1] if promised else self.chain.current

    def obstacles(self, alias: str, revision: str | None) -> tuple[str, ...]:
        """Say why evidence measured now could not carry the root in force; empty where it can.

        Parameters
        ----------
        alias, revision
            The model, and what pins its weights.
        """
        frozen = self.link.components
        found = []
        if frozen.protocol != self.protocol_file.digest:
            found = [change.words for change in self.chain.differs(self.protocol_file.protocol)]
        for names in moved_components(self.chain, self.protocol_file, self.root).values():
            found += [f"{printable(name)} is not the registered one" for name in names]
        if alias not in frozen.models:
            found.append(f"the model {alias} is not registered")
        elif frozen.models[alias] != revision:
            wanted = frozen.models[alias]
            found.append(f"{alias} is at revision {_short(revision)}, registered is {_short(wanted)}")
        present = library_versions()
        found += [
            f"{name} is {present.get(name, 'not installed')}, registered is {version}"
            for name, version in frozen.libraries.items()
            if present.get(name) != version
        ]
        return tuple(found)

    def stamp(self, alias: str, revision: str | None) -> str | None:
        """Return the root that evidence measured now may carry, or None where it may carry none."""
        return None if self.obstacles(alias, revision) else self.link.root


def _short(revision: str | None) -> str:
    return "unknown" if revision is None else revision.removeprefix("content:")[:12]
