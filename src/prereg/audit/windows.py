"""Windows: stretches of the history in which something else stood than what was in force there, mended or not.

At each commit after the freeze, what lies there is compared with the registration and those amendments that the same
commit holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from prereg.audit.case import Case, inside
from prereg.audit.findings import Finding, Status, few, short
from prereg.audit.origin import Origin
from prereg.audit.timeline import Timeline
from prereg.protocol.changes import changes
from prereg.registration.chain import Chain
from prereg.registration.components import OWN, differing
from prereg.registration.history import Commit, Window
from prereg.registration.imports import PACKAGE

__all__ = ["check_windows"]

Differ = Callable[[int, Chain], tuple[str, ...]]
"""What differs at a commit from the chain in force there, in words or by name."""


def check_windows(case: Case) -> Iterator[Finding]:
    """Walk the whole history of the promise, of the gates and of the source.

    Integrity: "edit, commit, run, revert: the whole history of the protocol is walked: the window is reported and
    every result made in it is tainted".
    """
    origin, timeline, place = case.origin, case.timeline, case.place(case.folder)
    if origin is None or timeline is None or place is None or origin.registration is None:
        return
    walk = _Walk(case, origin, timeline)
    yield from _promise(walk, inside(place, "protocol.toml"))
    yield from _other_promises(case, origin, timeline)
    yield from _gates(walk, place)
    yield from _source(walk)


class _Walk:
    """The commits that are bound by the registration, and the results that they brought."""

    def __init__(self, case: Case, origin: Origin, timeline: Timeline) -> None:
        self.case, self.origin, self.timeline = case, origin, timeline
        self.results: dict[int, list[str]] = {}
        # Records before the tables that they name: a reader starts from those.
        for result in sorted(case.results, key=lambda r: (r.at, r.kind == "table", r.path)):
            self.results.setdefault(result.at, []).append(result.path)

    def windows(self, differs: Differ) -> list[tuple[Window, tuple[str, ...], tuple[str, ...]]]:
        """Return each window with what differed in it, and the results that came in it."""
        found = [() if chain is None else differs(at, chain) for at, chain in enumerate(self.origin.chains)]
        out = []
        for window in self.timeline.repository.windows([bool(words) for words in found]):
            places = [self.timeline.repository.index[commit.id] for commit in window.commits]
            words = tuple(dict.fromkeys(word for at in places for word in found[at]))
            tainted = tuple(dict.fromkeys(path for at in places for path in self.results.get(at, ())))
            out.append((window, words, tainted))
        return out

    def finding(
        self, status: Status, what: str, window: Window, words: Sequence[str], tainted: Sequence[str]
    ) -> Finding:
        """Return a window as a finding."""
        verb = "are tainted" if status == "violation" else "came in it"
        results = f"; {len(tainted)} results {verb}" if tainted else "; no result came in it"
        return Finding(
            "windows",
            status,
            f"{what} {_span(window)}{results}",
            (*few(words, 12), *(f"result: {path}" for path in few(tainted, 7))),
            remedy=f"git show {window.first.id[:12]}",
            commits=tuple(dict.fromkeys((window.first.id, window.last.id))),
        )


def _promise(walk: _Walk, file: str) -> Iterator[Finding]:
    """Compare the protocol of each commit with the promise in force there.

    Integrity: "edit, commit, run, revert".
    """
    versions, timeline = walk.timeline.repository.versions(file), walk.timeline
    timeline.load_protocols(versions)
    cached: dict[tuple[str | None, str], tuple[str, ...]] = {}

    def differs(at: int, chain: Chain) -> tuple[str, ...]:
        key = (versions[at], chain.current.root)
        if key not in cached:
            said = timeline.said(versions[at])
            if said.digest == chain.current.components.protocol:
                cached[key] = ()
            elif said.digest is None:
                cached[key] = (f"protocol.toml can't be read there: {said.fault}",)
            else:
                found = changes(chain.current.protocol, said.data)
                cached[key] = tuple(change.words for change in found) or ("it has another digest",)
        return cached[key]

    found = walk.windows(differs)
    for window, words, tainted in found:
        unreadable = all(word.startswith("protocol.toml can't be read there") for word in words)
        mended = unreadable and len(window.commits) == 1 and not window.open and not tainted
        yield walk.finding(
            "note" if mended else "violation", "the promise was another one", window, words, tainted
        )
    if not found:
        covered = sum(chain is not None for chain in walk.origin.chains)
        yield Finding(
            "windows",
            "verified",
            f"the promise is the one in force at each of {covered:,} commits since the freeze",
        )


def _other_promises(case: Case, origin: Origin, timeline: Timeline) -> Iterator[Finding]:
    """Name results made since the freeze under a promise that was never registered.

    Integrity: "edit, commit, run, revert", and the same without the commit: a result names the promise it was made
    under.
    """
    if case.chain is None or origin.first is None:
        return
    registered = {link.components.protocol for link in case.chain.links}
    registered |= {chain.current.components.protocol for chain in origin.chains if chain is not None}
    after = timeline.after(origin.first)
    old = {result.blob for result in case.results if result.at != origin.first and not after[result.at]}
    late = [r for r in case.results if (r.at == origin.first or after[r.at]) and r.blob not in old]
    found = [(r.path, r.protocol, timeline.commit(r.at).id) for r in late if r.protocol is not None]
    logged = {result.path.rpartition("/")[2] for result in case.results if result.kind == "attempt"}
    found += [
        (f"attempts/{entry.file_name}", entry.protocol, "")
        for entry in case.attempts.entries
        if entry.file_name not in logged
    ]
    other = [(path, digest, commit) for path, digest, commit in found if digest not in registered]
    if other:
        yield Finding(
            "windows",
            "violation",
            f"{len(other)} results were made since the freeze under a promise that was never registered; in force is "
            f"{short(case.chain.current.components.protocol)}",
            tuple(f"{path}: under {short(digest)}" for path, digest, _ in other),
            remedy="none: it stands for good. Say what was tried and why in the paper, and in an amendment with "
            "--known full if that promise is to be kept",
            commits=tuple(dict.fromkeys(commit for _, _, commit in other if commit)),
        )
    elif found:
        yield Finding("windows", "verified", "every result since the freeze names a registered promise")


def _gates(walk: _Walk, place: str) -> Iterator[Finding]:
    """Compare the gate files and the conftest files above them.

    Integrity: "gate body changed (`return 1.0`, `assert True`, a patched fixture): unverified, names the file".
    """
    case, timeline = walk.case, walk.timeline
    root, folder = case.options.root.resolve(), case.folder.resolve()
    listings = timeline.repository.listings(place)
    above = {
        (parent / "conftest.py").relative_to(root).as_posix(): case.place(parent / "conftest.py")
        for parent in folder.parents
        if parent.is_relative_to(root)
    }
    conftests = {name: timeline.repository.versions(path) for name, path in above.items() if path is not None}
    prefix = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name

    def held(at: int) -> tuple[str | None, ...]:
        return tuple(versions[at] for versions in conftests.values())

    def at_commit(at: int) -> dict[str, str]:
        inside_it = {f"{prefix}/{n}": b for n, b in listings[at].items() if n.endswith(".py")}
        return inside_it | {n: b for n, b in zip(conftests, held(at), strict=True) if b is not None}

    unseen = {name for name, path in above.items() if path is None}
    differs = _texts(
        timeline,
        lambda at: (id(listings[at]), held(at)),
        at_commit,
        lambda chain: _without(chain.current.components.gates, unseen),
    )
    found = walk.windows(differs)
    for window, words, tainted in found:
        yield walk.finding("unverified", "gates were not the registered ones", window, words, tainted)
    if not found:
        yield Finding(
            "windows", "verified", "the gates are the registered ones at each commit since the freeze"
        )


def _source(walk: _Walk) -> Iterator[Finding]:
    """Compare the package's own source, where it lies in the same repository.

    Integrity: "analysis source changed: source digest differs: unverified, names the file".
    """
    place = walk.case.place(PACKAGE)
    if place is None:
        return
    listings = walk.timeline.repository.listings(place)
    if not any(listings):
        return

    def wanted(chain: Chain) -> Mapping[str, str]:
        # What somebody's own analysis rests on is no file; the one beside the gates is among these.
        code = chain.current.components.code
        return {name: digest for name, digest in code.items() if not name.startswith(OWN)}

    names = {name for chain in walk.origin.chains if chain is not None for name in wanted(chain)}

    def at_commit(at: int) -> Mapping[str, str]:
        return {name: blob for n, blob in listings[at].items() if (name := f"prereg/{n}") in names}

    differs = _texts(walk.timeline, lambda at: id(listings[at]), at_commit, wanted)
    found = walk.windows(differs)
    graver = 0
    for window, _, _ in found:
        brought = [c for c in window.commits if walk.results.get(walk.timeline.repository.index[c.id])]
        if brought:
            graver += 1
            yield _with_results(walk, window, brought, differs)
    if len(found) > graver:
        count = sum(len(window.commits) for window, _, _ in found)
        yield Finding(
            "windows", "note", f"the analysis source was another one at {count} commits; results came in none"
            if not graver else f"the analysis source was another one at {count} commits in all"
        )  # fmt: skip
    if not found:
        yield Finding("windows", "verified", "the analysis source is the registered one since the freeze")


def _with_results(walk: _Walk, window: Window, brought: Sequence[Commit], differs: Differ) -> Finding:
    index = walk.timeline.repository.index
    places = [index[commit.id] for commit in brought]
    words = [
        word
        for at in places
        for chain in (walk.origin.chains[at],)
        if chain is not None
        for word in differs(at, chain)
    ]
    tainted = [path for at in places for path in walk.results[at]]
    return walk.finding(
        "unverified",
        "the analysis source was not the registered one",
        window,
        tuple(dict.fromkeys(words)),
        tuple(dict.fromkeys(tainted)),
    )


def _texts(
    timeline: Timeline,
    key: Callable[[int], Hashable],
    at_commit: Callable[[int], Mapping[str, str]],
    wanted: Callable[[Chain], Mapping[str, str]],
) -> Differ:
    """Return a comparison of text files by digest; commits of one key hold the same files."""
    cached: dict[tuple[Hashable, str], tuple[str, ...]] = {}

    def differs(at: int, chain: Chain) -> tuple[str, ...]:
        which = (key(at), chain.current.root)
        if which not in cached:
            files = at_commit(at)
            digests = timeline.text_digests(files.values())
            cached[which] = differing(wanted(chain), {name: digests[blob] for name, blob in files.items()})
        return cached[which]

    return differs


def _without(names: Mapping[str, str], left_out: set[str]) -> Mapping[str, str]:
    return {name: digest for name, digest in names.items() if name not in left_out}


def _span(window: Window) -> str:
    first, last = window.first.id[:12], window.last.id[:12]
    if window.open:
        return f"from {first} until now"
    return f"in {first}" if first == last else f"from {first} to {last} ({len(window.commits)} commits)"
