"""The attempts log: whole, nothing removed from it, and every verdict in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from prereg.audit.case import Case
from prereg.audit.counting import check_counts
from prereg.audit.findings import Finding, short
from prereg.audit.results import Result, digest_or_none, roots_in, verdict_rows_in
from prereg.errors import PreregError, RegistrationError
from prereg.registration.attempts import ATTEMPTS, Attempt, read_attempt
from prereg.registration.records import decode_json, parse
from prereg.registration.witness import read_bounded

__all__ = ["check_attempts"]

MAX_REPORT = 8_000_000


def check_attempts(case: Case) -> Iterator[Finding]:
    """Check the log against itself, against the history and against the verdicts.

    Integrity: "fail, fail, pass: every attempt stands in the attempts log", "an attempt deleted from the log".
    """
    state = case.attempts
    if state.faults:
        yield Finding(
            "attempts",
            "violation",
            f"the attempts log is damaged: {state.faults[0]}",
            state.faults,
            remedy=f"git log --stat -- {case.shown(case.folder / ATTEMPTS)}",
        )
    removed = list(_removed(case))
    yield from removed
    yield from _elsewhere(case)
    intact = not any(finding.status == "violation" for finding in removed)
    if state.entries and not state.faults and intact:
        yield Finding(
            "attempts",
            "verified",
            f"the log's {len(state.entries)} entries hold together; none was removed or edited",
        )
    elif not state.entries and not state.faults and intact and case.chain is not None:
        yield Finding("attempts", "note", "no attempt is on record")
    yield from _earlier(case)
    yield from _answered(case)
    yield from check_counts(case)


def _removed(case: Case) -> Iterator[Finding]:
    """Name attempts that a commit held and that are gone or changed.

    Integrity: "an attempt deleted from the log: reported". The log alone can't show that its newest entries went.
    """
    timeline, place = case.timeline, case.place(case.folder / ATTEMPTS)
    if timeline is None or place is None:
        return
    listings = timeline.repository.listings(place)
    here = {entry.file_name for entry in case.attempts.entries}
    held = {result.path.rpartition("/")[2] for result in case.results if result.kind == "attempt"}
    lost: dict[str, int | None] = dict.fromkeys(held - here)
    for at, listing in enumerate(listings):
        for parent in timeline.parents(at):
            if listing is listings[parent]:
                continue
            for name in listings[parent]:
                if name in held and name not in listing:
                    lost.setdefault(name, at)
                    lost[name] = at if lost[name] is None else lost[name]
    for name, where in sorted(lost.items()):
        commits = () if where is None else (timeline.commit(where).id,)
        how = f"removed in {commits[0][:12]}" if commits else "is no longer there, or was edited"
        back = name in here
        yield Finding(
            "attempts",
            "note" if back else "violation",
            f"attempt {name[:12]} was committed, and {how}{' and put back' if back else ''}",
            remedy=f"git log --stat -- {case.shown(case.folder / ATTEMPTS / name)}",
            commits=commits,
        )


def _elsewhere(case: Case) -> Iterator[Finding]:
    """Name attempts under this registration that lie on other branches or tags, and not here.

    Integrity: "fail, fail, pass", where the failures were left on another branch.
    """
    place = case.place(case.folder / ATTEMPTS)
    if case.timeline is None or case.chain is None or place is None:
        return
    here = {entry.file_name for entry in case.attempts.entries}
    repository = case.timeline.repository
    for commit, path, blob in repository.files_elsewhere(place):
        name = path.rpartition("/")[2]
        if name in here:
            continue
        try:
            entry = read_attempt(repository.read(blob), name)
        except (PreregError, ValueError):
            continue
        if entry.registration in case.chain.roots:
            yield Finding(
                "attempts",
                "unverified",
                f"attempt {name[:12]} under this registration lies in commit {commit[:12]}, on another branch or tag, "
                "and not here",
                (_words(entry),),
                remedy=f"git merge {commit[:12]}, or git checkout {commit[:12]} -- {path}",
                commits=(commit,),
            )


def _earlier(case: Case) -> Iterator[Finding]:
    """Show the attempts made before the freeze, or outside of the registration.

    Integrity: "fail, fail, pass", where the failures came before the freeze.
    """
    if case.chain is None:
        return
    outside = [entry for entry in case.attempts.entries if entry.registration not in case.chain.roots]
    if outside:
        yield Finding(
            "attempts",
            "note",
            f"{len(outside)} attempts were made before the freeze, or outside the registration",
            tuple(_words(entry) for entry in outside),
        )


def _answered(case: Case) -> Iterator[Finding]:
    """Name verdicts whose data no attempt names.

    Integrity: "fail, fail, pass: every attempt stands in the attempts log with the data's digest".
    """
    logged = {(e.model, name, data) for e in _known_entries(case) for name, data in e.data.items()}
    roots = set(() if case.chain is None else case.chain.roots)
    total, missing = 0, dict[str, str]()
    for where, content, carried in _documents(case):
        if not carried & roots:
            continue  # answered outside the registration, perhaps before there was a log
        for model, name, data in _data(content):
            total += 1
            if (model, name, data) not in logged:
                missing.setdefault(f"{model}: {name} on {short(data)}", where)
    if missing:
        yield Finding(
            "attempts",
            "violation",
            f"{len(missing)} verdicts were given without an attempt in the log",
            tuple(f"{what}: {where}" for what, where in sorted(missing.items())),
            remedy=f"prereg verdicts {case.shown(case.folder)}   # writes down what it answers; commit it",
        )
    elif total:
        yield Finding("attempts", "verified", f"every verdict on record is in the log ({total} looked up)")


def _known_entries(case: Case) -> Iterator[Attempt]:
    """Yield the entries that are there, and those that any commit held."""
    yield from case.attempts.entries
    for result in case.results:
        if result.kind == "attempt" and result.content is not None:
            with contextlib.suppress(RegistrationError):
                yield parse(Attempt, result.content, result.path)


def _documents(case: Case) -> Iterator[tuple[str, Any, frozenset[str]]]:
    """Yield every verdicts.json: as it lies, and as any commit brought it."""
    for model in case.models:
        file = model.folder / "verdicts.json"
        if model.fault is not None or not file.is_file():
            continue
        try:
            content = decode_json(read_bounded(file, MAX_REPORT), case.shown(file), limit=MAX_REPORT)
        except RegistrationError:
            continue
        yield case.shown(file), content, roots_in(content)
    for result in case.results:
        if result.kind == "verdicts" and _asked(case, result):
            commit = "" if case.timeline is None else case.timeline.commit(result.at).id[:12]
            yield f"commit {commit}, {result.path}", result.content, result.roots


def _asked(case: Case, result: Result) -> bool:
    return case.named is None or result.model in {model.folder.name for model in case.models}


def _data(content: Any) -> Iterator[tuple[str, str, str]]:
    """Yield model, hypothesis and digest of the data of each verdict in a verdicts.json."""
    for name, verdict in verdict_rows_in(content).items():
        model, evidence = verdict.get("model"), verdict.get("evidence")
        if isinstance(model, str) and isinstance(evidence, dict):
            yield model, name, digest_or_none(evidence) or "no digest"


def _words(entry: Attempt) -> str:
    answers: Sequence[str] = [f"{name} {outcome}" for name, outcome in entry.outcomes.items()]
    return f"{entry.at[:10]} {entry.model}, registration {short(entry.registration)}: {', '.join(answers)}"
