"""The registration: there, whole, and the one that was committed first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from prereg.audit.case import Case
from prereg.audit.findings import Finding, short
from prereg.audit.origin import Origin
from prereg.audit.timeline import Timeline
from prereg.errors import PreregError, RegistrationError
from prereg.registration.chain import Chain
from prereg.registration.history import Commit
from prereg.registration.records import REGISTRATION, Registration, decode_json, parse

__all__ = ["check_registration"]

FAR_APART = timedelta(days=2)
"""Between the date that a registration claims and that of its commit; a note, no proof of anything."""

VOUCHED = "dates are what the author's clock said; nothing in the history vouches for them"


def check_registration(case: Case) -> Iterator[Finding]:
    """Compare the registration as it lies with the one that was committed first.

    Integrity: "edited, frozen again, date set back: the first commit that carries the registration decides".
    """
    yield from _present(case)
    origin, timeline = case.origin, case.timeline
    if origin is None or timeline is None:
        return
    if origin.first is None:
        if case.present is not None:
            yield Finding(
                "registration",
                "unverified",
                f"{REGISTRATION} is in no commit: nothing shows that it came before the data",
                remedy=f"git add {case.shown(case.folder)} && git commit -m 'Register the study'",
            )
        return
    first = timeline.commit(origin.first)
    if origin.registration is None:
        yield Finding(
            "registration",
            "violation",
            f"{REGISTRATION} as first committed, in {first.id[:12]}, is no registration that holds together",
            remedy=f"git show {first.id[:12]}",
            commits=(first.id,),
        )
        return
    found = [*_rewritten(case, origin, timeline), *_gone(case, origin, timeline)]
    yield from found
    yield from _elsewhere(case, origin.registration.root, timeline)
    if not any(finding.status == "violation" for finding in found):
        yield Finding(
            "registration",
            "verified",
            f"{REGISTRATION} {origin.registration.root[:16]} is as first committed, in {first.id[:12]}",
            commits=(first.id,),
        )
    yield from _dates(origin.registration, first, timeline)


def _elsewhere(case: Case, root: str, timeline: Timeline) -> Iterator[Finding]:
    """Look for another registration of this study on branches and tags that this history doesn't hold.

    Integrity: "edited, frozen again, date set back", on a history that was put in the place of the old one.
    """
    place = case.place(case.folder)
    if place is None:
        return
    path = f"{place}/{REGISTRATION}".removeprefix("./")
    for commit, blob in timeline.repository.elsewhere(path):
        try:
            other = parse(Registration, decode_json(timeline.repository.read(blob), path), path).root
        except PreregError:
            other = "unreadable"
        if other != root:
            yield Finding(
                "registration",
                "unverified",
                f"commit {commit[:12]}, on another branch or tag, holds another registration of this study, "
                f"{other[:16]}: which came first can't be shown",
                remedy=f"git log --all -- {path}",
                commits=(commit,),
            )


def _present(case: Case) -> Iterator[Finding]:
    present = case.present
    if isinstance(present, RegistrationError):
        yield Finding("registration", "violation", present.message, remedy=present.remedy)
    elif isinstance(present, Chain):
        yield Finding(
            "registration",
            "verified",
            f"{REGISTRATION} holds together: its root {present.registration.root[:16]} is the digest of what it says",
        )
    elif case.origin is None or case.origin.first is None:
        yield Finding(
            "registration",
            "unverified",
            "the study is not registered: no freeze is on record",
            remedy=f"prereg freeze {case.shown(case.folder)}",
        )


def _rewritten(case: Case, origin: Origin, timeline: Timeline) -> Iterator[Finding]:
    """Name each commit that holds another registration than the first.

    Integrity: "edited, frozen again, date set back".
    """
    original = origin.registration.root if origin.registration is not None else None
    last: str | None = original
    for at, root in enumerate(origin.roots):
        before = [origin.roots[parent] for parent in timeline.parents(at)]
        if root in (None, original) or root in before:
            continue
        commit = timeline.commit(at)
        what = "a file that is no registration" if root == "?" else f"another registration, {short(root)}"
        decided = timeline.commit(origin.first or 0).id[:12]
        yield Finding(
            "registration",
            "violation",
            f"frozen again in {commit.id[:12]}: {what}; the first, {short(original)}, is the one that counts",
            remedy=f"git checkout {decided} -- {case.shown(case.folder / REGISTRATION)}",
            commits=(commit.id,),
        )
        last = root
    present = case.present
    if isinstance(present, Chain) and present.registration.root not in (original, last):
        yield Finding(
            "registration",
            "violation",
            f"frozen again and not committed: {short(present.registration.root)}; "
            f"the first, {short(original)}, is the one that counts",
            remedy=f"git checkout -- {case.shown(case.folder / REGISTRATION)}",
        )


def _gone(case: Case, origin: Origin, timeline: Timeline) -> Iterator[Finding]:
    """Say where the registration was removed, or came by several ways.

    Integrity: "nothing is ever overwritten".
    """
    if case.present is None:
        where = [timeline.commit(at) for at in origin.removed]
        yield Finding(
            "registration",
            "violation",
            f"{REGISTRATION} was committed and is gone"
            + (f", removed in {', '.join(c.id[:12] for c in where[:5])}" if where else ""),
            remedy=f"git checkout {timeline.commit(origin.first or 0).id[:12]} -- "
            f"{case.shown(case.folder / REGISTRATION)}",
            commits=tuple(c.id for c in where),
        )
    elif origin.removed:
        where = [timeline.commit(at) for at in origin.removed]
        yield Finding(
            "registration",
            "note",
            f"{REGISTRATION} was removed in {', '.join(c.id[:12] for c in where[:5])} and put back; "
            "the first commit that carries it decides",
            commits=tuple(c.id for c in where),
        )
    branches = timeline.first(origin.introduced)
    if len(branches) > 1:
        where = [timeline.commit(at) for at in branches]
        yield Finding(
            "registration",
            "note",
            f"{REGISTRATION} came on {len(where)} branches: {', '.join(c.id[:12] for c in where[:5])}",
            commits=tuple(c.id for c in where),
        )


def _dates(registration: Registration, first: Commit, timeline: Timeline) -> Iterator[Finding]:
    """Show the claimed date beside the commit's; neither proves anything.

    Integrity: "several call a rewritten history 'OK, frozen 2020'".
    """
    claimed = datetime.fromisoformat(registration.date)
    committed = first.committed_at.astimezone(UTC)
    words = f"it says {claimed:%Y-%m-%d}, its commit {committed:%Y-%m-%d}"
    far = abs(claimed - committed) > FAR_APART
    yield Finding(
        "registration",
        "note",
        f"{'dates far apart: ' if far else ''}{words}; {VOUCHED}",
        commits=(first.id,),
    )
    back = timeline.repository.backdated()
    if back:
        yield Finding(
            "registration",
            "note",
            f"{len(back)} commits are dated before their parents: {', '.join(c.id[:12] for c in back[:5])}; {VOUCHED}",
            commits=tuple(c.id for c in back[:20]),
        )
