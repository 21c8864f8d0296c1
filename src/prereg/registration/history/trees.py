"""What stood at a path in a tree: read from the tree objects themselves, and never followed out of them.

A *version* is what stands at a path: the blob id of a regular file, or, for anything else, a word and an id:
``symlink:<blob>``, ``submodule:<commit>``, ``folder:<tree>``. None stands for nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeGuard

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.objects import Objects

__all__ = ["NOTHING", "Trees", "is_file", "version_of"]

LARGEST = 32_000_000
"""Bytes of one tree object: some hundred thousand names in one folder."""

KEPT = 64_000_000
"""Bytes of tree objects kept, because the next path begins in the same ones."""

ENTRIES = 250_000
"""Files of one listing. A few kilobytes of nested trees can stand for more files than there are atoms."""

DEPTH = 64

NOTHING: Mapping[str, str] = MappingProxyType({})

_FOLDER = "folder:"
_WORDS = {b"040000": _FOLDER, b"40000": _FOLDER, b"120000": "symlink:", b"160000": "submodule:"}
_ENTRY = rb"([0-7]{5,6}) ([^\0]+)\0(.{%d})"
_UNSAFE = frozenset({b".", b"..", b".git"})


def is_file(version: str | None) -> TypeGuard[str]:
    """Whether a version is a regular file's: then it is its blob id."""
    return version is not None and ":" not in version


def version_of(mode: bytes, name: str) -> str:
    """Return the version that a tree's or the index' mode and id stand for."""
    return _WORDS.get(mode, "") + name


class Trees:
    """The tree objects of a repository.

    Each lookup is over many trees at once, one git process for all that aren't known yet; equal trees are read
    once, so a path costs what its changes cost.

    Parameters
    ----------
    objects
        Where they are read.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._raw: dict[str, bytes] = {}
        self._size = 0
        self._found: dict[bytes, dict[str, str | None]] = {}
        self._listed: dict[str, Mapping[str, str]] = {}
        self._entry = re.compile(_ENTRY % objects.width, re.DOTALL)

    def versions(self, roots: Iterable[str], path: str) -> dict[str, str | None]:
        """Return, for each root tree, the version at a path relative to it ("." for the tree itself).

        Where a symlink or a submodule stands in place of a folder on the way, it is the version.
        """
        at: dict[str, str | None] = {root: _FOLDER + root for root in roots}
        for part in [] if path == "." else path.split("/"):
            inside = self._find(
                [tree for version in at.values() if (tree := _tree(version))], os.fsencode(part)
            )
            at = {root: _step(version, inside) for root, version in at.items()}
        return at

    def listings(self, versions: Iterable[str | None]) -> dict[str | None, Mapping[str, str]]:
        """Return, for each version, its files by relative path; equal folders share one mapping.

        What is no folder is listed as itself, under ".".
        """
        distinct = set(versions)
        self._list([tree for version in distinct if (tree := _tree(version))])
        return {version: self._listing(version) for version in distinct}

    def _listing(self, version: str | None) -> Mapping[str, str]:
        if version is None:
            return NOTHING
        tree = _tree(version)
        return MappingProxyType({".": version}) if tree is None else self._listed[tree]

    def _find(self, trees: Iterable[str], name: bytes) -> dict[str, str | None]:
        """Return what is known of one name in each tree, having looked into those not known yet."""
        known = self._found.setdefault(name, {})
        pattern = _named(name, self._objects.width)
        for tree, raw in self._read(tree for tree in trees if tree not in known):
            known[tree] = _only(tree, raw, pattern)
        return known

    def _list(self, trees: list[str]) -> None:
        """List these trees and all below them."""
        inside: dict[str, list[tuple[str, str]]] = {}
        level = [tree for tree in trees if tree not in self._listed]
        for _ in range(DEPTH):
            for tree, raw in self._read(level):
                inside[tree] = self._entries(tree, raw)
            below = (_tree(version) for tree in level for _, version in inside[tree])
            level = list(dict.fromkeys(t for t in below if t and t not in inside and t not in self._listed))
            if not level:
                break
        else:
            raise RegistrationError(
                f"folders are nested more than {DEPTH} deep in a commit; they are not read"
            )
        # Children were found after their parents or together with them; a tree can't hold itself.
        for tree in trees:
            self._compose(tree, inside)

    def _compose(self, tree: str, inside: Mapping[str, list[tuple[str, str]]]) -> Mapping[str, str]:
        known = self._listed.get(tree)
        if known is not None:
            return known
        files: dict[str, str] = {}
        for name, version in inside[tree]:
            child = _tree(version)
            if child is None:
                files[name] = version
                continue
            below = self._compose(child, inside)
            if len(files) + len(below) > ENTRIES:
                raise RegistrationError(
                    f"a folder of more than {ENTRIES:,} files stands in a commit: too many"
                )
            files |= {f"{name}/{path}": found for path, found in below.items()}
        listing = self._listed[tree] = MappingProxyType(files) if files else NOTHING
        return listing

    def _entries(self, tree: str, raw: bytes) -> list[tuple[str, str]]:
        """Return names and versions in one tree."""
        found = self._entry.findall(raw)
        size = sum(len(mode) + len(name) + 2 for mode, name, _ in found) + self._objects.width * len(found)
        names = {name for _, name, _ in found}
        if size != len(raw) or len(names) != len(found) or names & _UNSAFE or any(b"/" in n for n in names):
            raise _malformed(tree)
        return [(os.fsdecode(name), version_of(mode, digest.hex())) for mode, name, digest in found]

    def _read(self, trees: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield trees and their bytes: the kept ones, then the others from git."""
        missing = []
        for tree in dict.fromkeys(trees):
            if tree in self._raw:
                yield tree, self._raw[tree]
            else:
                missing.append(tree)
        for tree, raw in self._objects.stream(missing, "tree", LARGEST):
            if self._size + len(raw) <= KEPT:
                self._raw[tree] = raw
                self._size += len(raw)
            yield tree, raw


def _tree(version: str | None) -> str | None:
    """Return the tree id where a version is a folder."""
    return version[len(_FOLDER) :] if version is not None and version.startswith(_FOLDER) else None


def _step(version: str | None, inside: Mapping[str, str | None]) -> str | None:
    """Return what stands below a version: of a folder, what it holds; below a file, nothing."""
    tree = _tree(version)
    if tree is not None:
        return inside[tree]
    return None if is_file(version) else version


def _named(name: bytes, width: int) -> re.Pattern[bytes]:
    """Return a pattern that passes over other entries and ends with the one of this name, or at the end.

    It is aligned from the tree's first byte: an id, or another file's name, may hold the bytes of an entry.
    """
    entry = rb"[0-7]{5,6} %s\0" % re.escape(name)
    other = rb"(?:(?!%s)[0-7]{5,6} [^\0]+\0.{%d})*" % (entry, width)
    return re.compile(other + rb"(?:([0-7]{5,6}) %s\0(.{%d}))?" % (re.escape(name), width), re.DOTALL)


def _only(tree: str, raw: bytes, pattern: re.Pattern[bytes]) -> str | None:
    """Return the version found, where the tree is well formed and does not name it twice."""
    version = None
    found = pattern.match(raw)
    if found is not None and found[1] is not None:
        version = version_of(found[1], found[2].hex())
        found = pattern.match(raw, found.end())
    if found is None or found[1] is not None or found.end() != len(raw):
        raise _malformed(tree)
    return version


def _malformed(tree: str) -> RegistrationError:
    return RegistrationError(
        f"tree {printable(tree)} is malformed: it names a file twice, or in a way that no checkout could",
        remedy="git fsck --full",
    )
