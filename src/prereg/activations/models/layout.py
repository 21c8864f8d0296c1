"""Where a model lies in the cache, and whether it is there.

models/<name>-<revision>[-r<recipe>]/   a model, complete: it appears by one rename
    prereg.json                         what was written: source, revision, digest of every file
models/<same>.part/                     a fetch or conversion that has not finished
wheels/                                 wheels, as the package index names them
hashes/, locks/                         remembered digests of files; one lock a model
revisions.json                          commits that hub branches were resolved to
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prereg.activations.models.content import hash_files
from prereg.activations.models.entries import (
    RECIPE,
    FolderSource,
    GgufSource,
    HubSource,
    ModelEntry,
    WheelSource,
    plain_name,
)
from prereg.activations.models.folder import ModelFiles
from prereg.activations.models.progress import size_on_disk
from prereg.errors import ModelError, ModelUnavailable, PreregError, StorageError
from prereg.workers import refused_by_disk

__all__ = ["RECORD", "Presence", "Record", "Slot", "locked_commit", "presence", "revision_of", "slot"]

RECORD = "prereg.json"
SHORT = 12
_LOST_COMMITS = "repair {path}, or remove it: branches are then resolved to the commits that they are at now"


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether a model is on this machine.

    Parameters
    ----------
    state
        ``partial``: a fetch has begun, or the folder lacks something.
    size
        Bytes on disk, of whatever is there.
    """

    state: Literal["present", "partial", "absent"]
    size: int


@dataclass(frozen=True, slots=True)
class Slot:
    """Paths that belong to one model.

    Parameters
    ----------
    folder
        Where the complete model is, or will be.
    memory
        Remembered digests of its files.
    in_cache
        Whether the folder is the cache's own, with a record, or the user's.
    lock
        Held while the folder is being made.
    """

    folder: Path
    memory: Path
    in_cache: bool
    lock: Path

    @property
    def part(self) -> Path:
        """Where the folder is made before it is renamed."""
        return self.folder.with_name(f"{self.folder.name}.part")


def revision_of(entry: ModelEntry, cache: Path) -> str | None:
    """Tell the pinned revision, known without any of the model's files.

    Returns
    -------
    str or None
        A commit, a wheel's sha256, or None: a folder has none, nor has a hub branch that was never
        fetched.
    """
    source = entry.source
    if isinstance(source, WheelSource):
        return source.revision
    if isinstance(source, HubSource):
        return source.commit or locked_commit(source, cache)
    return None


def locked_commit(source: HubSource, cache: Path) -> str | None:
    """Look up the commit that a branch was resolved to at its first fetch.

    Raises
    ------
    StorageError
        Where the lock file can't be read: what it promised is then unknown.
    """
    path = cache / "revisions.json"
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused_by_disk(path, error, "can't be read") from error
    except ValueError as error:
        raise StorageError(f"{path} is not JSON: {error}", remedy=_LOST_COMMITS.format(path=path)) from error
    if not isinstance(table, dict):
        raise StorageError(f"{path}: wanted a JSON object", remedy=_LOST_COMMITS.format(path=path))
    commit = table.get(f"{source.repo}@{source.ref}")
    return commit if isinstance(commit, str) else None


def slot(entry: ModelEntry, cache: Path) -> Slot | None:
    """Where the model's files belong; None while a hub branch has no commit yet."""
    source = entry.source
    if isinstance(source, FolderSource):
        key = hashlib.sha256(str(source.folder.absolute()).encode()).hexdigest()[:32]
        return _slot(source.folder, cache, key, in_cache=False)
    if isinstance(source, HubSource):
        commit = revision_of(entry, cache)
        if commit is None:
            return None
        name = f"{source.repo.replace('/', '--')}-{commit[:SHORT]}"
    elif isinstance(source, WheelSource):
        name = f"{entry.slug}-{source.revision[:SHORT]}-r{RECIPE}"
    else:
        # By its name and content: wherever the file lies, it is converted once.
        stem = plain_name(Path(source.path).stem)
        name = f"{stem}-{_gguf_digest(source, cache)[:SHORT]}-r{RECIPE}"
    return _slot(cache / "models" / name, cache, name, in_cache=True)


def _slot(folder: Path, cache: Path, key: str, *, in_cache: bool) -> Slot:
    return Slot(
        folder=folder,
        memory=cache / "hashes" / f"{key}.json",
        in_cache=in_cache,
        lock=cache / "locks" / f"{key}.lock",
    )


def _gguf_digest(source: GgufSource, cache: Path) -> str:
    file = source.file
    try:
        there = file.is_file()
    except OSError as error:
        raise refused_by_disk(file, error, "can't be read") from error
    if not there:
        raise ModelUnavailable(f"there is no file {file}")
    key = hashlib.sha256(str(file.absolute()).encode()).hexdigest()[:32]
    return hash_files(file.parent, [file.name], cache / "hashes" / f"{key}.json")[file.name]


@dataclass(frozen=True, slots=True)
class Record:
    """What was written with a folder of the cache: where from, at which revision, which digests."""

    source: str
    revision: str | None
    files: dict[str, str]


def read_record(folder: Path) -> Record:
    """Read what a folder of the cache must hold."""
    path = folder / RECORD
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): str(digest) for name, digest in found["files"].items()}
        return Record(str(found["source"]), found["revision"], files)
    except PermissionError as error:
        raise refused_by_disk(path, error, "can't be read") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{path} can't be read: {error!r}", remedy=f"remove {folder} and fetch again"
        ) from error


def presence(entry: ModelEntry, cache: Path) -> Presence:
    """Say whether a model is here, from names and sizes alone; nothing is hashed or loaded.

    Raises
    ------
    StorageError
        Where the folder may not be looked into: whether the model is here is then unknown.
    """
    try:
        place = slot(entry, cache)
    except PreregError:
        return Presence("absent", 0)
    if place is None:
        return Presence("absent", 0)
    try:
        return _presence_in(place, entry, cache)
    except OSError as error:
        raise refused_by_disk(place.folder, error, "can't be read") from error


def _presence_in(place: Slot, entry: ModelEntry, cache: Path) -> Presence:
    if place.folder.is_dir():
        try:
            files = ModelFiles.of(place.folder)
            if place.in_cache:
                read_record(place.folder)
        except PreregError:
            return Presence("partial", size_on_disk(place.folder))
        size = sum((place.folder / name).stat().st_size for name in files.names)
        return Presence("present", size)
    size = size_on_disk(place.part) if place.part.exists() else 0
    if isinstance(entry.source, WheelSource):
        wheels = [cache / "wheels" / part.file for part in entry.source.parts]
        size += sum(size_on_disk(wheel) for wheel in wheels if wheel.is_file())
    return Presence("partial", size) if size else Presence("absent", 0)
