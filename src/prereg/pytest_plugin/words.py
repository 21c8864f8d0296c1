"""What a gate is called by its verdict's record: the word, the letter, and whether it passes, skips or fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ANSWERED", "LETTERS", "PROPERTIES", "Said", "properties", "said", "worst"]

LETTERS = {
    "supported": ".",
    "refuted": "R",
    "inconclusive": "I",
    "invalid": "!",
    "tampered": "T",
    "unregistered": "u",
    "unverified": "v",
    "exploratory": "e",
}
"""Word -> its letter in pytest's row of dots; small where nothing failed and nothing may be claimed."""

ANSWERED = frozenset({"supported", "refuted", "inconclusive", "unregistered", "unverified", "exploratory"})
"""Words of gates that were answered, whatever the answer is worth."""

PROPERTIES = (
    "study", "hypothesis", "model", "outcome", "answer", "estimate", "low", "high", "level", "threshold",
    "direction", "units", "n_subjects", "n_prompts", "protocol_digest",
)  # fmt: skip
"""Fields of a record that JUnit XML carries under their own names."""


@dataclass(frozen=True, slots=True)
class Said:
    """What becomes of a gate.

    Parameters
    ----------
    outcome
        As pytest reports it.
    word
        One of `LETTERS`.
    text
        What a reader is told, empty where the gate passes.
    """

    outcome: Literal["passed", "skipped", "failed"]
    word: str
    text: str = ""


def said(record: Mapping[str, Any], explanation: str) -> Said:
    """Return what becomes of a gate that got this record.

    Only an answer that is supported *and* may be claimed passes. One that is supported but may not be claimed is
    skipped, so that nothing of it is green and nothing of it is a failure of the claim.

    Parameters
    ----------
    record
        As `Verdict.as_record` gives it.
    explanation
        As `Verdict.explain` gives it.
    """
    standing = record["registration"]
    status, answer, outcome = standing["status"], record["answer"], record["outcome"]
    reasons = "; ".join(standing["reasons"])
    if status == "tampered":
        return Said("failed", "tampered", f"TAMPERED: {reasons}\n{explanation}")
    if answer != "supported":
        word = (
            answer
            if answer in LETTERS and answer not in ANSWERED - {"refuted", "inconclusive"}
            else "invalid"
        )
        return Said("failed", word, explanation)
    if outcome == "supported" and status == "registered":
        return Said("passed", "supported")
    if outcome == "exploratory":
        return Said("skipped", "exploratory", _told(record, "exploratory", "it was added after the freeze"))
    if status == "unregistered":
        return Said(
            "skipped", "unregistered", _told(record, "unregistered", reasons or "no freeze is on record")
        )
    return Said(
        "skipped", "unverified", _told(record, "unverified", reasons or "its registration is not shown")
    )


def _told(record: Mapping[str, Any], word: str, reason: str) -> str:
    return (
        f"{word.upper()}: {record['hypothesis']} on {record['model']}: the interval says supported, but nothing may be "
        f"claimed: {reason}"
    )


def worst(found: Sequence[Said]) -> Said:
    """Return what becomes of a gate that asked several times: the worst of it, and every text.

    Raises
    ------
    ValueError
        If nothing was asked.
    """
    order = ("failed", "skipped", "passed")
    first = min(found, key=lambda one: order.index(one.outcome))
    return Said(first.outcome, first.word, "\n".join(dict.fromkeys(s.text for s in found if s.text)))


def properties(record: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return a record's figures as JUnit properties, ``prereg.<name>``; an empty text where there is no value."""
    found = {name: record[name] for name in PROPERTIES}
    standing = record["registration"]
    found |= {
        "registration": standing["status"],
        "root": standing["root"],
        "known": standing["known"],
        "attempts": record["attempts"]["data"],
        "version": record["version"],
        **{f"other_{name}": (record["other"] or {}).get(name) for name in ("version", "answer", "threshold")},
    }
    return [(f"prereg.{name}", "" if value is None else value) for name, value in found.items()]
