"""What long work looks like on a terminal, and in a pipe.

A terminal gets a bar with count, rate, elapsed and remaining time. Anything else (a pipe, a log, a dumb
terminal) gets plain lines: one at the start, one every twenty seconds, one at the end. Nothing here may stop
the work: a terminal that went away is written to in vain. rich is imported only once something is drawn.
"""

from __future__ import annotations

from prereg.console.bars import BarProgress, Board, brief_count, brief_time
from prereg.console.streams import QuietStream, plain, to_text, wants_color, write

__all__ = [
    "BarProgress",
    "Board",
    "QuietStream",
    "brief_count",
    "brief_time",
    "plain",
    "to_text",
    "wants_color",
    "write",
]
