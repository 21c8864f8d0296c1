"""Folders that may not be looked into, also where the tests run as root, whom no permission stops."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["forbidden"]

NOBODY = 65534


@contextlib.contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """Run the body as somebody who may neither list nor enter `folder`, which exists."""
    mode, user = folder.stat().st_mode, os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
        folder.chmod(mode)
