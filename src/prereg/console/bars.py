"""Progress that people watch: bars on a terminal, a few plain lines anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

from prereg.console.streams import QuietStream, plain, wants_color

if TYPE_CHECKING:
    from rich.progress import Progress, Task

__all__ = ["BarProgress", "Board", "brief_count", "brief_time"]

PLAIN_SECONDS = 20.0


def brief_count(number: float) -> str:
    """Return a count as people read it: 812, 12.3k, 98.4M."""
    size = float(number)
    for suffix in ("", "k", "M", "G"):
        if size < 1000.0:
            whole = suffix == "" and size == int(size)
            return f"{int(size)}" if whole else f"{size:.1f}{suffix}"
        size /= 1000.0
    return f"{size:.1f}T"


def brief_time(seconds: float) -> str:
    """Return a span of time as people read it: 8 s, 2 min 05 s, 1 h 02 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


@dataclass(slots=True)
class _Job:
    label: str
    total: int
    started: float
    spoke: float
    done: int = 0
    bar: int | None = None


class Board:
    """Where the bars of one stream are drawn together, however many run at once.

    Parameters
    ----------
    stream
        Where to draw; None is standard error as it is when a line is written.
    clock
        Seconds that only grow; only what is shown depends on it.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._given = stream
        self._clock = clock
        self._lock = threading.RLock()
        self._drawn: Progress | None = None
        self._running = 0

    def bar(self) -> BarProgress:
        """Return a new bar on this board; `RunOptions.progress` wants this method."""
        return BarProgress(self)

    def say(self, line: str) -> None:
        """Write one line above the bars."""
        with self._lock:
            if self._drawn is not None:
                self._drawn.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                quiet = QuietStream(self._stream)
                quiet.write(line + "\n")
                quiet.flush()

    @property
    def _stream(self) -> TextIO | None:
        return sys.stderr if self._given is None else self._given

    def _open(self, total: int, label: str) -> _Job:
        with self._lock:
            now = self._clock()
            job = _Job(label, total, now, now)
            if plain(self._stream):
                self.say(f"{label}: 0 of {brief_count(total)}")
                return job
            if self._drawn is None:
                self._drawn = _rich_progress(self._stream, self._clock)
                self._drawn.start()
            self._running += 1
            job.bar = int(self._drawn.add_task(label, total=total))
            return job

    def _step(self, job: _Job, n: int) -> None:
        with self._lock:
            job.done += n
            if self._drawn is not None and job.bar is not None:
                self._drawn.update(cast("Any", job.bar), advance=n)
                return
            now = self._clock()
            if now - job.spoke >= PLAIN_SECONDS and job.done < job.total:
                job.spoke = now
                self.say(_line(job, now))

    def _close(self, job: _Job) -> None:
        with self._lock:
            if self._drawn is not None and job.bar is not None:
                self._drawn.remove_task(cast("Any", job.bar))
                self._running -= 1
            took, done = brief_time(self._clock() - job.started), brief_count(job.done)
            end = f"{job.label}: {done} done in {took}"
            if job.done < job.total:
                end = f"{job.label}: stopped at {done} of {brief_count(job.total)} after {took}"
            if self._drawn is not None and self._running == 0:
                # The bars go, a line for each stays: a transcript reads the same with and without them.
                self._drawn.stop()
                self._drawn = None
            self.say(end)


class BarProgress:
    """Progress that people watch: implements `prereg.workers.Progress`.

    Stages may follow each other on one object, or nest: a step counts for the innermost open one.

    Parameters
    ----------
    board
        Where to draw; None is a board that all bars on standard error share.
    """

    def __init__(self, board: Board | None = None) -> None:
        self._board = _STDERR if board is None else board
        self._open: list[_Job] = []

    def start(self, total: int, label: str) -> None:
        """Begin a bar of `total` steps."""
        self._open.append(self._board._open(total, label))

    def advance(self, n: int = 1) -> None:
        """Tell that `n` more steps are done."""
        if self._open:
            self._board._step(self._open[-1], n)

    def finish(self) -> None:
        """Close the bar."""
        if self._open:
            self._board._close(self._open.pop())


_STDERR = Board()


def _line(job: _Job, now: float) -> str:
    spent = now - job.started
    text = f"{job.label}: {brief_count(job.done)} of {brief_count(job.total)} after {brief_time(spent)}"
    if job.done and spent > 0.0:
        left = spent / job.done * (job.total - job.done)
        text += f", {_rate(job.done / spent)}, about {brief_time(left)} left"
    return text


def _rate(speed: float) -> str:
    return f"{brief_count(round(speed, 1))}/s" if speed >= 1.0 else f"{1.0 / speed:.1f} s each"


def _rich_progress(stream: TextIO | None, clock: Callable[[], float]) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{brief_count(task.completed)}/{brief_count(task.total or 0)}")

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(_rate(task.speed) if task.speed else "", style="dim")

    console: Console = Console(
        file=cast("TextIO", QuietStream(stream)), force_terminal=True, no_color=not wants_color(stream)
    )
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        Count(),
        Rate(),
        TimeElapsedColumn(),
        TextColumn("left", style="dim"),
        TimeRemainingColumn(),
    )
    return Progress(
        *columns,
        console=console,
        transient=True,
        refresh_per_second=4,
        # One step may take a minute: a rate over rich's own half minute would vanish between two.
        speed_estimate_period=600.0,
        redirect_stdout=False,
        redirect_stderr=False,
        get_time=clock,
    )
