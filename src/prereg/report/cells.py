"""The words of one verdict as rich text: what every table of verdicts is put together from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prereg.report.rows import MARKS, Block, Row

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

__all__ = ["claim_lines", "hanging", "mark_cell", "name_cell", "published_cell"]


def name_cell(row: Row) -> Text:
    """Return the hypothesis, starred where it is outside the primary family."""
    from rich.text import Text

    return Text(row.hypothesis + ("*" if row.family == "secondary" else ""), style="bold")


def mark_cell(row: Row, beside: str | None) -> Text:
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


def published_cell(row: Row, wide: bool) -> Text:
    """Return the paper's verdict; where there is room also its value and model."""
    from rich.text import Text

    if not row.published:
        return Text("")
    text = Text(MARKS[row.published][1] if row.published in MARKS else row.published)
    if wide and row.published_note:
        text.append(f", {row.published_note}", style="dim")
    return text


def claim_lines(found: Sequence[Block]) -> Iterator[RenderableType]:
    """Yield each hypothesis with its claim in words, once however many models there are."""
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
            yield hanging(name, claim, indent)


def hanging(name: str, text: str, indent: int | None = None) -> RenderableType:
    """Return a name and a text beside it that wraps below itself."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True, width=len(name) + 2 if indent is None else indent)
    grid.add_column()
    grid.add_row(Text(name), Text(text))
    return grid
