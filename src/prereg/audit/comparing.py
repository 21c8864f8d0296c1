"""A report as it lies against what its evidence says: file by file, field by field."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["csv_differences", "json_differences", "standing_of_record"]

_BY = "hypothesis"
_ABSENT = object()
_ABOUT = frozenset(
    {
        "hypothesis", "contrast", "model", "role", "name", "label", "arm", "update", "updates", "fit", "order", "draw",
        "fit_on", "evaluated_on", "relation", "status",
    }
)  # fmt: skip
"""Columns that say what a row is about, not what was found."""


def json_differences(
    recorded: Any, wanted: Any, *, same_standing: bool, only: frozenset[str] | None
) -> list[str]:
    """Name each field of a verdicts.json that differs, with both values.

    Parameters
    ----------
    recorded, wanted
        The two documents.
    same_standing
        Whether both were written while the study stood the same; if not, ``outcome`` and ``registration`` are
        passed over.
    only
        Hypotheses to compare, where not all could be answered; the document's own counts are passed over then.
        None compares everything.
    """
    one, other = _by_name(recorded), _by_name(wanted)
    if only is not None:
        one, other = ({"verdicts": _some(side, only)} for side in (one, other))
    found = []
    for path, is_, should in _walk((), one, other):
        if not same_standing and any(part in ("outcome", "registration") for part in path):
            continue
        found.append(f"{'.'.join(path)}: recorded {_shown(is_)}, recomputed {_shown(should)}")
    return found


def csv_differences(recorded: bytes, wanted: bytes, *, same_standing: bool) -> list[str]:
    """Name each field of a table that differs, as `json_differences` does."""
    if recorded == wanted:
        return []
    try:
        one, other = _rows(recorded), _rows(wanted)
    except (UnicodeDecodeError, csv.Error) as error:
        return [f"no table: {error}"]
    if one[:1] != other[:1]:
        return [f"columns: recorded {len(one[0]) if one else 0}, recomputed {len(other[0])}"]
    if len(one) != len(other):
        return [f"rows: recorded {len(one) - 1}, recomputed {len(other) - 1}"]
    names = other[0]
    found = []
    for is_, should in zip(_in_order(one), _in_order(other), strict=True):
        where = "/".join(_identity(names, should)) or "the row"
        if len(is_) != len(should):
            found.append(f"{where}: recorded {len(is_)} fields, recomputed {len(should)}")
            continue
        for name, a, b in zip(names, is_, should, strict=True):
            if a != b and (same_standing or name not in ("outcome", "registration")):
                found.append(f"{where}, {name}: recorded {_shown(a)}, recomputed {_shown(b)}")
    if not found and same_standing and sorted(recorded.splitlines()) != sorted(wanted.splitlines()):
        return ["the same fields, written otherwise"]
    return found


def standing_of_record(document: Any) -> tuple[str | None, str | None]:
    """Return status and root of the registration that a verdicts.json was written under."""
    registration = document.get("registration") if isinstance(document, dict) else None
    if not isinstance(registration, dict):
        return None, None
    status, root = registration.get("status"), registration.get("root")
    return (status if isinstance(status, str) else None), (root if isinstance(root, str) else None)


def _by_name(document: Any) -> Any:
    """Let verdicts be found by hypothesis, so that one that is missing doesn't shift the others."""
    if not isinstance(document, dict) or not isinstance(document.get("verdicts"), list):
        return document
    verdicts = {}
    for number, verdict in enumerate(document["verdicts"]):
        name = verdict.get(_BY) if isinstance(verdict, dict) else None
        key = name if isinstance(name, str) and name not in verdicts else f"[{number}]"
        verdicts[key] = verdict
    return {**document, "verdicts": verdicts}


def _some(document: Any, only: frozenset[str]) -> Mapping[str, Any]:
    verdicts = document.get("verdicts") if isinstance(document, dict) else None
    return {k: v for k, v in verdicts.items() if k in only} if isinstance(verdicts, dict) else {}


def _walk(path: tuple[str, ...], one: Any, other: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _walk((*path, str(key)), one.get(key, _ABSENT), other.get(key, _ABSENT))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _walk((*path, str(number)), a, b)
    elif type(one) is not type(other) or one != other:
        yield path, one, other


def _identity(names: Sequence[str], row: Sequence[str]) -> tuple[str, ...]:
    """Return what a row is about; the order of keys in a protocol, and so of rows, promises nothing."""
    return tuple(value for name, value in zip(names, row, strict=False) if name in _ABOUT)


def _in_order(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    return sorted(rows[1:], key=lambda row: _identity(rows[0], row))


def _rows(raw: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(raw.decode("utf-8"), newline="")))


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}..."
