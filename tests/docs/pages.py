"""The fenced blocks of a page, and what it takes to follow them as a reader would."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "Step", "apply", "blocks", "missing", "steps"]

_FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_TABLE = re.compile(r"\[+([\w.-]+)\]+")
CLOSE = 0.02
"""How far a shown decimal may be from the printed one: another machine rounds otherwise."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, and the line on which it begins."""

    language: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """One command, and the lines that the page shows of its output; `...` stands for others."""

    command: str
    shown: tuple[str, ...]


def blocks(page: str) -> list[Block]:
    """Return a page's fenced blocks in order."""
    return [
        Block(found["language"], found["text"], page.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(page)
    ]


def steps(block: Block) -> list[Step]:
    """Return the commands of a console block.

    Raises
    ------
    ValueError
        If it begins with output.
    """
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"line {block.line}: output before any command: {line!r}")
    return [Step(command, tuple(shown)) for command, shown in found]


def missing(shown: tuple[str, ...], printed: str) -> list[str]:
    """Return the shown lines that were not printed in this order, blanks aside."""
    rest = iter([" ".join(line.split()) for line in printed.splitlines()])
    wanted = [" ".join(line.split()) for line in shown]
    return [line for line in wanted if line != "..." and not any(_is_like(line, other) for other in rest)]


def _is_like(shown: str, printed: str) -> bool:
    parts = [re.escape(part).replace(re.escape("..."), ".*") for part in _DECIMAL.split(shown)]
    found = re.fullmatch(r"([+-]?\d*\.\d+)".join(parts), printed)
    if found is None:
        return False
    return all(
        abs(float(a) - float(b)) <= CLOSE
        for a, b in zip(_DECIMAL.findall(shown), found.groups(), strict=True)
    )


def apply(block: Block, file: Path) -> None:
    """Put the values of a TOML block in the places of a file's own.

    Raises
    ------
    LookupError
        If the file has no such table or key.
    """
    lines, table = file.read_text("utf-8").splitlines(), ""
    for line in block.text.splitlines():
        if header := _TABLE.fullmatch(line):
            table = header[1]
        elif line.strip():
            lines[_place(lines, table, line.partition("=")[0].strip())] = line
    file.write_text("\n".join(lines) + "\n", "utf-8")


def _place(lines: list[str], table: str, key: str) -> int:
    now = ""
    for i, line in enumerate(lines):
        if header := _TABLE.fullmatch(line):
            now = header[1]
        elif now == table and line.partition("=")[0].strip() == key:
            return i
    raise LookupError(f"the file has no {key} under [{table}]")
