"""Bootstrap confidence intervals for contrasts of ratios, six methods from the same replicates.

With alpha = 1 - level, theta the estimate, theta* the replicates, Q the type-7 quantile, n the number of
independent units and s the delta-method standard error:

percentile
    `[Q(alpha/2), Q(1 - alpha/2)]` of theta* (Efron 1979, doi:10.1214/aos/1176344552).
expanded_percentile
    The percentile interval at the wider level alpha'/2 = Phi(-sqrt(n/(n-1)) t_{1-alpha/2, n-1}), which
    makes the bootstrap of a mean as wide as Student's t interval (Hesterberg 2015,
    doi:10.1080/00031305.2015.1089789). The default.
basic
    `[2 theta - Q(1 - alpha/2), 2 theta - Q(alpha/2)]` (Davison and Hinkley 1997,
    doi:10.1017/CBO9780511802843).
bca
    Bias-corrected and accelerated (Efron 1987, doi:10.1080/01621459.1987.10478410).
studentized
    `[theta - q(1 - alpha/2) s, theta - q(alpha/2) s]`, q the quantiles of (theta* - theta)/s*, s*
    recomputed in each resample (Hall 1988, doi:10.1214/aos/1176350933).
delta_t
    `theta -/+ t_{1-alpha/2, n-1} sqrt(n/(n-1)) s`; for a mean it is Student's t interval.

Departures from arch and scipy, all on purpose. z0 counts replicates equal to theta (within 1e-12) as half,
where arch counts none. The acceleration leaves out one *unit* and is computed per contrast, where arch
averages the jackknife over a vector's entries. The studentized interval scales by s, where arch scales by
the standard deviation of the replicates. Resamples without variation give t* = +inf or -inf by the
sign of theta* - theta, and 0 where that is 0; they stay in the sort and are never nan. Where a method has no
finite answer (BCa with every replicate on one side) the interval is unbounded, which no verdict can rest on.
Data without variation give a flagged point interval, where scipy gives nan and arch an exception.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference._special import check_level, t_quantile
from prereg.inference.contrasts import Contrast, prepare
from prereg.inference.formulas import (
    Ordered,
    acceleration,
    bca_bounds,
    bias_correction,
    expanded_tail,
    largest_influence,
    pivots_of,
    type7_places,
    type7_quantile,
    without_variation,
)
from prereg.inference.order_statistics import order_statistics
from prereg.inference.records import ContrastResult, Engine, Interval, Method
from prereg.inference.replicates import Replicates, replicate_contrasts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from prereg.inference.plan import ResamplingPlan
    from prereg.inference.ratios import RatioTable

__all__ = ["intervals", "intervals_many"]

# Methods whose bounds are quantiles of the replicates at tails known beforehand.
_OF_QUANTILES = (Method.PERCENTILE, Method.EXPANDED_PERCENTILE, Method.BASIC)


def intervals(
    table: RatioTable,
    weights: npt.ArrayLike,
    plan: ResamplingPlan,
    level: float = 0.95,
    *,
    also_levels: Sequence[float] = (),
    methods: Sequence[str] = tuple(Method),
    studentized_replicates: int | None = None,
) -> tuple[ContrastResult, ...]:
    """Compute intervals for each contrast of a table from one pass over a plan.

    Parameters
    ----------
    table
        Sums per independent unit.
    weights
        Contrasts `theta = sum_r w_r R_r`, shape (n_contrasts, n_ratios) or (n_ratios,).
    plan
        The draws, for the table's number of units.
    level
        Two-sided confidence level, above 0.5. For an equivalence claim at error alpha use 1 - 2*alpha.
    also_levels
        Further levels from the same replicates, such as `bonferroni_level(level, m)`.
    methods
        Names from `Method`. Leaving out "studentized" saves the standard errors inside the resamples.
    studentized_replicates
        How many of the plan's first replicates the studentized interval uses; None for all. Its standard
        errors cost more than everything else together.

    Returns
    -------
    tuple of ContrastResult
        In the order of the rows of `weights`.

    Raises
    ------
    InferenceError
        Unknown method, a level out of range, table and plan that don't match, or no defined resample.
    """
    return intervals_many(
        [(table, weights)],
        plan,
        level,
        also_levels=also_levels,
        methods=methods,
        studentized_replicates=studentized_replicates,
    )[0]


def intervals_many(
    requests: Sequence[tuple[RatioTable, npt.ArrayLike]],
    plan: ResamplingPlan,
    level: float = 0.95,
    *,
    also_levels: Sequence[float] = (),
    methods: Sequence[str] = tuple(Method),
    studentized_replicates: int | None = None,
) -> tuple[tuple[ContrastResult, ...], ...]:
    """Compute intervals for several tables on one shared plan, drawing it once.

    Parameters
    ----------
    requests
        Pairs (table, weights), all tables with the plan's number of units.
    plan, level, also_levels, methods, studentized_replicates
        As for `intervals`.

    Returns
    -------
    tuple of tuples of ContrastResult
        One tuple per request.
    """
    wanted = _methods(methods)
    levels = tuple(dict.fromkeys(check_level(value) for value in (level, *also_levels)))
    groups = [prepare(table, weights) for table, weights in requests]
    flat = [contrast for group in groups for contrast in group]
    studentized = Method.STUDENTIZED in wanted
    few = plan if studentized_replicates is None else plan.first(studentized_replicates)
    inner = replicate_contrasts(flat, few, standard_errors=True) if studentized else ()
    if studentized and few is plan:
        outer = tuple(_sorted(draws) for draws in inner)
    else:
        outer = _sorted_on(flat, plan, levels, wanted)
    results = iter(
        _result(contrast, draws, inner[k] if studentized else None, levels, wanted)
        for k, (contrast, draws) in enumerate(zip(flat, outer, strict=True))
    )
    return tuple(tuple(next(results) for _ in group) for group in groups)


@dataclass(frozen=True, slots=True, eq=False)
class _Sorted:
    """The defined replicates of a contrast in ascending order.

    `n_undefined` is how many were not defined, `z0` BCa's bias correction, None where not all were computed.
    """

    ordered: Ordered
    n_undefined: int
    z0: float | None


def _sorted(draws: Replicates) -> _Sorted:
    if draws.values.size == 0:
        raise InferenceError("every resample has a zero denominator: no interval can be computed.")
    ordered = np.sort(draws.values)
    return _Sorted(ordered, draws.n_undefined, bias_correction(ordered, draws.estimate))


def _sorted_on(
    contrasts: Sequence[Contrast],
    plan: ResamplingPlan,
    levels: tuple[float, ...],
    methods: tuple[Method, ...],
) -> tuple[_Sorted, ...]:
    """Sort the plan's replicates; only as far as quantiles need it, where no method needs more."""
    # BCa counts the replicates below the estimate.
    if Method.BCA in methods:
        return tuple(_sorted(d) for d in replicate_contrasts(contrasts, plan, standard_errors=False))
    size = plan.n_replicates
    tails = [_tail(m, level, plan.n_units) for m in methods if m in _OF_QUANTILES for level in levels]
    between = (type7_places(size, p)[:2] for tail in tails for p in (tail, 1.0 - tail))
    # The first and the last tell whether the replicates vary.
    found = order_statistics(contrasts, plan, [0, size - 1, *chain.from_iterable(between)])
    left = [contrast for contrast, known in zip(contrasts, found, strict=True) if known is None]
    rest = iter(replicate_contrasts(left, plan, standard_errors=False) if left else ())
    return tuple(_sorted(next(rest)) if known is None else _Sorted(known, 0, None) for known in found)


def _tail(method: Method, level: float, n_units: int) -> float:
    """Return the probability below the lower quantile that a method takes."""
    return expanded_tail(level, n_units) if method is Method.EXPANDED_PERCENTILE else (1.0 - level) / 2.0


def _methods(names: Sequence[str]) -> tuple[Method, ...]:
    if not names or isinstance(names, str):
        raise InferenceError(f"methods is {names!r}; a sequence of method names is wanted.")
    try:
        return tuple(dict.fromkeys(Method(name) for name in names))
    except ValueError as error:
        raise InferenceError(
            f"methods {list(names)} holds an unknown name; known are {[str(m) for m in Method]}."
        ) from error


def _result(
    contrast: Contrast,
    draws: _Sorted,
    inner: Replicates | None,
    levels: tuple[float, ...],
    methods: tuple[Method, ...],
) -> ContrastResult:
    degenerate = without_variation(contrast, draws.ordered)
    n_all = draws.ordered.size + draws.n_undefined
    error = contrast.standard_error()
    return ContrastResult(
        estimate=contrast.estimate,
        standard_error=0.0 if degenerate else error,
        n_units=contrast.n_units,
        n_rows=contrast.n_rows,
        n_replicates=n_all,
        degenerate=degenerate,
        undefined_share=draws.n_undefined / n_all,
        largest_influence=largest_influence(contrast),
        probability_error=0.0,
        engine=Engine.PLAN,
        intervals=_point(contrast.estimate, levels, methods)
        if degenerate
        else _all_intervals(contrast, draws, inner, error, levels, methods),
    )


def _point(estimate: float, levels: tuple[float, ...], methods: tuple[Method, ...]) -> tuple[Interval, ...]:
    return tuple(Interval(estimate, estimate, at, m) for at in levels for m in methods)


def _all_intervals(
    contrast: Contrast,
    draws: _Sorted,
    inner: Replicates | None,
    error: float,
    levels: tuple[float, ...],
    methods: tuple[Method, ...],
) -> tuple[Interval, ...]:
    theta, n, ordered = contrast.estimate, contrast.n_units, draws.ordered
    scale = max(contrast.scale, abs(theta))
    pivots: Ordered = ordered if inner is None else np.sort(pivots_of(inner, scale))
    accel = acceleration(contrast) if Method.BCA in methods else None

    def bounds(method: Method, level: float) -> tuple[float, float]:
        tail = _tail(method, level, n)
        if method in (Method.PERCENTILE, Method.EXPANDED_PERCENTILE):
            return type7_quantile(ordered, tail), type7_quantile(ordered, 1.0 - tail)
        if method is Method.BASIC:
            low, high = type7_quantile(ordered, tail), type7_quantile(ordered, 1.0 - tail)
            return 2.0 * theta - high, 2.0 * theta - low
        if method is Method.BCA:
            return bca_bounds(ordered, draws.z0, accel, tail)
        if method is Method.STUDENTIZED:
            low, high = type7_quantile(pivots, tail), type7_quantile(pivots, 1.0 - tail)
            return theta - high * error, theta - low * error
        half = t_quantile(1.0 - tail, n - 1) * math.sqrt(n / (n - 1)) * error
        return theta - half, theta + half

    return tuple(Interval(*bounds(m, level), level, m) for level in levels for m in methods)
