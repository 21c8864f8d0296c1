"""Progress: plain lines in a pipe, bars on a terminal, and no harm from a stream that went away."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading

import pytest

from prereg.console import BarProgress, Board, brief_count, brief_time


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    """A stream whose reader has left."""

    def write(self, text: str) -> int:  # noqa: ARG002
        raise BrokenPipeError(32, "Broken pipe")


def test_a_pipe_gets_a_line_at_the_start_and_one_at_the_end() -> None:
    """Quick work in a log is two lines, however many steps it has."""
    stream, clock = io.StringIO(), Clock()
    bar = Board(stream, clock=clock).bar()
    bar.start(1000, "kernels")
    for _ in range(1000):
        clock.now += 0.01
        bar.advance()
    bar.finish()
    assert stream.getvalue().splitlines() == ["kernels: 0 of 1.0k", "kernels: 1.0k done in 10 s"]


def test_a_pipe_gets_a_line_every_twenty_seconds_with_rate_and_remaining_time() -> None:
    """Slow work says how far it is, and no more often than that."""
    stream, clock = io.StringIO(), Clock()
    bar = Board(stream, clock=clock).bar()
    bar.start(10, "kernels")
    for _ in range(10):
        clock.now += 6.0
        bar.advance()
    bar.finish()
    assert stream.getvalue().splitlines()[1:-1] == [
        "kernels: 4 of 10 after 24 s, 6.0 s each, about 36 s left",
        "kernels: 8 of 10 after 48 s, 6.0 s each, about 12 s left",
    ]


def test_work_that_stops_early_does_not_say_it_is_done() -> None:
    """An exception halfway leaves a line that says so."""
    stream = io.StringIO()
    bar = Board(stream).bar()
    bar.start(5, "kernels")
    bar.advance(2)
    bar.finish()
    assert "stopped at 2 of 5" in stream.getvalue()
    assert "done" not in stream.getvalue()


def test_a_step_counts_for_the_innermost_open_stage() -> None:
    """Stages nest on one object, and the outer one goes on afterwards."""
    stream = io.StringIO()
    bar = Board(stream).bar()
    bar.start(2, "outer")
    bar.advance()
    bar.start(3, "inner")
    bar.advance(3)
    bar.finish()
    bar.advance()
    bar.finish()
    ends = [line.split(" in ")[0] for line in stream.getvalue().splitlines()[2:]]
    assert ends == ["inner: 3 done", "outer: 2 done"]


def test_a_terminal_gets_bars_for_all_that_runs_at_once_and_a_line_for_each() -> None:
    """Two bars on one board are drawn together; both leave their line."""
    stream = Terminal()
    board = Board(stream)
    first, second = board.bar(), board.bar()
    first.start(2, "twins")
    second.start(98_000_000, "download")
    second.advance(49_000_000)
    board.say("a line between")
    second.advance(49_000_000)
    second.finish()
    first.advance(2)
    first.finish()
    text = stream.getvalue()
    assert "0/98.0M" in text
    assert "a line between" in text
    assert "download: 98.0M done" in text
    assert "twins: 2 done" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, (
        "the cursor was hidden once and shown again"
    )


def test_no_color_is_honoured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR, bars are drawn without colour codes."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    bar = Board(stream).bar()
    bar.start(2, "twins")
    bar.advance(1)
    bar.finish()
    assert "\x1b[3" not in stream.getvalue()
    assert "twins" in stream.getvalue()


@pytest.mark.parametrize("stream", [Gone(), "closed", "closed terminal"])
def test_a_stream_that_went_away_does_not_stop_the_work(stream: object) -> None:
    """Whatever became of the terminal, the calls return."""
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    elif stream == "closed terminal":
        stream = Terminal()
        stream.close()
    bar = Board(stream).bar()  # type: ignore[arg-type]
    bar.start(2, "twins")
    bar.advance(2)
    bar.finish()


def test_a_closed_standard_error_never_sends_progress_to_standard_output() -> None:
    """Standard output belongs to results: `--json` must stay JSON."""
    code = (
        "from prereg.console import BarProgress\nb = BarProgress()\n"
        "b.start(2, 'twins'); b.advance(2); b.finish(); print('result')"
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "result\n"


def test_steps_from_many_threads_are_all_counted() -> None:
    """A watcher thread and the work may step the same bar."""
    stream = io.StringIO()
    bar = Board(stream).bar()
    bar.start(4000, "bytes")
    threads = [threading.Thread(target=lambda: [bar.advance() for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bar.finish()
    assert "bytes: 4.0k done" in stream.getvalue()


def test_steps_and_ends_without_a_start_are_ignored() -> None:
    """A late step of a watcher thread is no error."""
    bar = BarProgress(Board(io.StringIO()))
    bar.advance()
    bar.finish()


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (98_362_432, "98.4M"), (2.5, "2.5"), (5e12, "5.0T")],
)
def test_counts_read_well(number: float, text: str) -> None:
    """Small counts are exact, large ones rounded."""
    assert brief_count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.4, "59 s"), (125, "2 min 05 s"), (3725, "1 h 02 min")]
)
def test_times_read_well(seconds: float, text: str) -> None:
    """Two units at most."""
    assert brief_time(seconds) == text
