"""The exact resampling distribution of (sum N, sum D) where it has few enough atoms to hold.

Two ways, both exact to rounding. Enumeration of the multinomial: with k distinct units, every vector of
counts is a state. And convolution on a lattice: where both columns are integer multiples of a step (right
or wrong answers, counts of rows), the n-fold convolution is a power of a two-dimensional Fourier transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prereg.inference.inversion import tail_reach
from prereg.inference.units import FloatArray

__all__ = ["Atoms", "binomial_chances", "enumerate_multinomial", "lattice_distribution"]

_MOST_STATES = 1_500_000
_MOST_CELLS = 2**21
# States less likely than this are dropped; all that are dropped together stay below 1e-13.
_NEGLIGIBLE = 1e-20
_MOST_STEPS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """A discrete resampling distribution of the pair of sums.

    Attributes
    ----------
    numerator, denominator
        The two sums, shape (m,).
    probability
        Shape (m,), adding up to 1 within 1e-12.
    """

    numerator: FloatArray
    denominator: FloatArray
    probability: FloatArray


def enumerate_multinomial(
    numerator: FloatArray,
    denominator: FloatArray,
    copies: npt.NDArray[np.int64],
    *,
    most_states: int = _MOST_STATES,
    negligible: float = _NEGLIGIBLE,
) -> Atoms | None:
    """Enumerate every resample of n units that fall into k distinct kinds.

    Parameters
    ----------
    numerator, denominator
        The kinds' values, shape (k,).
    copies
        How many units are of each kind, shape (k,); n is their sum.
    most_states
        How many states to hold at most, 1.5 million unless told.
    negligible
        States less likely than this are dropped.

    Returns
    -------
    Atoms or None
        None where there are more states than that.
    """
    n = int(copies.sum())
    # Rare kinds first: their counts are small, and the commonest takes what is left.
    order = np.argsort(copies, kind="stable")
    left = np.array([n], dtype=np.int64)
    top, bottom, chance = np.zeros(1), np.zeros(1), np.ones(1)
    remaining = n
    for place, kind in enumerate(order):
        last = place == len(order) - 1
        if last:
            taken, source = left, np.arange(left.size)
            pmf = np.ones(left.size)
        else:
            share = float(copies[kind]) / remaining
            cut = _most_draws(n, float(copies[kind]) / n)
            widths = np.minimum(left, cut) + 1
            if int(widths.sum()) > 4 * most_states:
                return None
            source = np.repeat(np.arange(left.size), widths)
            starts = np.cumsum(widths) - widths
            taken = np.arange(source.size) - np.repeat(starts, widths)
            pmf = _binomial(left[source], taken, share)
        chance = chance[source] * pmf
        keep = chance > negligible
        source, taken, chance = source[keep], taken[keep], chance[keep]
        if chance.size > most_states:
            return None
        left = left[source] - taken
        top = top[source] + taken * numerator[kind]
        bottom = bottom[source] + taken * denominator[kind]
        remaining -= int(copies[kind])
    return Atoms(top, bottom, chance)


def _most_draws(n: int, share: float) -> int:
    """Return a count that one kind exceeds with probability below 1e-20 (Bernstein)."""
    log = 46.0 + math.log(2.0)
    mean = n * share
    return math.ceil(mean + log / 3.0 + math.sqrt((log / 3.0) ** 2 + 2.0 * log * mean)) + 1


def _binomial(n: npt.NDArray[np.int64], k: npt.NDArray[np.int64], share: float) -> FloatArray:
    """Return binomial probabilities; by table, since few pairs (n, k) occur among many states."""
    low, high, most = int(n.min()), int(n.max()), int(k.max())
    if (high - low + 1) * (most + 1) >= n.size:
        return binomial_chances(n, k, share)
    rows, columns = np.mgrid[low : high + 1, 0 : most + 1]
    possible = columns <= rows
    table = np.where(possible, binomial_chances(rows, np.minimum(columns, rows), share), 0.0)
    return table[n - low, k]


def binomial_chances(n: npt.NDArray[np.int64], k: npt.NDArray[np.int64], share: float) -> FloatArray:
    """Return `C(n, k) share**k (1 - share)**(n - k)` for arrays of one shape, k <= n."""
    most = int(n.max()) + 1
    if most <= 171:
        # Factorials up to 170 fit a float64; the logarithm would lose three digits.
        factorial = np.array([float(math.factorial(i)) for i in range(most)])
        choose = factorial[n] / (factorial[k] * factorial[n - k])
        return np.asarray(choose * share**k * (1.0 - share) ** (n - k), dtype=np.float64)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in range(most)])
    log_pmf = log_factorial[n] - log_factorial[k] - log_factorial[n - k]
    log_pmf += k * math.log(share) + (n - k) * math.log1p(-share)
    return np.asarray(np.exp(log_pmf), dtype=np.float64)


def lattice_distribution(
    numerator: FloatArray, denominator: FloatArray, copies: npt.NDArray[np.int64]
) -> Atoms | None:
    """Convolve on the lattice that the values lie on, if they do.

    Parameters
    ----------
    numerator, denominator, copies
        As for `enumerate_multinomial`.

    Returns
    -------
    Atoms or None
        None where no common step is found or the grid would be too large.
    """
    n = int(copies.sum())
    shares = (copies / n).astype(np.float64)
    axes = [_lattice_axis(column, shares, n) for column in (numerator, denominator)]
    first, second = axes
    if first is None or second is None or first.size * second.size > _MOST_CELLS:
        return None
    single = np.zeros((first.size, second.size))
    np.add.at(single, (first.steps % first.size, second.steps % second.size), shares)
    spectrum = np.fft.rfft2(single)
    summed = np.maximum(np.fft.irfft2(_power(spectrum, n), s=single.shape), 0.0)
    rows, columns = np.nonzero(summed > 1e-19)
    return Atoms(first.sums(rows, n), second.sums(columns, n), summed[rows, columns])


def _power(base: npt.NDArray[np.complex128], n: int) -> npt.NDArray[np.complex128]:
    """Raise to an integer power by squaring: more accurate here than through the logarithm."""
    result = np.ones_like(base)
    while n:
        if n & 1:
            result = result * base
        base = base * base
        n >>= 1
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """One column as integer steps above an origin, in a cyclic window around the mean of the sum."""

    origin: float
    step: float
    steps: npt.NDArray[np.int64]
    size: int
    low: int

    def sums(self, places: npt.NDArray[np.int64], n: int) -> FloatArray:
        """Return the sums that cyclic places stand for."""
        steps = self.low + (places - self.low) % self.size
        return (n * self.origin + steps * self.step).astype(np.float64)


def _lattice_axis(column: FloatArray, shares: FloatArray, n: int) -> _Axis | None:
    origin = float(column.min())
    offset = column - origin
    if not float(offset.max()) > 0.0:
        return _Axis(origin, 0.0, np.zeros(column.size, dtype=np.int64), 1, 0)
    step = _common_step(offset)
    if step is None:
        return None
    steps = np.rint(offset / step).astype(np.int64)
    mean = float(shares @ steps)
    reach = tail_reach((steps - mean).astype(np.float64), shares, n)
    low = max(0, math.floor(n * mean - reach))
    high = min(n * int(steps.max()), math.ceil(n * mean + reach))
    size = _smooth_size(high - low + 1)
    return _Axis(origin, step, steps, size, low)


def _common_step(offset: FloatArray) -> float | None:
    """Return the step that all offsets are multiples of, within 1e-12 of the largest, or None."""
    largest = float(offset.max())
    noise = 1e-9 * largest
    step = largest
    # A million reals are no lattice within a few of them: no list of all.
    for value in map(float, np.unique(offset)):
        a, b = step, value
        while b > noise:
            a, b = b, math.fmod(a, b)
            # A remainder just short of the divisor is rounding below a full turn.
            if a - b <= noise:
                b = 0.0
        step = a
        if largest / step > _MOST_STEPS:
            return None
    count = np.rint(offset / step)
    refined = largest / float(count.max())
    return refined if float(np.abs(offset - count * refined).max()) <= 1e-12 * largest else None


def _smooth_size(least: int) -> int:
    """Return a power of two, or three quarters of one, that is at least `least`."""
    size = 1 << max(0, least - 1).bit_length()
    return size * 3 // 4 if size >= 4 and size * 3 // 4 >= least else size
