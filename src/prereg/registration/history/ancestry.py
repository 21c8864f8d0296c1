"""Which commit came before which: a matter of parents, never of dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.commits import Commit

__all__ = ["Ancestry", "Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of history in which something was wrong.

    Parameters
    ----------
    first, last
        Its first and last commit, parents before children.
    commits
        All of them: a maximal connected piece of the ancestry.
    open
        Whether HEAD is in it.
    """

    first: Commit
    last: Commit
    commits: tuple[Commit, ...]
    open: bool


class Ancestry:
    """Commits in an order that puts parents first, and the questions about that order.

    Parameters
    ----------
    commits
        Parents before children; the last one is HEAD. Parents that are not among them are passed over.
    """

    def __init__(self, commits: tuple[Commit, ...]) -> None:
        self.commits = commits
        self.index = {commit.id: at for at, commit in enumerate(commits)}
        self.parents = tuple(
            tuple(self.index[parent] for parent in commit.parents if parent in self.index)
            for commit in commits
        )
        # A pass over the history answers for all descendants of one commit; audits ask of few.
        self._descendants = lru_cache(maxsize=256)(self._mark_descendants)

    def position(self, commit: str) -> int:
        """Return where a commit stands.

        Raises
        ------
        RegistrationError
            If HEAD's history doesn't hold it.
        """
        at = self.index.get(commit)
        if at is None:
            raise RegistrationError(
                f"commit {printable(commit)} is not in the history of HEAD",
                remedy="give a full id that git rev-list HEAD lists",
            )
        return at

    def is_ancestor(self, first: str, then: str, *, strict: bool = False) -> bool:
        """Whether one commit is another's ancestor; a commit is its own, unless `strict`."""
        start, end = self.position(first), self.position(then)
        if start >= end:
            return start == end and not strict
        return bool(self._descendants(start)[end - start])

    def _mark_descendants(self, start: int) -> bytes:
        reached = bytearray(len(self.commits) - start)
        reached[0] = 1
        for at in range(start + 1, len(self.commits)):
            for parent in self.parents[at]:
                if parent >= start and reached[parent - start]:
                    reached[at - start] = 1
                    break
        return bytes(reached)

    def introductions(self, present: Sequence[bool]) -> tuple[Commit, ...]:
        """Return the commits in which something is present though no parent has it."""
        self._require_aligned(present)
        return tuple(
            self.commits[at]
            for at, parents in enumerate(self.parents)
            if present[at] and not any(present[parent] for parent in parents)
        )

    def windows(self, bad: Sequence[bool]) -> tuple[Window, ...]:
        """Return the maximal connected pieces of the ancestry in which every commit is bad, in order."""
        self._require_aligned(bad)
        root = list(range(len(bad)))

        def find(at: int) -> int:
            while root[at] != at:
                root[at] = root[root[at]]
                at = root[at]
            return at

        for at, parents in enumerate(self.parents):
            if bad[at]:
                for parent in parents:
                    if bad[parent]:
                        one, other = find(at), find(parent)
                        root[max(one, other)] = min(one, other)
        pieces: dict[int, list[int]] = {}
        for at, wrong in enumerate(bad):
            if wrong:
                pieces.setdefault(find(at), []).append(at)
        return tuple(self._window(piece) for piece in pieces.values())

    def _window(self, piece: list[int]) -> Window:
        commits = tuple(self.commits[at] for at in piece)
        return Window(commits[0], commits[-1], commits, open=piece[-1] == len(self.commits) - 1)

    def backdated(self) -> tuple[Commit, ...]:
        """Return the commits that claim to have been made before one of their parents."""
        return tuple(
            commit
            for commit, parents in zip(self.commits, self.parents, strict=True)
            if any(commit.committed_at < self.commits[parent].committed_at for parent in parents)
        )

    def _require_aligned(self, flags: Sequence[bool]) -> None:
        if len(flags) != len(self.commits):
            raise RegistrationError(
                f"{len(flags)} flags for {len(self.commits)} commits", remedy="give one flag for each commit"
            )
