"""Audits made by hand: of the project's own study, in whatever state a test wants."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from prereg.audit import AuditReport, Finding, Status
from prereg.audit.counting import Count
from prereg.audit.report import AmendmentRow, EvidenceRow, Head, Threshold, VerdictRow
from prereg.protocol import read_protocol

__all__ = ["FOLDER", "REPORTS", "ROOT", "audit_of", "own_audit", "promise", "tried"]

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "gates" / "delta_stream"
REPORTS = ROOT / "reports" / "delta_stream"


def promise(name: str = "H1", **changes: Any) -> Threshold:
    """Return one promise, frozen and primary."""
    row = Threshold(
        name, "primary", "A claim.", "an estimand", "greater", 0.1, "R2", "A reason.", None, "frozen"
    )
    return dataclasses.replace(row, **changes)


def tried(*models: str, registered: int = 1) -> tuple[Count, ...]:
    """Return the attempts of a study whose H1 was asked on these models."""
    return tuple(Count(model, "H1", 1, 1, registered, None, None) for model in models)


def audit_of(
    verdicts: dict[tuple[str, str], str | None],
    *,
    status: Status = "verified",
    recomputed: dict[tuple[str, str], str | None] | None = None,
    root: str | None = "a" * 64,
    **promises: dict[str, Any],
) -> AuditReport:
    """Return an audit with these recorded verdicts, (model, hypothesis) -> outcome, and one finding of this status."""
    names = dict.fromkeys([*(name for _, name in verdicts), *promises])
    again = verdicts if recomputed is None else recomputed
    rows = tuple(
        VerdictRow(model, name, outcome, again.get((model, name)), outcome, 0.5, 0.4, 0.6, 0.1, "greater", 1)
        for (model, name), outcome in verdicts.items()
        if outcome is not None
    )
    evidence = tuple(
        EvidenceRow(model, "kernels.model", root, "key", "b" * 64, 20, 10)
        for model in dict.fromkeys(m for m, _ in verdicts)
    )
    findings = (
        Finding("registration", "verified", "it holds together"),
        Finding("verdicts", status, "what was found", remedy="prereg audit"),
    )
    return AuditReport(
        study="delta_stream",
        folder="gates/delta_stream",
        head=Head(root=root, standing="registered" if root else "unregistered"),
        thresholds=tuple(promise(name, **promises.get(name, {})) for name in names),
        amendments=(),
        attempts=(),
        evidence=evidence,
        verdicts=rows,
        witnesses=(),
        findings=findings,
    )


def own_audit(status: Status = "verified") -> AuditReport:
    """Return an audit of the project's own study as its tracked tables have it."""
    protocol = read_protocol(FOLDER).protocol
    rows = []
    for model in ("pythia-tiny", "smollm2-135m"):
        document = json.loads((REPORTS / model / "verdicts.json").read_text("utf-8"))
        for v in document["verdicts"]:
            row = VerdictRow(
                model, v["hypothesis"], v["answer"], v["answer"], v["answer"], v["estimate"], v["low"], v["high"],
                v["threshold"], v["direction"], 1,
            )  # fmt: skip
            rows.append(row)
    thresholds = tuple(
        Threshold(
            n, h.family, h.claim, h.estimand, h.direction, h.threshold, h.units, h.rationale, None, "frozen"
        )
        for n, h in protocol.hypotheses.items()
    )
    amendment = AmendmentRow(
        "0001.json", "2026-11-30", "c" * 40, "full", "Seen.", ("code",), "A reason.", ("x",)
    )
    report = audit_of({}, status=status)
    return dataclasses.replace(
        report, thresholds=thresholds, verdicts=tuple(rows), amendments=(amendment,),
        evidence=audit_of({("smollm2-135m", "H1"): None}).evidence,
    )  # fmt: skip
