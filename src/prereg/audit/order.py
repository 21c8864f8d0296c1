"""Order: the registration before the results, by the history's own links and by nobody's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from prereg.audit.case import Case
from prereg.audit.findings import Finding, short
from prereg.audit.moved import lay_elsewhere
from prereg.audit.origin import Origin
from prereg.audit.results import Result
from prereg.audit.timeline import Timeline
from prereg.registration.records import Registration
from prereg.registration.seen import result_models

__all__ = ["admitted", "check_order", "earlier_models"]

Place = Literal["after", "same", "before", "beside"]


@dataclass(frozen=True, slots=True)
class _Placed:
    result: Result
    root: str
    place: Place


def check_order(case: Case) -> Iterator[Finding]:
    """Place each result before or after the registration whose root it carries.

    Integrity: "evidence or activations captured before the freeze", "squash merge".
    """
    origin, timeline = case.origin, case.timeline
    if origin is None or timeline is None or origin.first is None or origin.registration is None:
        if case.chain is not None:
            yield Finding(
                "order", "unverified", "no commit carries the registration, so none shows that it came first"
            )
        return
    links = {root: link.places for root, link in origin.links.items()}
    first, root = origin.first, origin.registration.root
    placed = [p for result in case.results for p in _places(result, links, timeline)]
    earlier = earlier_models(case, timeline, first)
    if earlier or any(p.place != "after" for p in placed):
        moved = _moved(case, timeline, root)
        if moved:
            yield _renamed(moved, timeline)
            links[root] = tuple(sorted({*links[root], *moved}))
            first = min(first, *moved)
            placed = [p for result in case.results for p in _places(result, links, timeline)]
            earlier = earlier_models(case, timeline, first)
    yield from _carried(placed, origin, timeline)
    yield from _foreign(case.results, case, timeline)
    yield from _earlier(case, origin.registration, earlier, timeline.commit(first).id)
    if not placed:
        yield Finding("order", "note", "no result that carries this registration was committed yet")


def earlier_models(case: Case, timeline: Timeline, first: int) -> dict[str, Place]:
    """Return the models with results that don't come after the registration, and where these lie.

    ``before``: an ancestor of the registration's first commit holds them, so that its author had them. ``same``:
    they appear in that commit, and carry no registration. ``beside``: they lie on a branch beside it.
    """
    after, before = timeline.after(first), timeline.before(first)
    found: dict[str, Place] = {}

    def add(model: str, at: int) -> None:
        where: Place = "before" if before[at] else "same" if at == first else "beside"
        found[model] = min(found.get(model, where), where, key=("before", "same", "beside").index)

    place = case.place(case.reports)
    listings = () if place is None else timeline.repository.listings(place)
    names: dict[int, set[str]] = {}
    for at, listing in enumerate(listings):
        if at != first and not after[at]:
            for model in names.setdefault(id(listing), result_models(listing)):
                add(model, at)
    for result in case.results:
        together = result.at == first and result.kind != "table" and not result.roots
        if together or (result.kind == "attempt" and result.at != first and not after[result.at]):
            add(result.model, result.at)
    return found


def admitted(registration: Registration, model: str) -> bool:
    """Tell whether a registration says that results on a model were known."""
    return registration.known != "none" and model in registration.seen


def _moved(case: Case, timeline: Timeline, root: str) -> dict[int, str]:
    place = case.place(case.folder)
    return {} if place is None else lay_elsewhere(timeline, place, root)


def _renamed(moved: Mapping[int, str], timeline: Timeline) -> Finding:
    """Say where the registration lay before its folder was renamed."""
    first = min(moved)
    commit = timeline.commit(first).id
    return Finding(
        "order",
        "note",
        f"the same registration lay at {moved[first]} from {commit[:12]}; its folder was renamed since",
        commits=(commit,),
    )


def _places(result: Result, links: Mapping[str, Sequence[int]], timeline: Timeline) -> Iterator[_Placed]:
    for root in sorted(result.roots & links.keys()):
        places = links[root]
        if any(timeline.after(place)[result.at] for place in places):
            yield _Placed(result, root, "after")
        elif result.at in places:
            yield _Placed(result, root, "same")
        elif any(timeline.before(place)[result.at] for place in places):
            yield _Placed(result, root, "before")
        else:
            yield _Placed(result, root, "beside")


def _carried(placed: Sequence[_Placed], origin: Origin, timeline: Timeline) -> Iterator[Finding]:
    """Judge the results that carry a root of the chain."""
    for root in origin.links:
        mine = [p for p in placed if p.root == root]
        after = [p.result for p in mine if p.place == "after"]
        if after:
            where = ", ".join(timeline.commit(at).id[:12] for at in origin.links[root].places[:3])
            yield Finding(
                "order",
                "verified",
                f"{len(after)} results that carry {short(root)} were all committed after it, which came in {where}",
                commits=tuple(timeline.commit(at).id for at in origin.links[root].places),
            )
        yield from _same([p.result for p in mine if p.place == "same"], root, timeline)
        yield from _named(
            [p.result for p in mine if p.place == "before"],
            "violation",
            f"results that carry {short(root)} were committed before that registration was",
            timeline,
        )
        yield from _named(
            [p.result for p in mine if p.place == "beside"],
            "unverified",
            f"results that carry {short(root)} come from a branch that did not hold it: no order is shown",
            timeline,
        )


def _same(results: Sequence[Result], root: str, timeline: Timeline) -> Iterator[Finding]:
    """Report a squash.

    Integrity: "squash merge: unverified with the reason and the command that would settle it".
    """
    # In a clone that ends before the history does, its first commit holds everything: that is no squash.
    hidden = timeline.repository.obstacles()
    why = "this clone doesn't show" if hidden else "a squash hides"
    remedy = "merge the branch that was squashed, with its commits: git fetch, git merge --no-ff"
    for at in dict.fromkeys(result.at for result in results):
        commit = timeline.commit(at)
        yield Finding(
            "order",
            "unverified",
            f"registration {short(root)} and results first appear together in {commit.id[:12]}: {why} "
            "which came first",
            tuple(result.path for result in results if result.at == at),
            remedy=hidden[0].remedy if hidden else remedy,
            commits=(commit.id,),
        )


def _named(
    results: Sequence[Result], status: Literal["violation", "unverified"], words: str, timeline: Timeline
) -> Iterator[Finding]:
    if results:
        commits = list(dict.fromkeys(timeline.commit(result.at).id for result in results))
        yield Finding(
            "order",
            status,
            f"{words}: in {', '.join(c[:12] for c in commits[:5])}",
            tuple(dict.fromkeys(result.path for result in results)),
            remedy=f"git show {commits[0][:12]}",
            commits=tuple(commits),
        )


def _foreign(results: Iterable[Result], case: Case, timeline: Timeline) -> Iterator[Finding]:
    """Name roots that results carry and the chain doesn't hold.

    Integrity: "evidence captured under another freeze: unverified, names both digests".
    """
    known = set(() if case.origin is None else case.origin.links)
    known |= set(() if case.chain is None else case.chain.roots)
    in_force = "none" if case.chain is None else short(case.chain.current.root)
    by_root: dict[str, list[Result]] = {}
    for result in results:
        for root in result.roots - known:
            by_root.setdefault(root, []).append(result)
    for root, found in sorted(by_root.items()):
        commits = tuple(dict.fromkeys(timeline.commit(result.at).id for result in found))
        yield Finding(
            "order",
            "unverified",
            f"results carry {short(root)}, which is no link of this registration; in force is {in_force}",
            tuple(dict.fromkeys(result.path for result in found)),
            remedy=f"git show {commits[0][:12]}   # if they don't answer this study, remove them",
            commits=commits,
        )


def _earlier(
    case: Case, registration: Registration, found: Mapping[str, Place], first: str
) -> Iterator[Finding]:
    """Compare results that were on record at the freeze with what the registration says was known.

    Integrity: "what was known at the time (no data / pilot / full data)".
    """
    said = sorted(model for model in found if admitted(registration, model))
    if said:
        yield Finding(
            "order",
            "note",
            f"results on {', '.join(said)} were on record at the freeze: verdicts on them are not predictions",
            (f"known: {registration.known}; {registration.statement or 'no statement'}",),
            commits=(first,),
        )
    silent = {model: place for model, place in found.items() if not admitted(registration, model)}
    hidden = sorted(model for model, place in silent.items() if place == "before")
    if hidden:
        yield Finding(
            "order",
            "violation",
            f"results on {', '.join(hidden)} were committed before the freeze, which does not say so "
            f"(known: {registration.known})",
            remedy=f"git log --stat {first[:12]} -- {case.shown(case.reports)}",
            commits=(first,),
        )
    unclear = sorted(set(silent) - set(hidden))
    if unclear:
        yield Finding(
            "order",
            "unverified",
            f"results on {', '.join(unclear)} that carry no registration come in its first commit, {first[:12]}, "
            "or from a branch that did not hold it: no order is shown",
            remedy=f"git log --graph --stat -- {case.shown(case.reports)}",
            commits=(first,),
        )
    if registration.known == "none" and registration.seen:
        yield Finding(
            "order",
            "violation",
            f"the registration says that nothing was known, and that it saw results on "
            f"{', '.join(registration.seen)}",
            commits=(first,),
        )
    if not found:
        yield Finding(
            "order",
            "verified",
            f"no result lies in any commit before the registration's first, {first[:12]}",
            commits=(first,),
        )
