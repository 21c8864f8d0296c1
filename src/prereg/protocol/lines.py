"""Where each key of a TOML text stands.

TOML readers give values without their lines. This scanner gives lines without values: it follows table
headers, keys, arrays and inline tables, and passes over strings and comments. It is only used to point a
finger, after a real TOML reader has accepted the text; where it isn't sure it stays silent, and `line_of`
falls back on the enclosing table.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

__all__ = ["KeyPath", "line_of", "locate_keys"]

KeyPath = tuple[str | int, ...]

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}=,.\n]"
    r"|[^\s\[\]{}=,.\#\"']+",
    re.DOTALL,
)


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of `path`, or of the nearest thing around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def locate_keys(text: str) -> dict[KeyPath, int]:
    """Return the 1-based line of every table, key and array element of a valid TOML text."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.tables: defaultdict[KeyPath, int] = defaultdict(int)
        self.tokens: list[tuple[str, int]] = []
        line, at = 1, 0
        for match in _TOKEN.finditer(text):
            line += text.count("\n", at, match.start())
            at = match.start()
            if not match.group().startswith("#"):
                self.tokens.append((match.group(), line))
        self.i = 0

    def scan(self) -> dict[KeyPath, int]:
        base: KeyPath = ()
        while self.i < len(self.tokens):
            token, line = self.tokens[self.i]
            if token == "\n":
                self.i += 1
            elif token == "[":
                base = self._header(line)
            else:
                self._pair(base)
        return self.lines

    def _peek(self) -> str:
        return self.tokens[self.i][0] if self.i < len(self.tokens) else "\n"

    def _key(self, stop: str) -> tuple[str, ...]:
        parts = []
        while self.i < len(self.tokens) and self._peek() not in (stop, "\n"):
            if self._peek() != ".":
                parts.append(_unquote(self._peek()))
            self.i += 1
        return tuple(parts)

    def _header(self, line: int) -> KeyPath:
        self.i += 1
        many = self._peek() == "["
        self.i += many
        path = self._inside(self._key("]"), last_is_array=many)
        self.i += 1 + many
        self.lines.setdefault(path, line)
        return path

    def _inside(self, key: tuple[str, ...], *, last_is_array: bool) -> KeyPath:
        """Insert the index of the current element wherever `key` passes through an array of tables."""
        path: KeyPath = ()
        for depth, part in enumerate(key):
            path = (*path, part)
            if last_is_array and depth == len(key) - 1:
                self.tables[path] += 1
            if self.tables.get(path):
                path = (*path, self.tables[path] - 1)
        return path

    def _pair(self, base: KeyPath) -> None:
        line = self.tokens[self.i][1]
        path = (*base, *self._key("="))
        for depth in range(len(base) + 1, len(path) + 1):
            self.lines.setdefault(path[:depth], line)
        if self._peek() == "=":
            self.i += 1
            self._value(path)
        else:
            self.i += 1

    def _value(self, path: KeyPath) -> None:
        if self._peek() == "[":
            self.i += 1
            self._elements(path)
        elif self._peek() == "{":
            self.i += 1
            self._inline(path)
        else:
            while self.i < len(self.tokens) and self._peek() not in ("\n", ",", "]", "}"):
                self.i += 1

    def _elements(self, path: KeyPath) -> None:
        index = 0
        while self.i < len(self.tokens) and self._peek() != "]":
            if self._peek() in ("\n", ","):
                self.i += 1
                continue
            self.lines.setdefault((*path, index), self.tokens[self.i][1])
            before = self.i
            self._value((*path, index))
            self.i += self.i == before  # whatever stands there, go on
            index += 1
        self.i += 1

    def _inline(self, path: KeyPath) -> None:
        while self.i < len(self.tokens) and self._peek() != "}":
            if self._peek() in ("\n", ","):
                self.i += 1
                continue
            self._pair(path)
        self.i += 1


def _unquote(token: str) -> str:
    return token[1:-1] if token[:1] in ("'", '"') else token
