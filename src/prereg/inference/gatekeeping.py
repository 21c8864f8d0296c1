"""Gatekeeping: secondary claims that open only after primary ones, with the family-wise error of both together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from prereg.errors import InferenceError
from prereg.inference.multiplicity import holm
from prereg.inference.units import finite_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["Gatekept", "gatekeep"]

Gate = Literal["all", "each", "any"]
"""What opens the secondary claims; see `gatekeep`."""


@dataclass(frozen=True, slots=True)
class Gatekept:
    """Adjusted p-values of two families, in the order of the input.

    Attributes
    ----------
    primary, secondary
        A claim whose adjusted p-value is at most alpha is made; the chance of any false one is at most alpha.
    """

    primary: tuple[float, ...]
    secondary: tuple[float, ...]


def gatekeep(
    primary_p: npt.ArrayLike, secondary_p: npt.ArrayLike, *, gate: Gate = "all", truncation: float = 0.0
) -> Gatekept:
    """Return adjusted p-values of secondary claims behind a gate of primary ones.

    Each rule is a closed test: an adjusted p-value is the largest local p-value of the intersections that hold the
    hypothesis (Marcus, Peritz and Gabriel 1976, doi:10.1093/biomet/63.3.655), so the family-wise error over both
    families is controlled strongly, whatever the dependence. For an intersection of a primaries and b secondaries,
    out of m primaries, the local p-values are:

    ``all``
        Serial, after a conjunction: `max of all m primary p`, or `b min p` where a = 0. The primaries are one claim,
        made or not made as a whole, each at alpha (intersection-union); no secondary has an adjusted p-value below it.
        The secondaries are Holm's among themselves (Westfall and Krishen 2001, doi:10.1016/S0378-3758(01)00077-5).
    ``each``
        Serial, after single claims: `a min p` of the primaries, or `b min p` where a = 0. The primaries are Holm's,
        each a claim of its own; the secondaries open when the last of them is made.
    ``any``
        Parallel: one primary is enough. `min(p_i / w, p_s b / v)` with primary weights `w = g/a + (1 - g)/m`, g the
        `truncation`, and `v = (1 - g)(1 - a/m)` for the secondaries together, or 1 where a = 0. With g = 0 the
        primaries are Bonferroni's, and r primaries made leave the secondaries `alpha r/m` (Dmitrienko, Offen and
        Westfall 2003, doi:10.1002/sim.1526). A larger g makes the primaries sharper, towards Holm's, and leaves less
        (truncated Holm; Dmitrienko, Tamhane and Wiens 2008, doi:10.1002/bimj.200710464). g = 1 would be ``each``.

    Parameters
    ----------
    primary_p, secondary_p
        Shapes (m,) and (k,), each at least one, between 0 and 1.
    gate
        ``all``, ``each`` or ``any``. Part of the promise: choosing it after the p-values controls nothing.
    truncation
        g, at least 0 and below 1; only for ``any``.

    Returns
    -------
    Gatekept

    Raises
    ------
    InferenceError
        An empty family, nan, a p-value outside [0, 1], no such gate, or a truncation out of range or out of place.

    Examples
    --------
    >>> from prereg.inference import gatekeep
    >>> gatekeep([0.01, 0.03], [0.004, 0.02]).secondary
    (0.03, 0.03)
    >>> found = gatekeep([0.01, 0.3], [0.004, 0.04], gate="any")
    >>> [round(p, 4) for p in (*found.primary, *found.secondary)]
    [0.02, 0.6, 0.02, 0.08]
    """
    primary, secondary = _checked(primary_p), _checked(secondary_p)
    if gate not in get_args(Gate):
        raise InferenceError(f"gate is {gate!r}; one of {', '.join(get_args(Gate))} is wanted.")
    if isinstance(truncation, bool) or not 0.0 <= truncation < 1.0:
        raise InferenceError(f"truncation is {truncation!r}; at least 0 and below 1 is wanted.")
    if truncation > 0.0 and gate != "any":
        raise InferenceError(f"truncation {truncation!r} has no meaning for the gate {gate!r}; leave it out.")
    if gate == "any":
        return _parallel(primary, secondary, truncation)
    first = [max(primary)] * len(primary) if gate == "all" else holm(primary).tolist()
    last = max(first)
    return Gatekept(tuple(first), tuple(max(last, p) for p in holm(secondary).tolist()))


def _checked(p_values: npt.ArrayLike) -> list[float]:
    # holm refuses what are no p-values.
    holm(p_values)
    return [float(p) for p in finite_matrix(p_values, "p-values")[:, 0].tolist()]


def _parallel(primary: Sequence[float], secondary: Sequence[float], g: float) -> Gatekept:
    """Return the closed test's adjusted p-values.

    Of all intersections of a primaries and b secondaries that hold a hypothesis, the one with the largest other
    p-values has the largest local p-value, so that m times k intersections stand for all of them.
    """
    m, k = len(primary), len(secondary)
    # A secondary in an intersection can only lower its p-value: for a primary the ones without are the largest.
    first = [
        max(
            min(p, *largest) / _weight(a, m, g)
            for a in range(1, m + 1)
            for largest in [_others(primary, i, a)]
        )
        for i, p in enumerate(primary)
    ]
    second = []
    for s, p in enumerate(secondary):
        local = [
            min(
                min(sorted(primary)[m - a :]) / _weight(a, m, g) if a else math.inf,
                min(p, *_others(secondary, s, b)) * b / _left(a, m, g) if a < m else math.inf,
            )
            for a in range(m + 1)
            for b in range(1, k + 1)
        ]
        second.append(min(1.0, max(local)))
    return Gatekept(tuple(min(1.0, p) for p in first), tuple(second))


def _others(p_values: Sequence[float], place: int, size: int) -> list[float]:
    """Return the size - 1 largest p-values but one's own, and inf so that there is always one."""
    rest = sorted((*p_values[:place], *p_values[place + 1 :]), reverse=True)
    return [*rest[: size - 1], math.inf]


def _weight(a: int, m: int, g: float) -> float:
    return g / a + (1.0 - g) / m


def _left(a: int, m: int, g: float) -> float:
    return (1.0 - g) * (1.0 - a / m) if a else 1.0
