"""The central statistic: weighted sums of ratios of sums over units.

A gap of explained variance with a common SST is one ratio of sums. Its mean over updates is a weighted sum
of such ratios. A plain mean is a ratio whose denominator counts rows. So one table serves every gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference.units import FloatArray, column_sums, finite_matrix, unit_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RatioTable", "contrast_weights"]


@dataclass(frozen=True, slots=True, eq=False)
class RatioTable:
    """Per-unit sums behind several ratios.

    Ratio r is `R[r] = sum_i numerator[i, r] / sum_i denominator[i, r]`, a ratio of sums, not a mean of
    ratios: a unit weighs by its denominator.

    Parameters
    ----------
    units
        Labels of the independent units, sorted, each once. The order is part of the resampling plan.
    numerator
        Shape (n_units, n_ratios), any sign.
    denominator
        Shape (n_units, n_ratios), none negative, each column's total above 0.
    n_rows
        Number of rows that were summed; at least n_units.

    Raises
    ------
    InferenceError
        Empty; one unit only; nan or inf; shapes that differ; a negative denominator; a total denominator
        of 0; labels unsorted or repeated.
    """

    units: tuple[str, ...]
    numerator: FloatArray
    denominator: FloatArray
    n_rows: int

    def __post_init__(self) -> None:
        numerator = finite_matrix(self.numerator, "numerator")
        denominator = finite_matrix(self.denominator, "denominator")
        if numerator.shape != denominator.shape:
            raise InferenceError(
                f"length mismatch: numerator has shape {numerator.shape}, denominator {denominator.shape}."
            )
        units = tuple(self.units)
        _check_units(units, numerator.shape[0], self.n_rows)
        _check_denominator(denominator)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "numerator", numerator)
        object.__setattr__(self, "denominator", denominator)

    @classmethod
    def from_rows(cls, labels: Sequence[str], numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Self:
        """Sum rows into units and build the table.

        Parameters
        ----------
        labels
            Unit of each row, length n_rows.
        numerator, denominator
            Shape (n_rows,) or (n_rows, n_ratios), both alike.

        Raises
        ------
        InferenceError
            As the class, and as `unit_sums`.
        """
        top = finite_matrix(numerator, "numerator")
        bottom = finite_matrix(denominator, "denominator")
        if top.shape != bottom.shape:
            raise InferenceError(
                f"length mismatch: numerator has shape {top.shape}, denominator {bottom.shape}."
            )
        # Per row, before the sums: within a unit a negative row could hide behind a larger one.
        _check_denominator(bottom)
        sums = unit_sums(labels, np.hstack([top, bottom]))
        k = top.shape[1]
        return cls(sums.units, sums.sums[:, :k], sums.sums[:, k:], top.shape[0])

    @classmethod
    def of_means(cls, labels: Sequence[str], values: npt.ArrayLike) -> Self:
        """Build the table whose ratios are plain means over rows (denominator 1 per row)."""
        top = finite_matrix(values, "values")
        return cls.from_rows(labels, top, np.ones_like(top))

    @property
    def n_units(self) -> int:
        """Number of independent units."""
        return len(self.units)

    @property
    def n_ratios(self) -> int:
        """Number of ratios."""
        return int(self.numerator.shape[1])

    def ratios(self) -> FloatArray:
        """Return the ratios on the whole sample, shape (n_ratios,), from correctly rounded sums."""
        return column_sums(self.numerator) / column_sums(self.denominator)


def _check_units(units: tuple[str, ...], n_units: int, n_rows: int) -> None:
    if len(units) != n_units:
        raise InferenceError(f"length mismatch: {len(units)} unit labels, {n_units} rows of sums.")
    if n_units < 2:
        raise InferenceError(
            "n=1: a single unit has no sampling distribution, so no interval exists.",
            remedy="Measure more units; rows within one unit are not independent.",
        )
    if any(not isinstance(unit, str) or not unit for unit in units):
        raise InferenceError("unit labels must be non-empty strings.")
    if list(units) != sorted(set(units)):
        raise InferenceError(
            "unit labels are unsorted or repeated; the resampling plan needs one fixed order.",
            remedy="Build the table with RatioTable.from_rows(labels, numerator, denominator).",
        )
    if isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < n_units:
        raise InferenceError(f"n_rows is {n_rows!r}; an integer of at least {n_units} is wanted.")


def _check_denominator(denominator: FloatArray) -> None:
    lowest = float(denominator.min())
    if lowest < 0.0:
        raise InferenceError(
            f"negative denominator {lowest!r} found; a sum of squares or a count can't be negative."
        )
    empty = np.flatnonzero(~(column_sums(denominator) > 0.0))
    if empty.size:
        raise InferenceError(f"total denominator is 0 in ratio {int(empty[0])}: the ratio is undefined.")


def contrast_weights(weights: npt.ArrayLike, n_ratios: int) -> FloatArray:
    """Return weights as a checked matrix of shape (n_contrasts, n_ratios).

    A contrast is `theta = sum_r weights[r] * R[r]`. One dimension is read as one contrast.

    Raises
    ------
    InferenceError
        Not finite, the wrong number of ratios, or a contrast whose weights are all 0.
    """
    rows = np.asarray(weights, dtype=np.float64)
    matrix = finite_matrix(rows[None, :] if rows.ndim == 1 else rows, "weights")
    if matrix.shape[1] != n_ratios:
        raise InferenceError(f"weights cover {matrix.shape[1]} ratios; the table has {n_ratios}.")
    if bool((matrix == 0.0).all(axis=1).any()):
        raise InferenceError("a contrast has only zero weights: it estimates nothing.")
    return matrix
