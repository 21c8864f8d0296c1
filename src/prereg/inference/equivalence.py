"""Claims of no effect: equivalence tests and the effect that a test could have seen.

A difference that is not significant is not evidence of no difference. A null claim names a margin beforehand
and shows the effect to lie inside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference._special import check_probability, normal_quantile, t_cdf, t_quantile
from prereg.inference.units import finite_matrix
from prereg.inference.verdict import Direction, Outcome, decide

__all__ = [
    "PairedTost",
    "check_margin",
    "equivalence_level",
    "minimum_detectable_effect",
    "tost_paired",
]


@dataclass(frozen=True, slots=True)
class PairedTost:
    """Two one-sided t tests on paired differences.

    Attributes
    ----------
    mean, standard_error
        Of the differences; the standard error is s/sqrt(n), s with n - 1.
    n_units
        Number of independent differences.
    margin, alpha
        As asked.
    t_lower, t_upper
        `(mean + margin)/se` and `(mean - margin)/se`.
    p_lower, p_upper, p_value
        One-sided p-values against `mean <= -margin` and `mean >= margin`, and the larger of the two.
    low, high
        Student's t interval at level 1 - 2*alpha.
    outcome
        supported if that interval lies strictly inside the margin, refuted if wholly outside.
    """

    mean: float
    standard_error: float
    n_units: int
    margin: float
    alpha: float
    t_lower: float
    t_upper: float
    p_lower: float
    p_upper: float
    p_value: float
    low: float
    high: float
    outcome: Outcome


def equivalence_level(alpha: float) -> float:
    """Return `1 - 2*alpha`: an interval at this level inside the margin is a TOST at error alpha.

    Schuirmann 1987, doi:10.1007/BF01068419.

    Raises
    ------
    InferenceError
        alpha is not strictly between 0 and 0.25.
    """
    if check_probability(alpha, "alpha") < 0.25:
        return 1.0 - 2.0 * alpha
    raise InferenceError(f"alpha is {alpha!r}; an error rate below 0.25 is wanted.")


def tost_paired(differences: npt.ArrayLike, margin: float, alpha: float = 0.05) -> PairedTost:
    """Test that a mean difference lies strictly within plus or minus a margin.

    Parameters
    ----------
    differences
        One per independent unit, shape (n,), n >= 2.
    margin
        Above 0, in the units of the differences.
    alpha
        Error rate of the test; the interval has level 1 - 2*alpha.

    Raises
    ------
    InferenceError
        Empty, one unit, nan or inf, differences without variation, or a margin that is not above 0.
    """
    matrix = finite_matrix(differences, "differences")
    if matrix.shape[1] != 1:
        raise InferenceError(f"differences have shape {matrix.shape}; one dimension is wanted.")
    level = equivalence_level(alpha)
    _check_positive(margin, "margin")
    values = matrix[:, 0].tolist()
    n = len(values)
    if n < 2:
        raise InferenceError("n=1: a single difference has no sampling distribution.")
    mean = math.fsum(values) / n
    square = math.fsum((value - mean) ** 2 for value in values)
    largest = max(abs(value) for value in values)
    if not square > n * (1e-12 * largest) ** 2:
        raise InferenceError("the differences do not vary: no test statistic exists.")
    se = math.sqrt(square / (n - 1) / n)
    t_lower, t_upper = (mean + margin) / se, (mean - margin) / se
    p_lower, p_upper = t_cdf(-t_lower, n - 1), t_cdf(t_upper, n - 1)
    half = t_quantile((1.0 + level) / 2.0, n - 1) * se
    return PairedTost(
        mean=mean,
        standard_error=se,
        n_units=n,
        margin=margin,
        alpha=alpha,
        t_lower=t_lower,
        t_upper=t_upper,
        p_lower=p_lower,
        p_upper=p_upper,
        p_value=max(p_lower, p_upper),
        low=mean - half,
        high=mean + half,
        outcome=decide(mean - half, mean + half, margin, Direction.EQUIVALENCE),
    )


def minimum_detectable_effect(
    standard_error: float,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    n_units: int | None = None,
    sides: int = 1,
) -> float:
    """Return the effect that a test at `alpha` finds with the given power.

    `(q(1 - alpha/sides) + q(power)) * se`, q the normal quantile, or Student's t with n_units - 1
    degrees of freedom where `n_units` is given (Bloom 1995, doi:10.1177/0193841X9501900504).

    Parameters
    ----------
    standard_error
        Of the estimate, above 0, in the units of the estimand.
    alpha, power
        Strictly between 0 and 1; power above alpha.
    n_units
        Number of independent units, at least 2, for the t version; None for the normal version.
    sides
        1 or 2.

    Raises
    ------
    InferenceError
        A parameter is out of range.
    """
    _check_positive(standard_error, "standard_error")
    check_probability(alpha, "alpha")
    check_probability(power, "power")
    if sides not in (1, 2):
        raise InferenceError(f"sides is {sides!r}; 1 or 2 is wanted.")
    if not power > alpha:
        raise InferenceError(f"power {power!r} is not above alpha {alpha!r}: any effect would do.")
    points = (1.0 - alpha / sides, power)
    if n_units is None:
        return sum(normal_quantile(p) for p in points) * standard_error
    if isinstance(n_units, bool) or n_units < 2:
        raise InferenceError(f"n_units is {n_units!r}; at least 2 is wanted.")
    return sum(t_quantile(p, n_units - 1) for p in points) * standard_error


def check_margin(margin: float, detectable: float) -> None:
    """Refuse a null claim whose minimum detectable effect exceeds its margin.

    Raises
    ------
    InferenceError
        `detectable` is larger than `margin`, or either is not above 0.
    """
    _check_positive(margin, "margin")
    _check_positive(detectable, "minimum detectable effect")
    if detectable <= margin:
        return
    raise InferenceError(
        f"the minimum detectable effect {detectable:.4g} exceeds the margin {margin:.4g}: the test could "
        "not show what it claims.",
        remedy="Measure more independent units, or register a wider margin with its rationale.",
    )


def _check_positive(value: float, name: str) -> None:
    if isinstance(value, bool) or not (math.isfinite(value) and value > 0.0):
        raise InferenceError(f"{name} is {value!r}; a finite number above 0 is wanted.")
