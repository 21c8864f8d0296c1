"""AUROC under case weights, and the gap of two.

Whole weights give whole or half sums, which float64 holds exactly, so the area is the same to the last bit in any order
of summing. A case of weight k counts as k copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.case_sums import binary_column, checked_weights, paired_columns
from prereg.inference.statistics import Difference, difference
from prereg.inference.ties import Ties, by_case, case_sums
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Auroc", "auroc", "auroc_gap"]


@dataclass(frozen=True, slots=True, eq=False)
class Auroc:
    """Area under the ROC curve; see `auroc`."""

    positive: FloatArray
    ties: Ties

    @property
    def n_units(self) -> int:
        """Number of cases."""
        return int(self.positive.size)

    @property
    def smooth(self) -> bool:
        """True."""
        return True

    @property
    def scale(self) -> float:
        """1, the largest area."""
        return 1.0

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return the area under each row of weights; nan where a class has no weight."""
        up, down = self._sides(checked_weights(weights, self.n_units))
        pairs = case_sums(up[0]) * case_sums(down[0])
        area = np.full(pairs.size, np.nan)
        np.divide(case_sums(up[0] * down[1]), pairs, out=area, where=pairs > 0.0)
        return area

    def influence(self, weights: npt.ArrayLike) -> FloatArray:
        """Return `(share of the other class that the case is ranked right of - area) / weight of its own class`."""
        (up, under_up), (down, under_down) = self._sides(checked_weights(weights, self.n_units))
        n_up, n_down = case_sums(up), case_sums(down)
        with np.errstate(divide="ignore", invalid="ignore"):
            area = case_sums(up * under_down) / (n_up * n_down)
            of_positive = (under_down / n_down - area) / n_up
            of_negative = ((n_up - under_up) / n_up - area) / n_down
        psi = of_negative[self.ties.group]
        positive = np.flatnonzero(self.positive)
        psi[positive] = of_positive[self.ties.group[positive]]
        return np.ascontiguousarray(psi.T)

    def _sides(
        self, weights: FloatArray
    ) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return, for positive and for negative cases, the weight in each tie group and below it."""
        held = by_case(weights)
        up = held * self.positive[:, None]
        held -= up
        return self.ties.weigh(up), self.ties.weigh(held)


def auroc(scores: npt.ArrayLike, positive: npt.ArrayLike) -> Auroc:
    """Probability that a positive case scores above a negative one, ties half.

    `theta = sum_{i pos, j neg} w_i w_j ([s_i > s_j] + [s_i = s_j]/2) / (W_pos W_neg)`, the Mann-Whitney form (Bamber
    1975, doi:10.1016/0022-2496(75)90001-2). Its influence has DeLong's closed form (DeLong, DeLong and Clarke-Pearson
    1988, doi:10.2307/2531595). A perfect separation doesn't vary under resampling: it is flagged as degenerate.

    Parameters
    ----------
    scores
        Shape (n_units,), higher for what is thought positive.
    positive
        Shape (n_units,) of 0 and 1, both present.

    Raises
    ------
    InferenceError
        One class only, labels other than 0 and 1, lengths that differ, nan or inf.

    Examples
    --------
    >>> auroc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1]).evaluate([1, 1, 1, 1]).tolist()
    [0.875]
    """
    column, labels = paired_columns(scores, binary_column(positive, "positive"))
    if labels.min() == labels.max():
        raise InferenceError("positive holds one class only: there is nothing to tell apart.")
    return Auroc(labels, Ties.of(column))


def auroc_gap(scores_a: npt.ArrayLike, scores_b: npt.ArrayLike, positive: npt.ArrayLike) -> Difference:
    """AUROC of a minus that of b for the same cases and labels, paired (doi:10.2307/2531595).

    Parameters
    ----------
    scores_a, scores_b
        Shape (n_units,) each.
    positive
        Shape (n_units,) of 0 and 1, both present.

    Raises
    ------
    InferenceError
        As `auroc`.

    Examples
    --------
    >>> auroc_gap([1, 2, 3, 4], [2, 1, 4, 3], [0, 1, 0, 1]).evaluate([1, 1, 1, 1]).tolist()
    [0.5]
    """
    return difference(auroc(scores_a, positive), auroc(scores_b, positive))
