"""p-values from permuted or refitted statistics, with the conventions that keep them valid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference.units import FloatArray, finite_matrix

__all__ = [
    "Alternative",
    "PermutationTest",
    "enumeration_p_value",
    "monte_carlo_p_value",
    "sign_flip_test",
    "sign_flips",
]

# Statistics closer than this, relative to the largest, are ties: they differ by the order of additions.
_TIE = 1e-12
# All sign patterns of so many units are tried: a million.
_MOST_FLIPS = 20
# Random sign patterns that share one stream, and are in memory at once.
_SIGN_BLOCK = 256


class Alternative(StrEnum):
    """Which values speak against the null."""

    GREATER = "greater"
    LESS = "less"
    TWO_SIDED = "two_sided"


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """What a permutation test found.

    Attributes
    ----------
    observed
        The statistic on the data.
    p_value
        `(b + 1)/(B + 1)` of B random arrangements, `b/B` of all.
    n_draws
        B.
    enumerated
        Whether all arrangements were tried.
    alternative
        Which values speak against the null.
    null
        The statistics of the random arrangements, in the order drawn; empty where all were tried.
    """

    observed: float
    p_value: float
    n_draws: int
    enumerated: bool
    alternative: Alternative
    null: tuple[float, ...]


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
    side = alternative_of(alternative)
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


def alternative_of(alternative: str) -> Alternative:
    """Return the alternative of this name, or raise InferenceError."""
    try:
        return Alternative(alternative)
    except ValueError as error:
        raise InferenceError(
            f"alternative is {alternative!r}; one of {[str(a) for a in Alternative]} is wanted."
        ) from error


def check_count(value: int, lowest: int, name: str) -> None:
    """Raise InferenceError unless `value` is a whole number of at least `lowest`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise InferenceError(f"{name} is {value!r}; a whole number of at least {lowest} is wanted.")


def sign_flip_test(
    differences: npt.ArrayLike,
    alternative: str = Alternative.TWO_SIDED,
    *,
    n: int = 9_999,
    seed: int | None = None,
) -> PermutationTest:
    """Test that paired differences are symmetric about 0, by changing their signs (Fisher 1935).

    The statistic is the mean. All 2**k sign patterns are tried for k <= 20 units (`p = b/B`), n random ones beyond
    (`p = (b + 1)/(B + 1)`). Exact under symmetry; of the mean alone it is a test only to the extent that the
    differences are not skewed. Few units reach few p-values: six all of one sign give 1/64, two-sided 1/32.

    Parameters
    ----------
    differences
        One per *independent* unit, shape (k,): a mean per subject or per training seed, not per row.
    alternative
        "greater", "less" or "two_sided".
    n
        Random patterns for more than 20 units. Block b of 256 comes from `PCG64(SeedSequence(seed, spawn_key=(b,)))`.
    seed
        Registered seed; needed for more than 20 units.

    Returns
    -------
    PermutationTest

    Raises
    ------
    InferenceError
        Empty, nan or inf, an unknown alternative, or no seed where one is needed.

    Examples
    --------
    >>> from prereg.inference import sign_flip_test
    >>> sign_flip_test([0.3, 0.1, 0.7, 0.2, 0.5, 0.4]).p_value
    0.03125
    """
    matrix = finite_matrix(differences, "differences")
    if matrix.shape[1] != 1:
        raise InferenceError(f"differences have shape {matrix.shape}; one dimension is wanted.")
    side, values = alternative_of(alternative), matrix[:, 0]
    observed = math.fsum(values.tolist()) / values.size
    if values.size <= _MOST_FLIPS:
        means = _every_sum(values) / values.size
        # The identity, in its own order of additions, is one of the patterns.
        p = enumeration_p_value(float(means[0]), means, side)
        return PermutationTest(observed, p, int(means.size), True, side, ())
    if seed is None:
        raise InferenceError(
            f"{values.size} units have too many sign patterns to try all of them, and no seed was given.",
            remedy="Give the registered seed: sign_flip_test(differences, seed=...).",
        )
    check_count(n, 1, "n")
    check_count(seed, 0, "seed")
    null = _random_sums(values, n, seed) / values.size
    return PermutationTest(
        observed, monte_carlo_p_value(observed, null, side), n, False, side, tuple(null.tolist())
    )


def _every_sum(values: FloatArray) -> FloatArray:
    """Return the sums under all sign patterns, the identity's first, by doubling: no pattern is held."""
    sums = np.zeros(1)
    for value in values.tolist():
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _random_sums(values: FloatArray, n: int, seed: int) -> FloatArray:
    sums = np.empty(n)
    for first in range(0, n, _SIGN_BLOCK):
        key = np.random.SeedSequence(seed, spawn_key=(first // _SIGN_BLOCK,))
        take = min(_SIGN_BLOCK, n - first)
        positive = np.random.Generator(np.random.PCG64(key)).integers(
            0, 2, (take, values.size), dtype=np.int64
        )
        sums[first : first + take] = np.where(positive == 1, values, -values).sum(axis=1)
    return sums
