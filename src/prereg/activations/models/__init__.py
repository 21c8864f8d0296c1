"""Models: found by name, fetched once, known by content. Importing this loads no torch."""

from __future__ import annotations

from prereg.activations.models.content import ModelIdentity, twin_identity
from prereg.activations.models.entries import ModelEntry
from prereg.activations.models.layout import Presence, presence, revision_of
from prereg.activations.models.loading import LoadedModel, encode, load, load_twin
from prereg.activations.models.local import LocalModel, ensure, identity
from prereg.activations.models.registry import Registry, load_registry, pin, resolve
from prereg.activations.models.table import ModelRow, describe

__all__ = [
    "LoadedModel",
    "LocalModel",
    "ModelEntry",
    "ModelIdentity",
    "ModelRow",
    "Presence",
    "Registry",
    "describe",
    "encode",
    "ensure",
    "identity",
    "load",
    "load_registry",
    "load_twin",
    "pin",
    "presence",
    "resolve",
    "revision_of",
    "twin_identity",
]
