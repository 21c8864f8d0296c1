"""Designs for cases in a series: blocks of neighbours are drawn, which keep what ties neighbours together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.designs import iid
from prereg.inference.jackknife import unit_influence
from prereg.inference.plan import IndexArray
from prereg.inference.units import FloatArray, finite_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

    from prereg.inference.statistics import WeightedStatistic

__all__ = ["BlockLength", "Blocks", "automatic_blocks", "blocks", "optimal_block_length"]

# Fewer cases than this and no autocorrelation is worth estimating.
_FEWEST_FOR_AUTOMATIC = 20


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of a series drawn with replacement; see `blocks`.

    Attributes
    ----------
    sequence
        Shape (n_rows,): the cases in the order of the series.
    length
        Mean length of a block (stationary), or its fixed length (circular), in cases.
    circular
        Whether the length is fixed.
    """

    sequence: IndexArray
    length: float
    circular: bool

    @property
    def n_rows(self) -> int:
        """Number of cases."""
        return int(self.sequence.size)

    @property
    def n_independent(self) -> int:
        """Number of whole blocks that the series holds."""
        return int(self.n_rows / self.length)

    @property
    def units(self) -> tuple[IndexArray, ...]:
        """Consecutive stretches of the series, none shorter than a block, that don't overlap."""
        codes = np.empty(self.n_rows, dtype=np.int64)
        codes[self.sequence] = np.arange(self.n_rows, dtype=np.int64) * self.n_independent // self.n_rows
        return (codes,)

    @property
    def not_studentized(self) -> str | None:
        """The reason why a standard error inside a resample is not available."""
        return "case weights no longer tell which blocks a resample was made of"

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return each case's weight: how many of the drawn blocks hold it."""
        n = self.n_rows
        if self.circular:
            size = int(self.length)
            starts = rng.integers(0, n, size=-(-n // size), dtype=np.int64)
            places = (starts[:, None] + np.arange(size, dtype=np.int64)).ravel()[:n]
        else:
            fresh = rng.random(n) < 1.0 / self.length
            fresh[0] = True
            starts = rng.integers(0, n, size=int(fresh.sum()), dtype=np.int64)
            block = np.cumsum(fresh) - 1
            places = starts[block] + np.arange(n, dtype=np.int64) - np.flatnonzero(fresh)[block]
        weights = np.empty(n)
        weights[self.sequence] = np.bincount(places % n, minlength=n)
        return weights


def blocks(order: npt.ArrayLike, length: float, *, circular: bool = False) -> Blocks:
    """Cases in a series: stationary bootstrap, or circular block bootstrap.

    The stationary bootstrap draws blocks whose lengths are geometric with mean `length` (Politis and Romano 1994,
    doi:10.1080/01621459.1994.10476870), the circular one blocks of one length (Politis and Romano 1992, in Exploring
    the Limits of Bootstrap). Both wrap around the end. They hold for a stationary series whose dependence dies out
    within a block; for a trend or a random walk they don't.

    Intervals from few blocks are too narrow: with n/length below some 30 expect a few points less than the nominal
    coverage. The delta-method standard error and the jackknife take stretches of a block's length that don't overlap.

    Parameters
    ----------
    order
        Place of each case in the series (a time, a position), shape (n_rows,); no two alike.
    length
        Cases in a block, at least 1, such as `optimal_block_length(values).stationary`. Whole where `circular`.
    circular
        Whether all blocks have the same length.

    Raises
    ------
    InferenceError
        Ties in the order, nan, a length below 1 or not whole, or fewer than two blocks in the series.

    Examples
    --------
    >>> blocks([3.0, 1.0, 2.0, 4.0], length=2, circular=True).units[0].tolist()
    [1, 0, 0, 1]
    """
    places = finite_matrix(order, "order")
    if places.shape[1] != 1:
        raise InferenceError(f"order has shape {places.shape}; one number for each case is wanted.")
    sequence = np.argsort(places[:, 0], kind="stable").astype(np.int64)
    n_tied = int((np.diff(places[sequence, 0]) == 0.0).sum())
    if n_tied:
        raise InferenceError(
            f"order holds {n_tied} ties: which case follows which is not said.",
            remedy="Give each case its own place; cases that belong together are clusters.",
        )
    if isinstance(length, bool) or not isinstance(length, (int, float)) or not 1.0 <= length < math.inf:
        raise InferenceError(f"length is {length!r}; a number of at least 1 is wanted.")
    if circular and length != int(length):
        raise InferenceError(
            f"length is {length!r}; blocks of one length have a whole number of cases.",
            remedy="Round up: math.ceil(length).",
        )
    if sequence.size < 2 * length:
        raise InferenceError(f"{sequence.size} cases hold fewer than two blocks of length {length!r}.")
    sequence.setflags(write=False)
    return Blocks(sequence, float(length), circular)


@dataclass(frozen=True, slots=True)
class BlockLength:
    """Automatic block lengths of a series, in cases, not rounded.

    Attributes
    ----------
    stationary, circular
        Mean length for the stationary bootstrap, and length for the circular one; at least 1.
    """

    stationary: float
    circular: float


def optimal_block_length(series: npt.ArrayLike) -> BlockLength:
    """Choose the block length that minimises the mean squared error of the bootstrap variance of the mean.

    `b = (2 G**2 / D)**(1/3) n**(1/3)` with `G = sum_k lam(k/M) |k| R(k)` and D a multiple (2, or 4/3 for circular
    blocks) of the squared long-run variance `sum_k lam(k/M) R(k)`, lam the flat-top window (Politis and White 2004,
    doi:10.1081/ETC-120028836; corrected by Patton, Politis and White 2009, doi:10.1080/07474930802459016). M is twice
    the first lag from which on `max(5, int(log10 n))` autocorrelations are insignificant.

    For a statistic other than a mean there is `automatic_blocks`. The length depends on the data, which the
    theory of neither bootstrap counts; register it from a pilot where you can.

    Departure from arch, whose numbers these are: lengths below 1 are returned as 1, where arch may return 0.2; a
    constant or a very short series is an error, where arch gives nan.

    Parameters
    ----------
    series
        Values in the order of the series, shape (n,), at least 20.

    Raises
    ------
    InferenceError
        Too short, constant, nan or inf.

    Examples
    --------
    >>> wave = [0, 1, 2, 3, 4, 3, 2, 1] * 8
    >>> optimal_block_length(wave).stationary > 5
    True
    """
    values = finite_matrix(series, "series")
    n = values.shape[0]
    if values.shape[1] != 1 or n < _FEWEST_FOR_AUTOMATIC:
        raise InferenceError(
            f"series has shape {values.shape}; at least {_FEWEST_FOR_AUTOMATIC} numbers in one dimension are wanted."
        )
    gap = values[:, 0] - math.fsum(values[:, 0].tolist()) / n
    if float(np.abs(gap).max()) <= 1e-12 * float(np.abs(values).max()):
        raise InferenceError("series is constant: it has no dependence to measure.")
    run = max(5, int(math.log10(n)))
    most = math.ceil(math.sqrt(n)) + run
    covariance, correlation = _autocovariances(gap, most)
    bandwidth = _bandwidth(correlation, run, most, 2.0 * math.sqrt(math.log10(n) / n))
    slope, variance = 0.0, float(covariance[0])
    for k in range(1, bandwidth + 1):
        window = min(1.0, 2.0 * (1.0 - k / bandwidth))
        slope += 2.0 * window * k * float(covariance[k])
        variance += 2.0 * window * float(covariance[k])
    longest = math.ceil(min(3.0 * math.sqrt(n), n / 3.0))

    def length(factor: float) -> float:
        if not variance**2 > 0.0:
            return float(longest)
        best = math.pow(2.0 * slope**2 / (factor * variance**2) * n, 1.0 / 3.0)
        return min(max(1.0, best), float(longest))

    return BlockLength(length(2.0), length(4.0 / 3.0))


def automatic_blocks(statistic: WeightedStatistic, order: npt.ArrayLike, *, circular: bool = False) -> Blocks:
    """Return blocks whose length is chosen for a statistic, from the series of its cases' influences.

    To first order a statistic is the mean of its influences, so this is `optimal_block_length` of that mean; for a mean
    it is that of the values themselves. Our own definition.

    Parameters
    ----------
    statistic
        A smooth statistic of at least 20 cases.
    order
        Place of each case in the series, shape (n_units,); no two alike.
    circular
        Whether all blocks have the same length, which is then rounded up.

    Raises
    ------
    InferenceError
        A statistic without a derivative, numbers of cases that differ, or as `blocks` and `optimal_block_length`.

    Examples
    --------
    >>> from prereg.inference import mean
    >>> automatic_blocks(mean([0, 1, 2, 3, 4, 3, 2, 1] * 8), range(64), circular=True).length > 5
    True
    """
    sequence = blocks(order, 1).sequence
    if not statistic.smooth or statistic.n_units != sequence.size:
        raise InferenceError(
            f"a statistic of {statistic.n_units} cases can't choose blocks for {sequence.size} places"
            + ("." if statistic.smooth else ": it has no influences."),
            remedy="Choose the length by optimal_block_length of a series that stands for the statistic.",
        )
    chosen = optimal_block_length(unit_influence(statistic, iid(int(sequence.size)))[sequence])
    return blocks(order, math.ceil(chosen.circular) if circular else chosen.stationary, circular=circular)


def _autocovariances(gap: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Return autocovariances and the sizes of autocorrelations at lags 0 to `most`, as arch has them."""
    n = gap.size
    covariance, correlation = np.zeros(most + 1), np.zeros(most + 1)
    for k in range(most + 1):
        product = math.fsum((gap[k:] * gap[: n - k]).tolist())
        # The norms leave one case more out than the product does; a difference of order 1/n.
        square = math.fsum((gap[k + 1 :] ** 2).tolist()) * math.fsum((gap[: n - k - 1] ** 2).tolist())
        covariance[k] = product / n
        correlation[k] = abs(product) / math.sqrt(square) if square > 0.0 else math.inf
    return covariance, correlation


def _bandwidth(correlation: FloatArray, run: int, most: int, critical: float) -> int:
    for k in range(run, most + 1):
        if bool((correlation[k - run : k] < critical).all()):
            return min(2 * max(k - run, 1), most)
    return most
