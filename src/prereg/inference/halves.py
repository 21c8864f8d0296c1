"""The exact resampling distribution of a few rare kinds beside a common one, by meeting in the middle.

Forty-two zeros and eight different numbers have too many resamples to list, and their characteristic function never
dies away: drawing none of the eight alone has a chance that no finite inversion resolves. But split the rare kinds into
two halves A and B. Given how often A was drawn in all, B's draws don't depend on which of A they were, so

    P(S <= 0) = sum over a, b of P(a) P(b) R(K_a, K_b) [base + w_a + w_b <= 0],

a and b the halves' count vectors with their own multinomial chances, K the draws in each half, and R the correction for
their sharing n draws: `Bin(K_b; n - K_a, Q_b / (1 - Q_a)) / Bin(K_b; n, Q_b)`, Q a half's share of the units. B is
sorted once for each point, its running sums are kept for each K_a, and every a looks up its own. Some tens of thousands
of states do the work of their product. Exact to rounding. Our own definition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from prereg.inference.discrete import binomial_chances, enumerate_multinomial
from prereg.inference.units import FloatArray

__all__ = ["Halves"]

# States of the half that is looked up and of the half that is sorted: some 20 ms for each point of the distribution.
_MOST_LOOKED_UP = 150_000
_MOST_SORTED = 60_000
# States less likely than this are dropped; all that are dropped together stay below 1e-12.
_NEGLIGIBLE = 1e-17
# Running sums for each number of draws in the other half: 40 MB.
_MOST_CELLS = 5_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Half:
    """Every way to draw one half of the rare kinds: sums beyond the common kind's, chances, numbers of draws."""

    top: FloatArray
    bottom: FloatArray
    chance: FloatArray
    drawn: npt.NDArray[np.int64]

    def beyond(self, c: float) -> FloatArray:
        """Return each state's part of `sum (N - c D)`."""
        values: FloatArray = self.top - c * self.bottom
        return values


class Halves:
    """P(sum N - c sum D <= slack) for n draws from few kinds, one of them common."""

    def __init__(self, base: tuple[float, float], one: _Half, other: _Half, joint: FloatArray) -> None:
        self._base, self._one, self._other, self._joint = base, one, other, joint
        # A mean's denominators are all alike: one order serves every point.
        self._kept = None if bool(other.bottom.any()) else self._running(other.top)

    @classmethod
    def of(cls, top: FloatArray, bottom: FloatArray, copies: npt.NDArray[np.int64]) -> Self | None:
        """Split the kinds, shapes (k,), or return None where the halves have too many states.

        None too where a kind has the denominator 0: a resample of it alone has no value.
        """
        if copies.size < 3 or not bool((bottom > 0.0).all()):
            return None
        n, common = int(copies.sum()), int(copies.argmax())
        order = [int(j) for j in np.argsort(-copies, kind="stable") if j != common]
        pair = []
        for part, most in ((order[0::2], _MOST_LOOKED_UP), (order[1::2], _MOST_SORTED)):
            half = _half(top - top[common], bottom - bottom[common], copies, part, most)
            if half is None:
                return None
            pair.append(half)
        one, other = pair
        if (int(one.drawn.max()) + 1) * other.chance.size > _MOST_CELLS:
            return None
        shares = [int(copies[part].sum()) / n for part in (order[0::2], order[1::2])]
        joint = _correction(n, shares[0], shares[1], int(one.drawn.max()), int(other.drawn.max()))
        return cls((n * float(top[common]), n * float(bottom[common])), one, other, joint)

    def up_to(self, c: float, slack: float) -> float:
        """Return P(sum N - c sum D <= slack)."""
        values, running = self._kept or self._running(self._other.beyond(c))
        room = slack - (self._base[0] - c * self._base[1]) - self._one.beyond(c)
        place = np.searchsorted(values, room, side="right")
        terms = self._one.chance * running[self._one.drawn, place]
        return min(1.0, math.fsum(terms.tolist()))

    def _running(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return B's values in order and, for each K_a, the chance of B's states up to each, a leading 0 before all."""
        order = np.argsort(values, kind="stable")
        chance, drawn = self._other.chance[order], self._other.drawn[order]
        running = np.zeros((self._joint.shape[0], order.size + 1))
        for k, correction in enumerate(self._joint):
            np.cumsum(chance * correction[drawn], out=running[k, 1:])
        return values[order], running


def _half(
    top: FloatArray, bottom: FloatArray, copies: npt.NDArray[np.int64], part: list[int], most: int
) -> _Half | None:
    """Enumerate the counts of one half's kinds; all the others together are one kind that adds nothing."""
    both = np.append(copies[part], copies.sum() - copies[part].sum())
    nothing = [0.0]
    ones = np.append(np.ones(len(part)), nothing)
    sums, counts = (
        enumerate_multinomial(first, second, both, most_states=most, negligible=_NEGLIGIBLE)
        for first, second in ((np.append(top[part], nothing), np.append(bottom[part], nothing)), (ones, ones))
    )
    if sums is None or counts is None:
        return None
    return _Half(
        sums.numerator, sums.denominator, sums.probability, np.rint(counts.numerator).astype(np.int64)
    )


def _correction(n: int, one: float, other: float, most_one: int, most_other: int) -> FloatArray:
    """Return R, shape (most_one + 1, most_other + 1); 0 where there are not that many draws."""
    ka, kb = np.mgrid[0 : most_one + 1, 0 : most_other + 1]
    possible = ka + kb <= n
    left = np.where(possible, n - ka, n)
    given = binomial_chances(left, kb, other / (1.0 - one))
    free = binomial_chances(np.full_like(kb, n), kb, other)
    joint: FloatArray = np.where(possible, given / free, 0.0)
    return joint
