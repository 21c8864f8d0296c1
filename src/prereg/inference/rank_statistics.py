"""Rank correlations under case weights: Spearman's rho, Kendall's tau-b, and their gaps.

The cases are sorted once; each resample then needs cumulative sums of weights only. Whole weights give whole or half
sums, which float64 holds exactly, so tau is the same to the last bit in any order of summing, and rho up to 200,000
cases. A case of weight k counts as k copies, tied with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.case_sums import checked_weights, one_column, paired_columns, row_sums
from prereg.inference.plan import IndexArray
from prereg.inference.statistics import Difference, difference
from prereg.inference.ties import Ties, by_case, case_sums, running_sums
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Kendall", "Spearman", "kendall", "kendall_gap", "spearman", "spearman_gap"]


# Squares smaller than this, beside the largest they could be, are rounding: a variable is constant in the resample.
_NOTHING = 1e-12


class _Correlation:
    """What the rank correlations have in common."""

    __slots__ = ()

    @property
    def smooth(self) -> bool:
        """True: weighted ranks move with the weights."""
        return True

    @property
    def scale(self) -> float:
        """1, the largest correlation."""
        return 1.0

    def influence(self, weights: npt.ArrayLike) -> None:  # noqa: ARG002
        """Return None: the derivative is taken numerically."""
        return


@dataclass(frozen=True, slots=True, eq=False)
class Spearman(_Correlation):
    """Spearman's rank correlation; see `spearman`."""

    x: Ties
    y: Ties

    @property
    def n_units(self) -> int:
        """Number of cases."""
        return int(self.x.order.size)

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return rho under each row of weights; nan where x or y is constant."""
        matrix = checked_weights(weights, self.n_units)
        held, total = by_case(matrix), row_sums(matrix)
        rank_x, square_x = _centred_ranks(self.x, held, total)
        rank_y, square_y = _centred_ranks(self.y, held, total)
        rank_x *= rank_y
        rank_x *= held
        return _correlation(case_sums(rank_x), square_x, square_y, total**3)


def _centred_ranks(ties: Ties, held: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each case's midrank less the mean rank, (n, b), and the weighted sum of its squares, (b,)."""
    totals, ranks = ties.weigh(held)
    # The mean rank is always (W + 1)/2, and a midrank is the weight below, plus half the group's, plus 1/2.
    ranks -= 0.5 * total
    totals *= ranks
    totals *= ranks
    return ranks[ties.group], case_sums(totals)


def _correlation(
    product: FloatArray, square_x: FloatArray, square_y: FloatArray, size: FloatArray
) -> FloatArray:
    """Return `product / sqrt(square_x square_y)`, nan where a square is nothing beside `size`."""
    out = np.full(product.size, np.nan)
    # The root of the product, not the product of roots: it is exact where the two are equal.
    norm = np.sqrt(square_x * square_y)
    varying = (square_x > _NOTHING * size) & (square_y > _NOTHING * size)
    np.divide(product, norm, out=out, where=varying)
    clipped: FloatArray = np.clip(out, -1.0, 1.0)
    return clipped


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> Spearman:
    """Pearson's correlation of weighted midranks (Spearman 1904, doi:10.2307/1412159).

    A resample repeats cases, and the copies are ties: the bootstrap estimate is biased towards 0 by the order of 1/n.

    Parameters
    ----------
    x, y
        Shape (n_units,), neither constant.

    Raises
    ------
    InferenceError
        A constant column, lengths that differ, nan or inf.

    Examples
    --------
    >>> spearman([1, 2, 3, 4], [10, 30, 20, 40]).evaluate([1, 1, 1, 1]).round(6).tolist()
    [0.8]
    """
    left, right = _varying(x, y)
    return Spearman(Ties.of(left), Ties.of(right))


def spearman_gap(x_a: npt.ArrayLike, x_b: npt.ArrayLike, y: npt.ArrayLike) -> Difference:
    """Return Spearman's rho of a with y minus that of b with y, paired (doi:10.2307/1412159).

    Parameters
    ----------
    x_a, x_b, y
        Shape (n_units,), three columns of the same cases, none constant.

    Raises
    ------
    InferenceError
        As `spearman`.

    Examples
    --------
    >>> spearman_gap([1, 2, 3], [1, 3, 2], [1, 2, 3]).evaluate([1, 1, 1]).round(6).tolist()
    [0.5]
    """
    return difference(spearman(x_a, y), spearman(x_b, y))


_Level = tuple[IndexArray, IndexArray, IndexArray, IndexArray]


@dataclass(frozen=True, slots=True, eq=False)
class Kendall(_Correlation):
    """Kendall's tau-b; see `kendall`.

    Attributes
    ----------
    x, y, both
        Cases sorted by x, by y, and by x then y.
    levels
        Merge levels. In each, the x order is cut into blocks of two halves. For every case of a left half: the case,
        and between which places of the level's right halves (given next, sorted by block and y) lie those of its own
        block with a smaller y.
    """

    x: Ties
    y: Ties
    both: Ties
    levels: tuple[_Level, ...]

    @property
    def n_units(self) -> int:
        """Number of cases."""
        return int(self.x.order.size)

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return tau-b under each row of weights; nan where x or y is constant."""
        matrix = checked_weights(weights, self.n_units)
        held, square = by_case(matrix), row_sums(matrix) ** 2
        tied_x, tied_y, tied_both = (case_sums(t.weigh(held)[0] ** 2) for t in (self.x, self.y, self.both))
        untied = 0.5 * (square - tied_x - tied_y + tied_both)
        apart_x, apart_y = 0.5 * (square - tied_x), 0.5 * (square - tied_y)
        return _correlation(untied - 2.0 * self._discordant(held), apart_x, apart_y, square)

    def _discordant(self, held: FloatArray) -> FloatArray:
        """Return the weight of pairs that x and y order differently, by merging (Knight 1966)."""
        total = np.zeros(held.shape[1])
        for left, start, end, right in self.levels:
            running = np.zeros((right.size + 1, held.shape[1]))
            running[1:] = running_sums(held[right])
            between = running[end]
            between -= running[start]
            between *= held[left]
            total += case_sums(between)
        return total


def kendall(x: npt.ArrayLike, y: npt.ArrayLike) -> Kendall:
    """Kendall's tau-b: concordant less discordant pairs over those untied in x and those untied in y.

    `theta = (C - D) / sqrt((P - P_x)(P - P_y))`, each pair of cases with weight `w_i w_j` (Kendall 1945,
    doi:10.1093/biomet/33.3.239); copies of one case are tied in both. Pairs are counted in n log n steps for all
    resamples at once (Knight 1966, doi:10.1080/01621459.1966.10480879).

    Parameters
    ----------
    x, y
        Shape (n_units,), neither constant.

    Raises
    ------
    InferenceError
        A constant column, lengths that differ, nan or inf.

    Examples
    --------
    >>> kendall([1, 2, 3, 4], [10, 30, 20, 40]).evaluate([1, 1, 1, 1]).round(6).tolist()
    [0.666667]
    """
    left, right = _varying(x, y)
    both = Ties.of(left, right)
    tie_y = Ties.of(right)
    place = np.empty(left.size, dtype=np.int64)
    place[both.order] = np.arange(left.size)
    levels = []
    size = 1
    while size < left.size:
        blocks = Ties.of((place // (2 * size)).astype(np.float64))
        within = Ties.of(blocks.group.astype(np.float64), tie_y.group.astype(np.float64))
        order = within.order
        in_right = (place[order] // size) % 2 == 1
        # Right cases before each place, so that a stretch of the sorted cases is one of the right cases.
        before = np.concatenate([[0], np.cumsum(in_right)]).astype(np.int64)
        left_cases = order[~in_right]
        start = before[blocks.starts[blocks.group[left_cases]]]
        end = before[within.starts[within.group[left_cases]]]
        # Cases of a left half that have none below them on the right add nothing.
        some = end > start
        levels.append((left_cases[some], start[some], end[some], order[in_right]))
        size *= 2
    return Kendall(Ties.of(left), tie_y, both, tuple(levels))


def kendall_gap(x_a: npt.ArrayLike, x_b: npt.ArrayLike, y: npt.ArrayLike) -> Difference:
    """Return Kendall's tau-b of a with y minus that of b with y, paired (doi:10.1093/biomet/33.3.239).

    Parameters
    ----------
    x_a, x_b, y
        Shape (n_units,), three columns of the same cases, none constant.

    Raises
    ------
    InferenceError
        As `kendall`.

    Examples
    --------
    >>> kendall_gap([1, 2, 3], [1, 3, 2], [1, 2, 3]).evaluate([1, 1, 1]).round(6).tolist()
    [0.666667]
    """
    return difference(kendall(x_a, y), kendall(x_b, y))


def _varying(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    left, right = paired_columns(one_column(x, "x"), one_column(y, "y"))
    for name, column in (("x", left), ("y", right)):
        if column.min() == column.max():
            raise InferenceError(f"{name} is constant: no correlation with it exists.")
    return left, right
