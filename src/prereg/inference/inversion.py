"""P(S <= 0) for a sum S of n iid draws from finitely many values, by its characteristic function.

Gil-Pelaez (1951, doi:10.1093/biomet/38.3-4.481) in the summed form of Davies (1973,
doi:10.1093/biomet/60.2.415): with step d and nodes t_k = (k + 1/2) d,

    P(S < 0) + P(S = 0)/2 = 1/2 - sum_k Im(phi(t_k)**n) / (pi (k + 1/2)),

exact up to the probability that |S| exceeds 2 pi / d, which Bernstein's inequality bounds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SumBelowZero", "sum_below_zero", "tail_reach", "unresolved_mass"]

# Probability allowed beyond the period, and size at which a term is nothing: below the 1e-13 that
# rounding of phi**n leaves anyway.
_LOG_TAIL = math.log(1e15)
_LOG_NOTHING = -36.0
# Nodes whose terms are added together.
_BLOCK = 16
# Phases computed together. More would leave the cache, and send a small product to several threads.
_MOST_PHASES = 4096
# Numbers of the kernel in memory together when the missing mass is estimated: 16 MB.
_MOST_KERNEL = 2**20
# Phases are advanced by multiplication and recomputed after so many blocks: rounding can't build up.
_REFRESH = 8
# A staircase of few steps has a |phi|**n that never dies away; more nodes would chase single steps.
_MOST_NODES = 4_096
_SMALL_SAMPLE = 64
# Nodes beyond which an outlier is split off.
_MANY_NODES = 256
# Outcomes less likely than this are left out of a split.
_NEGLIGIBLE = 1e-17
# Outliers within outliers multiply: after so many cases, or sums inverted for them, the point is given up. A mean of
# 300 Cauchy numbers takes 1,635 and 198.
_MOST_CASES = 5_000
_MOST_INVERSIONS = 500


@dataclass(frozen=True, slots=True)
class SumBelowZero:
    """Result of one inversion.

    Attributes
    ----------
    probability
        P(S < 0) + P(S = 0)/2, within [0, 1].
    missed
        Estimated size of the terms left out, where that was asked for; else 0. It is 1 where the sum was given up.
    settled
        Whether the terms had become nothing when the sum was ended.
    """

    probability: float
    missed: float = 0.0
    settled: bool = True


class _GivenUp(Exception):
    """A sum has too many cases."""


class _Work:
    """Counts the cases and the inversions that one probability has taken."""

    def __init__(self) -> None:
        self.cases, self.inversions = 0, 0

    def case(self) -> None:
        self.cases += 1
        if self.cases > _MOST_CASES:
            raise _GivenUp

    def inversion(self) -> None:
        self.inversions += 1
        if self.inversions > _MOST_INVERSIONS:
            raise _GivenUp


def tail_reach(centred: FloatArray, shares: FloatArray, n: int) -> float:
    """Return y with P(|S - E S| > y) <= 2e-15, by Bernstein's inequality.

    Parameters
    ----------
    centred
        Values of one draw minus their mean, shape (k,).
    shares
        Their probabilities, shape (k,).
    n
        Number of draws.
    """
    variance = n * float(shares @ centred**2)
    jump = float(np.abs(centred).max()) * _LOG_TAIL / 3.0
    return jump + math.sqrt(jump**2 + 2.0 * _LOG_TAIL * variance)


def sum_below_zero(
    values: FloatArray,
    shares: FloatArray,
    n: int,
    *,
    offset: float = 0.0,
    with_error: bool = False,
) -> SumBelowZero:
    """Return P(S < 0) + P(S = 0)/2, S = offset + the sum of n iid draws.

    An outlier makes the sum wide and its characteristic function slow to die away. It is split off: given
    how often it is drawn, the rest is a sum without it, and the binomial adds the cases up. Outliers of many
    scales, each beyond all smaller ones together, make too many cases: the sum is given up, with `missed` 1.

    Parameters
    ----------
    values, shares
        Values of one draw and their probabilities, shape (k,), k >= 1.
    n
        Number of draws, at least 0.
    offset
        Added to the sum.
    with_error
        Whether to estimate what the finite sum left out (`unresolved_mass`).
    """
    try:
        return _below(values, shares, n, offset, _Work(), with_error=with_error)
    except _GivenUp:
        return SumBelowZero(0.5, 1.0, settled=False)


def _below(
    values: FloatArray, shares: FloatArray, n: int, offset: float, work: _Work, *, with_error: bool
) -> SumBelowZero:
    work.case()
    if n == 0 or values.size == 1:
        total = offset + (n * float(values[0]) if n else 0.0)
        return SumBelowZero(0.5 if total == 0.0 else float(total < 0.0))
    mean = float(shares @ values)
    centred = values - mean
    # Rounding of the mean would be multiplied by n: take out what is left, and keep it in the drift.
    rest = float(shares @ centred)
    drift = offset + n * (mean + rest)
    centred = centred - rest
    reach = tail_reach(centred, shares, n)
    if abs(drift) > reach or reach == 0.0:
        # Zero is out of the sum's reach: the probability is 0 or 1 to 2e-15.
        return SumBelowZero(0.5 if drift == 0.0 else float(drift < 0.0))
    outlier = _outlier(centred, shares, n, reach)
    if outlier is not None:
        return _split(values, shares, n, outlier, offset, work, with_error=with_error)
    work.inversion()
    return _invert(centred, shares, n, drift, reach, with_error=with_error)


def _outlier(centred: FloatArray, shares: FloatArray, n: int, reach: float) -> int | None:
    """Return the value whose removal would save many nodes, or None."""
    sizes = np.abs(centred)
    place = int(sizes.argmax())
    variance = float(shares @ centred**2)
    # Rarely drawn, and a good part of the variance by itself.
    if float(sizes[place]) ** 2 < 0.05 * n * variance or n * float(shares[place]) > 40.0:
        return None
    # The scale that rules how fast the rest dies away: without the few largest, about its own mean.
    few = min(4, centred.size // 2)
    inner = np.argpartition(sizes, centred.size - few)[: centred.size - few]
    inner_shares = shares[inner] / float(shares[inner].sum())
    inner_mean = float(inner_shares @ centred[inner])
    spread = math.sqrt(n * float(inner_shares @ (centred[inner] - inner_mean) ** 2))
    nodes = 1.4 * reach / spread if spread > 0.0 else math.inf
    return place if nodes > _MANY_NODES else None


def _split(
    values: FloatArray,
    shares: FloatArray,
    n: int,
    outlier: int,
    offset: float,
    work: _Work,
    *,
    with_error: bool,
) -> SumBelowZero:
    share = float(shares[outlier])
    others = np.delete(values, outlier)
    other_shares = np.delete(shares, outlier)
    other_shares = other_shares / float(other_shares.sum())
    parts, chances = [], []
    chance = math.exp(n * math.log1p(-share))
    for k in range(n + 1):
        if chance >= _NEGLIGIBLE:
            shifted = offset + k * float(values[outlier])
            parts.append(_below(others, other_shares, n - k, shifted, work, with_error=with_error))
            chances.append(chance)
        elif k > n * share:
            break
        chance *= (n - k) / (k + 1) * share / (1.0 - share)
    pairs = list(zip(chances, parts, strict=True))
    return SumBelowZero(
        min(1.0, math.fsum(chance * part.probability for chance, part in pairs)),
        math.fsum(chance * part.missed for chance, part in pairs),
        all(part.settled for part in parts),
    )


def _invert(
    centred: FloatArray,
    shares: FloatArray,
    n: int,
    drift: float,
    reach: float,
    *,
    with_error: bool,
) -> SumBelowZero:
    step = 2.0 * math.pi / (reach + abs(drift))
    total, quiet, done = 0.0, 0, 0
    for phi in _phi_blocks(centred, shares, step):
        nodes = np.arange(done, done + _BLOCK) + 0.5
        log_size = n * np.log(np.maximum(np.abs(phi), 1e-300))
        angle = n * np.arctan2(phi.imag, phi.real) + nodes * (step * drift)
        terms = np.exp(log_size) * np.sin(angle) / nodes
        loud = np.flatnonzero(log_size > _LOG_NOTHING)
        total += math.fsum(terms.tolist())
        done += _BLOCK
        quiet = _BLOCK - 1 - int(loud[-1]) if loud.size else quiet + _BLOCK
        if quiet >= max(4, done // 4) or done >= _MOST_NODES:
            break
    probability = min(1.0, max(0.0, 0.5 - total / math.pi))
    missed = unresolved_mass(centred, shares, n, done * step) if with_error else 0.0
    return SumBelowZero(probability, missed, done < _MOST_NODES)


def _phi_blocks(centred: FloatArray, shares: FloatArray, step: float) -> Iterator[npt.NDArray[np.complex128]]:
    """Yield phi at the nodes (k + 1/2) step, 16 nodes at a time."""
    weights = shares.astype(np.complex128)
    rows = min(_BLOCK, 1 << max(0, (_MOST_PHASES // centred.size).bit_length() - 1))
    turn = np.exp(1j * step * centred)
    leap = turn
    for _ in range(rows.bit_length() - 1):
        leap = leap * leap
    phases = np.empty((rows, centred.size), dtype=np.complex128)
    for number in itertools.count():
        phi = np.empty(_BLOCK, dtype=np.complex128)
        for first in range(0, _BLOCK, rows):
            if first == 0 and number % _REFRESH == 0:
                phases[0] = np.exp(1j * ((number * _BLOCK + 0.5) * step) * centred)
                for row in range(1, rows):
                    np.multiply(phases[row - 1], turn, out=phases[row])
            else:
                phases *= leap
            phi[first : first + rows] = phases @ weights
        yield phi


def unresolved_mass(values: FloatArray, shares: FloatArray, n: int, last_node: float) -> float:
    """Estimate what the nodes beyond `last_node` would have added.

    Where the resampling distribution has atoms, |phi|**n returns for ever and its mean square is the sum of
    the squared atoms (Wiener). `(1/pi) * integral of |phi|**n dt/t` is taken from the last node to 400
    times it, at nodes evenly spread in log t. For smooth data it is 0; it ignores signs, so it errs on the
    side of caution.
    """
    # In a large sample |phi|**n is either nothing or, over an atom, present at every node: few will do. In a
    # small one it is many narrow peaks.
    n_nodes = 2048 if n < _SMALL_SAMPLE else 64 if n < 4 * _SMALL_SAMPLE else 12
    span = math.log(400.0)
    nodes = last_node * np.exp(span * (np.arange(n_nodes) + 0.5) / n_nodes)
    centred = values - float(shares @ values)
    # In one product where it is small; a million values are taken node by node.
    rows = max(1, _MOST_KERNEL // centred.size)
    chunks = [nodes[first : first + rows] for first in range(0, n_nodes, rows)]
    sizes = np.concatenate([np.abs(np.exp(1j * np.outer(chunk, centred)) @ shares) for chunk in chunks])
    return float((np.minimum(sizes, 1.0) ** n).mean()) * span / math.pi
