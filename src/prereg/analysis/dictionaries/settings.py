"""What a protocol says about sparse dictionaries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from prereg.analysis.settings import Baseline, Name, Seed, Settings, Tolerance

__all__ = ["DictionarySettings", "Kind", "fit_names"]

Kind = Literal["topk", "l1"]
"""``topk``: the k largest activations of a row are kept; ``l1``: all positive ones, at a price for their sum."""

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]


def _distinct(values: tuple[Kind, ...] | tuple[int, ...]) -> tuple[Kind, ...] | tuple[int, ...]:
    if not values or len(set(values)) != len(values):
        raise ValueError(f"found {list(values)}, wanted at least one value and none twice")
    return values


class DictionarySettings(Settings):
    """What the protocol says about dictionaries.

    Parameters
    ----------
    baseline
        Stratum whose training mean gives ``sst``.
    updates
        Update set whose dictionaries are measured.
    kinds, seeds
        One dictionary is trained for each kind, seed and update. L1 is matched to TopK, so it can't stand alone.
    width, k
        Features of a dictionary; how many of them TopK keeps in a row.
    steps, batch
        Optimiser steps, and token rows in each.
    learning_rate, decay_share
        Adam's; over the last `decay_share` of the steps it falls to zero along a line.
    norm_cap
        Rows longer than this many median lengths are shortened to that.
    dead_after, auxiliary_k, auxiliary_weight
        A TopK feature that was not kept in any row for `dead_after` steps is dead; the `auxiliary_k` largest dead ones
        of a row learn to explain what the live ones missed, at this weight (Gao et al. 2024, arXiv:2406.04093, A.2).
    penalty_start, control_share, control_every, control_gain, control_damping
        L1's penalty: where it starts, over which first share of the steps and how often it is set anew, and what part
        of log(L0 / target), and of the change of that, is added to its logarithm. Afterwards it is frozen.
    share, share_seed
        The share of the training subjects whose prompts dictionaries may see, and the seed that draws them.
    min_stratum_prompts
        Training prompts that every stratum must have.
    l0_tolerance
        How far L1's L0 at the held-out readout position, its mean over updates, may be from TopK's, as a share of it.
    max_dead_share
        Largest share of features that may fire on no training row.
    """

    baseline: Baseline
    updates: Name
    kinds: Annotated[tuple[Kind, ...], AfterValidator(_distinct)]
    seeds: Annotated[tuple[Seed, ...], AfterValidator(_distinct)]
    width: Annotated[int, Field(ge=2)]
    k: Count
    steps: Annotated[int, Field(ge=10)]
    batch: Count
    learning_rate: Positive
    decay_share: Tolerance
    norm_cap: Annotated[float, Field(gt=1)]
    dead_after: Count
    auxiliary_k: Count
    auxiliary_weight: Annotated[float, Field(ge=0)]
    penalty_start: Positive
    control_share: Tolerance
    control_every: Count
    control_gain: Positive
    control_damping: Annotated[float, Field(ge=0)]
    share: Tolerance
    share_seed: Seed
    min_stratum_prompts: Annotated[int, Field(ge=2)]
    l0_tolerance: Tolerance
    max_dead_share: Annotated[float, Field(ge=0, lt=1)]

    @model_validator(mode="after")
    def _agree(self) -> DictionarySettings:
        if self.k >= self.width:
            raise ValueError(f"k = {self.k} keeps every one of {self.width} features: nothing is sparse")
        if "l1" in self.kinds and "topk" not in self.kinds:
            raise ValueError("kinds: l1 is matched to topk's L0; wanted both, or topk alone")
        return self


def fit_names(settings: DictionarySettings, *, twin: bool = False) -> frozenset[str]:
    """Return the fits that `measure` makes under these settings; a twin's are the same."""
    del twin
    return frozenset(f"{kind}_{seed}" for kind in settings.kinds for seed in settings.seeds)
