"""Tables and records as bytes: the same numbers give the same bytes, on any machine, at any time."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prereg.hostile import read_bounded

__all__ = ["Cell", "csv_bytes", "json_bytes", "put"]

Cell = str | int | float | bool | None
"""What a table's field may be; None is an empty field."""


def csv_bytes(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> bytes:
    """Return a table as UTF-8 CSV with LF line ends.

    Numbers keep 12 significant digits: far finer than any interval means, and coarse enough that another
    BLAS kernel gives the same bytes. A number that is not finite is an empty field.

    Raises
    ------
    ValueError
        If a row holds a field that is no column.
    """
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, fieldnames=columns, lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _field(value) for name, value in row.items()})
    return out.getvalue().encode()


def json_bytes(value: Any) -> bytes:
    """Return a record as UTF-8 JSON: sorted keys, two blanks of indent, LF, a final newline.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def put(file: Path, content: bytes) -> None:
    """Make `file` hold `content`, leaving it untouched where it already does.

    Raises
    ------
    StorageError
        If the folder can't be made or the file not written.
    """
    from prereg.workers import refused_by_disk, write_atomically

    try:
        if read_bounded(file, len(content)) == content:
            return
    except (FileNotFoundError, ValueError):
        pass  # not there, or not what we wrote: larger, or no regular file
    except OSError as error:
        raise refused_by_disk(file, error, "can't be read") from error
    write_atomically(file, lambda part: part.write_bytes(content))


def _field(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(float(f"{value:.12g}")) if math.isfinite(value) else ""
    return str(value)
