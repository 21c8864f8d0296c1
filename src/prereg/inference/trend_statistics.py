"""Statistics of a trend, such as that of an effect against depth, under case weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.case_sums import CaseSums, checked_weights, paired_columns
from prereg.inference.ratio_statistics import RatioStatistic, mean_of_ratios
from prereg.inference.units import FloatArray, finite_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DepthSpearman", "Slope", "depth_slope", "depth_spearman", "slope"]

# Means of depths closer than this, relative to the largest, are ties: they differ by rounding.
_TIE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """Weighted least-squares slope; see `slope`.

    Attributes
    ----------
    x, rest
        x about its mean, and y about the whole sample's line, shape (n_units,).
    estimate
        The whole sample's slope.
    size
        Slope that would take all of y's spread.
    sums
        Sums of x, rest, x**2 and x*rest, and of the weights.
    """

    x: FloatArray
    rest: FloatArray
    estimate: float
    size: float
    sums: CaseSums

    @property
    def n_units(self) -> int:
        """Number of cases."""
        return int(self.x.size)

    @property
    def smooth(self) -> bool:
        """True."""
        return True

    @property
    def scale(self) -> float:
        """Root mean square of y over that of x, both about their means."""
        return self.size

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return the slope under each row of weights; nan where x is constant."""
        _, _, added, _ = self._fit(checked_weights(weights, self.n_units))
        return self.estimate + added

    def influence(self, weights: npt.ArrayLike) -> FloatArray:
        """Return `(x_i - mean x)(y_i - fit_i) / sum_j w_j (x_j - mean x)**2`, shape (b, n_units)."""
        mean_x, mean_rest, added, square = self._fit(checked_weights(weights, self.n_units))
        gap = self.x - mean_x[:, None]
        psi: FloatArray = gap * (self.rest - mean_rest[:, None] - added[:, None] * gap) / square[:, None]
        return psi

    def _fit(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return mean x, mean rest, slope of rest, and squares of x about its mean; nan where x is constant."""
        total, x, rest, square, product = self.sums.sums(weights).T
        inverse = np.full(total.size, np.nan)
        np.divide(1.0, total, out=inverse, where=total > 0.0)
        about = square - x * x * inverse
        # What is left of equal x is rounding.
        about = np.where(about > 1e-12 * square, about, np.nan)
        return x * inverse, rest * inverse, (product - x * rest * inverse) / about, about


def slope(x: npt.ArrayLike, y: npt.ArrayLike) -> Slope:
    """Least-squares slope of y on x over weighted cases, in units of y per unit of x.

    `theta = sum_i w_i (x_i - mx)(y_i - my) / sum_i w_i (x_i - mx)**2` with weighted means mx, my. Cases are resampled,
    not residuals, so neither a straight line nor equal variances are assumed (Freedman 1981,
    doi:10.1214/aos/1176345638). Where x is the depth and a prompt has a row for each depth, cluster on the prompt.

    Parameters
    ----------
    x, y
        Shape (n_units,); x not constant.

    Raises
    ------
    InferenceError
        x is constant, lengths differ, nan or inf.

    Examples
    --------
    >>> slope([0, 1, 2], [1.0, 3.0, 5.0]).evaluate([[1, 1, 1], [1, 0, 3]]).tolist()
    [2.0, 2.0]
    """
    left, right = paired_columns(x, y)
    gap_x = left - math.fsum(left.tolist()) / left.size
    gap_y = right - math.fsum(right.tolist()) / right.size
    square = math.fsum((gap_x * gap_x).tolist())
    if float(np.abs(gap_x).max()) <= _TIE * float(np.abs(left).max()):
        raise InferenceError("x is constant: no line against it has a slope.")
    estimate = math.fsum((gap_x * gap_y).tolist()) / square
    rest = gap_y - estimate * gap_x
    sums = CaseSums.of(np.column_stack([np.ones_like(gap_x), gap_x, rest, gap_x * gap_x, gap_x * rest]))
    size = math.sqrt(math.fsum((gap_y * gap_y).tolist()) / square)
    return Slope(gap_x, rest, estimate, size, sums)


def depth_slope(
    depths: npt.ArrayLike, numerator: npt.ArrayLike, denominator: npt.ArrayLike | None = None
) -> RatioStatistic:
    """Least-squares slope of the mean at each depth against depth, every depth with the same weight.

    `theta = sum_d c_d m_d`, `c_d = (d - mean d) / sum (d - mean d)**2`, `m_d = sum_i w_i N_id / sum_i w_i D_id`. A
    weighted sum of ratios, so all that holds of `mean_of_ratios` holds of it.

    Parameters
    ----------
    depths
        Shape (n_depths,), at least two different ones: layer numbers, or shares of the depth.
    numerator, denominator
        Shape (n_units, n_depths): each case's value (or sum of values) at each depth, and its weight there (or number
        of values, such as 0 where it has none); 1 where not given.

    Raises
    ------
    InferenceError
        Depths that are all the same, shapes that don't fit, or as `mean_of_ratios`.

    Examples
    --------
    >>> depth_slope([0, 1, 2], [[0.0, 1.0, 2.0], [0.0, 3.0, 6.0]]).evaluate([1, 1]).tolist()
    [2.0]
    """
    place, top, bottom = _by_depth(depths, numerator, denominator)
    gap = place - math.fsum(place.tolist()) / place.size
    return mean_of_ratios(top, bottom, gap / math.fsum((gap * gap).tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class DepthSpearman:
    """Spearman's correlation of depth with the mean at each depth; see `depth_spearman`."""

    ranks: FloatArray
    sums: CaseSums

    @property
    def n_units(self) -> int:
        """Number of cases."""
        return int(self.sums.columns.shape[0])

    @property
    def smooth(self) -> bool:
        """False: a small change of weights leaves the order of the means as it is."""
        return False

    @property
    def scale(self) -> float:
        """1, the largest correlation."""
        return 1.0

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return rho under each row of weights; nan where a depth has no weight or all means are equal."""
        sums, k = self.sums.sums(checked_weights(weights, self.n_units)), self.ranks.size
        means = np.full((sums.shape[0], k), np.nan)
        np.divide(sums[:, :k], sums[:, k:], out=means, where=sums[:, k:] > 0.0)
        slack = _TIE * np.abs(means).max(axis=1, keepdims=True)
        ranks = np.zeros_like(means)
        for d in range(k):
            gap = means - means[:, d : d + 1]
            ranks += 0.5 * np.where(np.abs(gap) <= slack, 0.0, np.sign(gap))
        norm = np.sqrt((ranks * ranks).sum(axis=1) * float((self.ranks**2).sum()))
        rho = np.full(means.shape[0], np.nan)
        np.divide((ranks * self.ranks).sum(axis=1), norm, out=rho, where=norm > 0.0)
        clipped: FloatArray = np.clip(rho, -1.0, 1.0)
        return clipped

    def influence(self, weights: npt.ArrayLike) -> None:  # noqa: ARG002
        """Return None: there is no useful derivative."""
        return


def depth_spearman(
    depths: npt.ArrayLike, numerator: npt.ArrayLike, denominator: npt.ArrayLike | None = None
) -> DepthSpearman:
    """Spearman's correlation between depth and the mean at each depth (Spearman 1904, doi:10.2307/1412159).

    It takes a few values only and is often 1 in every resample, which is flagged as degenerate: it then says nothing of
    the population. It has no derivative, so delta-t, BCa and studentized intervals are refused. Prefer `depth_slope`
    where a size is meant.

    Parameters
    ----------
    depths, numerator, denominator
        As for `depth_slope`.

    Raises
    ------
    InferenceError
        As `depth_slope`.

    Examples
    --------
    >>> depth_spearman([0, 1, 2], [[0.0, 1.0, 5.0], [0.0, 3.0, 2.0]]).evaluate([[1, 1], [0, 1]]).tolist()
    [1.0, 0.5]
    """
    place, top, bottom = _by_depth(depths, numerator, denominator)
    gap = place[:, None] - place
    return DepthSpearman(0.5 * np.sign(gap).sum(axis=1), CaseSums.of(np.hstack([top, bottom])))


def _by_depth(
    depths: npt.ArrayLike, numerator: npt.ArrayLike, denominator: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    top = finite_matrix(numerator, "numerator")
    bottom = np.ones_like(top) if denominator is None else finite_matrix(denominator, "denominator")
    place = finite_matrix(depths, "depths")
    if place.shape != (top.shape[1], 1) or bottom.shape != top.shape:
        raise InferenceError(
            f"{place.shape[0]} depths, numerator {top.shape} and denominator {bottom.shape} don't fit; "
            "(n_units, n_depths) is wanted."
        )
    if float(place.min()) == float(place.max()):
        raise InferenceError("all depths are the same: there is no trend against them.")
    if float(bottom.min()) < 0.0 or not (bottom.sum(axis=0) > 0.0).all():
        raise InferenceError("a depth has a negative or no weight at all.")
    column: FloatArray = place[:, 0]
    return column, top, bottom
