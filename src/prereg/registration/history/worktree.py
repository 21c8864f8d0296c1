"""The files as they lie, against what HEAD holds: by content alone.

`git status` is not asked. It takes a file for unchanged where the index says so (``--assume-unchanged``,
``--skip-worktree``, or times set back), and it runs filters that a repository's configuration may name. Here each
file that HEAD holds is read and digested as git would.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.git import Git
from prereg.registration.history.objects import Algorithm, digest_of
from prereg.registration.history.trees import is_file, version_of

__all__ = ["Change", "Kind", "changes", "file_ids"]

Kind = Literal["modified", "deleted", "replaced", "added", "staged", "unmerged", "untracked"]

_BLOCK = 1 << 20
_TEXT = 64_000_000
"""Bytes of the largest file that may be text with other line ends."""

_SNIFFED = 8_000
"""Git takes a file for binary if there is a NUL among its first 8,000 bytes."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file that isn't as HEAD has it.

    Parameters
    ----------
    path
        Relative to the repository's root, "/" between parts.
    kind
        ``modified``: other content than HEAD's. ``deleted``: HEAD has it, the folder doesn't. ``replaced``: a
        link, a folder or something else stands in its place. ``added``: staged, not committed. ``staged``: the
        file is HEAD's, but the index holds something else. ``unmerged``: a merge's conflict. ``untracked``: git
        doesn't know it and doesn't ignore it.
    """

    path: str
    kind: Kind


def changes(git: Git, root: Path, algorithm: Algorithm, head: str, paths: Iterable[str]) -> Iterator[Change]:
    """Yield what differs from HEAD under some paths, sorted by path.

    Parameters
    ----------
    git
        Git in the repository's root.
    root
        The repository's root.
    algorithm
        The digest that names its objects.
    head
        The commit that HEAD names.
    paths
        Relative to the root; the whole repository if there are none.
    """
    wanted = [path for path in paths if path != "."]
    held = _held(git, head, wanted)
    index, unmerged, untracked = _index(git, wanted)
    disk = _Disk(root, algorithm)
    for path in sorted(held.keys() | index.keys() | unmerged | untracked):
        kind: Kind | None
        if path in unmerged:
            kind = "unmerged"
        elif path in held:
            kind = disk.difference(path, held[path])
            if kind is None and index.get(path) != held[path]:
                kind = "staged"
        else:
            kind = "added" if path in index else "untracked"
        if kind is not None:
            yield Change(path, kind)


def file_ids(file: Path, algorithm: Algorithm) -> Iterator[str]:
    """Yield the ids that git may give a file, each computed only when asked for.

    First that of its bytes. Then, for text, that with line ends as git commits them, because a checkout may have
    other ones. Then that of its Git LFS pointer, which holds the SHA-256 of the bytes. No filter of the
    repository's is run; a file that another filter, ``ident`` or ``working-tree-encoding`` rewrites looks edited.

    Raises
    ------
    RegistrationError
        If it is no regular file, can't be read, or changes meanwhile.
    """
    yield _digest(file, algorithm)
    if (text := _with_plain_ends(file)) is not None:
        yield digest_of(algorithm, "blob", text)
    yield digest_of(algorithm, "blob", _pointer(file))


class _Disk:
    """Working files compared with versions."""

    def __init__(self, root: Path, algorithm: Algorithm) -> None:
        self._root = root
        self._algorithm = algorithm
        self._plain: dict[Path, bool] = {root: True}

    def difference(self, path: str, version: str) -> Kind | None:
        """Return how the file at a path differs from what HEAD holds there; None if it doesn't."""
        file = self._root / path
        try:
            if not self._is_plain(file.parent):
                return "replaced"
            mode = file.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "deleted"
        except OSError as error:
            raise _unreadable(file, error) from error
        if is_file(version):
            if not stat.S_ISREG(mode):
                return "replaced"
            return None if version in file_ids(file, self._algorithm) else "modified"
        if version.startswith("symlink:"):
            return self._link_difference(file, mode, version)
        # A submodule is a repository of its own; what lies in it is that repository's to say.
        return None if stat.S_ISDIR(mode) else "replaced"

    def _link_difference(self, file: Path, mode: int, version: str) -> Kind | None:
        if not stat.S_ISLNK(mode):
            return "replaced"
        target = os.fsencode(os.readlink(file))  # noqa: PTH115 - a Path would tidy what the link says
        same = version == version_of(b"120000", digest_of(self._algorithm, "blob", target))
        return None if same else "modified"

    def _is_plain(self, folder: Path) -> bool:
        """Whether no part of the way to a folder is a link."""
        known = self._plain.get(folder)
        if known is None:
            known = self._is_plain(folder.parent) and not stat.S_ISLNK(folder.lstat().st_mode)
            self._plain[folder] = known
        return known


def _held(git: Git, head: str, paths: list[str]) -> dict[str, str]:
    """Return what HEAD holds: version by path."""
    held = {}
    for entry in git.run("ls-tree", "-r", "-z", "--full-tree", head, "--", *paths).split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        if facts:
            mode, _, digest = facts.split(b" ")
            held[os.fsdecode(name)] = version_of(mode, digest.decode())
    outside = next((path for path in held if "/../" in f"/{path}/"), None)
    if outside is not None:
        raise RegistrationError(
            f"HEAD holds a path that leads out: {printable(outside)}", remedy="git fsck --full"
        )
    return held


def _index(git: Git, paths: list[str]) -> tuple[dict[str, str], set[str], set[str]]:
    """Return what the index holds, what is unmerged in it, and what git doesn't know."""
    listed = git.run("ls-files", "-z", "-t", "-s", "--cached", "--others", "--exclude-standard", "--", *paths)
    index: dict[str, str] = {}
    unmerged, untracked = set(), set()
    for entry in listed.split(b"\0"):
        if not entry:
            continue
        if entry.startswith(b"? "):
            untracked.add(os.fsdecode(entry[2:]))
            continue
        facts, _, name = entry.partition(b"\t")
        _, mode, digest, stage = facts.split(b" ")
        path = os.fsdecode(name)
        if stage == b"0":
            index[path] = version_of(mode, digest.decode())
        else:
            unmerged.add(path)
    return index, unmerged, untracked


def _digest(file: Path, algorithm: Algorithm) -> str:
    found = hashlib.new(algorithm, usedforsecurity=False)
    size, seen = None, 0
    for block in _blocks(file):
        if size is None:
            size = int(block)
            found.update(b"blob %d\0" % size)
        else:
            found.update(block)
            seen += len(block)
    if seen != size:
        raise RegistrationError(f"{printable(str(file))} changes while it is read", remedy="run this again")
    return found.hexdigest()


def _with_plain_ends(file: Path) -> bytes | None:
    """Return a text's bytes with LF for CRLF; None where that changes nothing, or for what is no text."""
    blocks = _blocks(file)
    if int(next(blocks)) > _TEXT:
        return None
    first = next(blocks, b"")
    if b"\0" in first[:_SNIFFED]:
        return None
    raw = first + b"".join(blocks)
    plain = raw.replace(b"\r\n", b"\n")
    return plain if plain != raw else None


def _pointer(file: Path) -> bytes:
    blocks = _blocks(file)
    size = int(next(blocks))
    if size == 0:
        return b""
    found = hashlib.sha256()
    for block in blocks:
        found.update(block)
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        found.hexdigest().encode(),
        size,
    )


def _blocks(file: Path) -> Iterator[bytes]:
    """Yield a regular file's size, in digits, and then its bytes; links are not followed, pipes not opened."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        with os.fdopen(os.open(file, flags), "rb") as handle:
            facts = os.fstat(handle.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise RegistrationError(
                    f"{printable(str(file))} is no regular file", remedy="put the file itself in its place"
                )
            yield b"%d" % facts.st_size
            while block := handle.read(_BLOCK):
                yield block
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> RegistrationError:
    return RegistrationError(
        f"{printable(str(file))} can't be read: {error.strerror or error}",
        remedy="look at it with ls -l; a link is not followed",
    )
