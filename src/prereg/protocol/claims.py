"""Claims: contrasts of held-out R2 values, the side of a threshold they must lie on, and why."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from prereg.protocol.base import Closed, Direction, Name, Sentence, Text

__all__ = [
    "UNITS",
    "Claim",
    "Contrast",
    "Control",
    "Hypothesis",
    "Permutation",
    "Precision",
    "Published",
    "Term",
]

# units -> (largest magnitude that makes sense, whether the quantity can be negative)
UNITS: dict[str, tuple[float, bool]] = {
    "R2": (1.0, True),
    "accuracy": (1.0, True),
    "cosine": (1.0, True),
    "nats": (math.inf, True),
    "layers": (math.inf, False),
    "share": (1.0, False),
}
"""Units a threshold may have. Add one here when a study needs it."""


class Term(Closed):
    """One R2 in a contrast: its weight, the fit, and the arm on which it was measured."""

    weight: float
    fit: Text
    arm: Annotated[str, StringConstraints(pattern=r"^(model|twin-[0-9]+)$")] = "model"
    baseline: Text | None = None
    """None is the baseline that gates use (column ``sst``); else column ``sst.<baseline>``."""

    @field_validator("weight")
    @classmethod
    def _nonzero(cls, weight: float) -> float:
        if weight == 0.0:
            raise ValueError("a term of weight 0 promises nothing")
        return weight


class Contrast(Closed):
    """A number: the mean over a set of updates of a weighted sum of held-out R2 values."""

    label: Text
    updates: Name
    terms: tuple[Term, ...] = Field(min_length=1)


class Permutation(Closed):
    """A refit permutation test that a supported verdict must pass as well.

    The observed mean R2 of ``fit`` over ``updates`` must exceed those of the refitted draws of
    ``null_fit`` with p <= alpha, p = (b + 1) / (draws + 1).
    """

    fit: Text
    null_fit: Text
    updates: tuple[Name, ...] = Field(min_length=1)
    alpha: Annotated[float, Field(gt=0.0, lt=0.5)]
    rationale: Sentence


class Precision(Closed):
    """``[hypotheses.<id>.precision]``: how finely a claim that nothing is there expects to be measured.

    A margin that the study could not have told from nothing would be met by noise; so a registration
    asks for the expected standard error of the estimate, and where that figure comes from.
    """

    standard_error: Annotated[float, Field(gt=0.0)]
    n_units: Annotated[int, Field(ge=2)]
    power: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.8
    source: Sentence


class Claim(Closed):
    """What a hypothesis and a control share: contrasts that must all lie on one side of a threshold."""

    claim: Sentence
    evidence: Name
    estimand: Sentence
    units: Text
    direction: Direction
    threshold: float
    rationale: Sentence
    contrasts: tuple[Contrast, ...] = Field(min_length=1)

    @field_validator("units")
    @classmethod
    def _known_units(cls, units: str) -> str:
        if units not in UNITS:
            raise ValueError(f"unknown units {units!r}; known: {', '.join(sorted(UNITS))}")
        return units

    @model_validator(mode="after")
    def _threshold_fits(self) -> Claim:
        largest, signed = UNITS[self.units]
        if abs(self.threshold) > largest:
            raise ValueError(f"a threshold of {self.threshold} is beyond what {self.units} can reach")
        if not signed and self.threshold < 0.0:
            raise ValueError(f"{self.units} can't be negative, but the threshold is {self.threshold}")
        if self.direction == "equivalence" and not self.threshold > 0.0:
            raise ValueError(f"an equivalence margin must be positive, found {self.threshold}")
        if signed and self.direction == "greater" and self.threshold < 0.0:
            raise ValueError(
                f"a claim of 'greater' in {self.units} with threshold {self.threshold} would be "
                "supported by an effect of the opposite sign; use a threshold of 0 or more"
            )
        return self

    @model_validator(mode="after")
    def _labels_differ(self) -> Claim:
        labels = [contrast.label for contrast in self.contrasts]
        if len(set(labels)) != len(labels):
            raise ValueError("two contrasts have the same label")
        return self

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms that the contrasts need, the model first."""
        return tuple(sorted({term.arm for c in self.contrasts for term in c.terms}))


class Control(Claim):
    """``[controls.<name>]``: what must hold for a verdict to mean anything; if not, it is invalid."""


class Hypothesis(Claim):
    """``[hypotheses.<id>]``: one claim, every contrast of which must pass its threshold."""

    family: Literal["primary", "secondary"]
    controls: tuple[Name, ...] = ()
    permutation: Permutation | None = None
    precision: Precision | None = None

    @model_validator(mode="after")
    def _precision_of_a_null(self) -> Hypothesis:
        if self.precision is not None and self.direction != "equivalence":
            raise ValueError(f"precision belongs to a claim of equivalence, not to one of {self.direction!r}")
        return self


class Published(Closed):
    """``[published.<id>]``: what the paper reports. For comparison only; nothing reads it to decide."""

    verdict: Literal["supported", "refuted", "inconclusive"]
    value: Text
    model: Text
    note: Text | None = None
