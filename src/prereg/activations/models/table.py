"""The table behind `prereg models`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prereg.activations.models.layout import presence, revision_of
from prereg.activations.models.registry import anchor

if TYPE_CHECKING:
    from pathlib import Path

    from prereg.activations.models.registry import Registry

__all__ = ["ModelRow", "describe"]


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One line of the table.

    Parameters
    ----------
    alias, source, family, licence
        As registered.
    revision
        Commit or digest; None where nothing is pinned yet.
    state
        ``present``, ``partial`` or ``absent``.
    size
        Bytes on disk.
    """

    alias: str
    source: str
    family: str | None
    licence: str | None
    revision: str | None
    state: str
    size: int


def describe(registry: Registry, cache: Path, root: Path) -> list[ModelRow]:
    """One row a model, in the registry's order. No file is hashed, nothing is loaded."""
    rows = []
    for entry in registry.entries:
        here = presence(anchor(entry, root), cache)
        rows.append(
            ModelRow(
                alias=entry.alias,
                source=str(entry.source),
                family=entry.family,
                licence=entry.licence,
                revision=revision_of(entry, cache),
                state=here.state,
                size=here.size,
            )
        )
    return rows
