"""The intervals a gate reports: ideal where there is a closed form, the plan's for the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prereg.inference.ideal import has_ideal, ideal_intervals
from prereg.inference.intervals import intervals_many
from prereg.inference.ratios import contrast_weights
from prereg.inference.records import ContrastResult, Engine, Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from prereg.inference.plan import ResamplingPlan
    from prereg.inference.ratios import RatioTable

__all__ = ["headline_intervals", "headline_intervals_many"]

_COMPANIONS = (Method.EXPANDED_PERCENTILE, Method.STUDENTIZED, Method.DELTA_T)


def headline_intervals(
    table: RatioTable,
    weights: npt.ArrayLike,
    plan: ResamplingPlan,
    level: float = 0.95,
    *,
    also_levels: Sequence[float] = (),
    methods: Sequence[str] = _COMPANIONS,
    studentized_replicates: int | None = None,
) -> tuple[ContrastResult, ...]:
    """Compute each contrast's headline interval and its companions.

    Where a contrast is one ratio of sums, its percentile and expanded percentile intervals are those of
    the ideal bootstrap: no seed, no Monte Carlo noise. Its other methods, and every method of the other
    contrasts, come from the plan. Where the ideal distribution can't be computed to 1e-3 (a handful of
    units, none of them alike) the plan's interval stands. Which it was is in `engine`; the rule looks at
    the data's shape and never at the bounds.

    Parameters
    ----------
    table, weights, plan, level, also_levels, methods, studentized_replicates
        As for `intervals`; the default methods are the frozen expanded percentile and the two that are
        always reported beside it, studentized and delta-t.

    Returns
    -------
    tuple of ContrastResult
        In the order of the rows of `weights`.

    Raises
    ------
    InferenceError
        As `intervals`.
    """
    return headline_intervals_many(
        [(table, weights)],
        plan,
        level,
        also_levels=also_levels,
        methods=methods,
        studentized_replicates=studentized_replicates,
    )[0]


def headline_intervals_many(
    requests: Sequence[tuple[RatioTable, npt.ArrayLike]],
    plan: ResamplingPlan,
    level: float = 0.95,
    *,
    also_levels: Sequence[float] = (),
    methods: Sequence[str] = _COMPANIONS,
    studentized_replicates: int | None = None,
) -> tuple[tuple[ContrastResult, ...], ...]:
    """Do the same for several tables on one shared plan, drawing it once.

    Parameters
    ----------
    requests
        Pairs (table, weights), all tables with the plan's number of units.
    plan, level, also_levels, methods, studentized_replicates
        As for `headline_intervals`.

    Returns
    -------
    tuple of tuples of ContrastResult
        One tuple per request.
    """
    checked = [(table, contrast_weights(weights, table.n_ratios)) for table, weights in requests]
    planned = intervals_many(
        checked,
        plan,
        level,
        also_levels=also_levels,
        methods=methods,
        studentized_replicates=studentized_replicates,
    )
    return tuple(
        tuple(
            _with_ideal(result, ideal_intervals(table, row, level, also_levels=also_levels)[0])
            if has_ideal(table, row)
            else result
            for result, row in zip(results, rows, strict=True)
        )
        for (table, rows), results in zip(checked, planned, strict=True)
    )


def _with_ideal(planned: ContrastResult, ideal: ContrastResult) -> ContrastResult:
    if planned.degenerate or ideal.degenerate or ideal.probability_error > 1e-3:
        return replace(planned, degenerate=planned.degenerate or ideal.degenerate)
    exact = {(i.method, i.level): i for i in ideal.intervals}
    return replace(
        planned,
        engine=Engine.IDEAL,
        probability_error=ideal.probability_error,
        undefined_share=max(planned.undefined_share, ideal.undefined_share),
        intervals=tuple(exact.get((i.method, i.level), i) for i in planned.intervals),
    )
