"""Sums over weighted cases that are the same to the last bit on every machine.

A statistic is asked for its value under many vectors of case weights. Where the weights are counts, as in every
resample, the sums are exact limb by limb (see `prereg.inference.fixed_point`). Each row of weights is summed by a rule
that looks at that row alone, so that cutting the rows into other chunks changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.fixed_point import Limbs, split_limbs
from prereg.inference.units import FloatArray, finite_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "STEP",
    "CaseSums",
    "binary_column",
    "checked_weights",
    "one_column",
    "paired_columns",
    "row_sums",
]

# By how much a case's weight is moved for a numeric derivative. A power of two, so that the moved weight is exact.
STEP = 2.0**-10

# Resamples whose weights add up to more than this per case are summed one by one. Only a crossed design with a few
# very large cells comes near.
_LARGEST_MEAN_WEIGHT = 16


def row_sums(matrix: FloatArray) -> FloatArray:
    """Return the sum of each row, shape (b, n) to (b,); a row's sum doesn't depend on the others."""
    total: FloatArray = np.ascontiguousarray(matrix).sum(axis=1)
    return total


def checked_weights(weights: npt.ArrayLike, n_units: int) -> FloatArray:
    """Return case weights as a float64 matrix of shape (b, n_units); one dimension is read as one row.

    Raises
    ------
    InferenceError
        The wrong number of cases, or weights that are negative, nan or inf.
    """
    array = np.asarray(weights, dtype=np.float64)
    matrix = array[None, :] if array.ndim == 1 else array
    if matrix.ndim != 2 or matrix.shape[1] != n_units:
        raise InferenceError(f"case weights have shape {array.shape}; the statistic has {n_units} cases.")
    if matrix.size and not (float(matrix.min()) >= 0.0 and float(matrix.max()) < math.inf):
        raise InferenceError(
            "case weights hold nan, inf or a negative number; counts, or shares, are wanted."
        )
    return np.ascontiguousarray(matrix)


@dataclass(frozen=True, slots=True, eq=False)
class CaseSums:
    """Columns made ready for weighted sums that no chunking and no BLAS kernel changes.

    For a custom statistic, in place of `weights @ columns`.

    Attributes
    ----------
    columns
        Shape (n_units, k).
    whole
        The columns split for whole-number weights.
    most
        Largest total weight of a row that the split columns take.

    Examples
    --------
    >>> import numpy as np
    >>> CaseSums.of([[1.0, 10.0], [2.0, 20.0]]).sums(np.array([[1.0, 1.0], [0.0, 2.0]])).tolist()
    [[3.0, 30.0], [4.0, 40.0]]
    """

    columns: FloatArray
    whole: Limbs
    most: float

    @classmethod
    def of(cls, columns: npt.ArrayLike) -> Self:
        """Split columns of shape (n_units,) or (n_units, k).

        Raises
        ------
        InferenceError
            Empty, nan or inf (see `finite_matrix`).
        """
        matrix = finite_matrix(columns, "columns")
        most = _LARGEST_MEAN_WEIGHT * matrix.shape[0]
        return cls(matrix, split_limbs(matrix, most), float(most))

    def sums(self, weights: FloatArray) -> FloatArray:
        """Return `weights @ columns`, shapes (b, n_units) and (b, k).

        For whole weights exact up to one rounding; other weights are summed pairwise, row by row.
        """
        small = row_sums(weights) <= self.most
        whole = (weights == np.rint(weights)).all(axis=1)
        if (small & whole).all():
            return self.whole.sums(weights)
        out = np.empty((weights.shape[0], self.columns.shape[1]))
        out[small & whole] = self.whole.sums(weights[small & whole])
        parts = weights[~whole]
        for k, column in enumerate(self.columns.T):
            out[~whole, k] = row_sums(parts * column)
            for row in np.flatnonzero(whole & ~small):
                out[row, k] = math.fsum((weights[row] * column).tolist())
        return out


def one_column(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return one finite number for each case, shape (n_units,), or raise InferenceError."""
    matrix = finite_matrix(values, name)
    if matrix.shape[1] != 1:
        raise InferenceError(f"{name} has shape {matrix.shape}; one number for each case is wanted.")
    column: FloatArray = matrix[:, 0]
    return column


def paired_columns(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return two columns of the same cases, or raise InferenceError."""
    left, right = one_column(a, "the first column"), one_column(b, "the second column")
    if left.size != right.size:
        raise InferenceError(f"length mismatch: {left.size} and {right.size} cases can't be paired.")
    return left, right


def binary_column(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return one 0 or 1 for each case, or raise InferenceError."""
    column = one_column(values, name)
    odd = column[(column != 0.0) & (column != 1.0)]
    if odd.size:
        raise InferenceError(f"{name} holds {float(odd[0])!r}; only 0 and 1 (or False and True) are wanted.")
    return column
