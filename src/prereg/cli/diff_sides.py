"""A study as it stands at a commit, in the working tree, or in its registration: what `prereg diff` compares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from prereg.errors import ProtocolError, RegistrationError

if TYPE_CHECKING:
    from prereg.protocol import ProtocolFile
    from prereg.registration.history import Repository

__all__ = ["FROZEN", "WORKTREE", "Place", "Side", "side"]

WORKTREE, FROZEN = "worktree", "frozen"
MAX_FILE = 5_000_000
_MODES = {"120000": "symlink", "160000": "submodule"}


@dataclass(frozen=True, slots=True)
class Side:
    """A study at one place.

    Attributes
    ----------
    ref
        What the user called it.
    commit
        Its id, None for what is no commit.
    digest
        Of the promise.
    promise
        Canonical plain data.
    gates
        Digest (sha256 of text with LF line ends) of each gate, by path in the project: the study's Python files
        and each conftest above.
    records
        The same of the registration and its amendments; None where the place can't say.
    """

    ref: str
    commit: str | None
    digest: str
    promise: dict[str, Any]
    gates: Mapping[str, str]
    records: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a study lies: its folder, and that of the project, from which paths are told."""

    folder: Path
    project: Path

    @property
    def inside(self) -> str:
        """The study's folder as seen from the project.

        Raises
        ------
        RegistrationError
            If it lies elsewhere.
        """
        folder, project = self.folder.resolve(), self.project.resolve()
        if not folder.is_relative_to(project):
            raise RegistrationError(
                f"{self.folder} lies outside the project {self.project}",
                remedy="run this in the study's own project",
            )
        return folder.relative_to(project).as_posix()

    def named(self, inside: str) -> str:
        """Return the path from the project of a file of the study."""
        return (PurePosixPath(self.inside) / inside).as_posix()


def side(ref: str, place: Place) -> Side:
    """Return a study at a commit, tag or branch, as "worktree", or as "frozen".

    Raises
    ------
    RegistrationError
        If there is no such place, or the study isn't there.
    ProtocolError
        If the promise can't be read there; it names the ref, the file and the line.
    """
    if not ref or ref.startswith("-") or not ref.isprintable():
        raise RegistrationError(
            f"{ref!r} is no name of a commit", remedy="name a commit, tag or branch, `frozen` or `worktree`"
        )
    if ref == WORKTREE:
        return _worktree(place)
    return _frozen(place) if ref == FROZEN else _at_commit(ref, place)


def _worktree(place: Place) -> Side:
    from prereg.protocol import read_protocol
    from prereg.registration.components import gate_digests
    from prereg.registration.records import AMENDMENTS, REGISTRATION

    read = read_protocol(place.folder)
    found = [place.folder / REGISTRATION, *(place.folder / AMENDMENTS).glob("*.json")]
    names = [file.relative_to(place.folder).as_posix() for file in found if _is_there(file)]
    records = {place.named(name): _on_disk(place.folder / name) for name in names if _is_record(name)}
    gates = gate_digests(place.folder, place.project)
    return Side(WORKTREE, None, read.digest, _promise(read), gates, records)


def _frozen(place: Place) -> Side:
    from prereg.registration.records import read_registration

    registration = read_registration(place.folder)
    if registration is None:
        raise RegistrationError(
            f"{place.folder}: there is no registration.json, so nothing is frozen",
            remedy=f"prereg freeze {place.folder}",
        )
    held = registration.components
    return Side(FROZEN, None, held.protocol, registration.protocol, held.gates, None)


def _at_commit(ref: str, place: Place) -> Side:
    from prereg.protocol.reader import MAX_BYTES, parse_protocol
    from prereg.registration.history import Repository, is_file

    repository = Repository.open(place.folder)
    commit = _resolved(ref, repository, place)
    files = _listed(repository, commit, place)
    name = place.named("protocol.toml")
    version = files.pop(name, None)
    if not is_file(version):
        what = "there is no such file" if version is None else "not a regular file"
        raise RegistrationError(
            f"{ref}:{name}: {what}", remedy=f"git log --oneline -- {name}   # the commits that have it"
        )
    try:
        read = parse_protocol(repository.read(version, MAX_BYTES), Path(f"{ref}:{name}"))
    except ProtocolError as error:
        raise ProtocolError(
            error.message, remedy="compare with a commit at which this protocol can be read"
        ) from error
    raw = repository.read_many([v for v in files.values() if is_file(v)], MAX_FILE)
    digests = {path: _digest(raw[v]) if is_file(v) else v for path, v in files.items()}
    return Side(
        ref,
        commit,
        read.digest,
        _promise(read),
        {path: found for path, found in digests.items() if path.endswith(".py")},
        {path: found for path, found in digests.items() if path.endswith(".json")},
    )


def _resolved(ref: str, repository: Repository, place: Place) -> str:
    from prereg.registration.history.git import Git

    code, out, _ = Git(repository.root).attempt("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    commit = out.decode("ascii", "replace").strip()
    if code != 0 or not commit:
        raise RegistrationError(
            f"{ref!r} names no commit of this repository",
            remedy=f"git log --oneline --all -- {place.named('protocol.toml')}   # or: git fetch --tags",
        )
    return commit


def _listed(repository: Repository, commit: str, place: Place) -> dict[str, str]:
    """Return the protocol, gates and records at a commit: path from the project -> version.

    A version is a blob's id, or ``symlink:<id>`` and the like for what is no regular file.
    """
    from prereg.registration.history.git import Git

    study = repository.relative(place.folder)
    above = [place.folder.resolve(), *place.folder.resolve().parents]
    conftests = {
        repository.relative(folder / "conftest.py"): (folder / "conftest.py")
        .relative_to(place.project.resolve())
        .as_posix()
        for folder in above[1:]
        # The repository's root may lie above the project's, or below it.
        if folder.is_relative_to(place.project.resolve()) and folder.is_relative_to(repository.root.resolve())
    }
    asked = [] if study == "." else [study, *conftests]
    out = Git(repository.root).run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *asked)
    found = {}
    for entry in out.split(b"\0")[:-1]:
        head, _, raw = entry.partition(b"\t")
        mode, _, blob = head.decode("ascii").split(" ")
        path = raw.decode("utf-8", "backslashreplace")
        inside = path if study == "." else path.removeprefix(f"{study}/")
        version = blob if mode.startswith("100") else f"{_MODES.get(mode, mode)}:{blob}"
        if path in conftests:
            found[conftests[path]] = version
        elif inside == "protocol.toml" or inside.endswith(".py") or _is_record(inside):
            found[place.named(inside)] = version
    return found


def _is_record(inside: str) -> bool:
    folder, _, name = inside.rpartition("/")
    return inside == "registration.json" or (
        folder == "amendments" and name.endswith(".json") and not name.startswith(".")
    )


def _promise(read: ProtocolFile) -> dict[str, Any]:
    from prereg.protocol import canonical_json

    promise: dict[str, Any] = json.loads(canonical_json(read.protocol))
    return promise


def _is_there(file: Path) -> bool:
    return file.is_symlink() or file.exists()


def _on_disk(file: Path) -> str:
    if file.is_symlink() or not file.is_file():
        return "not a regular file"
    try:
        with file.open("rb") as handle:
            raw = handle.read(MAX_FILE + 1)
    except OSError as error:
        raise RegistrationError(f"{file}: can't be read: {error.strerror or error}") from error
    if len(raw) > MAX_FILE:
        raise RegistrationError(f"{file}: larger than {MAX_FILE:,} bytes")
    return _digest(raw)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()
