"""Student's t distribution from the standard library alone.

scipy has it, and the tests hold this to scipy's values; but importing scipy.special takes longer than all the
arithmetic of a warm gate run together, and the one number needed there is a t quantile.

The tail is I_x(df/2, 1/2) / 2 with x = df / (df + t**2), the regularised incomplete beta function by its continued
fraction (Lentz's method; NIST Digital Library of Mathematical Functions, 8.17.22).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

__all__ = ["t_cdf", "t_quantile"]

_TINY = 1e-300

# From here on the continued fraction takes thousands of terms, and an expansion in 1/df a handful.
_MANY = 20_000.0


def t_cdf(x: float, df: float) -> float:
    """Return Student's t distribution function with `df` degrees of freedom."""
    if math.isinf(x):
        return 1.0 if x > 0.0 else 0.0
    tail = _upper_tail(abs(x), df)
    return tail if x < 0.0 else 1.0 - tail


@lru_cache(maxsize=256)
def t_quantile(p: float, df: float) -> float:
    """Return Student's t quantile with `df` degrees of freedom; -inf at 0 and inf at 1."""
    if p <= 0.0 or p >= 1.0:
        return math.copysign(math.inf, p - 0.5)
    tail = min(p, 1.0 - p)
    if tail == 0.5:
        return 0.0
    if df >= _MANY:
        return math.copysign(_near_normal(-NormalDist().inv_cdf(tail), df), p - 0.5)
    # The normal quantile lies below t's, and the tail is convex there: Newton's steps then never overshoot.
    t = -NormalDist().inv_cdf(tail)
    for _ in range(200):
        step = (_upper_tail(t, df) - tail) / _density(t, df)
        t += step
        # The error after a step is of the order of its square.
        if abs(step) <= 1e-9 * t:
            break
    return math.copysign(t, p - 0.5)


def _near_normal(z: float, df: float) -> float:
    """Return the t quantile by its expansion about the normal one (Hill 1970, doi:10.1145/355598.355600)."""
    w = z * z
    terms = (
        (w + 1.0) / 4.0,
        ((5.0 * w + 16.0) * w + 3.0) / 96.0,
        (((3.0 * w + 19.0) * w + 17.0) * w - 15.0) / 384.0,
        ((((79.0 * w + 776.0) * w + 1482.0) * w - 1920.0) * w - 945.0) / 92160.0,
    )
    return z * (1.0 + sum(term / df**k for k, term in enumerate(terms, start=1)))


def _upper_tail(t: float, df: float) -> float:
    if t == 0.0:
        return 0.5
    square = t * t
    x, y = df / (df + square), square / (df + square)
    # x**(df/2) loses digits where df is large and x close to 1.
    front = math.exp(-0.5 * df * math.log1p(square / df)) * math.sqrt(y) / _beta_half(df / 2.0)
    if x < (df / 2.0 + 1.0) / (df / 2.0 + 2.5):
        return 0.5 * front * _continued_fraction(x, df / 2.0, 0.5) / (df / 2.0)
    return 0.5 - front * _continued_fraction(y, 0.5, df / 2.0)


def _density(t: float, df: float) -> float:
    return math.exp(-0.5 * (df + 1.0) * math.log1p(t * t / df)) / (math.sqrt(df) * _beta_half(df / 2.0))


def _beta_half(a: float) -> float:
    """Return B(a, 1/2) = Gamma(a) sqrt(pi) / Gamma(a + 1/2)."""
    if a < 40.0:
        return math.sqrt(math.pi) * math.exp(math.lgamma(a) - math.lgamma(a + 0.5))
    # Two large logarithms would cancel; this expansion is good to 1e-15 from here on (DLMF 5.11.13).
    u = 1.0 / a
    ratio = 1.0 - u * (1 / 8 - u * (1 / 128 + u * (5 / 1024 - u * (21 / 32768 + u * 399 / 262144))))
    return math.sqrt(math.pi / a) / ratio


def _continued_fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + term / c
            c = c if abs(c) > _TINY else _TINY
            value *= d * c
        if abs(d * c - 1.0) <= 1e-16:
            break
    return value
