"""Progress of a download, read from the disk: whoever writes the bytes need not know of it."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prereg.workers import Progress

__all__ = ["size_on_disk", "watch_folder"]

INTERVAL_SECONDS = 0.2


def size_on_disk(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; 0 where nothing is there or nothing can be seen."""
    total = 0
    with contextlib.suppress(OSError):
        if path.is_file():
            return path.stat().st_size
        for entry in path.rglob("*"):
            # A file may be renamed between listing and asking: it then counts at its new name.
            with contextlib.suppress(OSError):
                if entry.is_file() and not entry.is_symlink():
                    total += entry.stat().st_size
    return total


@contextlib.contextmanager
def watch_folder(folder: Path, total: int, label: str, sink: Progress) -> Iterator[None]:
    """Report how many of `total` bytes lie in `folder` while the body runs.

    The count never passes `total` and never goes back, though files may be renamed or replaced
    meanwhile.
    """
    stop = threading.Event()
    shown = 0

    def report() -> None:
        nonlocal shown
        now = min(size_on_disk(folder), total)
        if now > shown:
            sink.advance(now - shown)
            shown = now

    def poll() -> None:
        while not stop.wait(INTERVAL_SECONDS):
            report()

    sink.start(total, label)
    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        report()
        sink.finish()
