"""Whether a change of a promise makes it easier to keep: one rule for each kind of key. Our own definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["Effect", "Path", "Tables", "effect_of", "hypotheses_naming", "table", "tables"]

Effect = Literal["looser", "stricter", "other", "wording"]
Path = tuple[str, ...]
_CLAIMS = ("hypotheses", "controls")

# Keys where only the size counts: True where a higher number is easier to pass.
_HIGHER_IS_LOOSER: dict[Path, bool] = {
    ("inference", "level"): False,
    ("inference", "equivalence_alpha"): True,
    ("inference", "minimum_units"): False,
    ("prompts", "minimum_subjects"): False,
}
# Words that explain, and that nothing reads to decide. An analysis' own keys are never among them.
_WORDING: frozenset[Path] = frozenset(
    {
        ("study", "title"),
        ("study", "question"),
        ("study", "source"),
        ("prompts", "rationale"),
        ("split", "rationale"),
        ("twins", "rationale"),
        ("inference", "rationale"),
        ("inference", "unit_reason"),
        ("inference", "looks", "rationale"),
    }
)


class Tables(NamedTuple):
    """Both promises whole: the effect of one key can depend on another."""

    old: Mapping[str, Any]
    new: Mapping[str, Any]


def table(value: Any) -> Mapping[str, Any]:
    """Return a table, empty if it is none."""
    return value if isinstance(value, dict) else {}


def tables(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a table of tables of a promise, such as its hypotheses, empty if there is none."""
    return table(data.get(name))


def hypotheses_naming(control: str, data: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the hypotheses that name a control."""
    named = {}
    for name, hypothesis in tables(data, "hypotheses").items():
        controls = table(hypothesis).get("controls")
        named[name] = isinstance(controls, list) and control in controls
    return frozenset(name for name, does in named.items() if does)


def effect_of(path: Path, old: Any, new: Any, sides: Tables) -> tuple[Effect, str | None]:
    """Return the effect of one change, and why where the key alone doesn't say.

    Parameters
    ----------
    path
        The key; a contrast is named by its label, a name in a list of names by itself.
    old, new
        Values, which differ; None where there is none.
    sides
        Both promises.
    """
    if _is_wording(path) and isinstance(old, str | None) and isinstance(new, str | None):
        return "wording", None
    if path in _HIGHER_IS_LOOSER:
        return _by_size(old, new, higher_is_looser=_HIGHER_IS_LOOSER[path]), None
    if path[0] == "published":
        return "wording", None
    if path[0] in _CLAIMS and len(path) >= 2:
        return _of_claim(path, old, new, sides)
    return "other", None


def _is_wording(path: Path) -> bool:
    return (
        path in _WORDING
        or (path[0] == "updates" and path[2:] == ("description",))
        or (path[0] in _CLAIMS and path[2:] in (("rationale",), ("unit_reason",)))
        or (path[0] == "hypotheses" and path[2:] in (("permutation", "rationale"), ("precision", "source")))
    )


def _of_claim(path: Path, old: Any, new: Any, sides: Tables) -> tuple[Effect, str | None]:
    inside = path[2:]
    if not inside:
        return _of_whole_claim(path, old, new, sides)
    if inside == ("threshold",):
        return _of_threshold(path, old, new, sides)
    if inside == ("permutation", "alpha"):
        return _by_size(old, new, higher_is_looser=True), None
    if inside == ("quantifier",):
        return (
            ("looser", "one contrast is enough")
            if new == "some"
            else ("stricter", "every contrast must hold")
        )
    if inside == ("family",):
        return "other", "the primary family is what multiplicity is corrected over"
    conditions = len(inside) == 2 and inside[0] in ("contrasts", "controls")
    if conditions or inside == ("permutation",) or (len(inside) == 3 and inside[1] == "updates"):
        if new is None:
            return "looser", "one condition fewer"
        if old is None:
            return "stricter", "one condition more"
    return "other", None


def _of_whole_claim(path: Path, old: Any, new: Any, sides: Tables) -> tuple[Effect, str | None]:
    if old is not None and new is not None:
        return "other", None
    if path[0] == "hypotheses":
        return ("looser", "a new chance") if old is None else ("other", "a promise withdrawn")
    if new is None:
        return "looser", "a control fewer"
    named = hypotheses_naming(path[1], sides.new)
    return ("stricter", "a control more") if named else ("other", "no hypothesis names it")


def _of_threshold(path: Path, old: Any, new: Any, sides: Tables) -> tuple[Effect, str | None]:
    before = table(tables(sides.old, path[0]).get(path[1]))
    after = table(tables(sides.new, path[0]).get(path[1]))
    was, now = before.get("direction"), after.get("direction")
    first = _by_direction(old, new, was)
    if was != now:
        return (
            "other",
            f"{first} as {was}, {_by_direction(old, new, now)} as {now}; the direction changed too",
        )
    if before.get("units") != after.get("units"):
        return "other", "the units changed too"
    return first, None


def _by_direction(old: Any, new: Any, direction: Any) -> Effect:
    if direction not in ("greater", "less", "equivalence"):
        return "other"
    return _by_size(old, new, higher_is_looser=direction != "greater")


def _by_size(old: Any, new: Any, *, higher_is_looser: bool) -> Effect:
    if not (_is_number(old) and _is_number(new)) or old == new:
        return "other"
    return "looser" if (new > old) is higher_is_looser else "stricter"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
