"""Lines that are to be copied: never broken to the width of a terminal, for half a command is another command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from prereg.cli.told import whole_or_error
from prereg.console import to_text

__all__ = ["show_unwrapped"]


def show_unwrapped(lines: Sequence[str]) -> None:
    """Write lines to standard output as they are, each on one line whatever the terminal's width."""
    from rich.cells import cell_len
    from rich.text import Text

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    width = max((cell_len(line) for line in lines), default=0) + 1
    text = to_text(Text("\n".join(lines)), width, color=False, encoding=encoding)
    with whole_or_error():
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
