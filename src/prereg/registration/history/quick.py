"""What a warm run asks of git before it answers: some milliseconds, not the whole walk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prereg.registration.history.git import Git
from prereg.registration.history.obstacles import Obstacle
from prereg.registration.history.trees import is_file, version_of

__all__ = ["Quick", "look", "mentions", "taken_away"]


@dataclass(frozen=True, slots=True)
class Quick:
    """How a registration lies in git, at a glance.

    Parameters
    ----------
    first
        The first commit that holds the file; None if none does.
    versions
        Each content that any commit holds of the file, as git names it, the first one first.
    uncommitted
        Paths in the file's folder that aren't as HEAD has them, sorted.
    obstacle
        What keeps the first commit from being known for sure, where a glance shows it.
    """

    first: str | None
    versions: tuple[str, ...]
    uncommitted: tuple[str, ...]
    obstacle: Obstacle | None

    @property
    def rewritten(self) -> bool:
        """Whether some commit holds the file with other content than the first."""
        return len(self.versions) > 1

    @property
    def clean(self) -> bool:
        """Whether everything in the folder is as HEAD has it."""
        return not self.uncommitted


def look(git: Git, head: str, path: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the first commit that holds a file, and each content that any commit holds of it, in their order.

    Git lists the commits in which the file differs from what each parent has, merges included; a merge that takes
    one parent's file decides nothing. The first of them that holds the file introduced it.
    """
    listed = git.run("rev-list", "--topo-order", "--reverse", "--full-history", head, "--", path)
    first: str | None = None
    versions: dict[str, None] = {}
    for commit, version in _decided(git, listed.decode("ascii", "replace").split(), path):
        if first is None and not is_file(version):
            continue  # a link or a folder of that name: the file is yet to come
        first = first or commit
        versions[version] = None
    return first, tuple(versions)


def mentions(git: Git, commit: str, text: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the files below `paths` that hold a piece of text, as one commit has them."""
    code, out, _ = git.attempt("grep", "-l", "-z", "-F", "-e", text, commit, "--", *paths)
    if code != 0:
        return ()
    return tuple(os.fsdecode(name).removeprefix(f"{commit}:") for name in out.split(b"\0") if name)


def taken_away(git: Git, head: str, folders: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield commit, path and the version before, wherever a file in `folders` was removed or changed.

    Merges are compared with each parent, so that one which drops a branch's files is seen.
    """
    listed = git.run("rev-list", "--topo-order", "--reverse", "--full-history", head, "--", *folders)
    commits = listed.decode("ascii", "replace").split()
    if not commits:
        return
    options = ("-m", "-z", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=DMT", "-r")
    with git.piped("diff-tree", "--stdin", *options, "--", *folders, lines=commits) as out:
        tokens = iter(out.read().split(b"\0"))
    commit = ""
    for token in tokens:
        if not token.startswith(b":"):
            commit = token.strip().decode("ascii", "replace") or commit
            continue
        mode, _, digest, _, _ = token.removeprefix(b":").split(b" ")
        yield commit, os.fsdecode(next(tokens, b"")), version_of(mode, digest.decode())


def _decided(git: Git, commits: list[str], path: str) -> Iterator[tuple[str, str]]:
    """Yield commit and version wherever something stands at the path."""
    if not commits:
        return
    options = ("-m", "--root", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
    with git.piped("diff-tree", "--stdin", *options, "-r", "-t", "--", path, lines=commits) as out:
        tokens = iter(out.read().split(b"\0"))
    commit = ""
    for token in tokens:
        if not token.startswith(b":"):
            commit = token.strip().decode("ascii", "replace") or commit
            continue
        _, mode, _, digest, status = token.split(b" ")
        named = os.fsdecode(next(tokens, b""))
        if named == path and status != b"D":
            yield commit, version_of(mode, digest.decode())
