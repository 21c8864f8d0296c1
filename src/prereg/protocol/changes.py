"""What changed in a promise, key by key, and whether it became easier to keep.

Works on canonical plain data (`json.loads(canonical_json(protocol))`), not on models, so that a protocol of an
older format still compares. Nothing here raises on data of an odd shape: what no rule knows is "other".

The effects are our own definition. "looser" is only what can make an unchanged result pass more easily;
"stricter" its opposite; "wording" what nothing reads to decide; all else, a changed claim or estimand among it,
is "other".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prereg.protocol.canonical import plain
from prereg.protocol.effects import Effect, Path, Tables, effect_of, hypotheses_naming, table, tables
from prereg.protocol.wording import dotted, same, words

__all__ = ["Change", "Effect", "changes", "concerned", "substantive"]

# Lists of tables whose elements have a name: matched by it, so that a new element doesn't shift the others.
_NAMED = {"contrasts": "label", "worlds": "model"}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two promises.

    Attributes
    ----------
    key
        Dotted, as in the file: ``hypotheses.H2.threshold``; a contrast is named by its label, not its position.
    old, new
        Canonical values; None where there is none. For a list in which each name is a condition of its own (a
        hypothesis' controls, a permutation's sets of updates) the one name that went or came.
    effect
        "looser", "stricter", "other", or "wording".
    words
        One line for a reviewer: ``hypotheses.H2.threshold: 0.05 -> 0.03, looser``.
    path
        The key before it was dotted.
    """

    key: str
    old: Any
    new: Any
    effect: Effect
    words: str
    path: Path

    def as_record(self) -> dict[str, Any]:
        """Return the change as JSON-able data, without its path."""
        return {"key": self.key, "old": self.old, "new": self.new, "effect": self.effect, "words": self.words}


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return every difference between two promises, in the order of their keys.

    Parameters
    ----------
    old, new
        Canonical plain data of each, as ``json.loads(canonical_json(protocol))`` gives it.

    Raises
    ------
    ProtocolError
        If two keys of one table are the same in Unicode's normal form: that table promises nothing certain.
    """
    before, after = plain(dict(old)), plain(dict(new))
    found = (
        change
        for key in sorted({*before, *after})
        for change in _walk((key,), before.get(key), after.get(key), Tables(before, after))
    )
    return tuple(found)


def substantive(change: Change) -> bool:
    """Tell whether a change can matter to an answer, or to what is claimed: any but of wording."""
    return change.effect != "wording"


def concerned(change: Change, old: Mapping[str, Any], new: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the hypotheses, of either promise, that a change concerns.

    Its own for a change inside ``[hypotheses.<id>]``; those that name it for one inside ``[controls.<name>]``;
    none for ``[study]`` and ``[published]``; all for anything else (inference, split, prompts, analyses, ...).
    """
    head, *rest = change.path
    if head == "hypotheses" and rest:
        return frozenset({rest[0]})
    if head == "controls" and rest:
        return hypotheses_naming(rest[0], old) | hypotheses_naming(rest[0], new)
    if head in ("study", "published"):
        return frozenset()
    return frozenset({*tables(old, "hypotheses"), *tables(new, "hypotheses")})


def _walk(path: Path, old: Any, new: Any, sides: Tables) -> Iterator[Change]:
    if same(old, new):
        return
    step = _step(path, old, new)
    if step is None:
        yield _change(path, old, new, sides)
    else:
        yield from step(path, old, new, sides)


_Step = Callable[[Path, Any, Any, Tables], Iterator[Change]]


def _step(path: Path, old: Any, new: Any) -> _Step | None:
    """Return how to look inside, or None for what changes as a whole."""
    if path[-1] in _NAMED and _matched(path):
        identity = _NAMED[path[-1]]
        return _elements if _named(old, identity) and _named(new, identity) else None
    if _conjunction(path) and _names(old) and _names(new):
        return _members
    # A whole table of the file that only one side has is compared key by key: its keys are what is promised.
    if len(path) == 1 and isinstance(old, dict | None) and isinstance(new, dict | None):
        return _tables
    return _tables if isinstance(old, dict) and isinstance(new, dict) else None


def _tables(path: Path, old: Any, new: Any, sides: Tables) -> Iterator[Change]:
    before, after = table(old), table(new)
    for key in sorted({*before, *after}):
        yield from _walk((*path, key), before.get(key), after.get(key), sides)


def _elements(path: Path, old: Any, new: Any, sides: Tables) -> Iterator[Change]:
    identity = _NAMED[path[-1]]
    before = {item[identity]: item for item in old or ()}
    after = {item[identity]: item for item in new or ()}
    for name in sorted({*before, *after}):
        yield from _walk((*path, name), before.get(name), after.get(name), sides)
    if list(before) != list(after) and before.keys() == after.keys():
        yield _other(path, list(before), list(after), "in another order")


def _members(path: Path, old: Any, new: Any, sides: Tables) -> Iterator[Change]:
    before, after = Counter(old or ()), Counter(new or ())
    for name in sorted({*before, *after}):
        if name not in after:
            yield _change((*path, name), name, None, sides, member=True)
        elif name not in before:
            yield _change((*path, name), None, name, sides, member=True)
    if before.keys() == after.keys():
        yield _other(path, old, new, "in another order" if before == after else "a name more or less often")


def _change(path: Path, old: Any, new: Any, sides: Tables, *, member: bool = False) -> Change:
    effect, why = effect_of(path, old, new, sides)
    # The key of a name in a list is the list's: the name stands in old or new.
    key = dotted(path[:-1] if member else path)
    return Change(key, old, new, effect, words(key, old, new, effect, why, member=member), path)


def _other(path: Path, old: Any, new: Any, what: str) -> Change:
    key = dotted(path)
    return Change(key, old, new, "other", f"{key}: {what}, other", path)


def _matched(path: Path) -> bool:
    return path == ("facts", "worlds") or (len(path) == 3 and path[0] in ("hypotheses", "controls"))


def _conjunction(path: Path) -> bool:
    """Tell whether a list is of names that must all hold: one fewer is an easier promise."""
    return path[:1] == ("hypotheses",) and (
        path[2:] == ("controls",) or path[2:] == ("permutation", "updates")
    )


def _named(value: Any, identity: str) -> bool:
    if value is None:
        return True
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return False
    names = [item.get(identity) for item in value]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _names(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))
