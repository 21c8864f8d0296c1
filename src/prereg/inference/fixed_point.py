"""Weighted sums by matrix product that are the same to the last bit on every machine.

A float64 matrix product depends on the BLAS kernel, the thread count and the chunk size, because addition
rounds. Addition of integers below 2**53 doesn't. Each column is therefore split into two limbs on
power-of-two grids, coarse enough that every partial sum is an exact integer multiple of the grid. The
limbs' sums are exact in any order, with or without fused multiply-add; one rounding joins them.

Our own definition; the splitting is that of error-free transformations (Ogita, Rump and Oishi 2005,
doi:10.1137/030601818).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Limbs", "ProductLimbs", "split_limbs", "stack_limbs"]

_MANTISSA = 53
# The smallest float64 is 2**-1074: no finer grid exists, and none is needed.
_LOWEST_EXPONENT = -1074
# Numbers that are split together.
_MOST_NUMBERS = 2**19


@dataclass(frozen=True, slots=True, eq=False)
class Limbs:
    """Columns split for exact weighted sums.

    Attributes
    ----------
    stacked
        Shape (n, 2k): k coarse limbs, then k fine limbs.
    n_columns
        k.
    """

    stacked: FloatArray
    n_columns: int

    def sums(self, counts: FloatArray) -> FloatArray:
        """Return `counts @ columns` for non-negative integer counts, shape (b, n) to (b, k)."""
        both = counts @ self.stacked
        total: FloatArray = both[:, : self.n_columns] + both[:, self.n_columns :]
        return total


def split_limbs(columns: FloatArray, total_count: int) -> Limbs:
    """Split columns so that sums with counts adding up to `total_count` are exact limb by limb.

    Parameters
    ----------
    columns
        Shape (n, k), finite.
    total_count
        The sum of the counts of one replicate (its number of draws).

    Returns
    -------
    Limbs
        What is left out is at most `total_count**2 * 2**-102` of the column's largest entry per draw.
    """
    return stack_limbs(list(columns.T), total_count)


def stack_limbs(columns: Sequence[FloatArray], total_count: int) -> Limbs:
    """Split k columns of shape (n,) that lie apart; see `split_limbs`."""
    if total_count < 1 or total_count >= 2**40:
        raise InferenceError(f"{total_count} draws a replicate; between 1 and 2**40 are supported.")
    n, k = columns[0].size, len(columns)
    stacked = np.empty((n, 2 * k))
    # A few columns at a time: beside the limbs themselves nothing of their size is held.
    width = max(1, _MOST_NUMBERS // n)
    for first in range(0, k, width):
        some = np.column_stack(columns[first : first + width])
        high = _round_to_grid(some, total_count)
        some -= high
        stacked[:, first : first + some.shape[1]] = high
        stacked[:, k + first : k + first + some.shape[1]] = _round_to_grid(some, total_count)
    return Limbs(stacked, k)


def _round_to_grid(columns: FloatArray, total_count: int) -> FloatArray:
    largest = np.abs(columns).max(axis=0)
    # frexp: largest * total_count < 2**exponent. One bit is spared for rounding up to the grid.
    exponent = np.frexp(largest)[1] + int(total_count).bit_length()
    grid = np.maximum(exponent + 1 - _MANTISSA, _LOWEST_EXPONENT)
    scaled: FloatArray = np.ldexp(np.rint(np.ldexp(columns, -grid)), grid)
    return scaled


@dataclass(frozen=True, slots=True, eq=False)
class ProductLimbs:
    """A matrix split so that products with *real* coefficients are the same on every machine.

    Both factors are scaled to entries below 1 and split into two limbs of b bits, few enough that a sum of
    products of limbs is exact. The products of the low limbs, below 2**(1 - 2b) of the largest term, are left out.

    Attributes
    ----------
    high, cross
        Shapes (k, n) and (2k, n): the coarse limbs, and the fine ones above the coarse ones.
    exponents
        Shape (k,): row j of the matrix was divided by 2**exponents[j].
    bits
        b.
    """

    high: FloatArray
    cross: FloatArray
    exponents: np.ndarray
    bits: int

    @classmethod
    def of(cls, matrix: FloatArray) -> ProductLimbs:
        """Split a matrix of shape (k, n), finite."""
        k = matrix.shape[0]
        bits = (_MANTISSA - 2 - k.bit_length()) // 2
        exponents = np.frexp(np.abs(matrix).max(axis=1))[1]
        high, low = _two_limbs(np.ldexp(matrix, -exponents[:, None]), bits)
        return cls(high, np.vstack([low, high]), exponents, bits)

    @property
    def error(self) -> float:
        """Largest error of a product, as a share of the sum of its terms' largest possible sizes."""
        return float(2.0 ** (2 - 2 * self.bits))

    def times(self, coefficients: FloatArray) -> FloatArray:
        """Return `coefficients @ matrix`, shapes (b, k) and (b, n); rows with nan give nan."""
        scaled = np.ldexp(coefficients, self.exponents)
        largest = np.abs(scaled).max(axis=1)
        shift = np.frexp(np.where(np.isfinite(largest), largest, 0.0))[1][:, None]
        high, low = _two_limbs(np.ldexp(scaled, -shift), self.bits)
        product: FloatArray = high @ self.high + np.hstack([high, low]) @ self.cross
        return np.ldexp(product, shift)


def _two_limbs(values: FloatArray, bits: int) -> tuple[FloatArray, FloatArray]:
    high = np.ldexp(np.rint(np.ldexp(values, bits)), -bits)
    low = np.ldexp(np.rint(np.ldexp(values - high, 2 * bits)), -2 * bits)
    return high, low
