"""The few distribution functions that inference needs, and checks of probabilities."""

from __future__ import annotations

import math
from statistics import NormalDist

from prereg.errors import InferenceError
from prereg.inference._student import t_cdf, t_quantile

__all__ = ["check_level", "check_probability", "normal_cdf", "normal_quantile", "t_cdf", "t_quantile"]


def normal_cdf(x: float) -> float:
    """Return the standard normal distribution function at `x`."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """Return the standard normal quantile; -inf at 0 and inf at 1."""
    if p <= 0.0 or p >= 1.0:
        return math.copysign(math.inf, p - 0.5)
    return NormalDist().inv_cdf(p)


def check_probability(value: float, name: str) -> float:
    """Return `value` as a float strictly between 0 and 1, or raise InferenceError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InferenceError(f"{name} is {value!r}; a number strictly between 0 and 1 is wanted.")
    if not (math.isfinite(value) and 0.0 < value < 1.0):
        raise InferenceError(
            f"{name} is {value!r}; a number strictly between 0 and 1 is wanted.",
            remedy=f"Write {name} as a proportion: 0.95, not 95.",
        )
    return float(value)


def check_level(level: float) -> float:
    """Return a two-sided confidence level strictly between 0.5 and 1, or raise InferenceError.

    Below 0.5 an interval may exclude its own estimate, so a typing error (0.05 for 0.95) would look like
    proof.
    """
    value = check_probability(level, "level")
    if value > 0.5:
        return value
    raise InferenceError(
        f"level is {value!r}; a confidence level above 0.5 is wanted.",
        remedy="Give the confidence level (0.95), not the error rate (0.05).",
    )
