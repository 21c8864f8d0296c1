"""Claims: contrasts of held-out numbers, the side of a threshold they must lie on, and why."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from prereg.protocol.base import Closed, Direction, Name, Sentence, Text

__all__ = [
    "EACH",
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
    "R2 per depth": (math.inf, True),
    "accuracy": (1.0, True),
    "accuracy per depth": (math.inf, True),
    "correlation": (1.0, True),
    "cosine": (1.0, True),
    "nats": (math.inf, True),
    "nats per depth": (math.inf, True),
    "number": (math.inf, True),
    "layers": (math.inf, False),
    "share": (1.0, False),
}
"""Units a threshold may have. Add one here when a study needs it."""


EACH = "*"
"""In a fit's name, stands for every candidate that was measured."""


class Term(Closed):
    """One number in a contrast: its weight, the fit, and the arm on which it was measured.

    A fit is known by its squared errors, and its number is the held-out R2; or by a value for each prompt, and its
    number is the mean over the prompts that it speaks of. ``feature_*`` stands for each fit of that pattern.
    """

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

    @field_validator("fit")
    @classmethod
    def _one_star(cls, fit: str) -> str:
        if fit.count(EACH) > 1:
            raise ValueError(f"a pattern has one {EACH}, found {fit!r}")
        return fit


class Contrast(Closed):
    """A number: over a set of updates the mean, or the trend, of a weighted sum of numbers.

    The trend is the least-squares slope against relative depth l / L, so it is the change over the whole depth.
    """

    label: Text
    updates: Name
    over: Literal["trend"] | None = None
    """None is the mean over the updates."""
    terms: tuple[Term, ...] = Field(min_length=1)

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for one contrast for each candidate."""
        return any(EACH in term.fit for term in self.terms)


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
    """What a hypothesis and a control share: contrasts that must lie on one side of a threshold.

    All of them must, unless ``quantifier = "some"`` says that one is enough: then the search over them is corrected
    for, and a pattern may stand for candidates that only the measurement names. The bootstrap resamples the unit
    of ``[inference]``, unless the claim is about the updates themselves (``unit = "update"``, with the reason). Where
    updates next to each other are alike, ``block_length`` draws them in blocks (the stationary bootstrap).
    """

    claim: Sentence
    evidence: Name
    estimand: Sentence
    quantifier: Literal["some"] | None = None
    """None: every contrast must hold."""
    unit: Literal["update"] | None = None
    """None: the unit of ``[inference]``."""
    unit_reason: Sentence | None = None
    block_length: Annotated[float, Field(gt=1.0)] | None = None
    """Mean number of neighbouring updates that are drawn together; None: each is drawn by itself."""
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

    @model_validator(mode="after")
    def _rule_fits(self) -> Claim:
        patterns = [contrast.label for contrast in self.contrasts if contrast.is_pattern]
        if patterns and self.quantifier is None:
            raise ValueError(
                f'contrast {patterns[0]!r} stands for many candidates; say quantifier = "some", or name one fit'
            )
        if self.quantifier == "some" and self.direction == "equivalence":
            raise ValueError("that some contrast is near zero is no claim that is tested here")
        if (self.unit is None) != (self.unit_reason is None):
            raise ValueError("unit and unit_reason belong together: why are these the independent ones?")
        if self.block_length is not None and self.unit != "update":
            raise ValueError('block_length belongs to a claim that resamples updates; say unit = "update"')
        if self.unit == "update" and (self.quantifier or any(c.over for c in self.contrasts)):
            raise ValueError("a claim that resamples updates is about their mean, in every contrast")
        return self

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms that the contrasts need, the model first."""
        return tuple(sorted({term.arm for c in self.contrasts for term in c.terms}))


class Control(Claim):
    """``[controls.<name>]``: what must hold for a verdict to mean anything; if not, it is invalid."""


class Hypothesis(Claim):
    """``[hypotheses.<id>]``: one claim."""

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
