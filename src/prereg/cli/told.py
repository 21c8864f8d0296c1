"""What a command tells, and to whom: results to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from prereg.console import to_text, wants_color, write
from prereg.errors import PreregError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "BUG",
    "ERROR",
    "INTERRUPTED",
    "INTERRUPTED_LINE",
    "NOT_SUPPORTED",
    "result",
    "show",
    "show_as_it_is",
    "size",
    "tell_machine",
    "told",
    "whole_or_error",
]

# What they mean stands in `prereg --help`, the one table of them.
NOT_SUPPORTED = 1
ERROR = 2
BUG = 3
INTERRUPTED = 130
INTERRUPTED_LINE = "interrupted; run the same command again to resume\n"


@contextlib.contextmanager
def told(as_json: bool) -> Iterator[None]:
    """Turn trouble that prereg foresaw into words and an exit code; let any other exception through.

    Raises
    ------
    typer.Exit
        With 2 for an error, 130 for Ctrl-C.
    """
    try:
        yield
    except PreregError as error:
        _tell(error, as_json)
        raise typer.Exit(ERROR) from error
    except OSError as error:
        # Every stage words what it expects of the disk; this is the file that nobody thought of.
        _tell(_refused(error), as_json)
        raise typer.Exit(ERROR) from error
    except KeyboardInterrupt as error:
        if as_json:
            tell_machine("Interrupted", "interrupted", "run the same command again to resume")
        write("\n" + INTERRUPTED_LINE, sys.stderr)
        raise typer.Exit(INTERRUPTED) from error


def tell_machine(kind: str, message: str, remedy: str | None) -> None:
    """Write what went wrong to standard output, as the one JSON document of a command that has no other.

    Where standard output itself is the trouble, nothing is written: standard error still says so.
    """
    with contextlib.suppress(PreregError), whole_or_error():
        _out(_document({"error": {"kind": kind, "message": message, "remedy": remedy}}))


def _tell(error: PreregError, as_json: bool) -> None:
    if as_json:
        tell_machine(type(error).__name__, error.message, error.remedy)
    write(f"error: {error.message}\n", sys.stderr)
    if error.remedy is not None:
        write(f"next: {error.remedy}\n", sys.stderr)


def _refused(error: OSError) -> PreregError:
    from prereg.workers import refused_by_disk

    if isinstance(error.filename, str):
        return refused_by_disk(Path(error.filename), error, "can't be used")
    return PreregError(f"the system refused: {error.strerror or error}")


@contextlib.contextmanager
def whole_or_error() -> Iterator[None]:
    """Let no half-written result pass for a whole one.

    A reader that stopped reading (`| head`) has what it wanted; any other failure to write is an error.
    """
    try:
        yield
    except BrokenPipeError:
        _abandon_output()
    except OSError as error:
        _abandon_output()
        raise PreregError(
            f"the result could not be written: {error.strerror or error}",
            remedy="give standard output somewhere to go, and run the same command again",
        ) from error


def _abandon_output() -> None:
    # The interpreter flushes standard output once more at its end: give it somewhere to go.
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def result(value: Any) -> None:
    """Write a machine's answer: one JSON document."""
    with whole_or_error():
        _out(_document(value))


def _document(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        text.encode(_encoding())
    except (UnicodeEncodeError, LookupError):
        # The same document in letters that every encoding has.
        return json.dumps(value, indent=2, allow_nan=False) + "\n"
    return text


def show(what: RenderableType) -> None:
    """Write a person's answer: text as wide as the terminal, 80 columns where there is none."""
    import shutil

    from rich.text import Text

    if isinstance(what, str):
        # Never as markup: a path or a claim may have brackets in it.
        what = Text(what)
    width = shutil.get_terminal_size((80, 24)).columns
    show_as_it_is(to_text(what, width, wants_color(sys.stdout), encoding=_encoding()))


def show_as_it_is(
    text: str, *, lacking: Literal["backslashreplace", "xmlcharrefreplace"] = "backslashreplace"
) -> None:
    """Write text to standard output, not wrapped; `lacking` says how to write what its encoding lacks."""
    encoding = _encoding()
    try:
        text.encode(encoding)
    except LookupError:
        text = text.encode("ascii", lacking).decode("ascii")
    except UnicodeEncodeError:
        text = text.encode(encoding, lacking).decode(encoding)
    with whole_or_error():
        _out(text)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def size(n_bytes: int) -> str:
    """Return a size as people read it."""
    number = float(n_bytes)
    for unit in ("B", "kB", "MB"):
        if number < 1000.0:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000.0
    return f"{number:.1f} GB"


def _out(text: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    sys.stdout.write(text)
    sys.stdout.flush()
