"""Intervals for any statistic of case weights, under any design.

The formulas are those of `prereg.inference.intervals`, with theta, its replicates, its influence and its jackknife
taken from weights. n, the number of independent units, is the design's `n_independent`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference._special import check_level, t_quantile
from prereg.inference.contrasts import DEGENERATE
from prereg.inference.designs import Nested, iid
from prereg.inference.formulas import bca_bounds, bias_correction, expanded_tail, pivots_of, type7_quantile
from prereg.inference.jackknife import (
    acceleration,
    copies_standard_errors,
    jackknife,
    resampled_standard_errors,
    unit_influence,
)
from prereg.inference.plan import IndexArray, count_blocks
from prereg.inference.records import ContrastResult, Engine, Interval, Method
from prereg.inference.replicates import Replicates
from prereg.inference.units import FloatArray
from prereg.inference.weight_plan import WeightPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prereg.inference.plan import ResamplingPlan
    from prereg.inference.statistics import WeightedStatistic
    from prereg.inference.weight_plan import Design

__all__ = ["available_methods", "weighted_intervals", "weighted_intervals_many"]

_Drawn = list[tuple[IndexArray, IndexArray]] | None

_DEFAULTS = (Method.EXPANDED_PERCENTILE, Method.STUDENTIZED, Method.DELTA_T)


def weighted_intervals(
    statistic: WeightedStatistic,
    plan: WeightPlan | ResamplingPlan,
    level: float = 0.95,
    *,
    also_levels: Sequence[float] = (),
    methods: Sequence[str] | None = None,
) -> ContrastResult:
    """Compute a statistic's intervals from the resamples of a plan.

    Parameters
    ----------
    statistic
        The statistic, with as many cases as the plan has rows.
    plan
        A `WeightPlan` of a design; or a `BootstrapPlan` or `ExplicitPlan`, whose units are then the cases.
    level, also_levels
        Two-sided confidence levels, above 0.5.
    methods
        Names from `Method`. Not given: the expanded percentile, and beside it those of studentized and delta-t that
        are available here.

    Returns
    -------
    ContrastResult
        As a contrast's, so `decide_conjunction` takes it. `standard_error` is `sqrt(sum_g psi_g**2)` over independent
        units; for a statistic that isn't smooth it is the standard deviation of the replicates. Replicates that
        are nan or inf are left out and counted in `undefined_share`: any at all makes the verdict invalid.

    Raises
    ------
    InferenceError
        Cases and rows differ; the statistic is undefined on the data, in every resample, or next to equal weights; an
        unknown method, or one that this statistic or design doesn't have (see `available_methods`).

    Examples
    --------
    >>> from prereg.inference import WeightPlan, auroc, clusters
    >>> subject = [f"s{i // 2:02d}" for i in range(60)]
    >>> theta = auroc([(7 * i) % 60 + 20 * (i % 2) for i in range(60)], [i % 2 for i in range(60)])
    >>> found = weighted_intervals(theta, WeightPlan(clusters(subject), n_replicates=999, seed=1))
    >>> found.n_units, found.n_rows
    (30, 60)
    >>> interval = found.interval("expanded_percentile", 0.95)
    >>> 0.5 < interval.low < found.estimate < interval.high < 1.0
    True
    """
    return weighted_intervals_many([statistic], plan, level, also_levels=also_levels, methods=methods)[0]


def weighted_intervals_many(
    statistics: Sequence[WeightedStatistic],
    plan: WeightPlan | ResamplingPlan,
    level: float = 0.95,
    *,
    also_levels: Sequence[float] = (),
    methods: Sequence[str] | None = None,
) -> tuple[ContrastResult, ...]:
    """Compute the intervals of several statistics of the same cases from one shared plan, drawing it once.

    Parameters, result and errors as for `weighted_intervals`, with one result for each statistic.

    Examples
    --------
    >>> from prereg.inference import WeightPlan, iid, mean, spearman
    >>> x, y = list(range(20)), [(3 * i) % 20 for i in range(20)]
    >>> found = weighted_intervals_many([mean(x), spearman(x, y)], WeightPlan(iid(20), n_replicates=99, seed=1))
    >>> [result.n_replicates for result in found]
    [99, 99]
    """
    levels = tuple(dict.fromkeys(check_level(value) for value in (level, *also_levels)))
    design, chunks, n_replicates = _opened(plan)
    if not statistics:
        raise InferenceError("no statistics were given: there is nothing to resample.")
    tasks = [_Task(statistic, design, n_replicates, levels, methods) for statistic in statistics]
    done = 0
    for weights, drawn in zip(chunks, _copies(plan), strict=False):
        for task in tasks:
            task.take(weights, done, drawn)
        done += weights.shape[0]
    return tuple(task.result() for task in tasks)


def available_methods(statistic: WeightedStatistic, design: Design) -> dict[Method, str | None]:
    """Return, for each interval method, why it is not available, or None where it is.

    Examples
    --------
    >>> from prereg.inference import crossed, mean
    >>> table = crossed(["a", "a", "b", "b"], ["x", "y", "x", "y"])
    >>> available_methods(mean([1.0, 2.0, 3.0, 4.0]), table)["studentized"]
    'a crossed resample repeats cells, whose copies share both their row and their column'
    """
    rough = None if statistic.smooth else "the statistic has no derivative in the weights"
    inside = rough or design.not_studentized
    if inside is None and statistic.influence(np.ones((1, statistic.n_units))) is None:
        inside = "the statistic's influence has no closed form to recompute in each resample"
    refused = {Method.DELTA_T: rough, Method.BCA: rough, Method.STUDENTIZED: inside}
    return {method: refused.get(method) for method in Method}


def _opened(plan: WeightPlan | ResamplingPlan) -> tuple[Design, Iterable[FloatArray], int]:
    if isinstance(plan, WeightPlan):
        return plan.design, plan.weights(), plan.n_replicates
    return iid(plan.n_units), count_blocks(plan), plan.n_replicates


def _copies(plan: WeightPlan | ResamplingPlan) -> Iterable[_Drawn]:
    """Yield, chunk by chunk, the draws of a nested design whose copies must be told apart; else None for ever."""
    if isinstance(plan, WeightPlan) and isinstance(plan.design, Nested) and plan.design.studentized:
        return plan.drawn(plan.design.draw_copies)
    return repeat(None)


def _chosen(statistic: WeightedStatistic, design: Design, names: Sequence[str] | None) -> tuple[Method, ...]:
    refused = available_methods(statistic, design)
    if names is None:
        return tuple(method for method in _DEFAULTS if refused[method] is None)
    if not names or isinstance(names, str):
        raise InferenceError(f"methods is {names!r}; a sequence of method names is wanted.")
    try:
        wanted = tuple(dict.fromkeys(Method(name) for name in names))
    except ValueError as error:
        raise InferenceError(
            f"methods {list(names)} holds an unknown name; known are {[str(m) for m in Method]}."
        ) from error
    for method in wanted:
        if refused[method] is not None:
            raise InferenceError(
                f"there is no {method} interval here: {refused[method]}.",
                remedy=f"Choose among {[str(m) for m, reason in refused.items() if reason is None]}.",
            )
    return wanted


@dataclass(frozen=True, slots=True)
class _Data:
    """What is known of a statistic before any resample."""

    estimate: float
    psi: FloatArray
    without: tuple[FloatArray, ...] | None
    closed: bool


def _measured(statistic: WeightedStatistic, design: Design, methods: tuple[Method, ...]) -> _Data:
    if statistic.n_units != design.n_rows:
        raise InferenceError(
            f"length mismatch: the statistic has {statistic.n_units} cases, the design {design.n_rows} rows."
        )
    estimate = float(statistic.evaluate(np.ones((1, design.n_rows)))[0])
    if not math.isfinite(estimate):
        raise InferenceError(
            f"the statistic is {estimate!r} on the data themselves; a finite number is wanted."
        )
    closed = statistic.influence(np.ones((1, design.n_rows))) is not None
    rough = not statistic.smooth
    without = jackknife(statistic, design) if rough or Method.BCA in methods else None
    if not rough:
        return _Data(estimate, unit_influence(statistic, design), without, closed)
    # Only its shares are used: which unit moves theta most when it is taken away.
    psi = np.zeros(1) if without is None else np.concatenate([v.mean() - v for v in without])
    return _Data(estimate, psi, without, closed)


class _Task:
    """One statistic on its way through the plan."""

    def __init__(
        self,
        statistic: WeightedStatistic,
        design: Design,
        n_replicates: int,
        levels: tuple[float, ...],
        methods: Sequence[str] | None,
    ) -> None:
        self._statistic, self._design, self._levels = statistic, design, levels
        self._methods = _chosen(statistic, design, methods)
        self._data = _measured(statistic, design, self._methods)
        self._values = np.empty(n_replicates)
        studentized = Method.STUDENTIZED in self._methods
        self._errors = np.empty(n_replicates) if studentized else None

    def take(self, weights: FloatArray, done: int, drawn: _Drawn) -> None:
        """Evaluate one chunk of resamples."""
        rows = slice(done, done + weights.shape[0])
        self._values[rows] = self._statistic.evaluate(weights)
        if self._errors is not None:
            scale = max(self._statistic.scale, abs(self._data.estimate))
            self._errors[rows] = (
                copies_standard_errors(self._statistic, self._design, weights, drawn, scale)
                if drawn is not None and isinstance(self._design, Nested)
                else resampled_standard_errors(self._statistic, self._design, weights, scale)
            )

    def result(self) -> ContrastResult:
        """Return the estimate with its intervals."""
        defined = np.isfinite(self._values)
        values = self._values[defined]
        if values.size == 0:
            raise InferenceError("the statistic is undefined in every resample: no interval can be computed.")
        data = self._data
        scale = max(self._statistic.scale, abs(data.estimate), float(np.abs(values).max()))
        squares = data.psi**2
        total = math.fsum(squares.tolist())
        degenerate = float(values.max() - values.min()) <= DEGENERATE * scale or (
            data.closed and float(np.abs(data.psi).max()) * self._design.n_independent <= DEGENERATE * scale
        )
        error = math.sqrt(total) if self._statistic.smooth else float(values.std())
        if not degenerate and not error > 0.0:
            raise InferenceError(
                "the statistic varies over resamples, but doesn't move with the weight of any unit.",
                remedy="Say that it has no derivative: custom_statistic(..., smooth=False).",
            )
        draws = Replicates(
            estimate=data.estimate,
            standard_error=0.0 if degenerate else error,
            values=values,
            standard_errors=None if self._errors is None else self._errors[defined],
            n_undefined=int(self._values.size - values.size),
        )
        return ContrastResult(
            estimate=data.estimate,
            standard_error=draws.standard_error,
            n_units=self._design.n_independent,
            n_rows=self._design.n_rows,
            n_replicates=self._values.size,
            degenerate=degenerate,
            undefined_share=draws.n_undefined / self._values.size,
            largest_influence=float(squares.max()) / total if total > 0.0 else 0.0,
            probability_error=0.0,
            engine=Engine.PLAN,
            intervals=self._point() if degenerate else self._intervals(draws, scale),
        )

    def _point(self) -> tuple[Interval, ...]:
        at = self._data.estimate
        return tuple(Interval(at, at, level, method) for level in self._levels for method in self._methods)

    def _intervals(self, draws: Replicates, scale: float) -> tuple[Interval, ...]:
        theta, n, s = draws.estimate, self._design.n_independent, draws.standard_error
        ordered = np.sort(draws.values)
        pivots = ordered if draws.standard_errors is None else np.sort(pivots_of(draws, scale))
        z0, accel = bias_correction(ordered, theta), acceleration(self._data.without)

        def bounds(method: Method, level: float) -> tuple[float, float]:
            tail = (1.0 - level) / 2.0
            if method is Method.BCA:
                return bca_bounds(ordered, z0, accel, tail)
            if method is Method.DELTA_T:
                half = t_quantile(1.0 - tail, n - 1) * math.sqrt(n / (n - 1)) * s
                return theta - half, theta + half
            if method is Method.EXPANDED_PERCENTILE:
                tail = expanded_tail(level, n)
            source = pivots if method is Method.STUDENTIZED else ordered
            low, high = type7_quantile(source, tail), type7_quantile(source, 1.0 - tail)
            if method is Method.STUDENTIZED:
                return theta - high * s, theta - low * s
            return (2.0 * theta - high, 2.0 * theta - low) if method is Method.BASIC else (low, high)

        return tuple(Interval(*bounds(m, at), at, m) for at in self._levels for m in self._methods)
