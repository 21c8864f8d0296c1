"""What the protocol says about interventions, and which fits that gives."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from prereg.analysis.dictionaries import Kind
from prereg.analysis.settings import Name, Seed, Settings, Tolerance

__all__ = [
    "CONTEXT",
    "GROUP",
    "MATCHED",
    "RANDOM",
    "InterventionSettings",
    "feature_name",
    "fit_names",
]

CONTEXT = ("clean", "all_features", "reconstruction")
"""Fits that speak of every prompt."""

GROUP = "group"
RANDOM, MATCHED = "_random", "_matched"
"""What a control's name adds to that of the fit it belongs to."""


def _apart(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names or len(set(names)) != len(names):
        raise ValueError(f"found {list(names)}, wanted one update set or more, each once")
    return names


class InterventionSettings(Settings):
    """What the protocol says about interventions.

    Parameters
    ----------
    updates
        Update sets of one update each: the registered depths. The verdict may differ between them.
    kind, seed
        Which dictionary of each update.
    candidates
        Size of the family: how many features are tested at each update.
    min_subjects
        Training subjects, of prompts that no dictionary has seen, on which a candidate must be active.
    group
        The first so many candidates are removed together.
    random_draws
        Random directions for each feature and prompt.
    group_draws
        Random directions for the group and each prompt.
    random_seed
        Of these directions.
    matched_features
        Other active features of the prompt, nearest in norm, that a feature is compared with.
    batch_rows
        Interventions that go through the model together; results differ by rounding alone.
    parity_prompts
        Held-out prompts on which the continuation is compared with whole forward passes.
    parity_tolerance
        Largest difference there, in nats.
    """

    updates: Annotated[tuple[Name, ...], AfterValidator(_apart)]
    kind: Kind
    seed: Seed
    candidates: Annotated[int, Field(ge=1, le=1000)]
    min_subjects: Annotated[int, Field(ge=1)]
    group: Annotated[int, Field(ge=1)]
    random_draws: Annotated[int, Field(ge=1)]
    group_draws: Annotated[int, Field(ge=1)]
    random_seed: Seed
    matched_features: Annotated[int, Field(ge=1)]
    batch_rows: Annotated[int, Field(ge=1)]
    parity_prompts: Annotated[int, Field(ge=1)]
    parity_tolerance: Tolerance

    @model_validator(mode="after")
    def _agree(self) -> InterventionSettings:
        if self.group > self.candidates:
            raise ValueError(f"group {self.group} exceeds candidates {self.candidates}")
        return self


def feature_name(rank: int) -> str:
    """Return the fit of the candidate of that rank, from 0."""
    return f"feature_{rank:03d}"


def fit_names(settings: InterventionSettings, *, twin: bool = False) -> frozenset[str]:
    """Return the fits that `measure` makes under these settings: what a contrast may name."""
    del twin  # the same on every arm
    tested = [GROUP, *(feature_name(rank) for rank in range(settings.candidates))]
    return frozenset([*CONTEXT, *(name + control for name in tested for control in ("", RANDOM, MATCHED))])
