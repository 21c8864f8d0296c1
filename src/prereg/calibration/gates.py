"""A registered gate as a simulation needs it: its level and rule, and the truths it is tried under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prereg.errors import StudyError
from prereg.inference import look_level
from prereg.protocol import Hypothesis, Protocol

__all__ = ["Case", "Gate", "cases_of", "gate_of", "level_of"]

Direction = Literal["greater", "less", "equivalence"]


@dataclass(frozen=True, slots=True)
class Gate:
    """How one hypothesis is decided once its numbers are there; controls and permutations come on top.

    Parameters
    ----------
    name
        The hypothesis' id.
    direction, threshold, labels
        The claim: every contrast, by its label, lies on this side of the threshold (within the margin).
    level
        Two-sided level of the interval.
    interval, replicates, seed, minimum_units
        As registered under ``[inference]``.
    """

    name: str
    direction: Direction
    threshold: float
    labels: tuple[str, ...]
    level: float
    interval: str
    replicates: int
    seed: int
    minimum_units: int

    @property
    def alpha(self) -> float:
        """Error rate that P(supported) may reach where the claim is false: ``(1 - level) / 2``.

        One bound decides a one-sided claim. For an equivalence it is the registered ``equivalence_alpha``.
        """
        return (1.0 - self.level) / 2.0

    def holds(self, values: Sequence[float]) -> bool:
        """Tell whether the claim is true where the contrasts have these values."""
        if self.direction == "greater":
            return all(value > self.threshold for value in values)
        if self.direction == "less":
            return all(value < self.threshold for value in values)
        return all(-self.threshold < value < self.threshold for value in values)


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


def level_of(protocol: Protocol, claim: Hypothesis) -> float:
    """Return the two-sided level at which a claim is decided; with planned looks that of the most generous one."""
    spec = protocol.inference
    level = 1.0 - 2.0 * spec.equivalence_alpha if claim.direction == "equivalence" else spec.level
    if spec.looks is None:
        return level
    planned = spec.looks.planned
    return min(look_level(level, planned, spec.looks.spending, look) for look in range(1, planned + 1))


def gate_of(protocol: Protocol, name: str) -> Gate:
    """Return how one hypothesis is decided.

    Raises
    ------
    StudyError
        If the protocol has no such hypothesis.
    """
    if name not in protocol.hypotheses:
        raise StudyError(
            f"there is no hypothesis {name!r}; there are {', '.join(protocol.hypotheses)}",
            remedy="name one of these with --hypothesis",
        )
    claim, spec = protocol.hypotheses[name], protocol.inference
    if claim.quantifier is not None or (claim.unit is None and spec.unit != "subject"):
        raise StudyError(
            f"{name}: simulated are claims that hold for every contrast, over subjects or updates; this one is "
            + (f'of "{claim.quantifier}" contrast' if claim.quantifier else f"over {spec.unit}"),
            remedy="name the others with --hypothesis",
        )
    return Gate(
        name=name,
        direction=claim.direction,
        threshold=claim.threshold,
        labels=tuple(contrast.label for contrast in claim.contrasts),
        level=level_of(protocol, claim),
        interval=spec.interval,
        replicates=spec.replicates,
        seed=spec.seed,
        minimum_units=spec.minimum_units,
    )


def cases_of(gate: Gate, estimates: Sequence[float] | None) -> tuple[Case, ...]:
    """Return the truths that a gate is tried under: its null boundary, then its alternative.

    The null of a conjunction is a whole region, so several points of its boundary are tried: every contrast at the
    threshold, and each contrast in turn there with the others as in the pilot (those that the pilot sees on the wrong
    side stay at the threshold). An equivalence is tried at either margin. The alternative is the pilot's estimate, and
    no effect at all for an equivalence.

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
    if gate.direction == "equivalence":
        found = [("all at the upper margin", (t,) * m), ("all at the lower margin", (-t,) * m)]
    else:
        found = [("all at the threshold", (t,) * m)]
    if estimates is not None and m > 1:
        found += [
            (f"{label} at the threshold, others as in the pilot", _one_at_the_boundary(gate, estimates, i))
            for i, label in enumerate(gate.labels)
        ]
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


def _one_at_the_boundary(gate: Gate, estimates: Sequence[float], which: int) -> tuple[float, ...]:
    def side(value: float) -> float:
        return -gate.threshold if gate.direction == "equivalence" and value < 0.0 else gate.threshold

    return tuple(
        float(value) if i != which and gate.holds((value,)) else side(value)
        for i, value in enumerate(estimates)
    )
