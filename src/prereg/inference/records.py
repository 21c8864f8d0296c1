"""What an interval computation hands to a verdict: frozen records, no arrays to mutate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from prereg.errors import InferenceError

__all__ = ["ContrastResult", "Engine", "Interval", "Method", "bonferroni_level"]

# Levels that differ by less are the same level, computed in another order.
_SAME_LEVEL = 1e-12


class Method(StrEnum):
    """Interval methods; see `prereg.inference.intervals` for formulas and sources."""

    PERCENTILE = "percentile"
    EXPANDED_PERCENTILE = "expanded_percentile"
    BASIC = "basic"
    BCA = "bca"
    STUDENTIZED = "studentized"
    DELTA_T = "delta_t"


class Engine(StrEnum):
    """Where the resampling distribution came from."""

    PLAN = "plan"
    IDEAL = "ideal"


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval.

    Attributes
    ----------
    low, high
        Bounds in the units of the estimand; -inf or inf where the method can't bound. Never nan.
    level
        Two-sided confidence level, between 0.5 and 1.
    method
        How it was computed.
    """

    low: float
    high: float
    level: float
    method: Method

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise InferenceError(
                f"interval bounds out of order: low {self.low!r}, high {self.high!r} "
                f"({self.method}, level {self.level})."
            )


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """One contrast: estimate, intervals, and what a reader must know before trusting them.

    Attributes
    ----------
    estimate
        theta on the whole sample, in the units of the estimand.
    standard_error
        Delta-method standard error `sqrt(sum psi_i**2)`.
    n_units, n_rows
        Independent units, and rows summed into them.
    n_replicates
        Replicates used, or None where only the ideal bootstrap (B = infinity) was.
    degenerate
        The data hold no variation beyond rounding: intervals are a point, and no verdict may rest on it.
    undefined_share
        Share (or probability) of resamples in which a denominator is 0.
    largest_influence
        Largest `psi_i**2 / sum_j psi_j**2`: the share of the variance that one unit carries (0 to 1).
    probability_error
        Estimated error of the resampling distribution function; 0 for a plan (its error is sampling).
    engine
        Where the percentile and expanded percentile intervals came from.
    intervals
        Every computed interval.
    """

    estimate: float
    standard_error: float
    n_units: int
    n_rows: int
    n_replicates: int | None
    degenerate: bool
    undefined_share: float
    largest_influence: float
    probability_error: float
    engine: Engine
    intervals: tuple[Interval, ...]

    @property
    def usable(self) -> bool:
        """Whether every resample was defined and the distribution was computed accurately.

        1e-3 is below the Monte Carlo error of 10,000 replicates at the 2.5% point (0.0016).
        """
        return self.undefined_share <= 1e-12 and self.probability_error <= 1e-3

    def interval(self, method: str, level: float) -> Interval:
        """Return the interval of this method at this level.

        Raises
        ------
        InferenceError
            That interval was not computed.
        """
        for interval in self.intervals:
            if interval.method == method and abs(interval.level - level) <= _SAME_LEVEL:
                return interval
        have = sorted({(str(i.method), round(i.level, 6)) for i in self.intervals})
        raise InferenceError(
            f"no {method} interval at level {level!r}; computed were {have}.",
            remedy="Ask for it: intervals(..., level=..., also_levels=(...), methods=(...)).",
        )

    def at(self, level: float) -> Mapping[Method, Interval]:
        """Return the intervals at one level, by method."""
        return {i.method: i for i in self.intervals if abs(i.level - level) <= _SAME_LEVEL}


def bonferroni_level(level: float, n_contrasts: int) -> float:
    """Return the level `1 - (1 - level)/m` at which m intervals hold jointly at `level`.

    Raises
    ------
    InferenceError
        No contrasts, or a level outside (0, 1).
    """
    if n_contrasts < 1:
        raise InferenceError("no contrasts: there is no family to correct for.")
    if not (math.isfinite(level) and 0.0 < level < 1.0):
        raise InferenceError(f"level is {level!r}; a number strictly between 0 and 1 is wanted.")
    return level if n_contrasts == 1 else 1.0 - (1.0 - level) / n_contrasts
