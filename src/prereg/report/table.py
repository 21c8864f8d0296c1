"""The verdict table: what was promised, what was found, what the paper says.

It is made from plain records (`Verdict.as_record`), so that it can be drawn from verdicts.json and by a
process that measured nothing. Each outcome is a word, a symbol and a colour; the word alone is enough.
Where the table doesn't fit, it becomes a list.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prereg.console import to_text
from prereg.report.cells import claim_lines, hanging, mark_cell, name_cell, published_cell
from prereg.report.replication import replications
from prereg.report.rows import ANSWERS, Block, Row, blocks, tally
from prereg.report.side_by_side import SideBySide

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["render_verdicts", "to_svg", "to_text"]

LIST_BELOW = 76
CLAIM_COLUMN_FROM = 120

SECONDARY_NOTE = "* secondary: outside the primary family."


def render_verdicts(
    records: Sequence[Mapping[str, Any]],
    *,
    hypotheses: Sequence[str],
    notes: Sequence[str] = (),
    models: Sequence[str] = (),
) -> RenderableType:
    """Return the verdict table; for several models one with a column each, and what they say together.

    Parameters
    ----------
    records
        As `Verdict.as_record` gives them. ``hypothesis``, ``model`` and ``outcome`` must be there; a
        record of a hypothesis that was not tested needs no more.
    hypotheses
        All ids of the protocol, in order: what has no record is shown as not tested.
    notes
        Lines to set below the table: how the intervals were made, what is known of the registration.
    models
        Models that were asked; one without a record is shown as not tested.

    Returns
    -------
    RenderableType
        For a rich Console, `to_text` or `to_svg`; it lays itself out for the width it is given.

    Raises
    ------
    KeyError
        If a record lacks one of the three keys.
    """
    names = list(dict.fromkeys((*hypotheses, *(str(record["hypothesis"]) for record in records))))
    found = blocks(records, names, models)
    several = SideBySide(found, replications(records, names, models)) if len(found) > 1 else None
    return _Verdicts(found, tuple(notes), several)


def to_svg(renderable: RenderableType, *, width: int = 110, title: str = "prereg") -> str:
    """Return a renderable as an SVG picture of a terminal.

    The same table gives the same bytes. No font is fetched from anywhere: a viewer's own monospace serves.
    """
    from rich.console import Console

    console = Console(
        record=True,
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    console.print(renderable)
    svg = console.export_svg(title=title, unique_id="prereg")
    svg = re.sub(r"@font-face\s*\{[^}]*\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """A renderable that picks its layout when it learns its width."""

    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    several: SideBySide | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if self.several is not None:
            yield self.several
        else:
            for block in self.blocks:
                yield from _block(block, console, options)
            if options.max_width < CLAIM_COLUMN_FROM:
                yield from claim_lines(self.blocks)
        yield from self._footnotes()

    def _footnotes(self) -> Iterator[RenderableType]:
        from rich.text import Text

        rows = [row for block in self.blocks for row in block.rows]
        lines = [SECONDARY_NOTE] if any(row.family == "secondary" for row in rows) else []
        lines += self.notes
        if lines:
            yield Text("")
            for line in lines:
                yield Text(line, style="italic")


def _block(block: Block, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
    from rich.measure import Measurement
    from rich.text import Text

    width = options.max_width
    table = _table(block, width)

    title = Text(block.model or "no model", style="bold")
    title.append(f"   {tally(block.rows)}", style="not bold")
    if block.sample is not None:
        subjects, prompts = block.sample.split("/")
        title.append(f"; {subjects} subjects, {prompts} prompts", style="not bold")
    yield title
    # A list rather than a table whose numbers are cut off. A claim wraps, so a wide table always fits.
    needed = Measurement.get(console, options.update(width=10 * width), table).maximum
    if width < LIST_BELOW or (width < CLAIM_COLUMN_FROM and needed > width):
        for row in block.rows:
            yield from _item(row)
    else:
        yield table
    for row in block.rows:
        # An answer explains itself by its numbers; what is no answer needs its reason.
        if row.reason and row.outcome not in ANSWERS and row.answer not in ANSWERS:
            yield hanging(row.hypothesis, row.reason)
    for row in block.rows:
        for words in filter(None, (row.other, row.tried)):
            yield hanging(row.hypothesis, words)
    doubted: dict[tuple[str, ...], list[str]] = {}
    for row in block.rows:
        if row.doubts:
            doubted.setdefault(row.doubts, []).append(row.hypothesis)
    for doubts, names in doubted.items():
        yield Text(f"unverified: {', '.join(names)}: {'; '.join(doubts)}")


def _table(block: Block, width: int) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    wide = width >= CLAIM_COLUMN_FROM
    with_n = block.sample is None and any(row.n for row in block.rows) and width >= LIST_BELOW + 8
    table.add_column("hypothesis", no_wrap=True)
    if wide:
        table.add_column("claim", ratio=1)
    table.add_column("verdict", no_wrap=True)
    table.add_column("estimate", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("promised", no_wrap=True)
    if with_n:
        table.add_column("n", no_wrap=True)
    table.add_column("published", no_wrap=not wide, max_width=34 if wide else None)
    for row in block.rows:
        cells: list[Text] = [name_cell(row)]
        if wide:
            cells.append(Text(row.claim))
        promised = row.promised if wide else row.promised.replace("within ", "within\n")
        cells += [
            mark_cell(row, None if wide else "\n  "),
            Text(row.estimate),
            Text(row.interval),
            Text(promised),
        ]
        if with_n:
            cells.append(Text(row.n))
        cells.append(published_cell(row, wide))
        table.add_row(*cells)
    return table


def _item(row: Row) -> Iterator[Text]:
    from rich.text import Text

    head = name_cell(row)
    yield head.append("  ").append_text(mark_cell(row, None))
    if row.estimate:
        yield Text(f"  found     {row.estimate} {row.interval}")
    if row.promised:
        yield Text(f"  promised  {row.promised}")
    if row.published:
        yield Text("  published ").append_text(published_cell(row, wide=False))
