"""Gates, code, facts, models and libraries as they are, against those that were registered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from prereg.audit.case import Case
from prereg.audit.findings import Finding, short
from prereg.errors import PreregError
from prereg.hostile import printable, read_bounded
from prereg.registration.components import (
    LIBRARIES,
    code_digests,
    code_now,
    differing,
    facts_digests,
    gate_digests,
)

__all__ = ["check_components"]


def check_components(case: Case) -> Iterator[Finding]:
    """Compare each component with the link in force.

    Integrity: "gate body or analysis source changed: source digest differs: unverified, names the file".
    """
    if case.chain is None:
        return
    frozen = case.chain.current.components
    try:
        gates = gate_digests(case.folder, case.options.root)
    except PreregError as error:
        yield Finding("components", "unverified", error.message, remedy=error.remedy)
    else:
        yield from _compared(case, "gates", frozen.gates, dict(gates))
    yield from _compared(case, "code", frozen.code, code_now(frozen.code, case.folder))
    yield from _newly_reached(case, frozen.code)
    yield from _facts(case, frozen.facts)
    yield from _calibration(case)
    unpinned = [name for name in LIBRARIES if name not in frozen.libraries]
    if unpinned:
        yield Finding(
            "components",
            "unverified",
            f"libraries: the registration pins no version of {', '.join(unpinned)}",
            remedy=f"prereg amend {case.shown(case.folder)} libraries --reason ...",
        )


def _calibration(case: Case) -> Iterator[Finding]:
    """Compare the calibration with the one that the freeze recorded.

    Integrity: "results table edited": what a simulation of the gates showed is shown to a reviewer as well.
    """
    frozen = None if case.chain is None else case.chain.registration.calibration
    file = case.reports / "calibration" / "calibration.json"
    try:
        found = hashlib.sha256(read_bounded(file, 20_000_000)).hexdigest()
    except (OSError, ValueError):
        found = None
    parts = sorted(file.with_name("parts").glob("*.json"))
    if frozen is None and found is None and parts:
        names = ", ".join(printable(part.stem) for part in parts[:3]) + (", ..." if len(parts) > 3 else "")
        yield Finding(
            "components", "note", f"calibration: {len(parts)} gates alone, which no freeze records: {names}"
        )
    if frozen is None and found is not None:
        yield Finding("components", "note", "calibration: made after the freeze, which records none")
    elif frozen is not None and found == frozen.digest:
        yield Finding("components", "verified", "calibration: it is the one that the freeze recorded")
    elif frozen is not None:
        yield Finding(
            "components",
            "unverified",
            f"calibration: registered {short(frozen.digest)}, here {short(found)}",
            remedy=f"git log -p -- {case.shown(file)}",
        )


def _compared(
    case: Case, part: str, frozen: Mapping[str, str], present: Mapping[str, str | None]
) -> Iterator[Finding]:
    """Name what differs, with both digests."""
    names = differing(frozen, present)
    if names:
        yield Finding(
            "components",
            "unverified",
            f"{part}: {len(names)} are not the registered ones: {', '.join(names[:3])}",
            tuple(f"{n}: registered {short(frozen.get(n))}, here {short(present.get(n))}" for n in names),
            remedy=f"restore them, or register it: prereg amend {case.shown(case.folder)} {part} --reason ...",
        )
    else:
        yield Finding("components", "verified", f"{part}: all {len(frozen)} are the registered ones")


def _newly_reached(case: Case, frozen: Mapping[str, str]) -> Iterator[Finding]:
    """Name modules that a verdict now runs through and the registration doesn't hold.

    Integrity: "analysis source changed", by a module that wasn't there.
    """
    if case.protocol_file is None:
        return
    try:
        reached = code_digests(case.protocol_file)
    except PreregError as error:
        yield Finding("components", "unverified", error.message, remedy=error.remedy)
        return
    new = sorted(set(reached) - set(frozen))
    if new:
        yield Finding(
            "components",
            "unverified",
            f"code: a verdict now runs through {len(new)} modules that are not registered: {', '.join(new[:3])}",
            tuple(f"{name}: registered none, here {short(reached[name])}" for name in new),
            remedy=f"install the version that was registered, or: prereg amend {case.shown(case.folder)} code ...",
        )


def _facts(case: Case, frozen: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the facts files with the registered ones."""
    if case.protocol_file is not None:
        yield from _compared(
            case, "facts", frozen, facts_digests(case.protocol_file.protocol, case.options.root)
        )
