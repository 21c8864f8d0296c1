"""Accounting: how many of the promised hypotheses were answered, and which were added or withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prereg.audit.case import Case
from prereg.audit.findings import Finding
from prereg.audit.results import verdict_rows_in
from prereg.errors import PreregError
from prereg.registration.records import decode_json
from prereg.registration.witness import read_bounded

__all__ = ["check_accounting", "recorded_outcomes"]

MAX_REPORT = 8_000_000


def check_accounting(case: Case) -> Iterator[Finding]:
    """Count the hypotheses of the promise against the verdicts on record.

    Integrity: "`-k`, skip, xfail, a crash midway: not tested; the badge says 3 of 9 tested", "looser hypothesis added
    after the data: exploratory, never counted in the family".
    """
    if case.chain is None:
        return
    yield from _gone(case)
    frozen = case.chain.registration.promise.hypotheses
    current = case.chain.current.promise.hypotheses
    for model in case.models:
        if model.fault is not None:
            continue
        found = recorded_outcomes(case, model.folder.name)
        tested = [name for name in frozen if name in found]
        untested = [name for name in frozen if name not in found]
        yield Finding(
            "accounting",
            "note" if untested else "verified",
            f"{model.name}: {len(tested)} of {len(frozen)} tested",
            tuple(f"{name}: not tested" for name in untested),
        )
    added = [name for name in current if name not in frozen]
    if added:
        yield Finding(
            "accounting",
            "note",
            f"exploratory, since they were added after the freeze: {', '.join(added)}; never counted in a family",
        )
    withdrawn = [name for name in frozen if name not in current]
    if withdrawn:
        yield Finding(
            "accounting", "note", f"withdrawn since the freeze, and still counted: {', '.join(withdrawn)}"
        )


def _gone(case: Case) -> Iterator[Finding]:
    """Name what was answered under this registration and is on record no more.

    Integrity: "deleted failures".
    """
    roots = () if case.chain is None else case.chain.roots
    on_record = {model.name: recorded_outcomes(case, model.folder.name) for model in case.models}
    answered: dict[str, dict[str, str]] = {}
    for attempt in case.log.read().entries:
        if attempt.registration in roots:
            answered.setdefault(attempt.model, {}).update(attempt.outcomes)
    if case.named is not None:
        answered = {name: found for name, found in answered.items() if name in on_record}
    for name, outcomes in answered.items():
        missing = [h for h in outcomes if h not in on_record.get(name, {})]
        if missing:
            yield Finding(
                "accounting",
                "unverified",
                f"{name}: {len(missing)} hypotheses were answered under this registration, and no verdict on them is "
                "on record",
                tuple(f"{h}: {outcomes[h]}, by the attempts log" for h in missing),
                remedy=f"prereg verdicts {case.shown(case.folder)} --model {name} --measure, or put back "
                f"{case.shown(case.reports)}",
            )
    for model in case.models if case.named is not None else ():
        if not on_record[model.name] and model.name not in answered:
            yield Finding(
                "accounting",
                "unverified",
                f"{model.name}: nothing is on record of this model",
                remedy=f"prereg verdicts {case.shown(case.folder)} --model {model.name} --measure",
            )


def recorded_outcomes(case: Case, folder: str) -> dict[str, Any]:
    """Return the verdicts on record for a model by hypothesis, the rows as verdicts.json has them."""
    file = case.reports / folder / "verdicts.json"
    try:
        content = decode_json(read_bounded(file, MAX_REPORT), case.shown(file), limit=MAX_REPORT)
    except PreregError:
        return {}
    return verdict_rows_in(content)
