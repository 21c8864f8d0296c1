"""Small JSON files that anyone may have written: read with distrust, written once and never over another."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.protocol import plain
from prereg.registration.attempts_files import read_bounded
from prereg.workers import refused_by_disk

__all__ = ["MAX_BYTES", "content_digest", "decode_json", "read_json", "write_once"]

MAX_BYTES = 2_000_000
MAX_DEPTH = 64

# What systems answer that have no hard links.
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK}
)


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the sha256 of plain data in canonical form, 64 hex characters."""
    text = json.dumps(
        plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def read_json(file: Path, *, limit: int = MAX_BYTES) -> Any:
    """Read a small JSON file that anyone may have written.

    Raises
    ------
    RegistrationError
        If it is no regular file, too large, not UTF-8, not JSON, nested too deeply, or holds a key twice.
    """
    try:
        raw = read_bounded(file, limit)
    except ValueError as error:
        raise RegistrationError(
            f"{file}: {error}", remedy=f"put the file itself in its place: git checkout -- {file}"
        ) from error
    return decode_json(raw, str(file), limit=limit)


def decode_json(raw: bytes, where: str, *, limit: int = MAX_BYTES) -> Any:
    """Decode JSON that anyone may have written; as `read_json`, for bytes that came from elsewhere."""
    if len(raw) > limit:
        raise RegistrationError(f"{where}: too large: more than {limit:,} bytes")
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        _bound(value, where, 0)
    except UnicodeDecodeError as error:
        raise RegistrationError(f"{where}: not UTF-8") from error
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RegistrationError(
            f"{where}: not JSON as prereg writes it: {said}",
            remedy="restore it: git checkout -- on this file, or git log -p to see what happened to it",
        ) from error
    return value


def write_once(file: Path, content: bytes, token: str) -> None:
    """Put a new file in its place in one step, forced to disk; of two writers at once one gets the error.

    Parameters
    ----------
    file
        Where.
    content
        What.
    token
        64 hex characters, for the name of what a killed writer leaves behind: `attempts_files.clean` knows it.

    Raises
    ------
    RegistrationError
        If something lies there already, be it a link to nowhere.
    StorageError
        If the disk refuses. Nothing was added then.
    """
    part = file.with_name(f".{token}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_new(part, content)
            _publish(part, file, content)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise refused_by_disk(file, error, "can't be written") from error


def _write_new(file: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(file, flags, 0o666), "wb") as handle:  # noqa: PTH123 - Path.open takes no flags
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def _publish(part: Path, file: Path, content: bytes) -> None:
    """Give a finished file its name, which nothing else may have: a rename would write over it."""
    try:
        try:
            file.hardlink_to(part)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _write_new(file, content)
    except FileExistsError as error:
        raise RegistrationError(
            f"{file}: there already; a registration is never overwritten",
            remedy=f"look at it: git log -p -- {file}",
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key '{printable(key, 60)}' stands in it twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _bound(value: Any, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RegistrationError(f"{where}: nested too deeply")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise RegistrationError(f"{where}: a number too large to be one")
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        _bound(item, where, depth + 1)
