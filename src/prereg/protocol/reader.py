"""Reads protocol.toml: every error names the file, the line, the key, what was found and what is wanted."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli
from pydantic import BaseModel, ValidationError

from prereg.errors import ProtocolError
from prereg.hostile import read_bounded
from prereg.protocol.canonical import digest, normal
from prereg.protocol.lines import KeyPath, line_of, locate_keys
from prereg.protocol.models import Protocol
from prereg.protocol.wording import printable

__all__ = ["ProtocolFile", "parse_protocol", "read_protocol"]

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 20_000
BOM = b"\xef\xbb\xbf"
# Characters that make a line read otherwise than it stands there: "Trojan Source", CVE-2021-42574.
_TURNS_TEXT = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SHOWN = 8
S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ProtocolFile:
    """A protocol, the file it came from, and where each key stands in it."""

    path: Path
    protocol: Protocol
    digest: str
    lines: Mapping[KeyPath, int]

    def settings(self, analysis: str, model: type[S]) -> S:
        """Return the settings of one analysis, validated by the model that the analysis owns.

        Raises
        ------
        ProtocolError
            If the protocol has no such table, or it doesn't fit the model.
        """
        table = self.protocol.analyses.get(analysis)
        if table is None:
            raise ProtocolError(
                f"{self.path}: there is no table [analyses.{analysis}]",
                remedy=f"add [analyses.{analysis}] with the keys {', '.join(model.model_fields)}",
            )
        return _validate(model, table, self.path, self.lines, ("analyses", analysis))


def read_protocol(path: Path) -> ProtocolFile:
    """Read and validate a protocol.

    Parameters
    ----------
    path
        The file, or the study's folder that holds ``protocol.toml``.

    Raises
    ------
    ProtocolError
        If the file is missing or unreadable, or for what `parse_protocol` refuses.
    """
    file = path / "protocol.toml" if path.is_dir() else path
    try:
        raw = read_bounded(file, MAX_BYTES, links=True)
    except ValueError as error:
        raise ProtocolError(f"{file}: {error}", remedy="a protocol is a small text file") from error
    except FileNotFoundError as error:
        raise ProtocolError(
            f"{file}: no protocol here",
            remedy="give the folder of a study, such as gates/delta_stream",
        ) from error
    except OSError as error:
        raise ProtocolError(f"{file}: can't be read: {error.strerror}") from error
    return parse_protocol(raw, file)


def parse_protocol(raw: bytes, file: Path) -> ProtocolFile:
    """Validate the bytes of a protocol, wherever they come from.

    One byte order mark at the beginning is passed over: some editors write it, and it says nothing.
    Text is read in Unicode's normal form C, in which it is hashed: two files with one digest behave as one.

    Parameters
    ----------
    raw
        The content of a protocol.toml.
    file
        What errors call it.

    Raises
    ------
    ProtocolError
        If it is larger than 1 MB, not UTF-8, not TOML, nested more than 32 deep or of more than 20,000 values;
        if it holds a duplicate or unknown key, NaN or infinity, a date, an integer beyond 64 bits, a control
        character, more than 30 combining marks in a row, or a value that its key doesn't allow.
    """
    text = _decode(raw, file)
    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise ProtocolError(f"{file}: not valid TOML: {error}", remedy="mend that line") from error
    except RecursionError as error:
        raise ProtocolError(f"{file}: nested too deeply to be a protocol") from error
    except ValueError as error:
        # Python reads no integer of more than some thousand digits.
        raise ProtocolError(f"{file}: not valid TOML: {error}", remedy="mend that number") from error
    _refuse_size(data, file)
    lines = locate_keys(text)
    data = _sound(data, file, lines, ())
    protocol = _validate(Protocol, data, file, lines, ())
    return ProtocolFile(file, protocol, digest(protocol), lines)


def _decode(raw: bytes, file: Path) -> str:
    if len(raw) > MAX_BYTES:
        raise ProtocolError(f"{file}: larger than {MAX_BYTES:,} bytes, too large for a protocol")
    try:
        return raw.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.removeprefix(BOM)[: error.start].count(b"\n") + 1
        raise ProtocolError(f"{file}:{line}: not UTF-8", remedy="save the file as UTF-8") from error


def _refuse_size(data: Any, file: Path) -> None:
    """Refuse what later steps, which recurse and note where each value stands, might not come back from."""
    level, count = [data], 0
    for _ in range(MAX_DEPTH):
        inside = [item for item in level if isinstance(item, dict | list)]
        level = [part for item in inside for part in (item.values() if isinstance(item, dict) else item)]
        count += len(level)
        if count > MAX_VALUES:
            raise ProtocolError(f"{file}: more than {MAX_VALUES:,} values, too many for a protocol")
        if not level:
            return
    raise ProtocolError(f"{file}: nested too deeply to be a protocol: more than {MAX_DEPTH} levels")


def _sound(value: Any, file: Path, lines: Mapping[KeyPath, int], at: KeyPath) -> Any:
    """Return data with its text in normal form; refuse what TOML can say but a promise can't."""
    if isinstance(value, dict):
        table: dict[str, Any] = {}
        for key, item in value.items():
            inside = (*at, key)
            name = _sound_text(key, file, lines, inside)
            if name in table:
                raise ProtocolError(
                    f"{_where(file, lines, inside)}: this key stands there twice, in two Unicode forms",
                    remedy="keep one of them",
                )
            table[name] = _sound(item, file, lines, inside)
        return table
    if isinstance(value, list):
        return [_sound(item, file, lines, (*at, index)) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _sound_text(value, file, lines, at)
    if not isinstance(value, int | float):
        raise ProtocolError(f"{_where(file, lines, at)}: dates and times have no place in a protocol")
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError(
            f"{_where(file, lines, at)}: found {value}, wanted a finite number",
            remedy="write the number you mean; a promise can't be nan or inf",
        )
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ProtocolError(f"{_where(file, lines, at)}: an integer beyond TOML's 64 bits")
    return value


def _sound_text(text: str, file: Path, lines: Mapping[KeyPath, int], at: KeyPath) -> str:
    try:
        text = normal(text)
    except ProtocolError as error:
        raise ProtocolError(f"{_where(file, lines, at)}: {error.message}") from error
    odd = [c for c in text if (unicodedata.category(c) == "Cc" and c not in "\t\n") or c in _TURNS_TEXT]
    if odd:
        raise ProtocolError(
            f"{_where(file, lines, at)}: found the character U+{ord(odd[0]):04X}, which isn't printed",
            remedy="take it out: what a promise says must be what a reader sees",
        )
    return text


def _validate(model: type[S], data: Any, file: Path, lines: Mapping[KeyPath, int], at: KeyPath) -> S:
    try:
        # JSON in strict mode admits arrays for tuples and nothing else by way of coercion.
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        shown = "\n".join(_problem(item, file, lines, at) for item in problems[:_SHOWN])
        more = f"\n... and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise ProtocolError(shown + more, remedy=f"mend {file.name}, then run the command again") from error


def _problem(item: Any, file: Path, lines: Mapping[KeyPath, int], at: KeyPath) -> str:
    path: KeyPath = (*at, *item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{_where(file, lines, path)}: unknown key"
    if item["type"] == "missing":
        return f"{_where(file, lines, path)}: missing key"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "value_error":
        return f"{_where(file, lines, path)}: {message}"
    found = printable(json.dumps(item["input"], ensure_ascii=False))
    found = found if len(found) <= 60 else found[:57] + "..."
    return f"{_where(file, lines, path)}: found {found}; {message[0].lower()}{message[1:]}"


def _where(file: Path, lines: Mapping[KeyPath, int], path: KeyPath) -> str:
    return f"{file}:{line_of(lines, path)}: {printable(_dotted(path)) or 'the whole file'}"


def _dotted(path: KeyPath) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
