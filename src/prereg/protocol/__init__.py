"""The promise: frozen models of protocol.toml, its reader, its canonical form and digest."""

from __future__ import annotations

from prereg.protocol.canonical import canonical_json, digest, plain
from prereg.protocol.claims import Contrast, Control, Hypothesis, Permutation, Published, Term
from prereg.protocol.models import Protocol, UpdateSetSpec
from prereg.protocol.reader import ProtocolFile, read_protocol

__all__ = [
    "Contrast",
    "Control",
    "Hypothesis",
    "Permutation",
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
