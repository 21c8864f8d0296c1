"""A bracketed root of an increasing function. Never a plain secant: one outlier makes a plateau."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prereg.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["increasing_root"]

_MOST_STEPS = 200
_MOST_EXPANSIONS = 200


def increasing_root(f: Callable[[float], float], start: float, step: float) -> float:
    """Return x with f(x) = 0, for a non-decreasing f.

    A bracket is grown from `start` by doubled steps, then shrunk by Chandrupatla's method (1997,
    doi:10.1016/S0965-9978(96)00051-8): inverse quadratic interpolation where that is safe, else bisection.

    Parameters
    ----------
    f
        Non-decreasing, finite.
    start, step
        First guess and first step, step above 0.

    Returns
    -------
    float
        The root within some 4 ulp, or -inf or inf where f keeps one sign.

    Raises
    ------
    InferenceError
        f returned nan.
    """
    a, fa = start, _finite(f(start), start)
    if fa == 0.0:
        return a
    sign = -1.0 if fa > 0.0 else 1.0
    # The first step follows the distance that a unit slope would give.
    width = max(min(abs(fa), 4.0), 0.05) * step * 1.05
    for _ in range(_MOST_EXPANSIONS):
        b = a + sign * width
        if math.isinf(b):
            return b
        fb = _finite(f(b), b)
        if fb == 0.0:
            return b
        if (fb > 0.0) != (fa > 0.0):
            return _chandrupatla(f, a, fa, b, fb, step)
        a, fa = b, fb
        width *= 2.0
    return sign * math.inf


def _finite(value: float, at: float) -> float:
    if math.isnan(value):
        raise InferenceError(f"the distribution function is nan at {at!r}.")
    return value


def _chandrupatla(
    f: Callable[[float], float], a: float, fa: float, b: float, fb: float, scale: float
) -> float:
    c, fc = a, fa
    share = fb / (fb - fa) if math.isfinite(fb - fa) else 0.5
    share = 1.0 - share
    for _ in range(_MOST_STEPS):
        x = a + share * (b - a)
        fx = _finite(f(x), x)
        if fx == 0.0:
            return x
        if (fx > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        best = a if abs(fa) < abs(fb) else b
        tolerance = 4.0 * math.ulp(abs(best)) + 1e-15 * scale
        if abs(b - a) <= tolerance:
            return best
        share = _next_share(a, fa, b, fb, c, fc)
        least = tolerance / abs(b - a)
        share = min(max(share, least), 1.0 - least) if least < 0.5 else 0.5
    return a if abs(fa) < abs(fb) else b


def _next_share(a: float, fa: float, b: float, fb: float, c: float, fc: float) -> float:
    """Return where between a (0) and b (1) to look next."""
    if len({fa, fb, fc}) < 3:
        return 0.5
    xi = (a - b) / (c - b)
    phi = (fa - fb) / (fc - fb)
    if not (phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi):
        return 0.5
    left = fa / (fb - fa) * fc / (fb - fc)
    right = (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    share = left + right
    return share if 0.0 < share < 1.0 else 0.5
