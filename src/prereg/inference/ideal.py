"""The ideal bootstrap (B = infinity) of one ratio of sums: no seed, no Monte Carlo noise.

`P*(theta* <= c) = P*(sum N - c sum D <= 0)` is the distribution of a sum of n iid draws, since sum D >= 0.
It is computed by enumeration where the data have few distinct units, by convolution where they lie on a
lattice, by counting two halves of the resamples against each other where a few rare units stand beside a common
one, and by inverting the characteristic function otherwise. All but the last are exact: quantiles are
inverse-distribution-function quantiles, the smallest atom at which the distribution reaches p. In the
last the distribution is a staircase of tiny steps, and the quantile is where its smoothed version
crosses p, within `probability_error`.

The ideal bootstrap is the limit that Monte Carlo approaches (Efron and Tibshirani 1993,
doi:10.1201/9780429246593, section 6.3); inverting its characteristic function is our own definition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference._special import check_level
from prereg.inference.contrasts import Contrast, prepare
from prereg.inference.distributions import Distribution, resampling_distribution
from prereg.inference.formulas import expanded_tail, largest_influence
from prereg.inference.records import ContrastResult, Engine, Interval, Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prereg.inference.ratios import RatioTable

__all__ = ["IdealDistribution", "has_ideal", "ideal_distribution", "ideal_intervals"]


@dataclass(frozen=True, slots=True, eq=False)
class IdealDistribution:
    """The exact resampling distribution of one contrast.

    Attributes
    ----------
    estimate
        theta on the whole sample.
    undefined_probability
        Probability that a resample has a zero denominator: `(units with D = 0 / n)**n`.
    probability_error
        Estimated error of the distribution function: about 1e-12 where it is exact or smooth; larger where a
        small sample's steps can't be resolved.
    """

    estimate: float
    undefined_probability: float
    _inner: Distribution

    @property
    def probability_error(self) -> float:
        """Estimated error of `cdf` near the estimate."""
        return self._inner.error

    def error_at(self, c: float) -> float:
        """Return the estimated error of `cdf` at c, at least that near the estimate."""
        return self._inner.error_at(c - self.estimate)

    def cdf(self, c: float) -> float:
        """Return P*(theta* <= c). In the inverted case an atom at c itself counts half."""
        below, at = self._inner.below(c - self.estimate)
        return below + at

    def mass(self, c: float) -> float:
        """Return P*(theta* = c) within 1e-12; 0 in the inverted case, where atoms are not resolved."""
        return self._inner.below(c - self.estimate)[1]

    def quantile(self, p: float) -> float:
        """Return the smallest c with P*(theta* <= c) >= p, for p in (0, 1).

        Where outliers of many scales make it too costly it is infinite, and `probability_error` 1 from then on.
        """
        if not 0.0 < p < 1.0:
            raise InferenceError(f"p is {p!r}; a number strictly between 0 and 1 is wanted.")
        return self.estimate + self._inner.quantile(p)


def has_ideal(table: RatioTable, weights: npt.ArrayLike) -> bool:
    """Tell whether every contrast is one ratio of sums: all its ratios share one denominator column."""
    return all(contrast.n_groups == 1 for contrast in prepare(table, weights))


def ideal_distribution(table: RatioTable, weights: npt.ArrayLike) -> IdealDistribution:
    """Return the ideal bootstrap distribution of one contrast.

    Parameters
    ----------
    table
        Sums per independent unit.
    weights
        One contrast, shape (n_ratios,), whose ratios share one denominator column.

    Raises
    ------
    InferenceError
        Several contrasts, several denominators, or data without variation.
    """
    contrasts = prepare(table, weights)
    if len(contrasts) != 1:
        raise InferenceError(f"{len(contrasts)} contrasts given; one is wanted.")
    return _distribution(contrasts[0])


def _distribution(contrast: Contrast) -> IdealDistribution:
    if contrast.n_groups != 1:
        raise InferenceError(
            f"the contrast has {contrast.n_groups} distinct denominators; the ideal bootstrap needs one.",
            remedy="Use intervals(table, weights, plan) for weighted sums of several ratios.",
        )
    if contrast.is_degenerate():
        raise InferenceError("the units hold no variation: the resampling distribution is a point.")
    n = contrast.n_units
    n_empty = int((contrast.denominator[:, 0] == 0.0).sum())
    return IdealDistribution(
        estimate=contrast.estimate,
        undefined_probability=(n_empty / n) ** n,
        _inner=resampling_distribution(contrast),
    )


def ideal_intervals(
    table: RatioTable,
    weights: npt.ArrayLike,
    level: float = 0.95,
    *,
    also_levels: Sequence[float] = (),
) -> tuple[ContrastResult, ...]:
    """Compute percentile and expanded percentile intervals of the ideal bootstrap.

    Parameters
    ----------
    table
        Sums per independent unit.
    weights
        Contrasts, shape (n_contrasts, n_ratios) or (n_ratios,); within each, all ratios share one
        denominator column (see `has_ideal`).
    level, also_levels
        Two-sided levels above 0.5.

    Returns
    -------
    tuple of ContrastResult
        Methods "percentile" and "expanded_percentile"; `engine` is "ideal", `n_replicates` None.

    Raises
    ------
    InferenceError
        A level out of range or a contrast with several denominators.
    """
    levels = tuple(dict.fromkeys(check_level(value) for value in (level, *also_levels)))
    return tuple(_ideal_result(contrast, levels) for contrast in prepare(table, weights))


def _ideal_result(contrast: Contrast, levels: tuple[float, ...]) -> ContrastResult:
    methods = (Method.PERCENTILE, Method.EXPANDED_PERCENTILE)
    degenerate = contrast.is_degenerate()
    undefined, error = 0.0, 0.0
    if degenerate:
        theta = contrast.estimate
        found = tuple(Interval(theta, theta, at, m) for at in levels for m in methods)
    else:
        ideal = _distribution(contrast)
        found = tuple(_interval(ideal, contrast.n_units, at, method) for at in levels for method in methods)
        # After the quantiles: one that can't be computed says so in the error.
        undefined, error = ideal.undefined_probability, ideal.probability_error
    return ContrastResult(
        estimate=contrast.estimate,
        standard_error=0.0 if degenerate else contrast.standard_error(),
        n_units=contrast.n_units,
        n_rows=contrast.n_rows,
        n_replicates=None,
        degenerate=degenerate,
        undefined_share=undefined,
        largest_influence=largest_influence(contrast),
        probability_error=error,
        engine=Engine.IDEAL,
        intervals=found,
    )


def _interval(ideal: IdealDistribution, n: int, level: float, method: Method) -> Interval:
    tail = (1.0 - level) / 2.0 if method is Method.PERCENTILE else expanded_tail(level, n)
    low, high = ideal.quantile(tail), ideal.quantile(1.0 - tail)
    if math.isnan(low) or math.isnan(high):
        raise InferenceError("the ideal distribution gave no quantile: its inversion failed.")
    return Interval(low, high, level, method)
