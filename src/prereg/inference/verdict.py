"""From intervals to verdicts. Every branch demands proof, so nan, inf and equality never decide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from prereg.errors import InferenceError
from prereg.inference._special import check_level
from prereg.inference.records import ContrastResult, Interval, Method, bonferroni_level

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MINIMUM_UNITS", "Decision", "Direction", "Outcome", "decide", "decide_conjunction"]

# Fewer units than this and no bootstrap interval is to be believed; a caller may ask for more, not less.
MINIMUM_UNITS = 10

_TOLERANCE = 1e-12


class Outcome(StrEnum):
    """What can be said about a registered claim.

    supported, refuted and inconclusive are answers. invalid: the data can't carry one (degenerate, or a
    control failed). not_tested: the question was not put. unverified: the answer can't be shown to be
    the registered one.
    """

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    NOT_TESTED = "not_tested"
    UNVERIFIED = "unverified"


class Direction(StrEnum):
    """What is claimed of theta: above the threshold, below it, or within plus or minus it."""

    GREATER = "greater"
    LESS = "less"
    EQUIVALENCE = "equivalence"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on a claim, with the numbers that decided it.

    Attributes
    ----------
    outcome
        supported, refuted, inconclusive or invalid.
    estimate
        theta of the worst contrast; for equivalence over several contrasts, the largest |theta|.
    low, high
        The deciding bounds, on the scale of `estimate`.
    binding
        Position of the worst contrast.
    level, refuting_level
        Levels of the supporting and of the refuting bound.
    method
        Interval method.
    n_contrasts
        How many contrasts had to hold.
    reason
        One line in words.
    """

    outcome: Outcome
    estimate: float
    low: float
    high: float
    binding: int
    level: float
    refuting_level: float
    method: Method
    n_contrasts: int
    reason: str


def decide(low: float, high: float, threshold: float, direction: str) -> Outcome:
    """Compare an interval with a threshold.

    supported if the whole closed interval lies strictly on the claimed side, refuted if strictly on the
    other, else inconclusive. Strictly means by more than `1e-12 * max(1, |threshold|)`: equality up to
    rounding decides nothing. A nan or infinite bound decides nothing.

    Parameters
    ----------
    low, high
        Bounds, in the units of the threshold.
    threshold
        Finite; for "equivalence" the margin, at least 0, and the claim is `-margin < theta < margin`.
    direction
        "greater", "less" or "equivalence".

    Returns
    -------
    Outcome
        supported, refuted or inconclusive.

    Raises
    ------
    InferenceError
        Unknown direction, threshold not finite, negative margin, or low above high.
    """
    side = _direction(direction)
    _check_threshold(threshold, side)
    if not (math.isfinite(low) and math.isfinite(high)):
        return Outcome.INCONCLUSIVE
    if low > high:
        raise InferenceError(f"interval bounds out of order: low {low!r}, high {high!r}.")
    slack = _TOLERANCE * max(1.0, abs(threshold))
    if side is Direction.GREATER:
        holds, fails = low > threshold + slack, high < threshold - slack
    elif side is Direction.LESS:
        holds, fails = high < threshold - slack, low > threshold + slack
    else:
        holds = low > -threshold + slack and high < threshold - slack
        fails = low > threshold + slack or high < -threshold - slack
    if holds:
        return Outcome.SUPPORTED
    return Outcome.REFUTED if fails else Outcome.INCONCLUSIVE


def _direction(direction: str) -> Direction:
    try:
        return Direction(direction)
    except ValueError as error:
        raise InferenceError(
            f"direction is {direction!r}; one of {[str(d) for d in Direction]} is wanted."
        ) from error


def _check_threshold(threshold: float, side: Direction) -> None:
    if isinstance(threshold, bool) or not math.isfinite(threshold):
        raise InferenceError(f"threshold is {threshold!r}; a finite number is wanted.")
    if side is Direction.EQUIVALENCE and not threshold >= 0.0:
        raise InferenceError(f"margin is {threshold!r}; an equivalence margin is at least 0.")


def decide_conjunction(
    results: Sequence[ContrastResult],
    threshold: float,
    direction: str,
    level: float = 0.95,
    *,
    method: str = Method.EXPANDED_PERCENTILE,
    min_units: int = MINIMUM_UNITS,
    constant_is_proof: bool = False,
) -> Decision:
    """Decide a claim that *every* one of m contrasts must satisfy; m may be 1.

    "Beats every null" is such a claim: theta_j > threshold for all j, that is min_j theta_j > threshold.

    Supporting it needs no correction. The claim is false only if some theta_j is not above the threshold,
    and then the j-th interval alone must err for the claim to be called supported: the error is at most
    that of one interval, (1 - level)/2, however the contrasts depend on each other (intersection-union;
    Berger 1982, doi:10.1080/00401706.1982.10487790). The bound is the smallest low at `level`.

    Refuting it does. It takes only one theta_j shown to be below the threshold, and m chances to err, so
    each is taken at level `1 - (1 - level)/m` (Bonferroni), which keeps the chance that any upper bound
    lies below its theta_j at (1 - level)/2. The bound is the smallest high at that level. "less" mirrors
    this with the largest high and the largest low. "equivalence" is "less" for |theta_j|: the largest
    |bound| at `level` must be inside the margin; one Bonferroni interval wholly outside refutes.

    Parameters
    ----------
    results
        One per contrast, each with an interval of `method` at `level` and at
        `bonferroni_level(level, m)`.
    threshold, direction
        As for `decide`.
    level
        Two-sided level. For equivalence at error alpha, 1 - 2*alpha (TOST).
    method
        Interval method.
    min_units
        Fewer independent units than this is inconclusive; at least 10.
    constant_is_proof
        Whether a contrast without any variation is judged by its one value. For controls only: a null fit that
        falls back on the mean for everybody has *exactly* the mean's errors, which is what the control
        hopes for and not a sign of broken data.

    Returns
    -------
    Decision
        invalid if any contrast is degenerate or has undefined resamples; inconclusive below `min_units`;
        otherwise what the bounds prove.

    Raises
    ------
    InferenceError
        No results, an interval that was not computed, or `min_units` below 10.
    """
    side = _direction(direction)
    _check_threshold(threshold, side)
    check_level(level)
    if not results:
        raise InferenceError("no contrasts: an empty conjunction would be true of anything.")
    if isinstance(min_units, bool) or min_units < MINIMUM_UNITS:
        raise InferenceError(f"min_units is {min_units!r}; at least {MINIMUM_UNITS} is wanted.")
    refuting = bonferroni_level(level, len(results))
    supports = [result.interval(method, level) for result in results]
    refutes = [result.interval(method, refuting) for result in results]
    estimate, low, high, binding, compared = _bounds(results, supports, refutes, side)
    outcome, reason = _obstacle(results, min_units, constant_is_proof)
    if outcome is None:
        outcome = decide(low, high, threshold, compared)
        reason = _reason(outcome, low, high, threshold, side)
    return Decision(
        outcome=outcome,
        estimate=estimate,
        low=low,
        high=high,
        binding=binding,
        level=level,
        refuting_level=refuting,
        method=Method(method),
        n_contrasts=len(results),
        reason=reason,
    )


def _bounds(
    results: Sequence[ContrastResult],
    supports: Sequence[Interval],
    refutes: Sequence[Interval],
    side: Direction,
) -> tuple[float, float, float, int, Direction]:
    """Return (estimate, low, high, binding contrast, direction to compare in)."""
    estimates = [result.estimate for result in results]
    if side is Direction.EQUIVALENCE and len(results) == 1:
        return estimates[0], supports[0].low, supports[0].high, 0, side
    if side is Direction.GREATER:
        worst = min(range(len(estimates)), key=estimates.__getitem__)
        low, high = min(i.low for i in supports), min(i.high for i in refutes)
        return estimates[worst], low, high, worst, side
    if side is Direction.LESS:
        worst = max(range(len(estimates)), key=estimates.__getitem__)
        low, high = max(i.low for i in refutes), max(i.high for i in supports)
        return estimates[worst], low, high, worst, side
    sizes = [abs(value) for value in estimates]
    worst = max(range(len(sizes)), key=sizes.__getitem__)
    # The nearest point to 0 of an interval: 0 if it holds 0.
    low = max(max(i.low, -i.high, 0.0) for i in refutes)
    high = max(max(abs(i.low), abs(i.high)) for i in supports)
    return sizes[worst], low, high, worst, Direction.LESS


def _obstacle(
    results: Sequence[ContrastResult], min_units: int, constant_is_proof: bool
) -> tuple[Outcome | None, str]:
    """Return the outcome that the data force before any bound is looked at, if one is."""
    for j, result in enumerate(results):
        if result.degenerate and not constant_is_proof:
            return Outcome.INVALID, f"contrast {j} has no variation between units: no inference"
        if not result.usable:
            return Outcome.INVALID, (
                f"contrast {j} is not usable: {result.undefined_share:.3g} of the resamples are "
                f"undefined, distribution error {result.probability_error:.1g}"
            )
    fewest = min(result.n_units for result in results)
    if fewest < min_units:
        return Outcome.INCONCLUSIVE, f"{fewest} independent units, at least {min_units} are needed"
    return None, ""


def _reason(outcome: Outcome, low: float, high: float, threshold: float, side: Direction) -> str:
    shown = f"[{low:.4g}, {high:.4g}]"
    limit = f"{threshold:.4g}"
    where = {
        Direction.GREATER: ("above", "below"),
        Direction.LESS: ("below", "above"),
        Direction.EQUIVALENCE: ("inside the margin", "outside the margin"),
    }[side]
    if outcome is Outcome.SUPPORTED:
        return f"the interval {shown} lies {where[0]} {limit}"
    if outcome is Outcome.REFUTED:
        return f"the interval {shown} lies {where[1]} {limit}"
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"the interval {shown} is unbounded and decides nothing"
    return f"the interval {shown} does not exclude {limit}"
