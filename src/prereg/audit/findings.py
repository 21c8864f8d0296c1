"""What an audit says: findings, each of one check, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from prereg.protocol.wording import printable

__all__ = ["CHECKS", "STATUSES", "Check", "Finding", "Status", "exit_code", "few", "short", "worst"]

Status = Literal["verified", "note", "unverified", "violation"]
"""``verified``: shown to be so. ``note``: a fact for the reader, neither good nor bad. ``unverified``: can't be
shown from here. ``violation``: what is here contradicts what was registered."""

STATUSES: tuple[Status, ...] = get_args(Status)

Check = Literal[
    "repository",
    "registration",
    "order",
    "promise",
    "windows",
    "components",
    "amendments",
    "attempts",
    "evidence",
    "verdicts",
    "witnesses",
    "accounting",
]
"""Groups of checks, in the order in which they are made and shown."""

CHECKS: tuple[Check, ...] = get_args(Check)

MAX_TEXT = 600
MAX_DETAILS = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found; all text in it is printable, whatever file it came from.

    Parameters
    ----------
    check
        The check that found it.
    status
        What it means; see `Status`.
    message
        What was found, and where it matters what was wanted.
    details
        Names, one a line; beyond twenty only their number is given.
    remedy
        The next command, or None.
    commits
        Full ids of the commits that it speaks of, oldest first.
    """

    check: Check
    status: Status
    message: str
    details: tuple[str, ...] = ()
    remedy: str | None = None
    commits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _line(self.message))
        object.__setattr__(self, "details", few([_line(detail) for detail in self.details]))
        if self.remedy is not None:
            object.__setattr__(self, "remedy", _line(self.remedy))

    def as_record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "check": self.check,
            "status": self.status,
            "message": self.message,
            "details": list(self.details),
            "remedy": self.remedy,
            "commits": list(self.commits),
        }


def worst(findings: Iterable[Finding]) -> Status | None:
    """Return the gravest status, or None where nothing was found."""
    ranks = [STATUSES.index(finding.status) for finding in findings]
    return STATUSES[max(ranks)] if ranks else None


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 0 only where something was verified and nothing is in doubt; 1 for a violation, else 2."""
    found = {finding.status for finding in findings}
    if "violation" in found:
        return 1
    return 0 if "verified" in found and "unverified" not in found else 2


def few(names: Sequence[str], most: int = MAX_DETAILS) -> tuple[str, ...]:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return (*names[:most], *((f"... and {more} more",) if more > 0 else ()))


def short(digest: str | None) -> str:
    """Return the beginning of a digest or commit id, as people compare it."""
    return "none" if digest is None else digest[:12]


def _line(text: str) -> str:
    """Return text on one line, without anything that a terminal would obey, and of bounded length."""
    line = printable(" ".join(text[: 4 * MAX_TEXT].split()))
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 3]}..."
