"""What several models say together, in words: which verdicts agree, and what the pooled estimate is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prereg.report.cells import name_cell
from prereg.report.replication import CAVEAT, Replication
from prereg.report.rows import MARKS, Block, Row, number_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["agreement", "together"]

LEAST_WORDS, MOST_WORDS = 20, 60
"""Widths of the column of words; in less room than the first the table is a list."""
GAP = 2


def agreement(rows: Sequence[Row]) -> str:
    """Return how many models came to which word, such as ``supported on 2 of 3, refuted on 1``.

    Words are those that may be claimed; where an answer may not be, the intervals' own answers follow in brackets.

    Parameters
    ----------
    rows
        One hypothesis, a row for each model.
    """
    words = _counted([row.outcome for row in rows], len(rows))
    held = [row.answer for row in rows if row.answer]
    return f"{words} (intervals alone: {_counted(held, len(held))})" if held else words


def together(
    blocks: Sequence[Block], pooled: Sequence[Replication], console: Console, options: ConsoleOptions
) -> Iterator[RenderableType]:
    """Yield the summary: a row for each hypothesis, and what a reader must know about the pooled numbers."""
    from rich.measure import Measurement
    from rich.text import Text

    mine = {
        name: [row for row in pooled if row.hypothesis == name] for name in {r.hypothesis for r in pooled}
    }
    rows = [
        (found, mine.get(found[0].hypothesis, []))
        for found in zip(*(block.rows for block in blocks), strict=True)
    ]
    yield Text("")
    yield Text(f"Replication over {len(blocks)} models", style="bold")
    without = Measurement.get(
        console, options.update(width=10 * options.max_width), _table(rows, None)
    ).maximum
    room = options.max_width - without - GAP
    if room >= LEAST_WORDS:
        yield _table(rows, min(room, MOST_WORDS))
    else:
        yield from _list(rows)
    for found, contrasts in rows:
        for words in _left_out(contrasts):
            yield Text(f"{found[0].hypothesis}: {words}")
    yield from _notes(pooled)


def _counted(words: Sequence[str], of: int) -> str:
    counts = Counter(words)
    order = [*(word for word in MARKS if word in counts), *(word for word in counts if word not in MARKS)]
    said = [f"{MARKS[w][1] if w in MARKS else w} on {counts[w]}" for w in order]
    said[0] = f"{said[0]} of {of}"
    return ", ".join(said)


def _table(rows: Sequence[tuple[Sequence[Row], Sequence[Replication]]], words: int | None) -> Table:
    """Return the table with a column of words this wide; without that column where there is none."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, GAP, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("hypothesis", no_wrap=True)
    table.add_column("pooled", no_wrap=True)
    table.add_column("tau", justify="right", no_wrap=True)
    if words is not None:
        table.add_column("verdicts, and what is pooled", width=words)
    for found, contrasts in rows:
        worst = _worst(contrasts)
        said = _verdicts(found)
        if worst is not None and len(contrasts) > 1:
            said.append(f"\n{worst.contrast}", style="dim")
        cells = [name_cell(found[0]), Text("\n".join(_pooled(worst))), Text(_tau(worst)), said]
        table.add_row(*(cells if words is not None else cells[:-1]))
    return table


def _list(rows: Sequence[tuple[Sequence[Row], Sequence[Replication]]]) -> Iterator[Text]:
    from rich.text import Text

    for found, contrasts in rows:
        worst = _worst(contrasts)
        yield name_cell(found[0])
        yield Text("  ").append_text(_verdicts(found))
        for line in _pooled(worst):
            yield Text(f"  {line}")
        if worst is not None:
            yield Text(f"  tau {_tau(worst)}")
            if len(contrasts) > 1:
                yield Text(f"  {worst.contrast}")


def _verdicts(rows: Sequence[Row]) -> Text:
    from rich.text import Text

    outcomes = {row.outcome for row in rows}
    # Only where all models came to one word does it get that word's colour.
    style = MARKS[outcomes.pop()][2] if len(outcomes) == 1 and outcomes <= set(MARKS) else ""
    return Text(agreement(rows), style=style)


def _worst(contrasts: Sequence[Replication]) -> Replication | None:
    return next((row for row in contrasts if row.worst), None)


def _pooled(worst: Replication | None) -> list[str]:
    if worst is None or worst.pooled is None:
        return ["not pooled"]
    p, threshold = worst.pooled, worst.threshold

    def interval(low: float, high: float) -> str:
        return f"[{number_text(low, threshold)}, {number_text(high, threshold)}]"

    lines = [number_text(p.mu, threshold), interval(p.low, p.high)]
    if p.prediction_low is not None and p.prediction_high is not None:
        lines.append(f"next {interval(p.prediction_low, p.prediction_high)}")
    return lines


def _tau(worst: Replication | None) -> str:
    return "" if worst is None or worst.pooled is None else f"{math.sqrt(worst.pooled.tau2):.3f}"


def _left_out(contrasts: Sequence[Replication]) -> Iterator[str]:
    """Say which contrasts are not pooled, and which models are in no mean."""
    refused: dict[str, list[str]] = {}
    for row in contrasts:
        if row.not_pooled:
            refused.setdefault(row.not_pooled, []).append(row.contrast)
    for reason, names in refused.items():
        some = "" if len(names) == len(contrasts) else f"{len(names)} of {len(contrasts)} contrasts "
        yield f"{some}not pooled: {reason}"
    worst = _worst(contrasts)
    out = (
        [] if worst is None else [f"{part.model} ({part.left_out})" for part in worst.parts if part.left_out]
    )
    if out:
        yield f"pooled without {', '.join(out)}"


def _notes(pooled: Sequence[Replication]) -> Iterator[Text]:
    from rich.text import Text

    shown = [row.pooled for row in pooled if row.worst and row.pooled is not None]
    if not shown:
        return
    levels = " or ".join(f"{level:g}" for level in sorted({p.level for p in shown}, reverse=True))
    yield Text("")
    following = "; next: where one more such model would lie" if any(p.k > 2 for p in shown) else ""
    yield Text(
        "pooled: the mean over models of the contrast that speaks most against the claim, with its "
        f"Hartung-Knapp-Sidik-Jonkman interval at level {levels}; tau: how much models differ, as a standard "
        f"deviation{following}.",
        style="italic",
    )
    for caution in dict.fromkeys(p.caution for p in shown if p.caution):
        yield Text(f"{caution[:1].upper()}{caution[1:]}.", style="italic")
    yield Text(CAVEAT, style="italic")
