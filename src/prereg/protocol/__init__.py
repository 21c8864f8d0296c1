"""The promise: frozen models of protocol.toml, its reader, its canonical form and digest."""

from __future__ import annotations

from prereg.protocol.canonical import canonical_json, digest, plain
from prereg.protocol.claims import (
    EACH,
    Claim,
    Contrast,
    Control,
    Hypothesis,
    Permutation,
    Published,
    Term,
)
from prereg.protocol.models import Inference, Protocol, UpdateSetSpec
from prereg.protocol.reader import ProtocolFile, read_protocol

__all__ = [
    "EACH",
    "Claim",
    "Contrast",
    "Control",
    "Hypothesis",
    "Inference",
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
