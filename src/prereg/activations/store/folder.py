"""The folder that holds stores: find one, list them, remove one, and let only one process write it."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from prereg.activations.store.files import disk_errors
from prereg.activations.store.journal import read_journal
from prereg.activations.store.layout import JOURNAL, MANIFEST, read_manifest
from prereg.activations.store.reader import Store
from prereg.errors import ActivationsError, StorageError

__all__ = ["StoreInfo", "find_store", "list_stores", "locked", "remove_store"]

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A store as a listing shows it; `trouble` says why it can't be used, None if it can."""

    key: str
    folder: Path
    complete: bool
    n_prompts: int | None
    size_bytes: int
    provenance: dict[str, str]
    trouble: str | None


def _folder(root: Path, key: str) -> Path:
    if not _KEY.fullmatch(key):
        raise ActivationsError(f"a store's key is 64 hex digits, found {key!r}")
    return root / key


def find_store(root: Path, key: str) -> Store | None:
    """Return the complete store with this key, or None where there is none or it isn't complete yet.

    Raises
    ------
    StoreCorrupt
        If it was completed and is damaged: its manifest, journal, sizes or headers differ.
    """
    folder = _folder(root, key)
    with disk_errors(folder):
        begun = (folder / MANIFEST).is_file()
    if not begun:
        return None
    if read_journal(folder / JOURNAL).completion is None:
        return None
    return Store.open(folder)


def list_stores(root: Path) -> tuple[StoreInfo, ...]:
    """Return what lies under `root`, by key; unfinished and damaged stores are listed as such."""
    with disk_errors(root):
        if not root.is_dir():
            return ()
        folders = sorted(path for path in root.iterdir() if path.is_dir() and _KEY.fullmatch(path.name))
    return tuple(_describe(folder) for folder in folders)


def _describe(folder: Path) -> StoreInfo:
    size = 0
    try:
        with disk_errors(folder):
            size = sum(file.stat().st_size for file in folder.iterdir())
        manifest = read_manifest(folder)
        complete = read_journal(folder / JOURNAL).completion is not None
    except StorageError as error:
        return StoreInfo(folder.name, folder, False, None, size, {}, error.message)
    trouble = None
    try:
        if complete:
            Store.open(folder)
    except StorageError as error:
        trouble = error.message
    return StoreInfo(folder.name, folder, complete, manifest.n_prompts, size, manifest.provenance, trouble)


def remove_store(root: Path, key: str) -> None:
    """Delete a store, finished or not.

    Raises
    ------
    ActivationsError
        If there is none.
    StorageError
        If it is being written, or can't be deleted.
    """
    folder = _folder(root, key)
    with disk_errors(folder):
        there = folder.is_dir()
    if not there:
        raise ActivationsError(f"no store {key} under {root}", remedy="prereg cache list")
    with locked(root, key, wait=False), disk_errors(folder):
        shutil.rmtree(folder)
    with disk_errors(_lock_file(root, key)):
        _lock_file(root, key).unlink(missing_ok=True)


def _lock_file(root: Path, key: str) -> Path:
    return root / f"{key}.lock"


@contextlib.contextmanager
def locked(
    root: Path,
    key: str,
    *,
    wait: bool = True,
    while_waiting: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Iterator[None]:
    """Hold a store's lock; another process that captures the same waits until it is free.

    Parameters
    ----------
    root, key
        The store.
    wait
        Whether to wait for another process at all.
    while_waiting
        Entered while another process is waited for, if there is one.

    Raises
    ------
    StorageError
        If the lock can't be made, or `wait` is false and another process holds it.
    """
    _folder(root, key)
    with disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(_lock_file(root, key))
    with disk_errors(_lock_file(root, key)):
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            if not wait:
                raise StorageError(
                    f"store {key[:12]} is being written by another process",
                    remedy="wait for it to end, then try again",
                ) from error
            with while_waiting():
                lock.acquire()
    try:
        yield
    finally:
        lock.release()
