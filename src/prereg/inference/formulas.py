"""The parts that interval methods are made of, each one formula.

Sources and departures are listed in `prereg.inference.intervals`.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from prereg.errors import InferenceError
from prereg.inference._special import normal_cdf, normal_quantile, t_quantile
from prereg.inference.contrasts import DEGENERATE, Contrast
from prereg.inference.replicates import Replicates
from prereg.inference.units import FloatArray, exact_sum

__all__ = [
    "Ordered",
    "acceleration",
    "bca_bounds",
    "bias_correction",
    "expanded_tail",
    "largest_influence",
    "pivots_of",
    "type7_places",
    "type7_quantile",
    "without_variation",
]


class Ordered(Protocol):
    """Values in ascending order: a sorted array, or those of its entries that are wanted."""

    @property
    def size(self) -> int:
        """Number of values."""
        ...

    def __getitem__(self, place: int, /) -> float:
        """Return the value at a place, from 0; -1 is the last."""
        ...


def type7_places(size: int, p: float) -> tuple[int, int, float]:
    """Return the two places in `size` sorted values between which the type-7 quantile lies, and the share between."""
    place = (size - 1) * p
    below = min(int(place), size - 1)
    return below, min(below + 1, size - 1), place - below


def type7_quantile(ordered: Ordered, p: float) -> float:
    """Return the type-7 (linear) quantile of sorted values, with infinite values allowed.

    The convention of numpy, scipy and arch (Hyndman and Fan 1996, doi:10.2307/2684934). Between a finite
    and an infinite value the quantile is that infinity; between -inf and inf it is the one on p's own
    side, which makes an interval unbounded rather than nan.

    Parameters
    ----------
    ordered
        b values, ascending, no nan.
    p
        Between 0 and 1.
    """
    below, above, share = type7_places(ordered.size, p)
    low, high = float(ordered[below]), float(ordered[above])
    if share == 0.0 or low == high:
        return low
    if math.isinf(low) or math.isinf(high):
        if math.isinf(low) and math.isinf(high):
            return low if p < 0.5 else high
        return low if math.isinf(low) else high
    return low + share * (high - low)


def without_variation(contrast: Contrast, ordered: Ordered) -> bool:
    """Tell whether neither the units nor the sorted replicates differ by more than rounding."""
    spread = float(ordered[-1]) - float(ordered[0])
    return contrast.is_degenerate() or spread <= DEGENERATE * max(contrast.scale, abs(contrast.estimate))


def expanded_tail(level: float, n_units: int) -> float:
    """Return `Phi(-sqrt(n/(n-1)) t_{1-alpha/2, n-1})`, the tail of the expanded percentile interval."""
    t = t_quantile(1.0 - (1.0 - level) / 2.0, n_units - 1)
    return normal_cdf(-math.sqrt(n_units / (n_units - 1)) * t)


def bias_correction(values: FloatArray, estimate: float) -> float:
    """Return BCa's z0, mid-rank: replicates within 1e-12*max(1, |theta|) of theta count as half below.

    Infinite where all replicates lie on one side of the estimate.
    """
    tolerance = DEGENERATE * max(1.0, abs(estimate))
    equal = np.abs(values - estimate) <= tolerance
    n_below = int(((values < estimate) & ~equal).sum())
    return normal_quantile((n_below + 0.5 * int(equal.sum())) / values.size)


def acceleration(contrast: Contrast) -> float | None:
    """Return BCa's acceleration by leaving out one unit at a time.

    `a = sum(u**3) / (6 sum(u**2)**1.5)`, u = mean(jackknife) - jackknife, in closed form. None where
    leaving a unit out leaves a zero denominator.
    """
    without = contrast.leave_one_out()
    if without is None:
        return None
    u = exact_sum(without) / without.size - without
    square = exact_sum(u**2)
    if not square > 0.0:
        return 0.0
    return exact_sum(u**3) / (6.0 * math.pow(square, 1.5))


def largest_influence(contrast: Contrast) -> float:
    """Return `max_i psi_i**2 / sum_j psi_j**2`, or 0 where nothing varies."""
    squares = contrast.influence() ** 2
    total = float(squares.sum())
    return float(squares.max()) / total if total > 0.0 else 0.0


def pivots_of(draws: Replicates, scale: float) -> FloatArray:
    """Return (theta* - theta)/s*; without variation +-inf by sign, and 0 where theta* is theta."""
    if draws.standard_errors is None:
        raise InferenceError("studentized intervals need the standard error of each resample.")
    gap = draws.values - draws.estimate
    pivots = np.where(np.abs(gap) <= DEGENERATE * scale, 0.0, np.copysign(np.inf, gap))
    np.divide(gap, draws.standard_errors, out=pivots, where=draws.standard_errors > 0.0)
    return pivots


def bca_bounds(ordered: Ordered, z0: float | None, accel: float | None, tail: float) -> tuple[float, float]:
    """Return BCa's interval from sorted replicates; unbounded where z0 or the acceleration is undefined."""
    if accel is None or z0 is None or math.isinf(z0):
        return -math.inf, math.inf

    def level(z: float) -> float:
        slope = 1.0 - accel * (z0 + z)
        # Past the pole the transformation has turned round; the far end is the honest bound.
        if slope <= 0.0:
            return 0.0 if z < 0.0 else 1.0
        return normal_cdf(z0 + (z0 + z) / slope)

    low, high = level(normal_quantile(tail)), level(normal_quantile(1.0 - tail))
    return type7_quantile(ordered, low), type7_quantile(ordered, high)
