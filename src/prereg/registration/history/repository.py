"""The history that HEAD has, as a witness: what stood where, in each commit, and which came first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.ancestry import Ancestry, Window
from prereg.registration.history.commits import Commit, read_commits
from prereg.registration.history.git import Git
from prereg.registration.history.objects import Algorithm, Objects
from prereg.registration.history.obstacles import SHALLOW, Obstacle, find_obstacles
from prereg.registration.history.quick import Quick, look, mentions, taken_away
from prereg.registration.history.trees import Trees, is_file
from prereg.registration.history.worktree import Change, changes, file_ids

__all__ = ["Repository"]

TOTAL = 256_000_000
"""Bytes that are read at once of many blobs."""


class Repository:
    """A git repository as it stood when it was opened.

    Only what HEAD's ancestry holds is looked at. Everything is read from the objects themselves, each checked
    against its id; replacements, grafts and commit-graphs are passed by. What is said of the history is good only as
    far as it can be seen: ask `obstacles` first.

    Open one with `Repository.open`.
    """

    def __init__(self, git: Git, algorithm: Algorithm, shared: Path, head: str, *, shallow: bool) -> None:
        self._git = git
        self._objects = Objects(git, algorithm)
        self._shared = shared
        self._shallow = shallow
        self._trees = Trees(self._objects)
        self._versions: dict[str, tuple[str | None, ...]] = {}
        self.root = git.folder
        self.head = head

    @classmethod
    def open(cls, path: Path) -> Repository:
        """Open the repository that a file or folder lies in; of nested ones, the innermost.

        Raises
        ------
        RegistrationError
            If git isn't installed, there is no repository, it belongs to another user, has no working files, or
            nothing was ever committed.
        """
        folder = path if path.is_dir() else path.absolute().parent
        git = Git(folder)
        options = ("--is-shallow-repository", "--show-object-format", "--git-common-dir", "--show-toplevel")
        code, out, err = git.attempt("rev-parse", "--path-format=absolute", *options, "HEAD^{commit}")
        lines = os.fsdecode(out).split("\n")
        # rev-parse repeats what it can't resolve, so the number of lines is the same with and without a commit.
        if len(lines) < 6:
            raise git.explain(err, ("rev-parse",))
        shallow, algorithm, shared, top, head = lines[:5]
        if len(lines) > 6 or algorithm not in ("sha1", "sha256"):
            raise RegistrationError(
                f"git's answer about {printable(str(folder))} can't be read: a line break in a path, or an old git",
                remedy="git --version should be 2.31 or newer; rename the folder if its path holds a line break",
            )
        if code != 0:
            raise _without_commit(git)
        known: Algorithm = "sha1" if algorithm == "sha1" else "sha256"
        return cls(Git(Path(top)), known, Path(shared), head, shallow=shallow == "true")

    def relative(self, path: Path) -> str:
        """Return a path as commits name it: from the root, with "/"; "." for the root.

        Links on the way are resolved, and so is a link to a folder. A link in a file's place is named itself.

        Raises
        ------
        RegistrationError
            If it lies outside the repository.
        """
        absolute = path.absolute()
        plain = absolute.resolve() if absolute.is_dir() else absolute.parent.resolve() / absolute.name
        try:
            return plain.relative_to(self.root.resolve()).as_posix()
        except ValueError:
            raise RegistrationError(
                f"{printable(str(path))} lies outside the repository {self.root}",
                remedy="keep the study and its reports in one repository",
            ) from None

    # -- what can be seen ------------------------------------------------------------------------------

    def obstacles(self) -> tuple[Obstacle, ...]:
        """Return what keeps the whole history from being seen; empty where nothing does."""
        found = list(find_obstacles(self._git, self._shared, self.head, shallow=self._shallow))
        try:
            _ = self.commits  # git fails where a parent is missing, and each object is checked
        except RegistrationError as error:
            found.append(Obstacle(error.message, error.remedy or "git fsck --full"))
        return tuple(found)

    @cached_property
    def _walk(self) -> tuple[tuple[Commit, ...], tuple[str, ...]]:
        return read_commits(self._git, self._objects, self.head)

    @cached_property
    def _ancestry(self) -> Ancestry:
        return Ancestry(self.commits)

    @property
    def commits(self) -> tuple[Commit, ...]:
        """All commits reachable from HEAD, parents before children; the last one is HEAD.

        Raises
        ------
        RegistrationError
            If one is missing or damaged.
        """
        return self._walk[0]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Where each commit stands in `commits`, by id."""
        return MappingProxyType(self._ancestry.index)

    # -- what stood where ------------------------------------------------------------------------------

    def versions(self, path: str) -> tuple[str | None, ...]:
        """Return what stood at a path in each commit, aligned with `commits`.

        Parameters
        ----------
        path
            From the root, as `relative` returns it.

        Returns
        -------
        tuple
            For each commit the blob id of a regular file; ``symlink:<id>``, ``submodule:<id>`` or
            ``folder:<id>`` for something else in its place, or for a link or submodule in place of a folder on the
            way; None where there is nothing. `is_file` tells the first from the others.

        Raises
        ------
        RegistrationError
            If an object is missing or damaged, or the path is none from the root.
        """
        _require_plain(path)
        known = self._versions.get(path)
        if known is None:
            trees = self._walk[1]
            found = self._trees.versions(trees, path)
            known = self._versions[path] = tuple(found[tree] for tree in trees)
        return known

    def listings(self, folder: str) -> tuple[Mapping[str, str], ...]:
        """Return the files under a folder in each commit, aligned with `commits`.

        Returns
        -------
        tuple
            For each commit a mapping of the path relative to the folder to what stands there (see `versions`);
            equal folders share one mapping. Empty where there is nothing; a file, link or submodule in the
            folder's place stands under ".".

        Raises
        ------
        RegistrationError
            If an object is missing or damaged, or a listing is too large.
        """
        versions = self.versions(folder)
        found = self._trees.listings(versions)
        return tuple(found[version] for version in versions)

    def introduced(self, path: str) -> tuple[Commit, ...]:
        """Return the commits that hold a regular file at a path though no parent does, parents first.

        More than one where it was added on several branches, or removed and added again.
        """
        return self._ancestry.introductions([is_file(version) for version in self.versions(path)])

    def introductions(self, folder: str) -> Mapping[str, tuple[Commit, ...]]:
        """Return, for each file that any commit ever held under a folder, the commits that introduced it.

        Paths are relative to the folder. One pass over the history, however many files there are.
        """
        listings, found = self.listings(folder), dict[str, list[Commit]]()
        for commit, listing, parents in zip(self.commits, listings, self._ancestry.parents, strict=True):
            before = [listings[parent] for parent in parents]
            if any(listing is one for one in before):
                continue
            for path, version in listing.items():
                if is_file(version) and not any(is_file(one.get(path)) for one in before):
                    found.setdefault(path, []).append(commit)
        return MappingProxyType({path: tuple(commits) for path, commits in sorted(found.items())})

    def read(self, blob: str, limit: int = 1_000_000) -> bytes:
        """Return a blob's bytes.

        Parameters
        ----------
        blob
            Its id, hex.
        limit
            The most bytes that are read; the size is known before anything is.

        Raises
        ------
        RegistrationError
            If it is larger, missing, no blob, or not what its id says.
        """
        return self.read_many([blob], limit)[blob]

    def read_many(self, blobs: Iterable[str], limit: int = 1_000_000) -> Mapping[str, bytes]:
        """Return the bytes of many blobs by id, read by one process; raises as `read` does."""
        found, total = {}, 0
        for blob, raw in self._objects.stream(dict.fromkeys(blobs), "blob", limit):
            found[blob] = raw
            total += len(raw)
            if total > TOTAL:
                raise RegistrationError(f"more than {TOTAL:,} bytes of files were asked for at once")
        return MappingProxyType(found)

    # -- what came first -------------------------------------------------------------------------------

    def is_ancestor(self, first: str, then: str, *, strict: bool = False) -> bool:
        """Whether a commit is an ancestor of another; a commit is its own, unless `strict`.

        Raises
        ------
        RegistrationError
            If one of them is not in HEAD's history.
        """
        return self._ancestry.is_ancestor(first, then, strict=strict)

    def windows(self, bad: Sequence[bool]) -> tuple[Window, ...]:
        """Return the maximal connected stretches of bad commits, in order; `bad` is aligned with `commits`."""
        return self._ancestry.windows(bad)

    def backdated(self) -> tuple[Commit, ...]:
        """Return the commits whose date lies before a parent's: worth a note, but clocks go wrong too."""
        return self._ancestry.backdated()

    # -- the files as they lie -------------------------------------------------------------------------

    def status(self, paths: Sequence[str] = ()) -> tuple[Change, ...]:
        """Return what isn't as HEAD has it under some paths (from the root; all if none are given), sorted.

        Content decides, not what the index believes. Ignored files are left out, a file's mode is not looked at,
        nor is what lies in a submodule.
        """
        for path in paths:
            _require_plain(path)
        return tuple(changes(self._git, self.root, self._objects.algorithm, self.head, paths))

    def is_dirty(self, paths: Sequence[str] = ()) -> bool:
        """Whether anything isn't as HEAD has it."""
        return bool(self.status(paths))

    def blob_of(self, path: Path) -> tuple[str, ...]:
        """Return the blob ids that git may give a file on disk: a committed file is unchanged if its id is among them.

        The id of its bytes; for text with CRLF line ends that of the same with LF; that of its Git LFS pointer.

        Raises
        ------
        RegistrationError
            If it is no regular file, or can't be read.
        """
        return tuple(dict.fromkeys(file_ids(path, self._objects.algorithm)))

    def quick(self, file: Path) -> Quick:
        """Say at a glance how a registration lies in git; the whole history is not walked.

        Raises
        ------
        RegistrationError
            If the file lies outside the repository, or git fails.
        """
        path = self.relative(file)
        folder = PurePosixPath(path).parent.as_posix()
        first, versions = look(self._git, self.head, path)
        uncommitted = tuple(change.path for change in self.status([folder]))
        return Quick(first, versions, uncommitted, SHALLOW if self._shallow else None)

    def lost(self, folders: Sequence[Path]) -> tuple[tuple[str, str], ...]:
        """Return path and commit of each file in `folders` that history once held and that isn't here as it was.

        Raises
        ------
        RegistrationError
            If a folder lies outside the repository, or git fails.
        """
        found: dict[str, str] = {}
        here: dict[str, tuple[str, ...]] = {}
        for commit, path, version in taken_away(self._git, self.head, [self.relative(f) for f in folders]):
            file = self.root / path
            if path not in here:
                here[path] = self.blob_of(file) if file.is_file() and not file.is_symlink() else ()
            if version not in here[path]:
                found[path] = commit
        return tuple(sorted(found.items()))

    def elsewhere(self, path: str) -> tuple[tuple[str, str], ...]:
        """Return commit and blob of each content that a file has on other refs, and in no commit below HEAD."""
        listed = self._git.run("rev-list", "--all", "--not", self.head, "--", path)
        found: dict[str, str] = {}
        for commit in reversed(listed.decode("ascii", "replace").split()):
            code, out, _ = self._git.attempt("rev-parse", "--verify", "--quiet", f"{commit}:{path}")
            if code == 0:
                found.setdefault(out.decode("ascii", "replace").strip(), commit)
        return tuple((commit, blob) for blob, commit in found.items())

    def files_elsewhere(self, folder: str, limit: int = 1_000) -> tuple[tuple[str, str, str], ...]:
        """Return commit, path and blob of files that a folder has on other refs; the newest `limit` commits of each."""
        listed = self._git.run("rev-list", "--all", f"--max-count={limit}", "--not", self.head, "--", folder)
        found: dict[tuple[str, str], str] = {}
        for commit in listed.decode("ascii", "replace").split():
            code, out, _ = self._git.attempt("ls-tree", "-r", "-z", commit, "--", f"{folder}/")
            for row in out.split(b"\0") if code == 0 else ():
                head, _, name = row.partition(b"\t")
                if name:
                    found[os.fsdecode(name), head.split(b" ")[2].decode("ascii", "replace")] = commit
        return tuple((commit, path, blob) for (path, blob), commit in sorted(found.items()))

    def mentions(self, commit: str, text: str, folders: Sequence[Path]) -> tuple[str, ...]:
        """Return the files in `folders`, as a commit has them, that hold a piece of text."""
        return mentions(self._git, commit, text, [self.relative(folder) for folder in folders])


def _require_plain(path: str) -> None:
    parts = path.split("/")
    if path != "." and (any(part in ("", ".", "..") for part in parts) or "\0" in path):
        raise RegistrationError(
            f"{printable(path)!r} is no path from the repository's root", remedy="use Repository.relative"
        )


def _without_commit(git: Git) -> RegistrationError:
    code, out, _ = git.attempt("rev-parse", "--verify", "--quiet", "HEAD")
    if code == 0:
        return RegistrationError(
            f"HEAD names {printable(out)}, which is not a commit that this repository holds",
            remedy="git fsck --full, then clone the repository again",
        )
    return RegistrationError(
        "nothing has been committed in this repository yet", remedy="git add and git commit what is there"
    )
