"""Amendments: each one shown, none edited, renamed or removed, and none that denies what was on record."""

from __future__ import annotations

from collections.abc import Iterator

from prereg.audit.case import Case, inside
from prereg.audit.findings import Finding, short
from prereg.audit.origin import Origin
from prereg.audit.timeline import Timeline
from prereg.registration.records import AMENDMENTS, Amendment
from prereg.registration.standing import UNFORK

__all__ = ["change_words", "check_amendments"]


def check_amendments(case: Case) -> Iterator[Finding]:
    """Show the amendments and what is wrong with them.

    Integrity: "an amendment is a new entry with date, reason, what was known at the time and the old value; nothing is
    ever overwritten".
    """
    if case.chain is None:
        return
    fault = case.chain.fault()
    if fault is not None and case.chain.is_forked:
        yield Finding("amendments", "unverified", fault, remedy=UNFORK)
    elif fault is not None:
        yield Finding(
            "amendments", "violation", fault, remedy=f"git log -p -- {case.shown(case.folder / AMENDMENTS)}"
        )
    yield from _kept(case)
    for amendment in case.chain.amendments:
        yield _shown(case, amendment)
        yield from _honest(case, amendment)
    if not case.chain.amendments and fault is None:
        yield Finding("amendments", "verified", "no amendment: the promise is the one that was frozen")


def change_words(amendment: Amendment) -> tuple[str, ...]:
    """Return what an amendment changed, a line each, as its record says."""
    keys = [change.words() for change in amendment.changes]
    files = [f"{f.component} {f.name}: {short(f.old)} -> {short(f.new)}" for f in amendment.files]
    return (*keys, *files)


def _shown(case: Case, amendment: Amendment) -> Finding:
    link = None if case.origin is None else case.origin.links.get(amendment.root)
    places = () if link is None or case.timeline is None else link.places
    commits = tuple(case.timeline.commit(at).id for at in places) if case.timeline is not None else ()
    head = f"{amendment.file_name} of {amendment.date[:10]}, known: {amendment.known}"
    if not commits:
        return Finding(
            "amendments",
            "unverified",
            f"{head}; it is in no commit: nothing shows when it came",
            (f"reason: {amendment.reason}", *change_words(amendment)),
            remedy=f"git add {case.shown(case.folder / AMENDMENTS)} && git commit -m 'Amend the study'",
        )
    return Finding(
        "amendments",
        "note",
        f"{head}, first in {commits[0][:12]}",
        (f"reason: {amendment.reason}", *change_words(amendment)),
        commits=commits,
    )


def _honest(case: Case, amendment: Amendment) -> Iterator[Finding]:
    """Compare "nothing was known" with what was on record in the commits before.

    Integrity: "what was known at the time (no data / pilot / full data)".
    """
    origin, timeline = case.origin, case.timeline
    if amendment.known != "none" or origin is None or timeline is None:
        return
    link = origin.links.get(amendment.root)
    places = () if link is None else link.places
    older = set(() if case.chain is None else case.chain.roots[: amendment.number])
    earlier = [
        result
        for result in case.results
        # What was never committed comes after everything that was; what comes in the same commit was there before
        # if it carries an older root.
        if not places
        or any(timeline.before(place)[result.at] for place in places)
        or (result.at in places and result.roots and result.roots <= older)
    ]
    if earlier:
        models = sorted({result.model for result in earlier})
        yield Finding(
            "amendments",
            "violation",
            f"{amendment.file_name} says that nothing was known, but results on {', '.join(models[:5])} "
            "were on record",
            tuple(dict.fromkeys(result.path for result in earlier)),
            remedy=f"git log --stat -- {case.shown(case.reports)}",
            commits=tuple(dict.fromkeys(timeline.commit(result.at).id for result in earlier[:20])),
        )


def _kept(case: Case) -> Iterator[Finding]:
    """Name amendments that were edited, renamed or removed since they came.

    Integrity: "nothing is ever overwritten".
    """
    origin, timeline, place = case.origin, case.timeline, case.place(case.folder)
    if origin is None or timeline is None or place is None or origin.registration is None:
        return
    known = {root: link for root, link in origin.links.items() if root != origin.registration.root}
    here = set() if case.chain is None else {a.root for a in (*case.chain.amendments, *case.chain.stray)}
    lost = {
        root: commit for root, link in known.items() if (commit := _lost(origin, timeline, root, link.places))
    }
    for root, commit in lost.items():
        back = " and put back" if root in here else ""
        yield Finding(
            "amendments",
            "violation",
            f"amendment {root[:8]} was edited, renamed or removed in {commit[:12]}{back}",
            remedy=f"git show {commit[:12]} -- {inside(place, AMENDMENTS)}",
            commits=(commit,),
        )
    for root in sorted(set(known) - here - set(lost)):
        yield Finding(
            "amendments",
            "violation",
            f"amendment {root[:8]} was committed, and is not what lies in the working tree",
            remedy=f"git checkout -- {case.shown(case.folder / AMENDMENTS)}",
            commits=tuple(timeline.commit(at).id for at in known[root].places),
        )
    if known and not lost and set(known) <= here:
        yield Finding(
            "amendments", "verified", f"each of {len(known)} amendments is as it was first committed"
        )


def _lost(origin: Origin, timeline: Timeline, root: str, places: tuple[int, ...]) -> str | None:
    """Return the first commit that descends from one with the amendment and doesn't hold it."""
    for at, chain in enumerate(origin.chains):
        if chain is None or not any(timeline.after(place)[at] for place in places):
            continue
        if all(a.root != root for a in (*chain.amendments, *chain.stray)):
            return timeline.commit(at).id
    return None
