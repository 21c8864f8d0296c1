"""A registered gate as a simulation needs it: its level and rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prereg.errors import StudyError
from prereg.inference import look_level
from prereg.protocol import Hypothesis, Inference, Protocol

__all__ = ["Design", "Direction", "Gate", "gate_of", "level_of"]

Direction = Literal["greater", "less", "equivalence"]
Design = Literal["subject_by_template", "subject_in_relation"]


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
    quantifier
        ``some`` where one contrast is enough, the search over them corrected for; None where each must hold.
    design
        What is resampled beside subjects; None where units are subjects, or updates.
    block_length
        Mean number of neighbouring updates drawn together; None where each unit is drawn by itself.
    studentized_replicates
        How many of the replicates a studentized interval uses; None for all.
    promise
        The claim and the registered methods, as a verdict takes them; None where a gate was made up.
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
    quantifier: Literal["some"] | None = None
    design: Design | None = None
    block_length: float | None = None
    studentized_replicates: int | None = None
    promise: tuple[Hypothesis, Inference] | None = None

    @property
    def alpha(self) -> float:
        """Error rate that P(supported) may reach where the claim is false: ``(1 - level) / 2``.

        One bound decides a one-sided claim. For an equivalence it is the registered ``equivalence_alpha``.
        """
        return (1.0 - self.level) / 2.0

    def holds(self, values: Sequence[float]) -> bool:
        """Tell whether the claim is true where the contrasts have these values."""
        enough = any if self.quantifier == "some" else all
        return enough(self.passes(value) for value in values)

    def passes(self, value: float) -> bool:
        """Tell whether one contrast of this value lies on the claimed side."""
        if self.direction == "greater":
            return value > self.threshold
        if self.direction == "less":
            return value < self.threshold
        return -self.threshold < value < self.threshold


def level_of(protocol: Protocol, claim: Hypothesis) -> float:
    """Return the two-sided level at which a claim is decided; with planned looks that of the most generous one."""
    spec = protocol.inference
    level = 1.0 - 2.0 * spec.equivalence_alpha if claim.direction == "equivalence" else spec.level
    if spec.looks is None:
        return level
    planned = spec.looks.planned
    return min(look_level(level, planned, spec.looks.spending, look) for look in range(1, planned + 1))


def gate_of(protocol: Protocol, name: str, labels: Sequence[str] | None = None) -> Gate:
    """Return how one hypothesis is decided.

    Parameters
    ----------
    protocol
        The promise.
    name
        The hypothesis' id.
    labels
        Of its contrasts, where a pattern stands for candidates that only the evidence names.

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
    return Gate(
        name=name,
        direction=claim.direction,
        threshold=claim.threshold,
        labels=tuple(contrast.label for contrast in claim.contrasts) if labels is None else tuple(labels),
        level=level_of(protocol, claim),
        interval=spec.interval,
        replicates=spec.replicates,
        seed=spec.seed,
        minimum_units=spec.minimum_units,
        quantifier=claim.quantifier,
        # As `settle` has it: a claim about updates resamples these, whatever the unit of the rest.
        design=None if claim.unit is not None or spec.unit == "subject" else spec.unit,
        block_length=claim.block_length,
        studentized_replicates=spec.studentized_replicates,
        promise=(claim, spec),
    )
