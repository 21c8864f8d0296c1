"""What a reader must be told beside a verdict: one unit that carries it, and methods that disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prereg.inference.records import ContrastResult, Method
from prereg.inference.verdict import Outcome, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LARGE_INFLUENCE", "cautions"]

# A unit with a larger share of the variance than this is a result of its own.
LARGE_INFLUENCE = 0.10

# A share of resamples that no interval can feel.
NEGLIGIBLE = 1e-9


def cautions(
    result: ContrastResult,
    threshold: float,
    direction: str,
    level: float = 0.95,
    *,
    method: str = Method.EXPANDED_PERCENTILE,
) -> tuple[str, ...]:
    """Return one line for each reason to be careful with a result; empty where there is none. Our own definition.

    They change no verdict: the registered interval decides, whatever the others say.

    Parameters
    ----------
    result
        The contrast or statistic.
    threshold, direction
        As for `decide`.
    level
        The level at which all computed methods are compared.
    method
        The registered method.

    Returns
    -------
    tuple of str
        That a unit carries over 10% of the variance; that another computed method decides otherwise; that resamples
        were undefined; that the data don't vary.

    Raises
    ------
    InferenceError
        The registered method's interval was not computed at this level, or as `decide`.

    Examples
    --------
    >>> from prereg.inference import WeightPlan, iid, mean, weighted_intervals
    >>> found = weighted_intervals(mean([0.0] * 19 + [1.0]), WeightPlan(iid(20), n_replicates=499, seed=1))
    >>> cautions(found, threshold=0.0, direction="greater")[0]
    'one unit carries 95% of the variance'
    """
    found: Sequence[str] = ()
    if result.largest_influence > LARGE_INFLUENCE:
        found = (*found, f"one unit carries {result.largest_influence:.0%} of the variance")
    if result.degenerate:
        found = (*found, "the data do not vary between units")
    if not result.undefined_share <= NEGLIGIBLE:
        found = (*found, f"{result.undefined_share:.2g} of the resamples are undefined")
    registered = _outcome(result, method, level, threshold, direction)
    for other in result.at(level):
        outcome = _outcome(result, other, level, threshold, direction)
        if outcome is not registered:
            found = (*found, f"{other} says {outcome}, where {Method(method)} says {registered}")
    return tuple(found)


def _outcome(result: ContrastResult, method: str, level: float, threshold: float, direction: str) -> Outcome:
    interval = result.interval(method, level)
    return decide(interval.low, interval.high, threshold, direction)
