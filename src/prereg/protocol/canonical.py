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

from prereg.errors import ProtocolError
from prereg.protocol.models import Protocol

__all__ = ["canonical_json", "digest", "normal", "plain"]

MAX_MARKS = 30


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
    """Return JSON-able data with one spelling for each meaning: NFC text, whole numbers without a fraction.

    Raises
    ------
    ProtocolError
        If two keys of a table are one in NFC: which of them counts would be anybody's guess.
    """
    if isinstance(value, dict):
        table = {normal(key): plain(item) for key, item in value.items()}
        if len(table) != len(value):
            twice = next(key for key in table if sum(normal(other) == key for other in value) > 1)
            raise ProtocolError(f"two keys of one table are the same in Unicode's normal form: {twice!r}")
        return table
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return normal(value)
    # Up to TOML's 64 bits a whole number has two spellings, 1e18 and 1000000000000000000; beyond only one.
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**63:
        return int(value)  # also makes -0.0 and 0.0 one
    return value


def normal(text: str) -> str:
    """Return text in the one spelling that is hashed: NFC, lines ended by a line feed.

    Raises
    ------
    ProtocolError
        If more than 30 combining marks stand in a row. No language has them, and putting them in order takes
        quadratic time: the bound is that of Unicode's stream-safe text (UAX #15, section 13).
    """
    text = text.replace("\r\n", "\n")
    if text.isascii():
        return text
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run > MAX_MARKS:
            raise ProtocolError(f"more than {MAX_MARKS} combining marks in a row")
    return unicodedata.normalize("NFC", text)
