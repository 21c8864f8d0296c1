"""Studentized intervals of nested designs: standard errors that tell the copies of an outer unit apart."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.errors import InferenceError
from prereg.inference import (
    WeightPlan,
    available_methods,
    clusters,
    mean,
    nested,
    ratio_of_sums,
    spearman,
    weighted_intervals,
)
from prereg.inference.jackknife import copies_standard_errors, resampled_standard_errors, unit_influence

# Four outer units with 1 to 4 inner ones, each of one to three cases; not sorted.
SIZES = {"a": [2, 1], "b": [3], "c": [1, 1, 2, 1], "d": [2, 2, 1]}
ROWS = [(o, f"{o}{i}") for o, cases in SIZES.items() for i, k in enumerate(cases) for _ in range(k)][::-1]
OUTER, INNER = [o for o, _ in ROWS], [i for _, i in ROWS]
RNG = np.random.default_rng(5)
TOP, BOTTOM = RNG.normal(0.3, 1.0, len(ROWS)), RNG.uniform(0.5, 2.0, len(ROWS))


def test_the_error_inside_a_resample_is_that_of_the_resample_taken_as_data() -> None:
    """Each resample written out case by case, its copies renamed, has the clustered error of a fresh sample."""
    design = nested(OUTER, INNER, studentized=True)
    plan = WeightPlan(design, 40, 3)
    theta = ratio_of_sums(TOP, BOTTOM)
    found, wanted = [], []
    for weights, drawn in zip(plan.weights(), plan.drawn(design.draw_copies), strict=True):
        found += copies_standard_errors(theta, design, weights, drawn, theta.scale).tolist()
        for inner, copy in drawn:
            cases = [
                (case, c)
                for i, c in zip(inner, copy, strict=True)
                for case in np.flatnonzero(design.inner_codes == i)
            ]
            rows = [case for case, _ in cases]
            labels = [f"copy {c}" for _, c in cases]
            psi = unit_influence(ratio_of_sums(TOP[rows], BOTTOM[rows]), clusters(labels))
            wanted.append(np.sqrt((psi**2).sum()))
    assert found == pytest.approx(wanted, rel=1e-10, abs=1e-13)


def test_one_inner_unit_in_each_outer_one_is_the_clusters_formula() -> None:
    """Nothing is left to tell apart."""
    design = nested(OUTER, OUTER, studentized=True)
    plan = WeightPlan(design, 30, 3)
    theta = mean(TOP)
    for weights, drawn in zip(plan.weights(), plan.drawn(design.draw_copies), strict=True):
        mine = copies_standard_errors(theta, design, weights, drawn, theta.scale)
        assert mine == pytest.approx(resampled_standard_errors(theta, clusters(OUTER), weights, theta.scale))


def test_it_is_there_only_where_it_was_asked_for_and_changes_no_draw() -> None:
    """The same weights and the same other intervals, with and without; a rank statistic still has none."""
    plain, asked = nested(OUTER, INNER), nested(OUTER, INNER, studentized=True)
    for one, other in zip(
        WeightPlan(plain, 70, 1).weights(), WeightPlan(asked, 70, 1).weights(), strict=True
    ):
        assert one.tobytes() == other.tobytes()
    methods = ("expanded_percentile", "delta_t")
    before, after = (weighted_intervals(mean(TOP), WeightPlan(d, 199, 1)) for d in (plain, asked))
    assert [before.interval(m, 0.95) for m in methods] == [after.interval(m, 0.95) for m in methods]
    assert after.interval("studentized", 0.95).low < after.estimate < after.interval("studentized", 0.95).high
    with pytest.raises(InferenceError, match="no studentized interval"):
        before.interval("studentized", 0.95)
    assert available_methods(spearman(TOP, BOTTOM), asked)["studentized"] is not None


def test_it_is_as_wide_as_the_clusters_interval_where_the_percentile_one_is_wider() -> None:
    """Twenty outer units that hardly differ: the second stage widens percentiles by about the square root of two."""
    outer = [f"o{i // 4:02d}" for i in range(80)]
    inner = [f"i{i % 4}" for i in range(80)]
    theta = mean(np.random.default_rng(2).normal(size=80))
    width = {}
    for name, design in (("nested", nested(outer, inner, studentized=True)), ("clusters", clusters(outer))):
        found = weighted_intervals(theta, WeightPlan(design, 1999, 1), methods=["studentized", "percentile"])
        width |= {(name, str(i.method)): i.high - i.low for i in found.intervals}
    assert width["nested", "studentized"] == pytest.approx(width["clusters", "studentized"], rel=0.08)
    assert width["nested", "percentile"] > 1.2 * width["clusters", "percentile"]
