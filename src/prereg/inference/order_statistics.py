"""The few order statistics that an interval is made of, without the other replicates' exact values.

A percentile bound needs two neighbours among the sorted replicates. Sums in single precision, at a quarter of the
cost, say of nearly all replicates on which side of these they lie; only those near enough to be one of them are
summed exactly (see `prereg.inference.fixed_point`). The result is that of sorting all exact replicates, to the last
bit. Where the bound on the error doesn't settle that cheaply, nothing is returned and the caller sums them all.

Why it is safe. Let x be a column scaled to entries of at most 1, c the counts of a replicate, u = 2**-24. In whatever
order a kernel adds, fused or not, a term passes through at most k roundings, k the units of a panel and the number
of panels. With gamma_k = k u / (1 - k u) (Higham 2002, doi:10.1137/1.9780898718027, section 3.1), the computed sum
differs from the exact route's by at most `gamma * sum(c |x|) + tiny`: two more roundings in gamma cover the
conversion of x and the exact route's own rounding, and `tiny` covers underflow, flushed to zero or not, and what the
limbs leave out. By Cauchy and Schwarz `sum(c |x|) <= |c| |x|`. A denominator has no negative entries, so there the
sum bounds itself, and the error is relative. So no replicate's deviation from the estimate differs from the exact
route's by more than one number E per contrast, and neither does any order statistic. A replicate that can be the
exact p-th one therefore lies within 2 E of the approximate p-th; all others are certainly below or above it, and are
counted. Our own definition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference.contrasts import Contrast
from prereg.inference.plan import ResamplingPlan, is_kept, small_counts
from prereg.inference.replicates import check_plan, distinct_columns, replicates_of_counts
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["OrderStatistics", "order_statistics"]

Counts = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]

# Counts of all replicates are held, one byte each.
_MOST_COUNTS = 24 * 2**20
# Draws for which the limbs' error stays far below single precision.
_MOST_DRAWS = 2**16
# Units that are added in single precision before a panel's sum joins the others: the bound grows with them.
_PANEL = 512
# Replicates that are multiplied at a time: their counts and a panel of columns fit a core's cache.
_ROWS = 128
# Columns summed together, and the numbers, of 4 bytes, in them and in their sums for all replicates.
_MOST_COLUMNS = 256
_MOST_NUMBERS = 2**22
# Exponents beyond which scaling could overflow, or the limbs' grid is the smallest float64.
_MOST_EXPONENT = 400
# With more candidates than this share of the replicates, summing them all is cheaper.
_MOST_CANDIDATES = 0.05

_UNIT = 2.0**-24


@dataclass(frozen=True, slots=True)
class OrderStatistics:
    """Some of a contrast's sorted replicates, the same bits as if all were computed and sorted.

    Attributes
    ----------
    size
        Number of replicates, all defined.
    known
        Replicate at each wanted place, from 0.
    """

    size: int
    known: Mapping[int, float]

    def __getitem__(self, place: int) -> float:
        """Return the replicate at a place, from 0; -1 is the last.

        Raises
        ------
        InferenceError
            That place was not asked for.
        """
        found = self.known.get(place + self.size if place < 0 else place)
        if found is None:
            raise InferenceError(
                f"the replicate at place {place} was not computed, only {sorted(self.known)}."
            )
        return found


def order_statistics(
    contrasts: Sequence[Contrast], plan: ResamplingPlan, places: Sequence[int]
) -> tuple[OrderStatistics | None, ...]:
    """Return each contrast's replicates at the wanted places of the sorted order.

    Parameters
    ----------
    contrasts, plan
        As for `replicate_contrasts`.
    places
        Places from 0 to n_replicates - 1.

    Returns
    -------
    tuple of OrderStatistics or None
        None where all replicates must be computed: the plan is so small that little is saved, or too large for its
        counts to be held; a resample may be undefined; ties or nearly constant data leave too many candidates.

    Raises
    ------
    InferenceError
        No contrasts, or a plan for another number of units.
    """
    check_plan(contrasts, plan)
    nothing: tuple[OrderStatistics | None, ...] = (None,) * len(contrasts)
    if is_kept(plan) or plan.n_units * plan.n_replicates > _MOST_COUNTS or plan.n_draws > _MOST_DRAWS:
        return nothing
    counts = small_counts(plan)
    if counts is None:
        return nothing
    search = _Search(counts, plan.n_draws, sorted(set(places)))
    most = min(_MOST_COLUMNS, _MOST_NUMBERS // max(plan.n_units, plan.n_replicates))
    return tuple(found for group in _grouped(contrasts, most) for found in search.run(group, most))


def _grouped(contrasts: Sequence[Contrast], most: int) -> Iterator[list[Contrast]]:
    """Yield contrasts in order, so many at a time that they have at most so many columns, but one at least."""
    group: list[Contrast] = []
    for contrast in contrasts:
        if group and 2 * sum(c.n_groups for c in (*group, contrast)) > most:
            yield group
            group = []
        group.append(contrast)
    yield group


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A column's approximate sums, times 2**-exponent, and its norm on that scale."""

    sums: FloatArray
    norm: float
    exponent: int


class _Search:
    """One plan's counts, searched for the order statistics of one contrast after another."""

    def __init__(self, counts: Counts, n_draws: int, places: list[int]) -> None:
        self._counts = counts
        self._n_draws = n_draws
        self._places = places
        n_units = counts.shape[1]
        roundings = min(n_units, _PANEL) + -(-n_units // _PANEL) + 3
        self._gamma = roundings * _UNIT / (1.0 - roundings * _UNIT)
        self._tiny = float(n_draws) ** 3 * 2.0**-102 + (n_units + n_draws) * 2.0**-116

    def run(self, contrasts: list[Contrast], most: int) -> Iterator[OrderStatistics | None]:
        """Yield what is found for each contrast; nothing where one alone has too many columns."""
        columns, places = distinct_columns(
            [*contrast.numerator.T, *contrast.denominator.T] for contrast in contrasts
        )
        if len(columns) > most:
            yield from (None for _ in contrasts)
            return
        exponents = [int(np.frexp(np.abs(column).max())[1]) for column in columns]
        scaled = np.empty((len(columns), self._counts.shape[1]), dtype=np.float32)
        norms = []
        for row, column, exponent in zip(scaled, columns, exponents, strict=True):
            small = np.ldexp(column, -exponent)
            norms.append(math.sqrt(float(np.square(small).sum())))
            row[:] = small
        sums, longest = self._sums(scaled)
        for contrast, place in zip(contrasts, places, strict=True):
            own = [_Column(sums[j].astype(np.float64), norms[j], exponents[j]) for j in place]
            yield self._find(contrast, own, longest)

    def _sums(self, columns: Singles) -> tuple[Singles, float]:
        """Return the sums, shape (k, n_replicates), and the largest norm of a replicate's counts."""
        n_replicates, n_units = self._counts.shape
        sums = np.empty((columns.shape[0], n_replicates), dtype=np.float32)
        longest = 0.0
        for first in range(0, n_replicates, _ROWS):
            rows = slice(first, first + _ROWS)
            counts = self._counts[rows].astype(np.float32)
            # At most 255 times 2**16: whole numbers that single precision holds.
            longest = max(longest, float(np.einsum("bi,bi->b", counts, counts).max()))
            sums[:, rows] = columns[:, :_PANEL] @ counts[:, :_PANEL].T
            for unit in range(_PANEL, n_units, _PANEL):
                panel = slice(unit, unit + _PANEL)
                sums[:, rows] += columns[:, panel] @ counts[:, panel].T
        return sums, math.sqrt(longest)

    def _find(self, contrast: Contrast, columns: list[_Column], longest: float) -> OrderStatistics | None:
        if any(abs(column.exponent) > _MOST_EXPONENT for column in columns):
            return None
        deviations = np.zeros(self._counts.shape[0])
        error = size = 0.0
        half = contrast.n_groups
        for top, bottom in zip(columns[:half], columns[half:], strict=True):
            lowest = float(bottom.sums.min())
            share = self._gamma / (1.0 - self._gamma) + (2.0 * self._tiny / lowest if lowest > 0.0 else 1.0)
            if share > 0.125:
                return None
            quotients = top.sums / bottom.sums
            largest = float(np.abs(quotients).max())
            off = (self._gamma * longest * top.norm + self._tiny) / lowest
            scale = math.ldexp(1.0, top.exponent - bottom.exponent)
            error += scale * (off + largest * share) / (1.0 - share)
            size += scale * largest
            deviations += scale * quotients
        # What is left is the rounding of float64, here and in the exact route, of the bounds and of their comparison.
        error = 1.01 * error + (contrast.n_groups + 16) * 2.0**-51 * (abs(contrast.estimate) + size + error)
        return self._settle(contrast, deviations, error)

    def _settle(self, contrast: Contrast, deviations: FloatArray, error: float) -> OrderStatistics | None:
        """Compute the candidates exactly, and count the others that are below each place."""
        if not math.isfinite(error):
            return None
        guesses = np.sort(deviations)[self._places]
        candidate = np.zeros(deviations.size, dtype=np.bool_)
        for guess in guesses:
            candidate |= np.abs(deviations - guess) <= 2.0 * error
        rows = np.flatnonzero(candidate)
        if rows.size > _MOST_CANDIDATES * deviations.size:
            return None
        counts = self._counts[rows].astype(np.float64)
        exact = replicates_of_counts(contrast, counts, self._n_draws)
        # A kernel that sums in less than single precision would break the bound: it must not go unseen.
        if not (np.abs(exact - contrast.estimate - deviations[rows]) <= error).all():
            return None
        exact.sort()
        others = deviations[~candidate]
        below = [int((others < guess).sum()) for guess in guesses]
        known = {p: float(exact[p - b]) for p, b in zip(self._places, below, strict=True)}
        return OrderStatistics(deviations.size, known)
