"""The truths that a gate is tried under: its null boundary, and what is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prereg.calibration.gates import Gate
from prereg.errors import StudyError

__all__ = ["Case", "cases_of"]

_Named = tuple[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """One truth under which a gate is tried.

    Parameters
    ----------
    name
        In words, fit for a table.
    kind
        ``null``: on the boundary, where the claim is only just false. ``alternative``: what is expected.
    values
        theta of each contrast.
    holds
        Whether the claim is true there.
    """

    name: str
    kind: Literal["null", "alternative"]
    values: tuple[float, ...]
    holds: bool


def cases_of(gate: Gate, estimates: Sequence[float] | None) -> tuple[Case, ...]:
    """Return the truths that a gate is tried under: its null boundary, then its alternative.

    The null of a conjunction is a whole region, so several points of its boundary are tried: every contrast at the
    threshold, and each contrast in turn there with the others as in the pilot (those that the pilot sees on the wrong
    side stay at the threshold). An equivalence is tried at either margin.

    A claim about some candidate is false only where none passes, so all at the threshold is where it is supported most
    often. Tried too are the pilot's best candidate alone at the threshold, the others as in the pilot (those that
    pass in the pilot stay at the threshold): there it is refuted most often; and, where the pilot's best does
    not pass, all but that one at the threshold.

    The alternative is the pilot's estimate, and no effect at all for an equivalence.

    Parameters
    ----------
    gate
        Its rule.
    estimates
        The pilot's theta of each contrast; None where there is no pilot, which only an equivalence can do without.

    Raises
    ------
    StudyError
        If a one-sided claim has no pilot, so that nothing says what to expect.
    """
    m, t = len(gate.labels), gate.threshold
    found: list[_Named] = [("all at the threshold", (t,) * m)]
    if gate.direction == "equivalence":
        found = [("all at the upper margin", (t,) * m), ("all at the lower margin", (-t,) * m)]
    if estimates is not None and m > 1:
        found += (
            _about_the_best(gate, estimates) if gate.quantifier == "some" else _each_in_turn(gate, estimates)
        )
    cases = [
        Case(name, "null", values, gate.holds(values))
        for number, (name, values) in enumerate(found)
        if values not in [earlier for _, earlier in found[:number]]
    ]
    if gate.direction == "equivalence":
        none = (0.0,) * m
        return (*cases, Case("no effect", "alternative", none, gate.holds(none)))
    if estimates is None:
        raise StudyError(
            f"{gate.name}: nothing says which effect to expect, so its power can't be simulated",
            remedy="add --pilot MODEL: its estimate is taken as the alternative",
        )
    pilot = tuple(float(value) for value in estimates)
    return (*cases, Case("as in the pilot", "alternative", pilot, gate.holds(pilot)))


def _each_in_turn(gate: Gate, estimates: Sequence[float]) -> list[_Named]:
    return [
        (f"{label} at the threshold, others as in the pilot", _one_at_the_boundary(gate, estimates, i))
        for i, label in enumerate(gate.labels)
    ]


def _one_at_the_boundary(gate: Gate, estimates: Sequence[float], which: int) -> tuple[float, ...]:
    def side(value: float) -> float:
        return -gate.threshold if gate.direction == "equivalence" and value < 0.0 else gate.threshold

    return tuple(
        float(value) if i != which and gate.passes(value) else side(value)
        for i, value in enumerate(estimates)
    )


def _about_the_best(gate: Gate, estimates: Sequence[float]) -> list[_Named]:
    t, sign = gate.threshold, -1.0 if gate.direction == "less" else 1.0
    best = max(range(len(estimates)), key=lambda i: sign * estimates[i])
    alone = tuple(t if i == best or gate.passes(value) else float(value) for i, value in enumerate(estimates))
    found = [(f"{gate.labels[best]} at the threshold, others as in the pilot", alone)]
    if not gate.passes(estimates[best]):
        but_one = tuple(float(value) if i == best else t for i, value in enumerate(estimates))
        found.append((f"all but {gate.labels[best]} at the threshold", but_one))
    return found
