"""The audit itself: each check in its turn; one that can't be carried out is unverified, never passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prereg.audit.accounting import check_accounting
from prereg.audit.amendments import check_amendments
from prereg.audit.attempts import check_attempts
from prereg.audit.case import Case, Replicated, Tables
from prereg.audit.components import check_components
from prereg.audit.counting import counts
from prereg.audit.evidence import check_evidence
from prereg.audit.findings import Check, Finding, exit_code
from prereg.audit.order import check_order
from prereg.audit.promise import check_promise
from prereg.audit.registered import check_registration
from prereg.audit.replication import check_replication
from prereg.audit.report import AuditReport
from prereg.audit.repository import check_repository
from prereg.audit.summary import (
    amendment_rows,
    evidence_rows,
    head_of,
    thresholds_of,
    verdict_rows,
    witness_rows,
)
from prereg.audit.verdicts import check_verdicts
from prereg.audit.windows import check_windows
from prereg.audit.witnesses import check_witnesses
from prereg.errors import PreregError
from prereg.pipeline import RunOptions
from prereg.protocol.wording import printable

__all__ = ["audit"]


def _verdicts(case: Case) -> Iterator[Finding]:
    yield from check_verdicts(case)
    yield from check_replication(case)


_CHECKS: dict[Check, Callable[[Case], Iterator[Finding]]] = {
    "repository": check_repository,
    "registration": check_registration,
    "order": check_order,
    "promise": check_promise,
    "windows": check_windows,
    "components": check_components,
    "amendments": check_amendments,
    "attempts": check_attempts,
    "evidence": check_evidence,
    "verdicts": _verdicts,
    "witnesses": check_witnesses,
    "accounting": check_accounting,
}

_UNFORESEEN = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)


def audit(
    folder: Path,
    options: RunOptions,
    models: Sequence[str] | None = None,
    *,
    tables: Tables | None = None,
    replicated: Replicated | None = None,
) -> AuditReport:
    """Walk everything that a study rests on, and judge nothing by trust.

    Nothing is measured, no model is fetched, nothing is written. What can't be shown is *unverified*; that
    something is not there is never *verified*.

    Parameters
    ----------
    folder
        The study's.
    options
        Where the project's root and its reports are.
    models
        Names of the models whose reports are looked at; None for all that there are.
    tables
        Returns what each table of a report must hold; None compares verdicts.json alone.
    replicated
        Returns what the tables over several models must hold; None leaves them unverified where they are there.

    Returns
    -------
    AuditReport
        The reviewer's facts and each check's findings.

    Raises
    ------
    ModelError
        If a named model is none.
    """
    case = Case(folder, options, models, tables, replicated)
    if models is not None:
        _ = case.models  # a name that is none is the caller's error, not a finding
    findings = tuple(finding for check, run in _CHECKS.items() for finding in _carried_out(check, run, case))
    head = head_of(case)
    return AuditReport(
        study=printable(case.study),
        folder=printable(case.shown(case.folder)),
        head=head,
        thresholds=thresholds_of(case),
        amendments=amendment_rows(case),
        attempts=counts(case),
        evidence=evidence_rows(case),
        verdicts=verdict_rows(case),
        witnesses=witness_rows(case),
        findings=(*findings, *_at_a_glance(case, findings)),
    )


def _at_a_glance(case: Case, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield what each run of the study holds against it, where no check did: an audit is never the laxer one."""
    standing = case.standing
    if exit_code(findings) == 0 and standing is not None and not standing.is_registered:
        yield Finding(
            "registration",
            "unverified",
            f"a run of this study calls it {standing.status}: {'; '.join(standing.reasons)}",
            remedy=standing.remedy,
        )


def _carried_out(check: Check, run: Callable[[Case], Iterator[Finding]], case: Case) -> Iterator[Finding]:
    """Yield what a check finds; trouble in it is something that couldn't be shown."""
    try:
        yield from run(case)
    except PreregError as error:
        yield Finding(check, "unverified", f"can't be checked: {error.message}", remedy=error.remedy)
    except OSError as error:
        yield Finding(
            check, "unverified", f"can't be checked: {error.filename or ''}: {error.strerror or error}"
        )
    except _UNFORESEEN as error:
        # A file that nobody thought of must not keep the other checks from being made.
        yield Finding(check, "unverified", f"can't be checked: {type(error).__name__}: {error}")
