"""The promise: frozen models of protocol.toml, its reader, its canonical form and digest."""

from __future__ import annotations

from prereg.protocol.canonical import canonical_json, digest, plain
from prereg.protocol.models import (
    Contrast,
    Control,
    Hypothesis,
    Protocol,
    Published,
    Term,
    UpdateSetSpec,
)
from prereg.protocol.reader import ProtocolFile, read_protocol

__all__ = [
    "Contrast",
    "Control",
    "Hypothesis",
    "Protocol",
    "ProtocolFile",
    "Published",
    "Term",
    "UpdateSetSpec",
    "canonical_json",
    "digest",
    "plain",
    "read_protocol",
]
