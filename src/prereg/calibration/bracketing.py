"""An ideal interval as far as a decision can tell it: on which side of a few points each bound lies.

A gate compares its bounds with its threshold, moved to each truth; nothing else about them matters. The lower bound
of a percentile interval is the smallest c with ``F(c) >= p``, so it lies above x exactly if ``F(x) < p``, and
the upper one below x if F reaches ``1 - p`` before x. So F at each point, and next to it, decides what otherwise
takes some dozens of F's to find each bound. Where that can't be told for certain (F near p, an atom at x, an
inexact F) the bounds are computed, as for a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from prereg.calibration.sums import Matrix
from prereg.inference import (
    ContrastResult,
    Engine,
    IdealDistribution,
    Interval,
    Method,
    RatioTable,
    has_ideal,
    ideal_distribution,
)
from prereg.inference.contrasts import prepare
from prereg.inference.formulas import expanded_tail, largest_influence

__all__ = ["bounds_among", "ideal_result"]

_MARGIN = 1e-9
"""F nearer to p than this, or than four times its error, tells nothing."""
_NEAR = 1e-6
"""How far from a point F is taken, in standard errors."""

Bounds = tuple[float, float]


def ideal_result(
    table: RatioTable, weights: Matrix, method: str, levels: Sequence[float], points: Sequence[float]
) -> ContrastResult | None:
    """Return a contrast's ideal intervals, their bounds on the right sides of all points but no nearer than that.

    Parameters
    ----------
    table, weights
        One contrast.
    method
        ``percentile`` or ``expanded_percentile``.
    levels
        Two-sided levels.
    points
        What bounds will be compared with.

    Returns
    -------
    ContrastResult or None
        None where a verdict takes the plan's interval: a contrast of several denominators, one without variation, or
        one whose distribution can't be computed to 1e-3 (`prereg.inference.headline_intervals`).
    """
    contrast = prepare(table, weights)[0]
    if not has_ideal(table, weights) or contrast.is_degenerate():
        return None
    ideal = ideal_distribution(table, weights)
    n, error = contrast.n_units, contrast.standard_error()
    intervals = []
    tails = {at: (1.0 - at) / 2.0 if method == "percentile" else expanded_tail(at, n) for at in levels}
    bracketed = None
    if ideal.probability_error <= 1e-3:
        bracketed = bounds_among(ideal, error, list(tails.values()), points)
    for number, (level, tail) in enumerate(tails.items()):
        if ideal.probability_error > 1e-3:
            return None
        low, high = (
            (ideal.quantile(tail), ideal.quantile(1.0 - tail)) if bracketed is None else bracketed[number]
        )
        intervals.append(Interval(low, high, level, Method(method)))
    # After the quantiles: one that can't be computed says so in the error.
    if ideal.probability_error > 1e-3:
        return None
    return ContrastResult(
        estimate=contrast.estimate,
        standard_error=error,
        n_units=n,
        n_rows=contrast.n_rows,
        n_replicates=None,
        degenerate=False,
        undefined_share=ideal.undefined_probability,
        largest_influence=largest_influence(contrast),
        probability_error=ideal.probability_error,
        engine=Engine.IDEAL,
        intervals=tuple(intervals),
    )


def bounds_among(
    ideal: IdealDistribution, error: float, tails: Sequence[float], points: Sequence[float]
) -> list[Bounds] | None:
    """Return, for each tail, bounds halfway between the points that the true bounds lie between.

    Parameters
    ----------
    ideal
        The distribution.
    error
        Its contrast's standard error.
    tails
        p; the bounds are the quantiles at p and 1 - p.
    points
        At least one.

    Returns
    -------
    list of (low, high) or None
        None where for some point that can't be told for certain.
    """
    ordered = sorted(set(points))
    near = max(_NEAR * error, 1e-11 * max(1.0, *map(abs, ordered)))
    if any(b - a < 10.0 * near for a, b in pairwise(ordered)):
        return None
    margin = max(_MARGIN, 4.0 * ideal.probability_error)
    around = []
    for x in ordered:
        found = _around(ideal, x, near, min(tails) - margin)
        if found is None:
            return None
        around.append(found)
    places = [ordered[0] - error, *((a + b) / 2.0 for a, b in pairwise(ordered)), ordered[-1] + error]
    known = [_place(around, tail, margin, places) for tail in tails]
    certain = [bounds for bounds in known if bounds is not None]
    return certain if len(certain) == len(known) else None


def _around(ideal: IdealDistribution, x: float, near: float, enough: float) -> tuple[float, float] | None:
    """Return F just below x and just above it, or 0 and 1 for the one that the other makes needless."""
    left = x < ideal.estimate
    first = ideal.cdf(x + near if left else x - near)
    # Where the curve is given up it says 1/2 exactly.
    if first == 0.5:
        return None
    if left and first < enough:
        return 0.0, first
    if not left and 1.0 - first < enough:
        return first, 1.0
    other = ideal.cdf(x - near if left else x + near)
    if other == 0.5:
        return None
    return (other, first) if left else (first, other)


def _place(
    around: Sequence[tuple[float, float]], tail: float, margin: float, places: Sequence[float]
) -> Bounds | None:
    """Return the gaps that both bounds lie in; None where that is not certain."""
    sides = [_sides(below, above, tail, margin) for below, above in around]
    known = [side for side in sides if side is not None]
    lows, highs = [side[0] for side in known], [side[1] for side in known]
    # A lower bound above one point lies above all smaller ones; an upper one below it lies below all larger ones.
    if len(known) < len(sides) or lows != sorted(lows, reverse=True) or highs != sorted(highs):
        return None
    low, high = sum(lows), len(highs) - sum(highs)
    return (places[low], places[high]) if low <= high else None


def _sides(below: float, above: float, tail: float, margin: float) -> tuple[bool, bool] | None:
    """Tell whether the lower bound lies above a point, and the upper one below it; None where that is not certain."""
    if above < tail - margin:
        return True, False
    if below > 1.0 - tail + margin:
        return False, True
    if below > tail + margin and above < 1.0 - tail - margin:
        return False, False
    return None
