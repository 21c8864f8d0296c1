"""What the protocol says about states: how they are identified, how large they are, what they are compared by."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.settings import Baseline, Folds, Name, Penalties, Seed, Settings, Tolerance, Weights

__all__ = ["StateModelSettings", "StateSpaceSettings", "readout_rank"]


Size = Annotated[int, Field(ge=1)]


class StateModelSettings(Settings):
    """What identifies a state, whatever is then asked of it.

    Parameters
    ----------
    baseline
        Stratum whose training mean is removed from codes and targets; gates' ``sst`` are distances from it.
    updates
        Set of updates that have targets. Those before it are sources only.
    dictionary_seed
        Seed of the dictionaries whose codes are the sources.
    state
        Dimension n of the state.
    horizon
        How many updates, the state's own first, a state is identified from.
    penalties
        Finite candidates relative to a kernel's mean diagonal; the infinite one is always added.
    state_weights
        Candidate weights of the state's kernel beside that of the codes, 0 first: no state at all.
    edge_tolerance
        Cross-validated R2 that the last step to an end of the grid may gain before a check fails.
    folds, fold_seed
        Subject-grouped folds over which states are cross-fitted.
    min_stratum_prompts
        Fresh training prompts that every stratum must have.
    """

    baseline: Baseline
    updates: Name
    dictionary_seed: Seed
    state: Size
    horizon: Size
    penalties: Penalties
    state_weights: Weights
    edge_tolerance: Tolerance
    folds: Folds
    fold_seed: Seed
    min_stratum_prompts: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _candidates(self) -> StateModelSettings:
        if len(self.penalties) < 3:
            raise ValueError("wanted at least three penalties: a shorter grid has no interior")
        if self.state_weights[0] != 0.0:
            raise ValueError("state_weights: wanted 0 first, so that doing without a state is a candidate")
        return self


class StateSpaceSettings(StateModelSettings):
    """What the protocol says about the state-space model.

    Parameters
    ----------
    kinds
        Kinds of dictionary. The first is the primary one; fits on another kind have its name before theirs.
    rank
        Rank r of the feedthrough D, and of the rank-matched readout.
    grid
        Pairs (n, r) reported beside the main one.
    shuffles, shuffle_seed
        Refits whose past codes belong to another prompt of the stratum.
    max_gap
        Largest gap l - j of the state path; at least 2.
    jackknife_groups, jackknife_seed
        Groups of training subjects, each left out once, from which the state path's intervals come.
    level
        Confidence level of these intervals.
    """

    kinds: tuple[Kind, ...]
    rank: Size
    grid: tuple[tuple[Size, Size], ...]
    shuffles: Size
    shuffle_seed: Seed
    max_gap: Annotated[int, Field(ge=2)]
    jackknife_groups: Annotated[int, Field(ge=10)]
    jackknife_seed: Seed
    level: Annotated[float, Field(gt=0.5, lt=1)]

    @field_validator("kinds", "grid")
    @classmethod
    def _distinct(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        if len(set(values)) != len(values):
            raise ValueError(f"found {list(values)}, wanted each value once")
        return values

    @model_validator(mode="after")
    def _agree(self) -> StateSpaceSettings:
        if not self.kinds:
            raise ValueError("kinds: found an empty list, wanted at least one kind of dictionary")
        return self


def readout_rank(state: int, rank: int, n_features: int, d_model: int) -> int:
    """Return the rank of a readout with as many parameters as SSM(n, r): n + r + ceil(n^2 / (F + d)).

    A rank costs F + d numbers. B and C cost n of them each F and d, D costs r, and A its n^2. Gauge freedoms are
    counted on neither side. Our own definition.
    """
    return state + rank + math.ceil(state**2 / (n_features + d_model))
