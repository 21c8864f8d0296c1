"""One simulated data set, answered by the gate's own methods and rule under each of its truths.

Moving a world's truth by c moves theta, every replicate and every bound of every interval by c, and changes nothing
else (`prereg.calibration.populations`). So replicates are drawn once for each data set, and decided once for each
truth. `by_settling` does without: it moves the data and asks `prereg.study.settling.settle`, as a verdict does. The
first data set of each trial is answered both ways, and a difference is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prereg.calibration.bracketing import ideal_result
from prereg.calibration.cases import Case
from prereg.calibration.crossing import Rows
from prereg.calibration.gates import Gate
from prereg.calibration.populations import Tables
from prereg.calibration.searches import SomeCandidate
from prereg.calibration.sums import Matrix, moving
from prereg.errors import StudyError
from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    Design,
    Interval,
    Outcome,
    RatioTable,
    WeightPlan,
    blocks,
    bonferroni_level,
    decide_conjunction,
    intervals_many,
    mean_of_ratios,
    weighted_intervals_many,
)
from prereg.study.frames import Frame, Question
from prereg.study.settling import settle

__all__ = ["Answer", "Data", "answer", "by_settling", "check"]

Data = Tables | Rows
"""A sample: sums per unit, or rows where units are crossed or nested."""

Answer = tuple[list[Outcome], list[bool]]
"""The outcome under each truth; and whether each contrast's interval holds the world's own."""


def answer(gate: Gate, data: Data, truth: Sequence[float], cases: Sequence[Case]) -> Answer:
    """Decide one data set under each truth.

    Parameters
    ----------
    gate
        Its rule.
    data
        The sample.
    truth
        theta of each contrast in the world that it was drawn from.
    cases
        The truths to move it to.

    Raises
    ------
    InferenceError
        If the sample gives no interval, as where a factor has one level.
    """
    if gate.quantifier == "some" and not isinstance(data, Rows):
        search = SomeCandidate(gate, data, BootstrapPlan(data[0][0].n_units, gate.replicates, gate.seed))
        moved = [[v - at for v, at in zip(case.values, truth, strict=True)] for case in cases]
        return [search.outcome(by) for by in moved], search.covers(truth)
    if isinstance(data, Rows) or gate.block_length is not None:
        results = _of_weights(gate, data)
    else:
        results = _of_tables(gate, data, truth, cases)
    intervals = [result.interval(gate.interval, gate.level) for result in results]
    covered = [at.low <= true <= at.high for at, true in zip(intervals, truth, strict=True)]
    # Truths share most of their values, so each contrast is moved once to each.
    there = {
        (c, case.values[c]): _moved(results[c], case.values[c] - truth[c])
        for case in cases
        for c in range(len(truth))
    }
    return [_decide(gate, [there[at] for at in enumerate(case.values)]) for case in cases], covered


def _of_tables(
    gate: Gate, tables: Tables, truth: Sequence[float], cases: Sequence[Case]
) -> list[ContrastResult]:
    """Compute the intervals that a verdict has: ideal ones no further than the truths need, else the plan's."""
    refuting = bonferroni_level(gate.level, len(tables))
    found: dict[int, ContrastResult] = {}
    if gate.interval in ("percentile", "expanded_percentile"):
        for c, pair in enumerate(tables):
            ideal = ideal_result(*pair, gate.interval, (gate.level, refuting), _points(gate, c, truth, cases))
            if ideal is not None:
                found[c] = ideal
    rest = [c for c in range(len(tables)) if c not in found]
    if rest:
        groups = intervals_many(
            [tables[c] for c in rest],
            BootstrapPlan(tables[0][0].n_units, gate.replicates, gate.seed),
            gate.level,
            also_levels=(refuting,),
            methods=(gate.interval,),
            studentized_replicates=gate.studentized_replicates,
        )
        found.update({c: group[0] for c, group in zip(rest, groups, strict=True)})
    return [found[c] for c in range(len(tables))]


def _points(gate: Gate, which: int, truth: Sequence[float], cases: Sequence[Case]) -> list[float]:
    """Return what a contrast's bounds are compared with, before they are moved: thresholds, and the true value."""
    limits = (gate.threshold, -gate.threshold) if gate.direction == "equivalence" else (gate.threshold,)
    moved = [limit - (case.values[which] - truth[which]) for case in cases for limit in limits]
    # Thresholds that differ by rounding are one point.
    return [truth[which], *(x for x in moved if abs(x - truth[which]) > 1e-13 * max(1.0, abs(x)))]


def _of_weights(gate: Gate, data: Data) -> list[ContrastResult]:
    """Compute the intervals of cases that are crossed, nested, or neighbours."""
    design: Design
    if isinstance(data, Rows):
        design = data.design(gate.design)
        parts = data.parts
    else:
        # Never None here: for the type checker.
        design = blocks(range(data[0][0].n_units), gate.block_length or 1.0)
        parts = tuple((table.numerator, table.denominator, weights) for table, weights in data)
    plan = WeightPlan(design, n_replicates=gate.replicates, seed=gate.seed)
    statistics = [mean_of_ratios(*part) for part in parts]
    also = (bonferroni_level(gate.level, len(statistics)),)
    return list(
        weighted_intervals_many(statistics, plan, gate.level, also_levels=also, methods=(gate.interval,))
    )


def _decide(gate: Gate, results: Sequence[ContrastResult]) -> Outcome:
    decision = decide_conjunction(
        results,
        gate.threshold,
        gate.direction,
        gate.level,
        method=gate.interval,
        min_units=gate.minimum_units,
    )
    return decision.outcome


def _moved(result: ContrastResult, by: float) -> ContrastResult:
    return replace(
        result,
        estimate=result.estimate + by,
        intervals=tuple(Interval(i.low + by, i.high + by, i.level, i.method) for i in result.intervals),
    )


def check(
    gate: Gate, data: Data, truth: Sequence[float], cases: Sequence[Case], outcomes: Sequence[Outcome]
) -> None:
    """Compare outcomes with those of the verdict's own way.

    Raises
    ------
    StudyError
        If they differ.
    """
    if gate.promise is None:
        return
    for case, found in zip(cases, outcomes, strict=True):
        wanted = by_settling(gate, data, [v - at for v, at in zip(case.values, truth, strict=True)])
        if wanted is not found:
            raise StudyError(
                f"{gate.name}, {case.name}: the simulation answers {found.value}, a verdict would be {wanted.value}",
                remedy="report this: the simulated gate is not the registered one",
            )


def by_settling(gate: Gate, data: Data, moved: Sequence[float]) -> Outcome:
    """Return what `settle` answers on data in which each contrast's theta is moved by so much.

    Raises
    ------
    StudyError
        If the gate was made up, without a promise.
    """
    if gate.promise is None:
        raise StudyError(f"{gate.name}: a gate that was made up has no verdict")
    claim, spec = gate.promise
    # The other intervals stand beside a verdict, and decide nothing.
    spec = spec.model_copy(update={"sensitivity": (), "replicates": gate.replicates})
    asked, frame = _questions(gate, data, moved)
    return settle(gate.name, claim, asked, frame, spec, gate.level).outcome


def _questions(gate: Gate, data: Data, moved: Sequence[float]) -> tuple[list[Question], Frame]:
    if isinstance(data, Rows):
        parts, subjects, groups = data.parts, data.subjects, data.groups
    else:
        parts = tuple((table.numerator, table.denominator, weights) for table, weights in data)
        subjects = groups = data[0][0].units
    asked = []
    for label, (top, bottom, weights), by in zip(gate.labels, parts, moved, strict=True):
        rows: tuple[Matrix, Matrix] = (top + by * moving(weights) * bottom, bottom)
        asked.append(Question(label, (0,), RatioTable.from_rows(subjects, *rows), weights, rows))
    names = tuple(f"p{i:07d}" for i in range(len(subjects)))
    return asked, Frame("simulated", names, subjects, groups, groups, (0,), {})
