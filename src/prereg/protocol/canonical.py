"""The canonical form of a protocol, and its digest.

Two files that promise the same have the same digest: key order, comments, spelling of numbers, line ends and
Unicode normal forms don't matter; any change of a value does. Our own definition, after RFC 8785 (JSON
Canonicalization Scheme): sorted keys, no white space, UTF-8, shortest round-trip numbers. One departure:
numbers are written as Python writes them (``0.26``, ``1e-06``), which is as unambiguous.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Any

from prereg.protocol.models import Protocol

__all__ = ["canonical_json", "digest", "plain"]


def canonical_json(protocol: Protocol) -> str:
    """Return the protocol as canonical JSON text.

    An analysis' settings are still a plain table here, in which ``1`` and ``1.0`` can't be told apart by
    meaning; so every whole number is written without a fraction, whatever its spelling was.
    """
    data = plain(protocol.model_dump(mode="json", exclude_none=True))
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(protocol: Protocol) -> str:
    """Return the sha256 of the canonical form, 64 hex characters."""
    return hashlib.sha256(canonical_json(protocol).encode("utf-8")).hexdigest()


def plain(value: Any) -> Any:
    """Return JSON-able data with one spelling for each meaning: NFC text, whole numbers without a fraction."""
    if isinstance(value, dict):
        return {_normal(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return _normal(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # also makes -0.0 and 0.0 one
    return value


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n"))
