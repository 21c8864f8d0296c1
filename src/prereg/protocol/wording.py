"""Keys and values of a promise as a reviewer reads them: one line, nothing in it that a terminal would obey."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["dotted", "printable", "same", "shown", "words"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
MAX_SHOWN = 60


def dotted(path: tuple[str, ...]) -> str:
    """Return a key as TOML writes it: parts that aren't bare are quoted."""
    return ".".join(part if _BARE.fullmatch(part) else _quoted(part) for part in path)


def printable(text: str) -> str:
    """Return `text` with an escape for each character that isn't printed: control, direction, surrogate."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def same(old: Any, new: Any) -> bool:
    """Tell whether two canonical values are one; unlike Python's ``==``, true isn't 1."""
    return old is new or (type(old) is type(new) and _json(old) == _json(new))


def words(key: str, old: Any, new: Any, effect: str, why: str | None, *, member: bool) -> str:
    """Return one line on a change: key, old and new value, effect, and why."""
    if member:
        what = f"{shown(new if old is None else old)} {'added' if old is None else 'removed'}"
    elif old is None and isinstance(new, dict):
        what = "added"
    elif new is None and isinstance(old, dict):
        what = "removed"
    else:
        what = _from_to(shown(old), shown(new))
    return f"{key}: {what}, {effect}{f' ({printable(why)})' if why else ''}"


def shown(value: Any) -> str:
    """Return a value in one line: text in quotes, a contrast's terms as the sum they are."""
    if value is None:
        return "(none)"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list) and value and all(_is_term(item) for item in value):
        return " ".join(_term(item, first=index == 0) for index, item in enumerate(value))
    return printable(json.dumps(value, ensure_ascii=False, sort_keys=True))


def _from_to(old: str, new: str) -> str:
    """Shorten both to where they differ."""
    if max(len(old), len(new)) > MAX_SHOWN:
        short = min(len(old), len(new))
        alike = next((i for i in range(short) if old[i] != new[i]), short)
        start = max(0, alike - MAX_SHOWN // 3)
        old, new = _cut(old, start), _cut(new, start)
    return f"{old} -> {new}"


def _cut(text: str, start: int) -> str:
    end = start + MAX_SHOWN
    return ("..." if start else "") + text[start:end] + ("..." if len(text) > end else "")


def _is_term(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("fit"), str) and "weight" in value


def _term(term: dict[str, Any], *, first: bool) -> str:
    weight = term["weight"]
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    sign, size = ("-", -weight) if number and weight < 0 else ("+", weight)
    sign = "" if first and sign == "+" else sign if first else f"{sign} "
    rest = {key: term[key] for key in sorted(term) if key not in ("weight", "fit")}
    if rest.get("arm") == "model":
        del rest["arm"]
    details = ", ".join(f"{key} {shown(item)}" for key, item in rest.items())
    scale = "" if same(size, 1) else f"{shown(size)}*"
    return f"{sign}{scale}{printable(term['fit'])}{f' ({details})' if details else ''}"


def _quoted(text: str) -> str:
    return printable(json.dumps(text, ensure_ascii=False))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
