"""Whether the history can be seen at all, and whether it holds what lies in the working tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prereg.audit.case import Case
from prereg.audit.findings import Finding
from prereg.audit.results import is_result
from prereg.audit.timeline import Timeline
from prereg.registration.attempts import ATTEMPTS

__all__ = ["check_repository"]


def check_repository(case: Case) -> Iterator[Finding]:
    """Say what of the history can't be seen.

    Integrity: "shallow clone, squash merge, detached head, no git at all".
    """
    timeline = case.opened
    if not isinstance(timeline, Timeline):
        yield Finding("repository", "unverified", timeline.message, remedy=timeline.remedy)
        return
    obstacles = timeline.repository.obstacles()
    for obstacle in obstacles:
        yield Finding("repository", "unverified", obstacle.reason, remedy=obstacle.remedy)
    if not obstacles:
        head = timeline.repository.head
        yield Finding(
            "repository",
            "verified",
            f"the whole history can be seen: {len(timeline.commits):,} commits up to {head[:12]}",
            commits=(head,),
        )
    yield from _committed(case, timeline)


def _committed(case: Case, timeline: Timeline) -> Iterator[Finding]:
    """Name the study's files that aren't as HEAD has them.

    Integrity: "threshold edited after the freeze", before anybody commits it.
    """
    wanted = _paths(case)
    places = {path: case.place(path) for path in wanted}
    outside = [case.shown(path) for path, place in places.items() if place is None]
    if outside:
        yield Finding(
            "repository",
            "unverified",
            f"outside the repository, so that no commit shows when it came: {', '.join(outside)}",
            remedy="keep the study, its facts and its reports in one repository",
        )
    inside = [place for place in places.values() if place is not None]
    changed = timeline.repository.status(inside)
    if changed:
        yield Finding(
            "repository",
            "unverified",
            f"{len(changed)} of the study's files are not as HEAD has them",
            tuple(f"{change.path}: {change.kind}" for change in changed),
            remedy=f"git status -- {' '.join(inside)}; then git add and git commit, or git checkout --",
        )
    unknown = _never_committed(case, timeline) - {change.path for change in changed}
    if unknown:
        yield Finding(
            "repository",
            "unverified",
            f"{len(unknown)} results lie in no commit, and git ignores them: nothing shows when they came",
            tuple(sorted(unknown)),
            remedy=f"git add --force -- {' '.join(inside)}, and git commit",
        )
    if inside and not changed and not unknown:
        yield Finding("repository", "verified", f"committed as they lie: {', '.join(inside)}")


def _never_committed(case: Case, timeline: Timeline) -> set[str]:
    """Return the results in the working tree that HEAD doesn't hold, ignored by git or not.

    Integrity: "evidence captured before the freeze", which no commit would show.
    """
    reports, log = case.place(case.reports), case.place(case.folder / ATTEMPTS)
    found = set()
    if reports is not None:
        held = timeline.repository.listings(reports)[timeline.head]
        for model in case.models:
            files = () if model.fault is not None else model.folder.rglob("*")
            names = {file.relative_to(case.reports).as_posix() for file in files if file.is_file()}
            found |= {f"{reports}/{name}" for name in names if name not in held and is_result(name)}
    if log is not None:
        held = timeline.repository.listings(log)[timeline.head]
        found |= {
            f"{log}/{entry.file_name}" for entry in case.attempts.entries if entry.file_name not in held
        }
    return found


def _paths(case: Case) -> list[Path]:
    """Return what must be committed: the study, its reports, its facts, the conftest files above it."""
    root = case.options.root
    found = [case.folder]
    above = [p / "conftest.py" for p in case.folder.resolve().parents if p.is_relative_to(root.resolve())]
    found += [file for file in above if file.is_symlink() or file.exists()]
    if case.reports.is_dir():
        found.append(case.reports)
    if case.protocol_file is not None:
        facts = case.protocol_file.protocol.facts
        files = [root / path for path in (facts.path, *(world.path for world in facts.worlds))]
        found += [file for file in files if file.exists()]
    return found
