"""The attempts log's folder: what lies in it, read with distrust; one new file, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from prereg.errors import StorageError
from prereg.hostile import printable
from prereg.hostile import read_bounded as bounded
from prereg.workers import refused_by_disk

__all__ = ["MAX_FILES", "Listing", "clean", "list_folder", "read_bounded", "write_new"]

MAX_FILES = 100_000

_ENTRY = re.compile(r"[0-9a-f]{64}\.json")
_LEFTOVER = re.compile(r"\.[0-9a-f]{64}\.([0-9]{1,10})-[0-9a-f]{8}\.part")

# File managers leave these wherever a folder was looked at; no attempt can hide under such a name.
_LITTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})

# A file is written in milliseconds; one this old has lost its writer. A writer that is robbed of its file all the
# same, say because its machine slept, writes it anew.
_LEFTOVER_SECONDS = 60.0
_TRIES = 20

# What systems answer that have no hard links.
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK}
)


@dataclass(frozen=True, slots=True)
class Listing:
    """Names in the folder: entries by their form, in ascending order; what else is wrong, in words."""

    names: tuple[str, ...]
    faults: tuple[str, ...]


def list_folder(folder: Path) -> Listing:
    """List the folder without opening a file; one that does not exist is empty."""
    try:
        mode = folder.lstat().st_mode
        if stat.S_ISLNK(mode):
            return Listing((), ("the log's folder is a symbolic link: it is not followed",))
        if not stat.S_ISDIR(mode):
            return Listing((), ("something that is no folder lies in the log's place",))
        with os.scandir(folder) as found:
            items = list(islice(found, MAX_FILES + 1))
    except FileNotFoundError:
        return Listing((), ())
    except (OSError, ValueError) as error:
        return Listing((), (f"the log's folder can't be read: {_reason(error)}",))
    faults = []
    if len(items) > MAX_FILES:
        faults.append(f"more than {MAX_FILES:,} files: the rest was not read")
        items = items[:MAX_FILES]
    names = []
    for item in sorted(items, key=lambda item: item.name):
        said = _foreign(item)
        if said is not None:
            faults.append(f"{printable(item.name)}: {said}")
        elif _ENTRY.fullmatch(item.name):
            names.append(item.name)
    return Listing(tuple(names), tuple(faults))


def _foreign(item: os.DirEntry[str]) -> str | None:
    if item.name in _LITTER or _LEFTOVER.fullmatch(item.name):
        return None
    try:
        if item.is_symlink():
            return "a symbolic link: it is not followed"
        if not item.is_file(follow_symlinks=False):
            return "no regular file"
    except OSError as error:
        return f"can't be read: {_reason(error)}"
    return None if _ENTRY.fullmatch(item.name) else "a foreign file: an attempt's name is 64 hex characters"


def read_bounded(file: Path, limit: int) -> bytes:
    """Read a small regular file.

    Raises
    ------
    ValueError
        In words, if it is something else by now, is larger than `limit` bytes, or can't be read.
    """
    try:
        return bounded(file, limit)
    except OSError as error:
        raise ValueError(f"can't be read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return printable((error.strerror if isinstance(error, OSError) else None) or str(error))


def clean(folder: Path) -> None:
    """Remove what writers that were killed left behind; what can't be removed stays and does no harm."""
    if folder.is_symlink():
        return
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for item in islice(found, MAX_FILES):
            name = _LEFTOVER.fullmatch(item.name)
            with contextlib.suppress(OSError):
                if name and (_is_gone(int(name[1])) or _age(item) > _LEFTOVER_SECONDS):
                    os.unlink(item.path)  # noqa: PTH108 - removes a link itself, as it should


def _age(item: os.DirEntry[str]) -> float:
    return time.time() - item.stat(follow_symlinks=False).st_mtime


def _is_gone(process: int) -> bool:
    """Tell whether no process of that number runs here; where that can't be asked safely, age decides."""
    if os.name != "posix":
        return False  # signal 0 is Ctrl-C there
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def write_new(folder: Path, name: str, content: bytes) -> None:
    """Put a new file into the folder in one step, forced to disk; a file of that name is never replaced.

    A reader sees the whole file or none, whenever this process is killed. Two writers of one name write the
    same content, since the name is its digest; the first one's file stays.

    Raises
    ------
    StorageError
        If the disk refuses, or the folder is a symbolic link. Nothing was added then.
    """
    try:
        _make(folder)
        tries = 1
        while not _write_once(folder, name, content, last=tries == _TRIES):
            tries += 1
        _sync(folder)
    except OSError as error:
        raise StorageError(
            refused_by_disk(folder, error, "can't take a new attempt").message,
            remedy="see to it that the study's folder can be written, then run again: the attempt is not logged yet",
        ) from error


def _make(folder: Path) -> None:
    if folder.is_symlink():
        raise OSError(errno.EEXIST, "it is a symbolic link, which is not followed")
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _write_once(folder: Path, name: str, content: bytes, *, last: bool) -> bool:
    """Write and publish one temporary file; False if somebody cleaned it away in between."""
    part = folder / f".{name.removesuffix('.json')}.{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(part, flags, 0o666), "wb") as handle:  # noqa: PTH123 - Path.open takes no flags
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        _publish(part, folder / name)
    except FileNotFoundError:
        if last or not folder.is_dir():
            raise
        return False
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return True


def _publish(part: Path, file: Path) -> None:
    try:
        file.hardlink_to(part)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with contextlib.suppress(FileExistsError):
            if not file.exists():
                part.rename(file)


def _sync(folder: Path) -> None:
    """Force a folder's names to disk, where the system allows it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
