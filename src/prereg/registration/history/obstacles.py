"""What keeps the whole history from being seen, or makes others see another one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.git import Git

__all__ = ["SHALLOW", "Obstacle", "find_obstacles"]

_READ = 1_000_000
"""Bytes read of a file in which git lists grafts or alternates."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the history at hand can't be taken for the whole of it.

    Parameters
    ----------
    reason
        What was found.
    remedy
        The command that would settle it.
    """

    reason: str
    remedy: str


SHALLOW = Obstacle(
    "this clone is shallow: it ends before the history does", "git fetch --unshallow, and run this again"
)


def find_obstacles(git: Git, shared: Path, head: str, *, shallow: bool) -> Iterator[Obstacle]:
    """Yield what stands in the way, from git's configuration, its references and its files.

    Parameters
    ----------
    git
        Git in the repository.
    shared
        The repository's folder that all its worktrees share (the "common directory").
    head
        The commit that HEAD names.
    shallow
        Whether git says that the clone is shallow.
    """
    if shallow:
        yield SHALLOW
    replaced = git.run("for-each-ref", "--count=1", "--format=%(refname)", "refs/replace")
    if replaced.strip():
        name = printable(replaced).rpartition("/")[2]
        yield Obstacle(
            f"objects are replaced ({name} and perhaps more): git log shows another history than was committed",
            f"git replace --delete {name}",
        )
    grafts = shared / "info" / "grafts"
    if _lines(grafts):
        yield Obstacle(
            "a grafts file gives commits other parents: git log shows another history than was committed",
            f"remove {grafts}",
        )
    if _is_partial(git):
        yield Obstacle(
            "this clone is partial: objects are missing that only its remote has",
            "git clone the repository again, without --filter",
        )
    yield from _detached(git, head)
    yield from _alternates(git, shared / "objects", head)


def _is_partial(git: Git) -> bool:
    keys = r"^(extensions\.partialclone|remote\..*\.promisor)$"
    listed = git.run("config", "--null", "--get-regexp", keys, ok=(0, 1))
    for entry in listed.split(b"\0"):
        key, given, value = entry.partition(b"\n")
        denied = (
            key.endswith(b".promisor") and given and value.lower() in (b"false", b"no", b"off", b"0", b"")
        )
        if key and not denied:
            return True
    return False


def _detached(git: Git, head: str) -> Iterator[Obstacle]:
    if git.attempt("symbolic-ref", "--quiet", "HEAD")[0] == 0:
        return
    places = ("refs/heads", "refs/tags", "refs/remotes")
    holding = git.run("for-each-ref", "--count=1", "--format=%(refname)", f"--contains={head}", *places)
    if not holding.strip():
        yield Obstacle(
            f"HEAD is detached at {head[:12]}, which no branch and no tag holds: nobody else would see it",
            "git switch to the branch that was published, or git switch --create a new one",
        )


def _alternates(git: Git, objects: Path, head: str) -> Iterator[Obstacle]:
    borrowed = _lines(objects / "info" / "alternates")
    remedy = "bring that folder back, or git clone the repository again"
    for line in borrowed:
        if not (objects / os.fsdecode(line)).is_dir():
            yield Obstacle(f"objects are borrowed from {printable(line)}, which is not there", remedy)
            return
    if borrowed and git.attempt("rev-list", "--objects", "--quiet", head)[0] != 0:
        yield Obstacle(f"objects are borrowed from {printable(borrowed[0])}, and some are missing", remedy)


def _lines(file: Path) -> list[bytes]:
    """Return a file's lines without comments; none where there is no file."""
    try:
        with file.open("rb") as handle:
            lines = handle.read(_READ).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RegistrationError(
            f"{file} can't be read: {error.strerror or error}", remedy="look at its owner and mode"
        ) from error
    return [line for line in lines if line.strip() and not line.startswith(b"#")]
