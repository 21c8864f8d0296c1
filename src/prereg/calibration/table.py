"""A calibration, and what power needs, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from prereg.calibration.power import PowerResult
from prereg.calibration.records import Calibration, Rate
from prereg.calibration.views import lines_of

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["calibration_table", "power_table"]


def calibration_table(calibration: Calibration) -> RenderableType:
    """Return the table: size against alpha, power, P(refuted) under the alternative, coverage."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in ("gate", "data", "size", "power", "refuted", "cover"):
        table.add_column(name, no_wrap=True, justify="left" if name in ("gate", "data") else "right")
    for number, (head, lines) in enumerate(groupby(lines_of(calibration), lambda line: line.head)):
        if number:
            table.add_row()
        notes = iter((Text(head[0], style="bold"), f"alpha {_short(head[2])}", f"n {head[1]}"))
        for line in lines:
            size = f"{'✗ ' if line.faulty else ''}{_rate(line.size)}"
            table.add_row(
                next(notes, ""),
                line.population,
                Text(size, style="red" if line.faulty else ""),
                "" if line.power is None else _rate(line.power),
                _short(line.refuted.share),
                _short(line.coverage.share),
            )
    return table


def power_table(results: Sequence[PowerResult]) -> RenderableType:
    """Return the table: units needed, the power simulated there, the first guess in closed form, and why."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in ("gate", "units", "power there", "closed form", "pilot"):
        table.add_column(name, no_wrap=True, justify="left" if name == "gate" else "right")
    table.add_column("how", ratio=1)
    for result in results:
        table.add_row(
            Text(result.hypothesis, style="bold"),
            "none" if result.n_units is None else str(result.n_units),
            "" if result.power is None else _rate(result.power),
            "" if result.closed_form is None else str(result.closed_form),
            str(result.pilot_units),
            result.reason,
        )
    return table


def _rate(rate: Rate) -> str:
    return f"{_short(rate.share)} [{_short(rate.low)} {_short(rate.high)}]"


def _short(share: float) -> str:
    """Write a share in three digits without the leading 0, so that a row fits 80 columns."""
    text = f"{share:.3f}"
    return "1" if text == "1.000" else text.removeprefix("0")
