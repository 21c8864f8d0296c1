"""Statistics made of ratios of sums: means, differences, accuracies, log-probabilities, explained variance.

They share one closed form for their influence, so every interval method is there for them, the studentized one too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.case_sums import (
    CaseSums,
    binary_column,
    checked_weights,
    one_column,
    paired_columns,
)
from prereg.inference.contrasts import Contrast, prepare
from prereg.inference.ratios import RatioTable
from prereg.inference.units import FloatArray, finite_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "RatioStatistic",
    "accuracy_gap",
    "group_mean_difference",
    "log_prob_difference",
    "mean",
    "mean_difference",
    "mean_of_ratios",
    "r2_gap",
    "ratio_of_sums",
]


@dataclass(frozen=True, slots=True, eq=False)
class RatioStatistic:
    """`theta = sum_r c_r * sum_i w_i N_ir / sum_i w_i D_ir`; see `mean_of_ratios`."""

    contrast: Contrast
    sums: CaseSums

    @property
    def n_units(self) -> int:
        """Number of cases."""
        return self.contrast.n_units

    @property
    def smooth(self) -> bool:
        """True."""
        return True

    @property
    def scale(self) -> float:
        """`sum_r |c_r| sum_i |N_ir| / sum_i D_ir`."""
        return self.contrast.scale

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return theta under each row of weights; nan where a denominator is 0."""
        quotient, _ = self._quotients(checked_weights(weights, self.n_units))
        total = quotient[:, 0].copy()
        for k in range(1, quotient.shape[1]):
            total += quotient[:, k]
        return total + self.contrast.estimate

    def influence(self, weights: npt.ArrayLike) -> FloatArray:
        """Return `sum_r c_r (N_ir - R_r D_ir) / sum_i w_i D_ir`, shape (b, n_units)."""
        matrix = checked_weights(weights, self.n_units)
        quotient, inverse = self._quotients(matrix)
        psi = np.zeros_like(matrix)
        for k in range(self.contrast.n_groups):
            top, bottom = self.contrast.numerator[:, k], self.contrast.denominator[:, k]
            psi += (top - quotient[:, k, None] * bottom) * inverse[:, k, None]
        return psi

    def _quotients(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (N/D, 1/D) per denominator, N centred at the whole sample's ratio; nan where D is 0."""
        sums, groups = self.sums.sums(weights), self.contrast.n_groups
        inverse = np.full((sums.shape[0], groups), np.nan)
        np.divide(1.0, sums[:, groups:], out=inverse, where=sums[:, groups:] > 0.0)
        return sums[:, :groups] * inverse, inverse


def mean_of_ratios(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, coefficients: npt.ArrayLike | None = None
) -> RatioStatistic:
    """Return a weighted sum of ratios of sums, such as the mean over updates of explained variance.

    `theta = sum_r c_r * sum_i w_i N_ir / sum_i w_i D_ir`. The same estimand as a row of weights of a `RatioTable`, and
    the same numbers as `intervals` to rounding. Its influence is the infinitesimal jackknife in closed form (Efron
    1982, doi:10.1137/1.9781611970319, chapter 6).

    Parameters
    ----------
    numerator, denominator
        Shape (n_units,) or (n_units, n_ratios); no negative denominator.
    coefficients
        c, shape (n_ratios,); 1/n_ratios for each where not given.

    Raises
    ------
    InferenceError
        As `RatioTable`: empty, one case, nan, shapes that differ, a negative denominator, a total of 0.

    Examples
    --------
    >>> theta = mean_of_ratios([[1.0, 2.0], [3.0, 2.0]], [[2.0, 4.0], [2.0, 4.0]])
    >>> theta.evaluate([[1, 1], [2, 0]]).tolist()
    [0.75, 0.5]
    """
    top, bottom = finite_matrix(numerator, "numerator"), finite_matrix(denominator, "denominator")
    width = len(str(top.shape[0]))
    names = tuple(f"{i:0{width}d}" for i in range(top.shape[0]))
    table = RatioTable(names, top, bottom, len(names))
    chosen = np.full(table.n_ratios, 1.0 / table.n_ratios) if coefficients is None else coefficients
    contrasts = prepare(table, chosen)
    if len(contrasts) != 1:
        raise InferenceError(f"coefficients describe {len(contrasts)} contrasts; a statistic is one number.")
    contrast = contrasts[0]
    return RatioStatistic(contrast, CaseSums.of(np.hstack([contrast.numerator, contrast.denominator])))


def ratio_of_sums(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> RatioStatistic:
    """`theta = sum_i w_i N_i / sum_i w_i D_i`: a case weighs by its denominator.

    Parameters
    ----------
    numerator, denominator
        Shape (n_units,), no negative denominator.

    Raises
    ------
    InferenceError
        As `mean_of_ratios`.

    Examples
    --------
    >>> ratio_of_sums([1.0, 3.0], [2.0, 8.0]).evaluate([1, 1]).tolist()
    [0.4]
    """
    return mean_of_ratios(one_column(numerator, "numerator"), one_column(denominator, "denominator"), [1.0])


def mean(values: npt.ArrayLike) -> RatioStatistic:
    """`theta = sum_i w_i x_i / sum_i w_i`, in the units of `values`.

    Under `iid` its delta-t interval is Student's.

    Parameters
    ----------
    values
        Shape (n_units,).

    Raises
    ------
    InferenceError
        Empty, one case, nan or inf.

    Examples
    --------
    >>> mean([1.0, 2.0, 6.0]).evaluate([[1, 1, 1], [0, 2, 0]]).tolist()
    [3.0, 2.0]
    """
    column = one_column(values, "values")
    return ratio_of_sums(column, np.ones_like(column))


def mean_difference(a: npt.ArrayLike, b: npt.ArrayLike) -> RatioStatistic:
    """`theta = sum_i w_i (a_i - b_i) / sum_i w_i`: mean of a minus mean of b over the same cases.

    Parameters
    ----------
    a, b
        Shape (n_units,), paired by place; `align_rows` brings them into one order.

    Raises
    ------
    InferenceError
        Lengths differ, or a number is not finite.

    Examples
    --------
    >>> mean_difference([1.0, 2.0], [0.0, 4.0]).evaluate([1, 1]).tolist()
    [-0.5]
    """
    left, right = paired_columns(a, b)
    return mean(left - right)


def group_mean_difference(values: npt.ArrayLike, in_first: npt.ArrayLike) -> RatioStatistic:
    """Mean over the cases of one group minus the mean over the others; the cases are resampled together.

    A resample may hold few or none of a group: then it is undefined, and counted as such.

    Parameters
    ----------
    values
        Shape (n_units,).
    in_first
        Shape (n_units,), 0 or 1: which cases belong to the first group.

    Raises
    ------
    InferenceError
        A group without members, labels other than 0 and 1, lengths that differ, nan or inf.

    Examples
    --------
    >>> group_mean_difference([1.0, 3.0, 5.0], [1, 1, 0]).evaluate([1, 1, 1]).tolist()
    [-3.0]
    """
    column, member = paired_columns(values, binary_column(in_first, "in_first"))
    sides = np.column_stack([member, 1.0 - member])
    return mean_of_ratios(column[:, None] * sides, sides, [1.0, -1.0])


def accuracy_gap(correct_a: npt.ArrayLike, correct_b: npt.ArrayLike) -> RatioStatistic:
    """Share of cases that a gets right minus the share that b gets right; a `mean_difference`.

    Parameters
    ----------
    correct_a, correct_b
        Shape (n_units,), of 0 and 1 or of booleans, the same questions in the same order.

    Raises
    ------
    InferenceError
        An answer that is neither right nor wrong, or lengths that differ.

    Examples
    --------
    >>> accuracy_gap([1, 1, 0, 1], [0, 1, 0, 1]).evaluate([1, 1, 1, 1]).tolist()
    [0.25]
    """
    return mean_difference(binary_column(correct_a, "correct_a"), binary_column(correct_b, "correct_b"))


def log_prob_difference(
    log_prob_a: npt.ArrayLike, log_prob_b: npt.ArrayLike, n_tokens: npt.ArrayLike | None = None
) -> RatioStatistic:
    """Mean log-probability of a minus that of b, in nats, per case or, with `n_tokens`, per token.

    Parameters
    ----------
    log_prob_a, log_prob_b
        Shape (n_units,), none above 0: each case's log-probability, summed over its tokens.
    n_tokens
        Shape (n_units,): tokens of each case. theta is then a ratio of sums.

    Raises
    ------
    InferenceError
        A log-probability above 0 (or -inf: then the mean has no meaning), or lengths that differ.

    Examples
    --------
    >>> log_prob_difference([-1.0, -3.0], [-2.0, -6.0], n_tokens=[1, 3]).evaluate([1, 1]).tolist()
    [1.0]
    """
    left, right = paired_columns(log_prob_a, log_prob_b)
    highest = max(float(left.max()), float(right.max()))
    if not highest <= 0.0:
        raise InferenceError(f"a log-probability of {highest!r} was found; none is above 0.")
    tokens = np.ones_like(left) if n_tokens is None else one_column(n_tokens, "n_tokens")
    return ratio_of_sums(left - right, tokens)


def r2_gap(sse_a: npt.ArrayLike, sse_b: npt.ArrayLike, sst: npt.ArrayLike) -> RatioStatistic:
    """`R2_a - R2_b` with a common total: `sum_i w_i (SSE_b - SSE_a)_i / sum_i w_i SST_i`.

    Parameters
    ----------
    sse_a, sse_b, sst
        Shape (n_units,), none negative: squared errors of both fits, and squares about the one mean of both.

    Raises
    ------
    InferenceError
        A negative sum of squares, lengths that differ, or a total SST of 0.

    Examples
    --------
    >>> r2_gap([1.0, 1.0], [2.0, 4.0], [4.0, 4.0]).evaluate([1, 1]).tolist()
    [0.5]
    """
    left, right = paired_columns(sse_a, sse_b)
    if not min(float(left.min()), float(right.min())) >= 0.0:
        raise InferenceError("a negative sum of squared errors was found.")
    return ratio_of_sums(right - left, sst)
