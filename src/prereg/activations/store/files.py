"""Bytes on disk: whole writes, forced writes, atomic replacement, and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from prereg.errors import StorageError
from prereg.workers import refused_by_disk

__all__ = [
    "DATA_SYNC",
    "as_bytes",
    "disk_errors",
    "human_size",
    "pread_exactly",
    "pwrite_all",
    "replace_bytes",
    "require_space",
    "reserve",
    "sync_folder",
]

# macOS has no fdatasync; fsync does more than is needed there, never less.
DATA_SYNC = getattr(os, "fdatasync", os.fsync)


def human_size(size: int) -> str:
    """Return `size` bytes in a unit that reads well."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


@contextlib.contextmanager
def disk_errors(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turn an OSError into a StorageError that names the file, the space needed and the remedy."""
    try:
        yield
    except OSError as error:
        size = "" if needed is None else f" ({human_size(needed)} needed)"
        refused = refused_by_disk(path, error, f"can't be used{size}")
        raise StorageError(
            refused.message, remedy=f"{refused.remedy}; then run again: finished blocks are kept"
        ) from error


def require_space(folder: Path, needed: int) -> None:
    """Refuse to start what can't end.

    Raises
    ------
    StorageError
        If `folder`'s disk has less than `needed` bytes free.
    """
    with disk_errors(folder, needed):
        free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"{folder}: {human_size(needed)} needed, {human_size(free)} free",
            remedy="free some space or choose another folder with --cache-dir",
        )


def reserve(fd: int, size: int) -> None:
    """Give the file `size` bytes, really allocated where the file system can do that."""
    os.ftruncate(fd, size)
    if size and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            # Some file systems can't reserve; a sparse file then fails later, at the write.
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise


def pwrite_all(fd: int, data: memoryview, offset: int) -> None:
    """Write all of `data` at `offset`; one call to the system may write less than it was given."""
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written


def pread_exactly(fd: int, size: int, offset: int) -> bytes:
    """Read `size` bytes at `offset`; fewer come back only at the end of the file."""
    parts = []
    while size:
        part = os.pread(fd, size, offset)
        if not part:
            break
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)


def as_bytes(array: np.ndarray) -> memoryview:
    """Return an array's bytes in C order, without a copy where it is contiguous."""
    return memoryview(np.ascontiguousarray(array).data).cast("B")


def replace_bytes(file: Path, data: bytes) -> None:
    """Put `data` in `file`'s place in one step, forced to disk."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    with disk_errors(file, len(data)):
        try:
            with part.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, where the system allows it."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
