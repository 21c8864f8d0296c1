"""The reviewer's facts, taken from what the checks have read."""

from __future__ import annotations

from collections.abc import Iterator

from prereg.audit.accounting import recorded_outcomes
from prereg.audit.amendments import change_words
from prereg.audit.case import Case
from prereg.audit.evidence import pieces
from prereg.audit.report import AmendmentRow, EvidenceRow, Head, Threshold, VerdictRow, WitnessRow
from prereg.protocol import Hypothesis, Protocol
from prereg.protocol.wording import printable
from prereg.registration.chain import Chain
from prereg.registration.records import Registration
from prereg.study import Verdict

__all__ = ["amendment_rows", "evidence_rows", "head_of", "thresholds_of", "verdict_rows", "witness_rows"]

_SIGNS = {"greater": "> ", "less": "< ", "equivalence": "within ±"}
_RANK = ("bad", "good", "unknown")


def head_of(case: Case) -> Head:
    """Return the registration in a few words."""
    standing = "unverified" if case.standing is None else case.standing.status
    if case.chain is None:
        return Head(standing=standing)
    first = case.chain.registration
    commit = None
    if case.timeline is not None and case.origin is not None and case.origin.first is not None:
        commit = case.timeline.commit(case.origin.first)
    states = [witness.state for witness in case.witnesses or ()]
    return Head(
        root=first.root,
        in_force=case.chain.current.root,
        date=first.date,
        commit=None if commit is None else commit.id,
        committed=None if commit is None else f"{commit.committed_at:%Y-%m-%dT%H:%M:%S%z}",
        known=first.known,
        statement=None if first.statement is None else printable(first.statement),
        seen=tuple(printable(model) for model in first.seen),
        standing=standing,
        calibration=_calibration(first),
        signature=min(states, key=_RANK.index) if states else "none",
    )


def _calibration(registration: Registration) -> tuple[str, ...]:
    found = registration.calibration
    if found is None:
        return ("none: no gate was simulated before the freeze",)
    pilot = "stated moments" if found.pilot is None else f"a pilot on {printable(found.pilot)}"
    head = f"{found.replications} replications fitted to {pilot}; {len(found.faults)} beyond their alpha"
    despite = () if found.despite is None else (f"frozen all the same: {printable(found.despite)}",)
    return (head, *(printable(fault) for fault in found.faults), *despite)


def thresholds_of(case: Case) -> tuple[Threshold, ...]:
    """Return what each hypothesis promises: the promise in force, or the protocol where nothing is registered."""
    if case.chain is not None:
        frozen, current = case.chain.registration.promise, case.chain.current.promise
    elif case.protocol_file is not None:
        frozen = current = case.protocol_file.protocol
    else:
        return ()
    names = dict.fromkeys((*current.hypotheses, *frozen.hypotheses))
    return tuple(_threshold(case.chain, name, frozen, current) for name in names)


def amendment_rows(case: Case) -> tuple[AmendmentRow, ...]:
    """Return the amendments, in the order of the chain."""
    if case.chain is None:
        return ()
    return tuple(
        AmendmentRow(
            amendment.file_name,
            amendment.date,
            _first_commit(case, amendment.root),
            amendment.known,
            None if amendment.statement is None else printable(amendment.statement),
            tuple(printable(subject) for subject in amendment.subjects),
            printable(amendment.reason),
            tuple(printable(words) for words in change_words(amendment)),
        )
        for amendment in (*case.chain.amendments, *case.chain.stray)
    )


def evidence_rows(case: Case) -> tuple[EvidenceRow, ...]:
    """Return every piece of evidence that has a record."""
    return tuple(
        EvidenceRow(
            printable(model.name),
            printable(piece.file.stem),
            record.registration,
            record.key,
            record.tables.get(f"{record.analysis}.{record.arm}.parquet", ""),
            record.n_prompts,
            record.n_subjects,
        )
        for model in case.models
        if model.fault is None
        for piece in pieces(case, model)
        for record in (piece.record,)
        if record is not None
    )


def verdict_rows(case: Case) -> tuple[VerdictRow, ...]:
    """Return each verdict as recorded and as recomputed, model by model."""
    return tuple(
        row for model in case.models if model.fault is None for row in _verdicts(case, model.folder.name)
    )


def witness_rows(case: Case) -> tuple[WitnessRow, ...]:
    """Return the signatures and receipts."""
    return tuple(
        WitnessRow(
            w.kind,
            w.state,
            printable(w.by),
            printable(w.detail),
            None if w.when is None else w.when.isoformat(),
        )
        for w in case.witnesses or ()
    )


def promised(claim: Hypothesis) -> str:
    """Return the side of the threshold that is promised, in a few characters."""
    return f"{_SIGNS[claim.direction]}{claim.threshold:g} {claim.units}"


def _threshold(chain: Chain | None, name: str, frozen: Protocol, current: Protocol) -> Threshold:
    claim = current.hypotheses.get(name) or frozen.hypotheses[name]
    before = frozen.hypotheses.get(name)
    original = None
    state = "frozen"
    if before is None:
        state = "added"
    elif name not in current.hypotheses:
        state = "withdrawn"
    elif chain is not None and chain.concerns(name):
        state = "amended"
        original = promised(before) if promised(before) != promised(claim) else None
    return Threshold(
        printable(name),
        claim.family,
        printable(claim.claim),
        printable(claim.estimand),
        claim.direction,
        claim.threshold,
        claim.units,
        printable(claim.rationale),
        original,
        state if chain is not None else "not registered",
    )


def _first_commit(case: Case, root: str) -> str | None:
    link = None if case.origin is None else case.origin.links.get(root)
    if link is None or not link.places or case.timeline is None:
        return None
    return case.timeline.commit(link.places[0]).id


def _verdicts(case: Case, folder: str) -> Iterator[VerdictRow]:
    recorded = recorded_outcomes(case, folder)
    recomputed = {verdict.hypothesis: verdict for verdict in case.recomputed.get(folder, ())}
    for name in dict.fromkeys((*recomputed, *recorded)):
        said = recorded.get(name, {}).get("outcome")
        outcome = printable(str(said))[:40] if name in recorded else None
        verdict = recomputed.get(name)
        if verdict is None:
            yield VerdictRow(printable(folder), printable(name), outcome, None)
        else:
            yield _row(folder, verdict, outcome)


def _row(folder: str, verdict: Verdict, recorded: str | None) -> VerdictRow:
    record = verdict.as_record()
    other = verdict.other
    words = None
    if other is not None:
        words = f"{other.version}: {other.outcome.value}, promised {promised(other.promise)}"
    return VerdictRow(
        printable(folder),
        verdict.hypothesis,
        recorded,
        record["outcome"],
        record["answer"],
        record["estimate"],
        record["low"],
        record["high"],
        verdict.promise.threshold,
        verdict.promise.direction,
        verdict.attempts,
        verdict.version,
        words,
    )
