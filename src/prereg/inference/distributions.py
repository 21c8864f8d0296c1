"""The forms that an ideal resampling distribution takes: atoms listed or counted, or a curve known by inversion.

Both speak of deviations from the estimate, so that nothing is lost where the deviations are small.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from prereg.inference._special import normal_quantile
from prereg.inference.contrasts import Contrast
from prereg.inference.discrete import Atoms, enumerate_multinomial, lattice_distribution
from prereg.inference.halves import Halves
from prereg.inference.inversion import sum_below_zero
from prereg.inference.rootfinding import increasing_root
from prereg.inference.units import FloatArray

__all__ = ["Counted", "Discrete", "Distribution", "Inverted", "distinct_units", "resampling_distribution"]

# More distinct units than this make multinomial enumeration hopeless; it isn't tried.
_MOST_KINDS = 12
# From here on |phi|**n returns only over atoms, which the check at the centre sees.
_LARGE_SAMPLE = 256


class Distribution(Protocol):
    """A resampling distribution, in deviations from the estimate."""

    error: float

    def error_at(self, c: float) -> float:
        """Return the estimated error of the distribution function at c."""
        ...

    def below(self, c: float) -> tuple[float, float]:
        """Return P(theta* - theta < c) and P(theta* - theta = c)."""
        ...

    def quantile(self, p: float) -> float:
        """Return the smallest c at which the distribution function reaches p."""
        ...


def resampling_distribution(contrast: Contrast) -> Distribution:
    """Return the resampling distribution of a contrast with one denominator, the exact way if there is one."""
    raw, copies = distinct_units(contrast.raw_numerator[:, 0], contrast.denominator[:, 0])
    atoms = enumerate_multinomial(raw[:, 0], raw[:, 1], copies) if copies.size <= _MOST_KINDS else None
    if atoms is None:
        atoms = lattice_distribution(raw[:, 0], raw[:, 1], copies)
    if atoms is not None:
        return Discrete(atoms, contrast)
    kinds, copies = distinct_units(contrast.numerator[:, 0], contrast.denominator[:, 0])
    halves = Halves.of(kinds[:, 0], kinds[:, 1], copies) if copies.size <= _MOST_KINDS else None
    if halves is not None:
        return Counted(halves, contrast)
    return Inverted(kinds[:, 0].copy(), kinds[:, 1].copy(), copies / contrast.n_units, contrast)


def distinct_units(top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Return the distinct units, shape (k, 2), and how many there are of each."""
    order = np.lexsort((bottom, top))
    pairs = np.column_stack([top[order], bottom[order]])
    new = np.ones(order.size, dtype=np.bool_)
    new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    return pairs[starts], np.diff(starts, append=order.size).astype(np.int64)


class Discrete:
    """A distribution of finitely many atoms."""

    error = 1e-12

    def error_at(self, c: float) -> float:  # noqa: ARG002  (the same everywhere)
        """Return the error of rounding."""
        return self.error

    def __init__(self, atoms: Atoms, contrast: Contrast) -> None:
        defined = atoms.denominator > 0.0
        deviation = atoms.numerator[defined] / atoms.denominator[defined] - contrast.estimate
        chance = atoms.probability[defined]
        order = np.argsort(deviation, kind="stable")
        self._values = deviation[order]
        self._cumulative = np.cumsum(chance[order])
        self._cumulative /= self._cumulative[-1]
        self._tolerance = 1e-12 * max(contrast.scale, abs(contrast.estimate))

    def below(self, c: float) -> tuple[float, float]:
        """Return the probability below c and at c, values within 1e-12 being the same."""
        first = int(np.searchsorted(self._values, c - self._tolerance, side="left"))
        past = int(np.searchsorted(self._values, c + self._tolerance, side="right"))
        low, high = self._up_to(first), self._up_to(past)
        return low, high - low

    def _up_to(self, place: int) -> float:
        return float(self._cumulative[place - 1]) if place else 0.0

    def quantile(self, p: float) -> float:
        """Return the smallest atom at which the cumulative probability reaches p."""
        # A cumulative that misses p by rounding has reached it.
        place = int(np.searchsorted(self._cumulative, p - 1e-13, side="left"))
        return float(self._values[min(place, self._values.size - 1)])


class Counted:
    """A distribution of more atoms than can be listed, counted exactly at every point."""

    error = 1e-12

    def __init__(self, halves: Halves, contrast: Contrast) -> None:
        self._halves = halves
        self._se = contrast.standard_error()
        # Sums of N - c D this close to 0 belong to an atom at c: 1e-12 in units of theta.
        tolerance = 1e-12 * max(contrast.scale, abs(contrast.estimate))
        self._slack = tolerance * float(contrast.denominator.sum())

    def error_at(self, c: float) -> float:  # noqa: ARG002  (the same everywhere)
        """Return the error of rounding."""
        return self.error

    def below(self, c: float) -> tuple[float, float]:
        """Return the probability below c and at c, values within 1e-12 being the same."""
        low, high = (self._halves.up_to(c, slack) for slack in (-self._slack, self._slack))
        return low, high - low

    def quantile(self, p: float) -> float:
        """Return the atom at which the distribution function reaches p, to rounding."""
        return increasing_root(partial(self._gap, p), _score(p) * self._se, self._se)

    def _gap(self, p: float, c: float) -> float:
        """Return how far the distribution function is from p on the normal scale; never 0: the quantile is a jump."""
        reached = self._halves.up_to(c, 0.0)
        # A cumulative that misses p by rounding has reached it.
        gap = _score(reached) - _score(p)
        return max(gap, 1e-12) if reached >= p - 1e-13 else min(gap, -1e-12)


class _GivenUp(Exception):
    """A point of the distribution function can't be computed."""


class Inverted:
    """A distribution known through its characteristic function."""

    def __init__(self, top: FloatArray, bottom: FloatArray, shares: FloatArray, contrast: Contrast) -> None:
        self._top, self._bottom, self._shares = top, bottom, shares
        self._n = contrast.n_units
        self._se = contrast.standard_error()
        centre = sum_below_zero(top, shares, self._n, with_error=True)
        self.error = max(1e-12, centre.missed)
        self._centre = _score(centre.probability)

    def below(self, c: float) -> tuple[float, float]:
        """Return the probability below c, an atom at c counting half, and 0: atoms aren't resolved."""
        values = self._top - c * self._bottom
        return sum_below_zero(values, self._shares, self._n).probability, 0.0

    def error_at(self, c: float) -> float:
        """Return the error at one deviation: what holds at the centre need not hold in a tail."""
        values = self._top - c * self._bottom
        found = sum_below_zero(values, self._shares, self._n)
        if self._n < _LARGE_SAMPLE or not found.settled:
            found = sum_below_zero(values, self._shares, self._n, with_error=True)
        return max(self.error, found.missed)

    def quantile(self, p: float) -> float:
        """Return where the curve crosses p; infinite, and the error 1, where it can't be computed."""
        try:
            return self._crossing(p)
        except _GivenUp:
            self.error = 1.0
            return math.copysign(math.inf, p - 0.5)

    def _crossing(self, p: float) -> float:
        if self.error >= 1.0:
            raise _GivenUp
        # From the known point, a straight line; no memory of other searches, so that each is repeatable.
        start = (_score(p) - self._centre) * self._se
        return increasing_root(partial(self._gap, p), start, self._se)

    def _gap(self, p: float, c: float) -> float:
        """Return how far c is from the quantile, on the normal scale, where the curve is nearly straight."""
        found = sum_below_zero(self._top - c * self._bottom, self._shares, self._n)
        if found.missed >= 1.0:
            raise _GivenUp
        probability = found.probability
        # Closer than the distribution function itself is known.
        if abs(probability - p) <= 1e-13:
            return 0.0
        return _score(probability) - _score(p)


def _score(probability: float) -> float:
    return normal_quantile(min(max(probability, 1e-16), 1.0 - 1e-16))
