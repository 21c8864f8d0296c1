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
from prereg.report.rows import ANSWERS, MARKS, Block, Row, blocks, tally

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["render_verdicts", "to_svg", "to_text"]

LIST_BELOW = 76
CLAIM_COLUMN_FROM = 120

SECONDARY_NOTE = "* secondary: outside the primary family."


def render_verdicts(
    records: Sequence[Mapping[str, Any]], *, hypotheses: Sequence[str], notes: Sequence[str] = ()
) -> RenderableType:
    """Return the verdict table, one block for each model.

    Parameters
    ----------
    records
        As `Verdict.as_record` gives them. ``hypothesis``, ``model`` and ``outcome`` must be there; a
        record of a hypothesis that was not tested needs no more.
    hypotheses
        All ids of the protocol, in order: what has no record is shown as not tested.
    notes
        Lines to set below the table: how the intervals were made, what is known of the registration.

    Returns
    -------
    RenderableType
        For a rich Console, `to_text` or `to_svg`; it lays itself out for the width it is given.

    Raises
    ------
    KeyError
        If a record lacks one of the three keys.
    """
    return _Verdicts(blocks(records, hypotheses), tuple(notes))


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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        width = options.max_width
        for number, block in enumerate(self.blocks):
            if number:
                yield Text("")
            yield from _block(block, console, options)
        if width < CLAIM_COLUMN_FROM:
            yield from _claims(self.blocks)
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
            yield _hanging(row.hypothesis, row.reason)
    for row in block.rows:
        for words in filter(None, (row.other, row.tried)):
            yield _hanging(row.hypothesis, words)
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
        cells: list[Text] = [_name(row)]
        if wide:
            cells.append(Text(row.claim))
        promised = row.promised if wide else row.promised.replace("within ", "within\n")
        cells += [
            _mark(row, None if wide else "\n  "),
            Text(row.estimate),
            Text(row.interval),
            Text(promised),
        ]
        if with_n:
            cells.append(Text(row.n))
        cells.append(_published(row, wide))
        table.add_row(*cells)
    return table


def _item(row: Row) -> Iterator[Text]:
    from rich.text import Text

    head = _name(row)
    yield head.append("  ").append_text(_mark(row, None))
    if row.estimate:
        yield Text(f"  found     {row.estimate} {row.interval}")
    if row.promised:
        yield Text(f"  promised  {row.promised}")
    if row.published:
        yield Text("  published ").append_text(_published(row, wide=False))


def _name(row: Row) -> Text:
    from rich.text import Text

    return Text(row.hypothesis + ("*" if row.family == "secondary" else ""), style="bold")


def _mark(row: Row, beside: str | None) -> Text:
    """Return the verdict's word; an answer that may not be claimed stands behind it, never in front."""
    from rich.text import Text

    symbol, words, style = MARKS.get(row.outcome, ("!", row.outcome, "magenta"))
    text = Text(f"{symbol} {words}", style=style)
    if row.answer:
        text.append(f"{beside or ' '}({row.answer})", style="dim")
    if row.version:
        text.append(f"{beside or ' '}({row.version})", style="bold")
    if row.tries > 1:
        text.append(f"{beside or ' '}({row.tries} tries)", style="bold")
    return text


def _published(row: Row, wide: bool) -> Text:
    from rich.text import Text

    if not row.published:
        return Text("")
    text = Text(MARKS[row.published][1] if row.published in MARKS else row.published)
    if wide and row.published_note:
        text.append(f", {row.published_note}", style="dim")
    return text


def _claims(found: Sequence[Block]) -> Iterator[RenderableType]:
    from rich.text import Text

    claims: dict[str, str] = {}
    for block in found:
        for row in block.rows:
            if row.claim:
                claims.setdefault(row.hypothesis, row.claim)
    if claims:
        yield Text("")
        indent = max(len(name) for name in claims) + 2
        for name, claim in claims.items():
            yield _hanging(name, claim, indent)


def _hanging(name: str, text: str, indent: int | None = None) -> RenderableType:
    """Return a name and a text beside it that wraps below itself."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True, width=len(name) + 2 if indent is None else indent)
    grid.add_column()
    grid.add_row(Text(name), Text(text))
    return grid
