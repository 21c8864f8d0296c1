"""Text and files that anyone may have written: shown without harm, read within bounds."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["printable", "read_bounded"]


def printable(text: str | bytes, limit: int = 200) -> str:
    """Return foreign text on one line, without control characters or escapes, and of bounded length."""
    if isinstance(text, bytes):
        text = text[: 8 * limit].decode("utf-8", "replace")
    line = " ".join(text[: 8 * limit].split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= limit else line[: limit - 3] + "..."


def read_bounded(file: Path, limit: int, *, links: bool = False) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes. Pipes and devices are not waited for.

    Parameters
    ----------
    file
        What to read.
    limit
        The most bytes.
    links
        Whether a link is followed.

    Raises
    ------
    OSError
        If it can't be read.
    ValueError
        In words, if it is no regular file, or larger.
    """
    follow = 0 if links else getattr(os, "O_NOFOLLOW", 0)
    flags = os.O_RDONLY | follow | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not links and file.is_symlink():
        raise ValueError("no regular file: a link, which is not followed")
    with open(os.open(file, flags), "rb") as handle:  # noqa: PTH123 - Path.open takes no flags
        status = os.fstat(handle.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no regular file")
        raw = b"" if status.st_size > limit else handle.read(limit + 1)
    if status.st_size > limit or len(raw) > limit:
        raise ValueError(f"too large: more than {limit:,} bytes")
    return raw
