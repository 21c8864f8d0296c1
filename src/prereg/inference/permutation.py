"""p-values from permuted or refitted statistics, with the conventions that keep them valid."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference.units import finite_matrix

__all__ = ["Alternative", "enumeration_p_value", "monte_carlo_p_value", "sign_flips"]

# Statistics closer than this, relative to the largest, are ties: they differ by the order of additions.
_TIE = 1e-12
_MOST_FLIPS = 20


class Alternative(StrEnum):
    """Which values speak against the null."""

    GREATER = "greater"
    LESS = "less"
    TWO_SIDED = "two_sided"


def monte_carlo_p_value(
    observed: float, draws: npt.ArrayLike, alternative: str = Alternative.GREATER
) -> float:
    """Return `(b + 1) / (B + 1)`, b the draws at least as extreme as the observed statistic.

    The observed statistic is itself one draw under the null; without it the test would reject too often and
    p could be 0 (Phipson and Smyth 2010, doi:10.2202/1544-6115.1585).

    Parameters
    ----------
    observed
        The statistic on the data.
    draws
        Statistics under the null, shape (B,), without the observed one.
    alternative
        "greater", "less" or "two_sided" (by absolute value).

    Returns
    -------
    float
        Between 1/(B + 1) and 1. Ties, within 1e-12 of the largest magnitude, count as extreme.

    Raises
    ------
    InferenceError
        Empty, nan or inf, or an unknown alternative.
    """
    extreme, total = _count(observed, draws, alternative)
    return (extreme + 1) / (total + 1)


def enumeration_p_value(
    observed: float, draws: npt.ArrayLike, alternative: str = Alternative.GREATER
) -> float:
    """Return `b / B` where `draws` are *all* arrangements, the observed one among them.

    Parameters and errors as for `monte_carlo_p_value`; in addition it is an error if no draw is as extreme
    as the observed statistic, since then the observed arrangement was left out.
    """
    extreme, total = _count(observed, draws, alternative)
    if extreme == 0:
        raise InferenceError(
            "no arrangement is as extreme as the observed one, so the enumeration is not complete.",
            remedy="Enumerate the identity too, or use monte_carlo_p_value.",
        )
    return extreme / total


def _count(observed: float, draws: npt.ArrayLike, alternative: str) -> tuple[int, int]:
    values = finite_matrix(draws, "null draws")
    if values.shape[1] != 1:
        raise InferenceError(f"null draws have shape {values.shape}; one dimension is wanted.")
    if not math.isfinite(observed):
        raise InferenceError(f"the observed statistic is {observed!r}; a finite number is wanted.")
    try:
        side = Alternative(alternative)
    except ValueError as error:
        raise InferenceError(
            f"alternative is {alternative!r}; one of {[str(a) for a in Alternative]} is wanted."
        ) from error
    null = values[:, 0]
    slack = _TIE * max(abs(observed), float(np.abs(null).max()))
    if side is Alternative.GREATER:
        extreme = null >= observed - slack
    elif side is Alternative.LESS:
        extreme = null <= observed + slack
    else:
        extreme = np.abs(null) >= abs(observed) - slack
    return int(extreme.sum()), int(null.size)


def sign_flips(n_units: int) -> npt.NDArray[np.float64]:
    """Return all 2**n sign vectors, shape (2**n, n); the first row is the identity.

    For paired differences that are symmetric under the null (Fisher 1935).

    Raises
    ------
    InferenceError
        Fewer than 1 or more than 20 units.
    """
    if not 1 <= n_units <= _MOST_FLIPS:
        raise InferenceError(
            f"{n_units} units; 1 to {_MOST_FLIPS} can be enumerated.",
            remedy="Draw random signs and use monte_carlo_p_value.",
        )
    codes = np.arange(2**n_units, dtype=np.int64)
    bits = (codes[:, None] >> np.arange(n_units, dtype=np.int64)) & 1
    return (1 - 2 * bits).astype(np.float64)
