"""verdicts.json, field by field, as `write_report` writes it.

Shape is what the published JSON Schema says too. What a schema can't say (that the counts are those of the list, that
no verdict was pasted in from another model) is checked here as well. Neither says that a verdict is true: that is what
`prereg audit` recomputes.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "Claim",
    "Contrast",
    "Control",
    "OtherVersion",
    "Permutation",
    "Registration",
    "VerdictRecord",
    "VerdictsDocument",
]

Answer = Literal["supported", "refuted", "inconclusive", "invalid", "not_tested", "unverified"]
"""What the interval and the controls say."""

Word = Literal["supported", "refuted", "inconclusive", "invalid", "not_tested", "unverified", "exploratory"]
"""What may be claimed."""

Direction = Literal["greater", "less", "equivalence"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Number = float | None
"""A number; null where it is not finite, which JSON can't say."""

Bounds = Annotated[
    tuple[Number, Number], Field(description="Lower and upper end; null where an end is open.")
]


class _Record(BaseModel):
    # Defaults are there only for fields that earlier writers of format 1 didn't know.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Model(_Record):
    """Which weights were measured."""

    alias: str = Field(min_length=1)
    source: str
    revision: str
    digest: str


class Registration(_Record):
    """How the registration stood when the verdicts were written, seen from there. Not verified by being here."""

    status: Literal["registered", "unregistered", "unverified", "tampered"]
    root: Digest | None
    known: Literal["none", "pilot", "full"] | None = Field(
        description="The most that was known of the data when something was frozen or amended."
    )
    reasons: tuple[str, ...] = Field(description="Why it is not registered; empty where it is.")

    @model_validator(mode="after")
    def _has_a_root(self) -> Self:
        if self.status == "registered" and (self.root is None or self.reasons):
            raise ValueError("a registered study has a root, and no reason why it is not registered")
        return self


class Attempts(_Record):
    """How many sets of data were tried, and what the others gave."""

    data: int = Field(ge=1)
    earlier: tuple[str, ...]
    look: int | None
    alpha: Number


class Contrast(_Record):
    """One contrast: its estimate, the registered interval, and the other methods' beside it."""

    label: str
    updates: tuple[int, ...]
    estimate: Number
    low: Number
    high: Number
    se: Number
    largest_influence: Number = Field(
        description="The largest share that one resampled unit has in the variance."
    )
    degenerate: bool
    sensitivity: dict[str, Bounds]


class Search(_Record):
    """Beside a claim that one contrast is enough for."""

    adjusted_p: tuple[Number, ...] = Field(description="One for each contrast, in their order.")
    bound: Number = Field(description="What no contrast lies beyond, where the claim is not shown.")
    mde: Number = Field(
        description="Distance from the threshold at which a typical contrast would have been found with power 0.8."
    )
    mde_largest: Number = Field(description="The same of the contrast that needs most.")
    critical: Number = Field(
        description="Standard errors from the threshold that a contrast must pass, the search corrected for."
    )


class Claim(_Record):
    """What joins a claim's or a control's contrasts: the numbers of the one that binds."""

    estimate: Number
    low: Number
    high: Number
    binds: str = Field(description="Label of the contrast that decided.")
    cautions: tuple[str, ...] = Field(default=(), description="Why to be careful. They decide nothing.")
    search: Search | None = None
    contrasts: tuple[Contrast, ...] = Field(min_length=1)


class Control(Claim):
    """A registered control: a verdict is invalid where one is not supported."""

    name: str
    outcome: Answer
    reason: str


class Permutation(_Record):
    """A refit permutation test over one set of updates."""

    updates: str
    observed: Number
    largest_draw: Number
    p: float = Field(ge=0, le=1)
    draws: int = Field(ge=1)
    alpha: float = Field(gt=0, lt=1)
    passed: bool


class OtherVersion(_Record):
    """The verdict by the other version of a promise that was amended."""

    version: Literal["original", "amended"] | None
    answer: Answer
    threshold: float
    direction: Direction
    estimate: Number
    low: Number
    high: Number
    reason: str


class Published(_Record):
    """What the paper reports. For comparison only."""

    verdict: Literal["supported", "refuted", "inconclusive"]
    value: str
    model: str
    note: str | None


class VerdictRecord(Claim):
    """The answer to one hypothesis on one model."""

    study: str
    hypothesis: str = Field(min_length=1)
    model: str = Field(min_length=1)
    outcome: Word = Field(
        description="What may be claimed: the answer only where the registration stood and the hypothesis was frozen."
    )
    answer: Answer = Field(description="What the interval and the controls say, whatever the registration.")
    reason: str
    registration: Registration
    attempts: Attempts
    version: Literal["original", "amended"] | None
    other: OtherVersion | None
    claim: str
    estimand: str
    family: Literal["primary", "secondary"]
    direction: Direction
    threshold: float
    units: str
    quantifier: Literal["every", "some"] = "every"
    unit: Literal["subject", "subject_by_template", "subject_in_relation", "update", "block_of_updates"] = (
        "subject"
    )
    level: float = Field(gt=0, lt=1)
    n_subjects: int = Field(
        ge=1, description="Resampled units, of the kind that `unit` says: subjects as a rule."
    )
    n_prompts: int = Field(ge=1)
    controls: tuple[Control, ...]
    permutations: tuple[Permutation, ...]
    published: Published | None
    protocol_digest: Digest
    evidence: dict[str, Digest] = Field(
        description="Each table that the verdict rests on: blake3 of its bytes."
    )

    @model_validator(mode="after")
    def _claims_no_more_than_it_says(self) -> Self:
        if self.outcome in ("supported", "refuted", "inconclusive"):
            if self.registration.status != "registered":
                raise ValueError(f"{self.hypothesis}: {self.outcome}, though {self.registration.status}")
            if self.outcome != self.answer:
                raise ValueError(
                    f"{self.hypothesis}: the outcome is {self.outcome}, the answer {self.answer}"
                )
        return self


class VerdictsDocument(_Record):
    """A whole verdicts.json: what was asked of one study on one model, and what was not."""

    # Not Literal[1], which takes `true` for 1.
    format: int = Field(ge=1, le=1)
    study: str = Field(min_length=1)
    model: Model
    protocol_digest: Digest
    registration: Registration
    hypotheses_total: int = Field(ge=1)
    tested: int = Field(ge=0)
    not_tested: tuple[str, ...]
    verdicts: tuple[VerdictRecord, ...] = Field(min_length=1)

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """All that are promised: those with a verdict first, in the file's order, then those without."""
        return tuple(dict.fromkeys([*(v.hypothesis for v in self.verdicts), *self.not_tested]))

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        tested = [v.hypothesis for v in self.verdicts if v.outcome != "not_tested"]
        if len(set(tested)) != len(tested):
            raise ValueError("a hypothesis has more than one verdict")
        if self.tested != len(tested) or self.hypotheses_total != self.tested + len(self.not_tested):
            raise ValueError("the counts of hypotheses are not those of the list")
        if set(tested) & set(self.not_tested):
            raise ValueError("a hypothesis is listed as not tested, and has a verdict")
        for v in self.verdicts:
            if (v.study, v.model) != (self.study, self.model.alias):
                raise ValueError(
                    f"{v.hypothesis}: a verdict of {v.study} on {v.model}, in a file of {self.study} on "
                    f"{self.model.alias}"
                )
        return self
