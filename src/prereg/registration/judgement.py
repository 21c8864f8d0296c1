"""What is said of a study's registration: one word, why, and the next step."""

from __future__ import annotations

from typing import Literal

__all__ = ["Judgement", "Status", "few"]

Status = Literal["registered", "unregistered", "unverified", "tampered"]

Judgement = tuple[Status, tuple[str, ...], str | None, str | None]
"""Status, reasons, remedy, and the commit that first carries the registration."""

_SHOWN = 5


def few(words: list[str]) -> tuple[str, ...]:
    """Return the first of many words, and how many more there are."""
    more = len(words) - _SHOWN
    return tuple(words[:_SHOWN]) + ((f"and {more} more",) if more > 0 else ())
