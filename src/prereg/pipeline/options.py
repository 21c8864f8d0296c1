"""What a run may choose freely: where things lie, where the model runs, who watches. No number depends on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from prereg.workers import NullProgress, Progress

__all__ = ["RunOptions", "default_cache"]


def default_cache() -> Path:
    """Return the folder for models and stores: ``$PREREG_CACHE``, or the user's own cache folder."""
    named = os.environ.get("PREREG_CACHE")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("prereg")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Everything about a run that must not change its numbers.

    Parameters
    ----------
    root
        The project's root; paths in a protocol and in the registry are relative to it.
    cache, reports
        Where models and stores, and where tracked tables lie.
    device, dtype
        Where and in which precision the model runs.
    offline
        Never ask the network.
    engine, jobs
        How measurements are spread; see `Workers`.
    progress
        Makes a progress bar; called once for each long stage.
    say
        Told one line about each stage that has to run.
    integrity
        Says in words how this package was altered in memory, None where it wasn't; asked before evidence is written.
    """

    root: Path
    cache: Path = field(default_factory=default_cache)
    reports: Path | None = None
    device: str = "cpu"
    dtype: str = "float32"
    offline: bool = False
    engine: str = "loky"
    jobs: int = 1
    progress: Callable[[], Progress] = NullProgress
    say: Callable[[str], None] = lambda _line: None
    integrity: Callable[[], str | None] = lambda: None
