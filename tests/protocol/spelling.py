"""Writes data as TOML in as many ways as TOML allows, drawn at random: what a spelling can't be told by."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from typing import Any

__all__ = ["spell"]


def spell(data: dict[str, Any], rnd: random.Random) -> bytes:
    """Return a TOML file that says what `data`, as a TOML reader gave it, says."""
    writer = _Writer(rnd)
    writer.table((), data)
    text = "".join(line + "\n" for line in writer.lines)
    if rnd.random() < 0.3:
        text = text.rstrip("\n")
    if rnd.random() < 0.3:
        text = text.replace("\n", "\r\n")
    return (b"\xef\xbb\xbf" if rnd.random() < 0.3 else b"") + text.encode("utf-8")


class _Writer:
    def __init__(self, rnd: random.Random) -> None:
        self.rnd = rnd
        self.lines: list[str] = []

    def table(self, path: tuple[str, ...], data: dict[str, Any]) -> None:
        """Write a table: first what stands under its header, then the tables that have their own."""
        later = []
        for key, value in self.shuffled(data):
            if self.has_headers(value) and self.rnd.random() < 0.7:
                later.append((key, value))
            elif isinstance(value, dict) and value and self.rnd.random() < 0.3:
                self.dotted(self.key(key), value)
            else:
                self.line(f"{self.key(key)}{self.space()}={self.space()}{self.value(value, 0)}")
        for key, value in later:
            inside = (*path, key)
            for table in value if isinstance(value, list) else [value]:
                many = isinstance(value, list)
                name = f"{self.space()}.{self.space()}".join(self.key(part) for part in inside)
                self.line(f"{'[[' if many else '['}{self.space()}{name}{self.space()}{']]' if many else ']'}")
                self.table(inside, table)

    def dotted(self, prefix: str, data: dict[str, Any]) -> None:
        for key, value in self.shuffled(data):
            name = f"{prefix}.{self.key(key)}"
            if isinstance(value, dict) and value and self.rnd.random() < 0.5:
                self.dotted(name, value)
            else:
                self.line(f"{name} = {self.value(value, 0)}")

    def line(self, text: str) -> None:
        comment = self.rnd.choice(["", "", "", " # [not.a.table] x = '''", '\t# """ {'])
        self.lines.append(self.space() + text + comment)
        if self.rnd.random() < 0.1:
            self.lines.append(self.rnd.choice(["", "   ", "# threshold = 9", "#"]))

    def value(self, value: Any, depth: int) -> str:
        if isinstance(value, bool):
            return json.dumps(value)
        if isinstance(value, int):
            return self.integer(value)
        if isinstance(value, float):
            return self.real(value)
        if isinstance(value, str):
            return self.text(value, one_line=depth > 0)
        if isinstance(value, list):
            return self.array([self.value(item, depth + 1) for item in value])
        pairs = [f"{self.key(k)} = {self.value(v, depth + 1)}" for k, v in self.shuffled(value)]
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"

    def array(self, items: list[str]) -> str:
        gap = self.rnd.choice(["", " ", "\n", "\n    # one, two ]\n"])
        end = self.rnd.choice(["", ","]) if items else ""
        return "[" + gap + ("," + gap + " ").join(items) + end + gap + "]"

    def integer(self, value: int) -> str:
        ways = [str(value), f"{value:_}"]
        if value >= 0:
            ways += [f"+{value}", f"0x{value:X}", f"0o{value:o}", f"0b{value:b}", f"0x{value:04x}"]
        return self.rnd.choice(ways)

    def real(self, value: float) -> str:
        ways = [repr(value), f"{value:.17e}", f"{value:.17E}", f"{value:.25f}"]
        ways = [way for way in ways if float(way) == value]
        if value.is_integer():
            whole = int(value)
            ways += [f"{value:.1f}", f"{value:.3f}", f"{whole}e0", f"{whole}.0_0"]
            ways += [f"{whole}0e-1"] if whole else ["0e9", "-0.0"]
            ways += [self.integer(whole)] if -(2**63) <= whole < 2**63 else []
        way = self.rnd.choice(ways)
        return f"+{way}" if value > 0 and way[0] not in "+0" and self.rnd.random() < 0.2 else way

    def text(self, text: str, *, one_line: bool) -> str:
        text = self.form(text)
        ways = [json.dumps(text, ensure_ascii=False), self.escaped(text)]
        printable = all(c.isprintable() or c in "\n\t" for c in text)
        if printable and "'" not in text and "\n" not in text:
            ways.append(f"'{text}'")
        if printable and not one_line and "'''" not in text and not text.endswith("'"):
            ways += [f"'''{text}'''", f"'''\n{text}'''"]
        if printable and not one_line and not re.search(r'["\\]', text):
            ways += [
                f'"""{text}"""',
                f'"""\n{text}"""',
                '"""\\\n   ' + text.replace(" ", " \\\n  ", 1) + '"""',
            ]
            if text[:1].isspace():
                ways.pop()
        return self.rnd.choice(ways)

    def escaped(self, text: str) -> str:
        out = []
        for c in text:
            if c in '"\\' or not c.isprintable() or self.rnd.random() < 0.1:
                out.append(
                    f"\\u{ord(c):04X}" if ord(c) < 0x10000 and self.rnd.random() < 0.5 else f"\\U{ord(c):08x}"
                )
            else:
                out.append(c)
        return f'"{"".join(out)}"'

    def key(self, key: str) -> str:
        key = self.form(key)
        ways = [json.dumps(key, ensure_ascii=False), self.escaped(key)]
        if re.fullmatch(r"[A-Za-z0-9_-]+", key):
            ways += [key] * 6
        if key.isprintable() and "'" not in key:
            ways.append(f"'{key}'")
        return self.rnd.choice(ways)

    def form(self, text: str) -> str:
        return unicodedata.normalize(self.rnd.choice(["NFC", "NFD"]), text)

    def shuffled(self, data: dict[str, Any]) -> list[tuple[str, Any]]:
        items = list(data.items())
        self.rnd.shuffle(items)
        return items

    def space(self) -> str:
        return self.rnd.choice(["", "", " ", "  ", "\t"])

    @staticmethod
    def has_headers(value: Any) -> bool:
        return isinstance(value, dict) or (
            isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
        )
