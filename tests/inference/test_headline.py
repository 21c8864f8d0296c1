"""The intervals a gate reports."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.inference import (
    BootstrapPlan,
    Engine,
    Outcome,
    RatioTable,
    bonferroni_level,
    decide_conjunction,
    headline_intervals,
    ideal_intervals,
    intervals,
)
from prereg.inference import headline as module

from ._support import labels, one_ratio, random_ratio

PLAN = BootstrapPlan(40, 500, 2)


def test_one_ratio_takes_the_ideal_and_keeps_its_companions() -> None:
    """The expanded percentile is the ideal one; studentized and delta-t are the plan's."""
    table = random_ratio(40)
    found = headline_intervals(table, [1.0], PLAN, also_levels=[0.99])[0]
    planned = intervals(table, [1.0], PLAN, also_levels=[0.99])[0]
    ideal = ideal_intervals(table, [1.0], also_levels=[0.99])[0]
    assert found.engine is Engine.IDEAL
    assert found.n_replicates == 500
    for level in (0.95, 0.99):
        assert found.interval("expanded_percentile", level) == ideal.interval("expanded_percentile", level)
        for method in ("studentized", "delta_t"):
            assert found.interval(method, level) == planned.interval(method, level)


def test_several_denominators_take_the_plan() -> None:
    """Beside a contrast with a closed form, one without keeps the plan's numbers."""
    rng = np.random.default_rng(0)
    table = RatioTable.from_rows(labels(40), rng.normal(0, 1, (40, 2)), rng.exponential(1, (40, 2)))
    weights = [[1.0, 0.0], [0.5, 0.5]]
    alone, mean = headline_intervals(table, weights, PLAN)
    assert (alone.engine, mean.engine) == (Engine.IDEAL, Engine.PLAN)
    assert (
        mean
        == intervals(table, weights[1], PLAN, methods=["expanded_percentile", "studentized", "delta_t"])[0]
    )


def test_an_unresolved_ideal_leaves_the_plan_standing(monkeypatch) -> None:
    """Where the ideal distribution is not known well enough, the plan's interval is not replaced."""
    table = random_ratio(40)
    planned = intervals(table, [1.0], PLAN, methods=["expanded_percentile"])[0]

    def vague(*args, **options):
        result = ideal_intervals(*args, **options)[0]
        return (module.replace(result, probability_error=0.01),)

    monkeypatch.setattr(module, "ideal_intervals", vague)
    found = headline_intervals(table, [1.0], PLAN, methods=["expanded_percentile"])[0]
    assert found == planned


def test_degenerate_data_stay_flagged() -> None:
    """No engine turns constant data into an answer."""
    table = one_ratio(np.full(40, 0.5), np.ones(40))
    found = headline_intervals(table, [1.0], PLAN)
    assert found[0].degenerate
    assert decide_conjunction(found, 0.0, "greater").outcome is Outcome.INVALID


@pytest.mark.parametrize(("threshold", "outcome"), [(0.1, "supported"), (0.35, "refuted")])
def test_a_claim_about_every_null_goes_from_rows_to_a_verdict(threshold, outcome) -> None:
    """Two prompts per subject, three nulls that are 0.3 worse: the whole road in one call each."""
    rng = np.random.default_rng(1)
    subjects = [f"s{i // 2:02d}" for i in range(80)]
    sst = rng.exponential(1.0, 80)
    sse = np.column_stack([0.3 * sst, *(0.6 * sst for _ in range(3))])
    sse *= rng.uniform(0.95, 1.05, sse.shape)
    table = RatioTable.from_rows(subjects, sse, np.repeat(sst[:, None], 4, axis=1))
    beats = np.column_stack([-np.ones(3), np.eye(3)])
    results = headline_intervals(table, beats, PLAN, 0.95, also_levels=[bonferroni_level(0.95, 3)])
    found = decide_conjunction(results, threshold, "greater")
    assert found.outcome == outcome
    assert found.n_contrasts == 3
