"""Reads protocol.toml: every error names the file, the line, the key, what was found and what is wanted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli
from pydantic import BaseModel, ValidationError

from prereg.errors import ProtocolError
from prereg.protocol.canonical import digest
from prereg.protocol.lines import KeyPath, line_of, locate_keys
from prereg.protocol.models import Protocol

__all__ = ["ProtocolFile", "read_protocol"]

MAX_BYTES = 1_000_000
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
        If the file is missing, unreadable, larger than 1 MB, not UTF-8, not TOML, holds a duplicate or unknown
        key, NaN or infinity, or a value that its key doesn't allow.
    """
    file = path / "protocol.toml" if path.is_dir() else path
    text = _read(file)
    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise ProtocolError(f"{file}: not valid TOML: {error}", remedy="mend that line") from error
    except RecursionError as error:
        raise ProtocolError(f"{file}: nested too deeply to be a protocol") from error
    lines = locate_keys(text)
    _refuse_odd_values(data, file, lines, ())
    protocol = _validate(Protocol, data, file, lines, ())
    return ProtocolFile(file, protocol, digest(protocol), lines)


def _read(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ProtocolError(
            f"{file}: no protocol here",
            remedy="give the folder of a study, such as gates/delta_stream",
        ) from error
    except OSError as error:
        raise ProtocolError(f"{file}: can't be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ProtocolError(f"{file}: larger than {MAX_BYTES:,} bytes, too large for a protocol")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ProtocolError(f"{file}:{line}: not UTF-8", remedy="save the file as UTF-8") from error


def _refuse_odd_values(value: Any, file: Path, lines: Mapping[KeyPath, int], at: KeyPath) -> None:
    """Refuse what TOML can say but a promise can't: NaN, infinities, dates."""
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_odd_values(item, file, lines, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_odd_values(item, file, lines, (*at, index))
    elif isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError(
            f"{_where(file, lines, at)}: found {value}, wanted a finite number",
            remedy="write the number you mean; a promise can't be nan or inf",
        )
    elif not isinstance(value, str | int | float | bool):
        raise ProtocolError(f"{_where(file, lines, at)}: dates and times have no place in a protocol")


def _validate(model: type[S], data: Any, file: Path, lines: Mapping[KeyPath, int], at: KeyPath) -> S:
    try:
        # JSON in strict mode admits arrays for tuples and nothing else by way of coercion.
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        problems = [_problem(item, file, lines, at) for item in error.errors(include_url=False)]
        shown = "\n".join(problems[:8])
        more = f"\n... and {len(problems) - 8} more" if len(problems) > 8 else ""
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
    found = json.dumps(item["input"], ensure_ascii=False)
    found = found if len(found) <= 60 else found[:57] + "..."
    return f"{_where(file, lines, path)}: found {found}; {message[0].lower()}{message[1:]}"


def _where(file: Path, lines: Mapping[KeyPath, int], path: KeyPath) -> str:
    return f"{file}:{line_of(lines, path)}: {_dotted(path) or 'the whole file'}"


def _dotted(path: KeyPath) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
