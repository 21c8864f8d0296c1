"""What one independent unit does to a statistic: its influence, and the statistic without it.

All by weights: an influence is a derivative by the weight of a unit's cases, a deletion sets that weight to 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.case_sums import STEP, row_sums
from prereg.inference.plan import IndexArray
from prereg.inference.units import FloatArray
from prereg.inference.weight_plan import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prereg.inference.designs import Nested
    from prereg.inference.statistics import WeightedStatistic
    from prereg.inference.weight_plan import Design

__all__ = [
    "acceleration",
    "copies_standard_errors",
    "jackknife",
    "resampled_standard_errors",
    "unit_influence",
]

# A resample whose standard error is below this share of the numbers behind theta has none.
_NO_ERROR = 1e-13


def unit_influence(statistic: WeightedStatistic, design: Design) -> FloatArray:
    """Return `psi_g`, the derivative of theta by the weight of each independent unit, at equal weights.

    The infinitesimal jackknife (Jaeckel 1972; Efron 1982, doi:10.1137/1.9781611970319, chapter 6). In closed form where
    the statistic has one, else by the central difference `(theta(1 + h) - theta(1 - h)) / 2h`, h = 1/1024, whose
    error is of the relative order h**2/G**2 for G units. A crossed design has the rows' influences, then the columns'.

    Parameters
    ----------
    statistic, design
        With as many cases as rows.

    Returns
    -------
    numpy.ndarray
        Shape (G,), in units of theta; `sqrt(sum psi**2)` is the standard error.

    Raises
    ------
    InferenceError
        The statistic is undefined next to equal weights.

    Examples
    --------
    >>> from prereg.inference import iid, mean
    >>> unit_influence(mean([1.0, 2.0, 6.0]), iid(3)).round(4).tolist()
    [-0.6667, -0.3333, 1.0]
    """
    exact = statistic.influence(np.ones((1, design.n_rows)))
    if exact is not None:
        return np.concatenate([np.bincount(codes, exact[0]) for codes in design.units])
    parts = []
    for codes in design.units:
        above, below = (_each_unit(statistic, codes, 1.0 + h) for h in (STEP, -STEP))
        moved = (above - below) / (2.0 * STEP)
        # Resampling moves weight from unit to unit; a change of all weights together is not its doing.
        parts.append(moved - math.fsum(moved.tolist()) / moved.size)
    psi = np.concatenate(parts)
    if not np.isfinite(psi).all():
        raise InferenceError("the statistic is undefined next to equal weights: it has no influence there.")
    return psi


def jackknife(statistic: WeightedStatistic, design: Design) -> tuple[FloatArray, ...] | None:
    """Return theta without each independent unit, one array for each grouping, or None where one is undefined."""
    without = tuple(_each_unit(statistic, codes, 0.0) for codes in design.units)
    return without if all(np.isfinite(values).all() for values in without) else None


def acceleration(without: tuple[FloatArray, ...] | None) -> float | None:
    """Return BCa's acceleration from theta without each unit, or None where that is undefined.

    `a = sum(u**3) / (6 sum(u**2)**1.5)`, u = mean(jackknife) - jackknife (Efron 1987,
    doi:10.1080/01621459.1987.10478410). For a crossed design both sides' u are pooled, as second and third moments of
    independent parts add up (our own extension).
    """
    if without is None:
        return None
    u = np.concatenate([math.fsum(values.tolist()) / values.size - values for values in without])
    square = math.fsum((u**2).tolist())
    if not square > 0.0:
        return 0.0
    return math.fsum((u**3).tolist()) / (6.0 * math.pow(square, 1.5))


def resampled_standard_errors(
    statistic: WeightedStatistic, design: Design, weights: FloatArray, scale: float
) -> FloatArray:
    """Return `sqrt(sum_g c_g psi*_g**2)` in each resample, c_g the count of unit g, shapes (b, n_rows) and (b,).

    Exactly 0 where a resample holds no variation but rounding. For designs in which a case's weight is its unit's
    count, and statistics whose influence has a closed form.
    """
    psi = statistic.influence(weights)
    if psi is None or len(design.units) != 1:
        raise InferenceError("standard errors inside resamples need a closed form and one grouping.")
    codes = design.units[0]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    if starts.size == codes.size:
        summed, counts = psi[:, order], weights[:, order]
    else:
        summed, counts = np.add.reduceat(psi[:, order], starts, axis=1), weights[:, order[starts]]
    error = np.sqrt(row_sums(counts * summed * summed))
    error[error <= _NO_ERROR * scale] = 0.0
    return error


def copies_standard_errors(
    statistic: WeightedStatistic,
    design: Nested,
    weights: FloatArray,
    drawn: Sequence[tuple[IndexArray, IndexArray]],
    scale: float,
) -> FloatArray:
    """Return `sqrt(sum over copies of (sum over its draws of psi*)**2)` in each resample, shape (b,).

    A resample of a nested design holds as many copies of outer units as there are outer units, each with inner draws of
    its own; `drawn` tells them apart, as (inner unit, copy) of every draw. Exactly 0 where only rounding is left.
    """
    psi = statistic.influence(weights)
    if psi is None:
        raise InferenceError("standard errors inside resamples need a closed form.")
    n_inner, n_outer = int(design.sizes.sum()), design.n_independent
    error = np.empty(weights.shape[0])
    for b, (inner, copy) in enumerate(drawn):
        of_inner = np.bincount(design.inner_codes, psi[b], minlength=n_inner)
        of_copy = np.bincount(copy, of_inner[inner], minlength=n_outer)
        error[b] = math.sqrt(math.fsum((of_copy**2).tolist()))
    error[error <= _NO_ERROR * scale] = 0.0
    return error


def _each_unit(statistic: WeightedStatistic, codes: IndexArray, weight: float) -> FloatArray:
    """Return theta with the cases of one unit at `weight` and all others at 1, for each unit."""
    return np.concatenate([statistic.evaluate(chunk) for chunk in _one_changed(codes, weight)])


def _one_changed(codes: IndexArray, weight: float) -> Iterator[FloatArray]:
    n_units = int(codes.max()) + 1
    rows = max(1, CHUNK_BYTES // (8 * codes.size))
    for first in range(0, n_units, rows):
        changed = np.arange(first, min(first + rows, n_units))
        yield np.where(codes == changed[:, None], weight, 1.0)
