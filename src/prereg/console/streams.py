"""Text for people: what a stream can show, and writing to one that may have gone."""

from __future__ import annotations

import contextlib
import io
import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["QuietStream", "plain", "to_text", "wants_color", "write"]

# Same widths, so that a layout survives the change.
_ASCII = str.maketrans(
    {"✓": "+", "✗": "x", "±": "~", "…": ".", "─": "-", "━": "-", "\u2013": "-", "\u2019": "'"}
)


def plain(stream: TextIO | None) -> bool:
    """Tell whether `stream` gets plain lines: it is closed, no terminal, or a dumb one."""
    try:
        return stream is None or not stream.isatty() or os.environ.get("TERM") in ("dumb", "unknown")
    except (OSError, ValueError):
        return True


def wants_color(stream: TextIO | None) -> bool:
    """Tell whether to colour: a terminal, and no ``NO_COLOR`` in the environment (no-color.org)."""
    return not plain(stream) and not os.environ.get("NO_COLOR")


def write(text: str, stream: TextIO | None) -> None:
    """Write `text` to `stream`, whatever its encoding, open or closed; None is a stream that was never open."""
    quiet = QuietStream(stream)
    quiet.write(text)
    quiet.flush()


def to_text(renderable: RenderableType, width: int, color: bool, *, encoding: str = "utf-8") -> str:
    """Return a renderable as text that ends in a newline.

    Parameters
    ----------
    renderable
        What to draw.
    width
        Columns.
    color
        Whether to write ANSI colour codes; without it no escape is written at all.
    encoding
        Of the stream that will carry the text: symbols that it lacks become ASCII ones.
    """
    from rich.console import Console

    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        # The caller decided; the environment has no further say.
        _environ={},
    )
    console.print(renderable)
    text = "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip("\n") + "\n"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        text = text.translate(_ASCII)
    return text


class QuietStream(io.TextIOBase):
    """A text stream that swallows what can't be written: it was closed, or its reader has gone.

    Characters that the stream's encoding lacks become question marks.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's own encoding."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Tell whether the stream is a terminal that still listens."""
        try:
            return self._stream is not None and self._stream.isatty()
        except (OSError, ValueError):
            return False

    def fileno(self) -> int:
        """Return the stream's descriptor, as rich asks for it to learn the width."""
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write what can be written."""
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(text.encode(self.encoding, "replace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        # A stream's end is flushed by the interpreter too, after it has gone.
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):
                self._stream.flush()
