"""Lines and bars that show through pytest's capture of output."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

__all__ = ["progress", "say"]


def say(config: pytest.Config, line: str) -> None:
    """Write one line to stderr."""
    with _uncaptured(config):
        sys.stderr.write(f"\nprereg: {line}\n")


@contextlib.contextmanager
def _uncaptured(config: pytest.Config) -> Iterator[None]:
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    with capture.global_and_fixture_disabled():
        yield


class _Uncaptured:
    """A progress bar that shows through pytest's capture of output."""

    def __init__(self, config: pytest.Config) -> None:
        from prereg.console import BarProgress

        self._config = config
        self._inner = BarProgress()
        self._open: contextlib.ExitStack | None = None

    def start(self, total: int, label: str) -> None:
        self._open = contextlib.ExitStack()
        self._open.enter_context(_uncaptured(self._config))
        self._inner.start(total, label)

    def advance(self, n: int = 1) -> None:
        self._inner.advance(n)

    def finish(self) -> None:
        self._inner.finish()
        if self._open is not None:
            self._open.close()
            self._open = None


def progress(config: pytest.Config) -> _Uncaptured:
    """Return a progress bar for one stage."""
    return _Uncaptured(config)
