"""What a new study still leaves to its author: sentences that begin with TO DECIDE."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prereg.errors import RegistrationError

__all__ = ["UNDECIDED", "require_decided"]

UNDECIDED = "TO DECIDE"
"""Marks each sentence of the template that only the author can write."""


def require_decided(protocol: Path) -> None:
    """Refuse to register a protocol in which a sentence of the template still stands.

    Parameters
    ----------
    protocol
        A protocol.toml that was read without error before.

    Raises
    ------
    RegistrationError
        If a text begins with `UNDECIDED`; the message names its keys.
    """
    keys = list(_undecided(tomllib.loads(protocol.read_text("utf-8")), ""))
    if keys:
        more = f" (and {len(keys) - 5} more)" if len(keys) > 5 else ""
        raise RegistrationError(
            f"{protocol} leaves {len(keys)} sentences to its author: {', '.join(keys[:5])}{more}",
            remedy=f"write them: grep -n '\"{UNDECIDED}' {protocol}",
        )


def _undecided(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _undecided(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _undecided(inner, key)
    elif isinstance(value, str) and value.lstrip().startswith(UNDECIDED):
        yield key
