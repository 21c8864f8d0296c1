"""One verdict as the words of a table row. Plain records in, plain strings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ANSWERS", "MARKS", "STANDINGS", "Block", "Row", "blocks", "number_text", "tally"]

# outcome -> (symbol, words, colour): the symbol and the words carry it alone where there is no colour.
MARKS: dict[str, tuple[str, str, str]] = {
    "supported": ("✓", "supported", "green"),
    "refuted": ("✗", "refuted", "red"),
    "inconclusive": ("?", "inconclusive", "yellow"),
    "invalid": ("!", "invalid", "magenta"),
    "exploratory": ("~", "exploratory", "cyan"),
    "unregistered": ("~", "unregistered", "cyan"),
    "unverified": ("~", "unverified", "cyan"),
    "tampered": ("!", "tampered", "magenta"),
    "not_tested": ("-", "not tested", "bright_black"),
}

ANSWERS = ("supported", "refuted", "inconclusive")
"""Outcomes that explain themselves by their numbers, and may be claimed only where the study is registered."""

VERSIONS = {"original": "as frozen", "amended": "as amended"}

STANDINGS = ("unregistered", "unverified", "tampered")

_SIGNS = {"greater": "> ", "less": "< ", "equivalence": "within ±"}


@dataclass(frozen=True, slots=True)
class Row:
    """The words of one hypothesis on one model; an empty string where there is nothing to say."""

    hypothesis: str
    family: str
    claim: str
    outcome: str
    answer: str
    """What the interval alone says, where the outcome may not claim it."""
    reason: str
    tries: int
    """How many sets of data were tried, these included."""
    tried: str
    """What the others answered; empty where there were none."""
    version: str
    """``as frozen`` or ``as amended``, where the promise was amended; else empty."""
    other: str
    """What the other version of the promise says."""
    doubts: tuple[str, ...]
    """Why the outcome may not be claimed, where that is this verdict's own trouble."""
    estimate: str
    interval: str
    promised: str
    n: str
    published: str
    published_note: str

    @property
    def tested(self) -> bool:
        """Whether the question was put at all."""
        return self.outcome != "not_tested"


@dataclass(frozen=True, slots=True)
class Block:
    """All hypotheses on one model."""

    model: str
    rows: tuple[Row, ...]

    @property
    def sample(self) -> str | None:
        """Subjects / prompts where all tested rows share them, else None."""
        found = {row.n for row in self.rows if row.n}
        one = found.pop() if len(found) == 1 else None
        return one if one is not None and "/" in one else None


def blocks(
    records: Sequence[Mapping[str, Any]], hypotheses: Sequence[str], models: Sequence[str] = ()
) -> tuple[Block, ...]:
    """Arrange verdict records by model, each hypothesis in the protocol's order.

    A hypothesis without a record is not tested. One that the protocol doesn't name comes last. Where a
    hypothesis has several records on one model, the last one given counts.

    Parameters
    ----------
    records
        As `Verdict.as_record` gives them; only ``hypothesis``, ``model`` and ``outcome`` must be there.
    hypotheses
        All ids of the protocol, in order.
    models
        Models that were asked: one without a record has a block too, of hypotheses that were not tested.
    """
    groups: dict[str, dict[str, Mapping[str, Any]]] = {model: {} for model in models}
    for record in records:
        groups.setdefault(str(record["model"]), {})[str(record["hypothesis"])] = record
    known = {name: record for group in groups.values() for name, record in group.items()}
    found = []
    for model, group in groups.items():
        order = [*hypotheses, *(name for name in group if name not in hypotheses)]
        # What was promised is the same on every model, so a row that was not tested can still say it.
        rows = tuple(_row(group.get(n) or _untested(n, known.get(n))) for n in order)
        found.append(Block(model, rows))
    if not found and hypotheses:
        found.append(Block("", tuple(_row(_untested(name, None)) for name in hypotheses)))
    return tuple(found)


def tally(rows: Sequence[Row]) -> str:
    """Return how many of the rows were tested and what came out, in one line."""
    tested = [row for row in rows if row.tested]
    counts = [
        f"{number} {words}"
        for outcome, (_, words, _) in MARKS.items()
        if outcome != "not_tested" and (number := sum(row.outcome == outcome for row in tested))
    ]
    head = f"{len(tested)} of {len(rows)} tested"
    return f"{head}: {', '.join(counts)}" if counts else head


def number_text(value: float | None, threshold: float | None) -> str:
    """Return three decimals, or more where three would hide on which side of the threshold a value lies."""
    if value is None:
        return "none"
    for digits in range(3, 7):
        text = f"{value:+.{digits}f}"
        if threshold is None or all(float(text) != edge for edge in (threshold, -threshold)):
            break
        if value in (threshold, -threshold):
            text = f"{value:+.3f}"
            break
    # A value that rounds to zero has no sign to show.
    return text.replace("-", "+") if float(text) == 0.0 else text


def _untested(name: str, elsewhere: Mapping[str, Any] | None) -> Mapping[str, Any]:
    kept = ("claim", "family", "direction", "threshold", "units", "published")
    promise = {key: elsewhere[key] for key in kept if key in elsewhere} if elsewhere is not None else {}
    return {"hypothesis": name, "outcome": "not_tested", **promise}


def _row(record: Mapping[str, Any]) -> Row:
    outcome = str(record["outcome"])
    registration = record.get("registration")
    status = str(registration.get("status") or "") if isinstance(registration, Mapping) else ""
    answer = str(record.get("answer") or "")
    if outcome in ANSWERS and status not in ("", "registered"):
        # A record that contradicts itself is never shown as the kinder of the two.
        outcome, answer = "unverified", answer or outcome
    if outcome == "unverified" and status not in ("", "registered"):
        # Why it is: there is no registration, it can't be shown to hold, or it was broken.
        outcome = status if status in STANDINGS else f"unknown: {status}"
    elif outcome not in MARKS:
        # An outcome that this version doesn't know is shown as it is, never as one that it knows.
        outcome = f"unknown: {outcome}"
    threshold = record.get("threshold")
    published = record.get("published") or {}
    subjects, prompts = record.get("n_subjects"), record.get("n_prompts")
    return Row(
        hypothesis=str(record["hypothesis"]),
        family=str(record.get("family") or ""),
        claim=str(record.get("claim") or ""),
        outcome=outcome,
        answer=answer if answer != outcome else "",
        reason=str(record.get("reason") or ""),
        tries=_tries(record),
        tried=_tried(record),
        version=VERSIONS.get(str(record.get("version")), ""),
        other=_other(record),
        doubts=_doubts(registration) if outcome == "unverified" else (),
        estimate=number_text(record.get("estimate"), threshold) if "estimate" in record else "",
        interval=_interval(record, threshold),
        promised=_promised(record, threshold),
        n=_sample(record, subjects, prompts),
        published=str(published.get("verdict") or ""),
        published_note=_published_note(published),
    )


def _doubts(registration: Any) -> tuple[str, ...]:
    reasons = registration.get("reasons") if isinstance(registration, Mapping) else None
    return tuple(map(str, reasons)) if isinstance(reasons, list | tuple) else ()


def _other(record: Mapping[str, Any]) -> str:
    other = record.get("other")
    if not isinstance(other, Mapping):
        return ""
    promised = _promised({**record, **other}, other.get("threshold"))
    found = f"{number_text(other.get('estimate'), None)} {_interval(other, None)}".strip()
    return (
        f"{VERSIONS.get(str(other.get('version')), 'otherwise')}: {other.get('answer')}, {promised} ({found})"
    )


def _tries(record: Mapping[str, Any]) -> int:
    number = (record.get("attempts") or {}).get("data")
    return number if isinstance(number, int) and number > 1 else 1


def _tried(record: Mapping[str, Any]) -> str:
    attempts, number = record.get("attempts") or {}, _tries(record)
    look = "" if attempts.get("look") is None else f"look {attempts['look']}, alpha {attempts['alpha']:.2g}"
    if number == 1:
        return look
    earlier = ", ".join(str(word) for word in attempts.get("earlier") or ())
    tried = f"{number} sets of data were tried" + (f"; the others gave: {earlier}" if earlier else "")
    return f"{tried}; {look}" if look else tried


def _interval(record: Mapping[str, Any], threshold: float | None) -> str:
    if "low" not in record or "high" not in record:
        return ""
    return f"[{number_text(record['low'], threshold)}, {number_text(record['high'], threshold)}]"


def _promised(record: Mapping[str, Any], threshold: float | None) -> str:
    if threshold is None:
        return ""
    sign = _SIGNS.get(str(record.get("direction")), f"{record.get('direction')} ")
    return f"{sign}{threshold:g} {record.get('units') or ''}".rstrip()


def _published_note(published: Mapping[str, Any]) -> str:
    value, model = published.get("value"), published.get("model")
    return f"{value} ({model})" if value and model else str(value or "")


def _sample(record: Mapping[str, Any], subjects: Any, prompts: Any) -> str:
    """Return what was resampled, and how many: subjects of so many prompts, or what else it was."""
    if subjects is None or prompts is None:
        return ""
    other = {"update": "updates", "block_of_updates": "blocks", "subject_in_relation": "relations"}
    unit = record.get("unit")
    return f"{subjects} {other[unit]}" if unit in other else f"{subjects}/{prompts}"
