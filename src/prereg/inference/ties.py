"""Cases sorted once by a value, so that ranks under any weights are cumulative sums.

Weights stand here as (cases, resamples): taking cases in another order then moves whole rows, which is several times
faster than picking single numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from prereg.inference.case_sums import row_sums
from prereg.inference.plan import IndexArray
from prereg.inference.units import FloatArray

__all__ = ["Ties", "by_case", "case_sums", "running_sums"]


@dataclass(frozen=True, slots=True, eq=False)
class Ties:
    """Cases sorted by one value, with the runs of equal ones.

    Attributes
    ----------
    order, starts
        The cases in ascending order, and where in it each tie group begins.
    group
        Tie group of each case, in the cases' own order, shape (n,).
    """

    order: IndexArray
    starts: IndexArray
    group: IndexArray

    @classmethod
    def of(cls, *keys: FloatArray) -> Self:
        """Sort by the first key, then the next; cases alike in all keys are tied."""
        order = np.lexsort(keys[::-1]).astype(np.int64)
        new = np.ones(order.size, dtype=bool)
        new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
        group = np.empty(order.size, dtype=np.int64)
        group[order] = np.cumsum(new) - 1
        return cls(order, np.flatnonzero(new).astype(np.int64), group)

    def weigh(self, held: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weight of each tie group, and the weight below it with half its own, both (n_groups, b)."""
        running = running_sums(held[self.order])
        if self.starts.size < self.order.size:
            running = running[np.append(self.starts[1:], self.order.size) - 1]
        totals = running.copy()
        totals[1:] -= running[:-1]
        running -= 0.5 * totals
        return totals, running


def running_sums(terms: FloatArray) -> FloatArray:
    """Return the running sums over cases, (n, b) to (n, b), adding whole rows in two levels.

    Several times faster than `numpy.cumsum`, which adds one number at a time. A resample's sums don't depend on the
    others.
    """
    n, b = terms.shape
    width = max(1, math.isqrt(n))
    height = -(-n // width)
    filled = np.zeros((height * width, b))
    filled[:n] = terms
    cells = filled.reshape(height, width, b)
    for k in range(1, width):
        cells[:, k] += cells[:, k - 1]
    for k in range(1, height):
        cells[k] += cells[k - 1, -1]
    return filled[:n]


def by_case(weights: FloatArray) -> FloatArray:
    """Return a copy of weights (b, n) as (n, b); one row's transpose would else be the caller's own array."""
    return np.array(weights.T, order="C", copy=True)


def case_sums(terms: FloatArray) -> FloatArray:
    """Return the sum over cases of each resample, (n, b) to (b,); a resample's sum doesn't depend on the others."""
    return row_sums(terms.T)
