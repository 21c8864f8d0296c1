"""What an audit hands back: the reviewer's facts, and the findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from prereg.audit.counting import Count
from prereg.audit.findings import STATUSES, Finding, exit_code

__all__ = [
    "AmendmentRow",
    "AuditReport",
    "EvidenceRow",
    "Head",
    "Threshold",
    "VerdictRow",
    "WitnessRow",
]

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Head:
    """The registration in a few words; None for what there isn't.

    Parameters
    ----------
    root, in_force
        Root digest of the freeze, and of the last link of the chain.
    date, commit, committed
        When its author says that it was frozen; the first commit that carries it, and that commit's own date.
    known, statement, seen
        What was known of the data at the freeze.
    standing
        How the study stands at a glance, as every run sees it.
    calibration
        What a simulation of the gates had shown by the freeze, in words.
    signature
        ``bad`` where any signature or receipt is, else ``good`` where any is, else ``unknown``; ``none`` without one.
    """

    root: str | None = None
    in_force: str | None = None
    date: str | None = None
    commit: str | None = None
    committed: str | None = None
    known: str | None = None
    statement: str | None = None
    seen: tuple[str, ...] = ()
    standing: str = "unregistered"
    calibration: tuple[str, ...] = ()
    signature: str = "none"


@dataclass(frozen=True, slots=True)
class Threshold:
    """What one hypothesis promises now, and what it promised when it was frozen.

    Parameters
    ----------
    hypothesis, family, claim, estimand, direction, threshold, units, rationale
        As the promise in force has them.
    original
        Direction, threshold and units as frozen, where these differ; None where they don't.
    state
        ``frozen``, ``amended``, ``added`` (after the freeze: exploratory) or ``withdrawn``.
    """

    hypothesis: str
    family: str
    claim: str
    estimand: str
    direction: str
    threshold: float
    units: str
    rationale: str
    original: str | None
    state: str


@dataclass(frozen=True, slots=True)
class AmendmentRow:
    """One amendment, in its own words."""

    file: str
    date: str
    commit: str | None
    known: str
    statement: str | None
    subjects: tuple[str, ...]
    reason: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One piece of evidence; ``table`` is the blake3 of its main table."""

    model: str
    name: str
    registration: str | None
    key: str
    table: str
    n_prompts: int
    n_subjects: int


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One verdict as recorded and as recomputed.

    Parameters
    ----------
    recorded
        Outcome in verdicts.json; None where there is none.
    recomputed
        Outcome for the promise in force as if the registration were beyond doubt; None where it couldn't be
        computed.
    answer
        What the interval alone says.
    version
        ``original`` or ``amended``, where the promise was amended.
    other
        The other version's answer, in words.
    """

    model: str
    hypothesis: str
    recorded: str | None
    recomputed: str | None
    answer: str | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    direction: str | None = None
    attempts: int | None = None
    version: str | None = None
    other: str | None = None


@dataclass(frozen=True, slots=True)
class WitnessRow:
    """One signature or receipt."""

    kind: str
    state: str
    by: str
    detail: str
    when: str | None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A study's audit.

    Parameters
    ----------
    study, folder
        Its name, and where it lies from the project's root.
    head, thresholds, amendments, attempts, evidence, verdicts, witnesses
        The facts that a reviewer asks for.
    findings
        What each check found, in the order of the checks.
    """

    study: str
    folder: str
    head: Head
    thresholds: tuple[Threshold, ...]
    amendments: tuple[AmendmentRow, ...]
    attempts: tuple[Count, ...]
    evidence: tuple[EvidenceRow, ...]
    verdicts: tuple[VerdictRow, ...]
    witnesses: tuple[WitnessRow, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0 only if everything is verified, 1 for any violation, 2 for what can't be verified."""
        return exit_code(self.findings)

    @property
    def result(self) -> str:
        """``verified``, ``violation`` or ``unverified``."""
        return {0: "verified", 1: "violation", 2: "unverified"}[self.exit_code]

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each status."""
        return {status: sum(f.status == status for f in self.findings) for status in STATUSES}

    def as_record(self) -> dict[str, Any]:
        """Return it as plain data; ``format`` is 1."""
        return {
            "format": FORMAT,
            "study": self.study,
            "folder": self.folder,
            "result": self.result,
            "exit_code": self.exit_code,
            "counts": self.counts,
            "registration": _plain(asdict(self.head)),
            "thresholds": _rows(self.thresholds),
            "amendments": _rows(self.amendments),
            "attempts": _rows(self.attempts),
            "evidence": _rows(self.evidence),
            "verdicts": _rows(self.verdicts),
            "witnesses": _rows(self.witnesses),
            "findings": [finding.as_record() for finding in self.findings],
        }


def _rows(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [_plain(asdict(row)) for row in rows]


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in record.items()}
