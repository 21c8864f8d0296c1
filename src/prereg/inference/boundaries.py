"""Exact group-sequential boundaries: what each look may be tested at when the looks are one growing sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference._special import normal_quantile
from prereg.inference.rootfinding import increasing_root
from prereg.inference.spending import SpendingFunction, alpha_spent
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LookBoundary", "look_boundaries"]

# Beyond so many standard deviations a normal variable has a chance of 1e-17.
_REACH = 8.5
# Nodes in each panel of three standard deviations of a step: the Gaussian kernel is then integrated to rounding.
_NODES = 16
_PANEL = 3.0
# Looks so close together that more panels are wanted are no design: an information fraction grown by 0.05%.
_MOST_PANELS = 128


@dataclass(frozen=True, slots=True)
class LookBoundary:
    """What one look is tested at.

    Attributes
    ----------
    information
        Fraction of the planned information seen by then.
    spent
        Probability, under the null, of having crossed at this look or before.
    z
        The boundary: the claim is made if the look's standardised statistic on all data so far exceeds it. inf where
        the look may spend nothing.
    alpha
        `1 - Phi(z)`: the nominal one-sided level, for an interval of two-sided level `1 - 2 alpha`.
    """

    information: float
    spent: float
    z: float
    alpha: float


def look_boundaries(
    alpha: float, information: Sequence[float], function: SpendingFunction
) -> tuple[LookBoundary, ...]:
    """Return Lan and DeMets' exact boundary for looks at one accumulating sample.

    z_k solves `P(Z_1 <= z_1, ..., Z_{k-1} <= z_{k-1}, Z_k > z_k) = alpha_spent(t_k) - alpha_spent(t_{k-1})` for
    `Z_k = B(t_k) / sqrt(t_k)`, B a Brownian motion, by recursive integration over the paths that haven't crossed
    (Armitage, McPherson and Rowe 1969, doi:10.2307/2343787; Lan and DeMets 1983, doi:10.1093/biomet/70.3.659). One
    boundary, as `alpha_spent`.

    When it holds, and when not. Every look must test *all data so far*, each look's data holding the last one's, with
    independent increments: the statistics' correlation is then `sqrt(t_j / t_k)`, and the fractions must be those of
    the data, not of a plan. Looks at fresh models, at samples that overlap otherwise, or of unknown dependence aren't
    covered: for them the error rate can pass alpha, and `look_alphas` (a union bound, valid whatever the dependence)
    is to be used. It is what a gate uses. For one accumulating sample it wastes alpha, most so at the last look.

    Departure from R's ldbounds and gsDesign: their grids are worth some 1e-4 in the last z; here the integral is exact
    to 1e-10. There is no lower boundary; a symmetric two-sided design at alpha has the boundary of alpha/2, to 1e-5.

    Parameters
    ----------
    alpha
        Overall one-sided error rate, strictly between 0 and 1.
    information
        Fractions of the planned information at the looks, ascending, in (0, 1].
    function
        ``obrien_fleming`` or ``pocock``.

    Returns
    -------
    tuple of LookBoundary
        One per look. All of alpha is spent only where the last fraction is 1.

    Raises
    ------
    InferenceError
        No looks, fractions that don't rise, are out of range or lie too close together, `alpha` out of range, or no
        such function.

    Examples
    --------
    >>> from prereg.inference import look_alphas, look_boundaries
    >>> found = look_boundaries(0.05, [0.25, 0.5, 0.75, 1.0], "obrien_fleming")
    >>> [round(look.z, 3) for look in found]
    [3.75, 2.54, 2.016, 1.72]
    >>> [round(look.alpha, 5) for look in found]
    [9e-05, 0.00554, 0.0219, 0.0427]
    >>> [round(share, 5) for share in look_alphas(0.05, 4, "obrien_fleming")]
    [9e-05, 0.00549, 0.01805, 0.02637]
    """
    if not information:
        raise InferenceError("no looks: nothing would be tested.")
    spent = [0.0, *(alpha_spent(t, alpha, function) for t in information)]
    if not all(before < after for before, after in pairwise(information)):
        raise InferenceError(f"the information fractions {list(information)} don't rise from look to look.")
    points, mass, seen = np.zeros(1), np.ones(1), 0.0
    found = []
    for t, (before, after) in zip(information, pairwise(spent), strict=True):
        step = math.sqrt(t - seen)
        z = _boundary(points, mass, step, math.sqrt(t), after - before)
        found.append(LookBoundary(float(t), after, z, 0.5 * math.erfc(z / math.sqrt(2.0))))
        points, mass = _carry(points, mass, step, min(z, _REACH) * math.sqrt(t), -_REACH * math.sqrt(t))
        seen = t
    return tuple(found)


def _boundary(points: FloatArray, mass: FloatArray, step: float, scale: float, increment: float) -> float:
    """Return the z that a path now at `points` passes, one step on, with probability `increment`."""
    if not increment > 0.0:
        return math.inf
    return increasing_root(
        partial(_shortfall, points, mass, step, scale, increment), -normal_quantile(increment), 0.1
    )


def _shortfall(
    points: FloatArray, mass: FloatArray, step: float, scale: float, increment: float, z: float
) -> float:
    """Return log(increment / P(crossing z)), which rises with z."""
    gaps = ((z * scale - points) / (step * math.sqrt(2.0))).tolist()
    crossing = 0.5 * math.fsum(m * math.erfc(gap) for m, gap in zip(mass.tolist(), gaps, strict=True))
    return math.log(increment) - math.log(max(crossing, 1e-300))


def _carry(
    points: FloatArray, mass: FloatArray, step: float, upper: float, lower: float
) -> tuple[FloatArray, FloatArray]:
    """Return where paths that stay below `upper` are after a step, as nodes and their probabilities."""
    panels = max(1, math.ceil((upper - lower) / (_PANEL * step)))
    if panels > _MOST_PANELS:
        raise InferenceError(
            "two looks are so close together that they are one.",
            remedy="Plan looks whose information grows by at least 0.1%.",
        )
    nodes, weights = _gauss_legendre()
    half = (upper - lower) / (2.0 * panels)
    centres = lower + half * (2.0 * np.arange(panels) + 1.0)
    new = (centres[:, None] + half * nodes).ravel()
    density = np.exp(-0.5 * ((new[:, None] - points) / step) ** 2) / (step * math.sqrt(2.0 * math.pi))
    carried: FloatArray = half * np.tile(weights, panels) * (density * mass).sum(axis=1)
    return new, carried


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights
