"""Several models in one table, a column each, and below it what they say together.

A cell says of a model all that a table of that model alone says: the word that may be claimed comes first, with the
interval's own answer in brackets where the two differ. As many models stand side by side as fit; the others follow in a
table below, and where not even one fits, each hypothesis is a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prereg.report.cells import claim_lines, hanging, mark_cell, name_cell, published_cell
from prereg.report.replication import Replication
from prereg.report.rows import ANSWERS, Block, Row, tally
from prereg.report.together import together

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["SideBySide"]

LIST_BELOW = 60


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A renderable that picks its layout when it learns its width.

    Parameters
    ----------
    blocks
        One for each model, all with the same hypotheses in the same order.
    pooled
        Each contrast over all models.
    """

    blocks: tuple[Block, ...]
    pooled: tuple[Replication, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        yield from _heads(self.blocks, options.max_width)
        for table in _tables(self.blocks, console, options):
            yield Text("")
            yield table
        yield from _told(self.blocks)
        yield from together(self.blocks, self.pooled, console, options)
        yield from claim_lines(self.blocks)


def _heads(blocks: Sequence[Block], width: int) -> Iterator[RenderableType]:
    """Yield each model with how many hypotheses were tested on it, and on how many prompts."""
    from rich.text import Text

    indent = max(len(block.model) for block in blocks) + 2
    for block in blocks:
        words = tally(block.rows)
        if block.sample is not None:
            subjects, prompts = block.sample.split("/")
            words = f"{words}; {subjects} subjects, {prompts} prompts"
        yield hanging(block.model, words, indent) if 3 * indent < width else Text(f"{block.model}  {words}")


def _tables(blocks: Sequence[Block], console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
    """Yield tables of as many models each as fit; a list where not even one does."""
    from rich.measure import Measurement

    width = options.max_width

    def fits(table: Table) -> bool:
        return Measurement.get(console, options.update(width=10 * width), table).maximum <= width

    if width < LIST_BELOW or not all(fits(_table((block,), below=True)) for block in blocks):
        yield _list(blocks)
        return
    for whole in (_table(blocks, published=True), _table(blocks)):
        if fits(whole):
            yield whole
            return
    rest = list(blocks)
    while rest:
        take = next(n for n in range(len(rest), 0, -1) if fits(_table(rest[:n], below=True)))
        yield _table(rest[:take], below=True)
        rest = rest[take:]


def _table(blocks: Sequence[Block], *, published: bool = False, below: bool = False) -> Table:
    """Return one table of these models, what qualifies a word beside or below it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("hypothesis", no_wrap=True)
    table.add_column("promised", no_wrap=True)
    for block in blocks:
        table.add_column(Text(block.model), no_wrap=True)
    if published:
        table.add_column("published", no_wrap=True)
    for rows in zip(*(block.rows for block in blocks), strict=True):
        promised = _promised(rows)
        cells = [name_cell(rows[0]), Text(promised.replace("within ", "within\n"))]
        cells += [
            _cell(row, block, promised, separator="\n", beside="\n  " if below else None)
            for row, block in zip(rows, blocks, strict=True)
        ]
        if published:
            cells.append(published_cell(rows[0], wide=False))
        table.add_row(*cells)
    return table


def _list(blocks: Sequence[Block]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    lines: list[Text] = []
    for rows in zip(*(block.rows for block in blocks), strict=True):
        promised = _promised(rows)
        lines.append(name_cell(rows[0]).append(f"  {promised}".rstrip(), style="not bold"))
        for row, block in zip(rows, blocks, strict=True):
            lines.append(Text(f"  {block.model}"))
            lines.append(
                Text("    ").append_text(_cell(row, block, promised, separator="\n    ", beside=None))
            )
    return Group(*lines)


def _promised(rows: Sequence[Row]) -> str:
    return next((row.promised for row in rows if row.promised), "")


def _cell(row: Row, block: Block, promised: str, *, separator: str, beside: str | None) -> Text:
    """Return a model's words: what may be claimed, the numbers, and what is true of this model alone."""
    text = mark_cell(row, beside)
    numbers = f"{row.estimate} {row.interval}".strip()
    own = [
        numbers,
        f"promised {row.promised}" if row.promised not in ("", promised) else "",
        f"n {row.n}" if row.n and block.sample is None else "",
    ]
    for words in filter(None, own):
        text.append(f"{separator}{words}", style="default")
    return text


def _told(blocks: Sequence[Block]) -> Iterator[Text]:
    """Yield reasons, other versions, earlier tries and doubts, each with the models that it is about."""
    from rich.text import Text

    said: dict[str, dict[str, list[str]]] = {}
    for block in blocks:
        for row in block.rows:
            reason = row.reason if row.outcome not in ANSWERS and row.answer not in ANSWERS else ""
            for words in filter(None, (reason, row.other, row.tried)):
                said.setdefault(words, {}).setdefault(block.model, []).append(row.hypothesis)
    for block in blocks:
        for row in block.rows:
            if row.doubts:
                words = f"unverified: {'; '.join(row.doubts)}"
                said.setdefault(words, {}).setdefault(block.model, []).append(row.hypothesis)
    for words, models in said.items():
        yield Text(f"{_about(models)}: {words}")


def _about(models: dict[str, list[str]]) -> str:
    """Return hypotheses and the models on which they are spoken of, in as few words as that takes."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for model, names in models.items():
        groups.setdefault(tuple(names), []).append(model)
    return "; ".join(f"{', '.join(names)} on {', '.join(on)}" for names, on in groups.items())
