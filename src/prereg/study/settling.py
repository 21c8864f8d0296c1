"""One claim: its contrasts' intervals by the registered methods and units, and what they say about the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    Design,
    Method,
    WeightPlan,
    available_methods,
    blocks,
    bonferroni_level,
    cautions,
    crossed,
    decide_conjunction,
    decide_some,
    headline_intervals_many,
    intervals_many,
    mean_of_ratios,
    nested,
    weighted_intervals_many,
)
from prereg.protocol import Control, Hypothesis, Inference
from prereg.study.frames import Frame, Question
from prereg.study.records import ClaimResult, ContrastRecord, Search

__all__ = ["settle"]


def settle(
    name: str,
    claim: Hypothesis | Control,
    asked: Sequence[Question],
    frame: Frame,
    spec: Inference,
    level: float,
) -> ClaimResult:
    """Compute a claim's intervals and compare them with its threshold.

    Parameters
    ----------
    name, claim
        Its id, and what it promises.
    asked
        Its contrasts; all of one set of prompts, or all of updates.
    frame
        The prompts, with who and what they are about.
    spec
        The registered methods, unit and seed.
    level
        Two-sided level of the interval that decides.

    Returns
    -------
    ClaimResult
        By `decide_conjunction`, or by `decide_some` where one contrast is enough.
    """
    plan = BootstrapPlan(asked[0].table.n_units, spec.replicates, spec.seed)
    some = claim.quantifier == "some"
    also = () if some else (bonferroni_level(level, len(asked)),)
    results = _intervals(claim, asked, frame, spec, plan, level, also)
    records = tuple(
        _record(question, result, level, spec.interval)
        for question, result in zip(asked, results, strict=True)
    )
    if some:
        return _some(name, claim, asked, spec, plan, level, results, records)
    decision = decide_conjunction(
        results,
        claim.threshold,
        claim.direction,
        level,
        method=spec.interval,
        min_units=spec.minimum_units,
        constant_is_proof=isinstance(claim, Control),
    )
    return ClaimResult(
        name=name,
        outcome=decision.outcome,
        estimate=decision.estimate,
        low=decision.low,
        high=decision.high,
        binds=records[decision.binding].label,
        reason=decision.reason,
        contrasts=records,
        cautions=_cautions(claim, asked, results, level, spec.interval),
    )


def _intervals(
    claim: Hypothesis | Control,
    asked: Sequence[Question],
    frame: Frame,
    spec: Inference,
    plan: BootstrapPlan,
    level: float,
    also: Sequence[float],
) -> list[ContrastResult]:
    """Return each contrast's intervals by the registered methods, units resampled as registered."""
    methods = (spec.interval, *spec.sensitivity)
    design = _design(claim, asked, frame, spec)
    if design is not None:
        statistics = [mean_of_ratios(*question.rows, question.weights) for question in asked]
        drawn = WeightPlan(design, n_replicates=spec.replicates, seed=spec.seed)
        # A registration lists methods for all claims; of blocks there is no studentized one.
        refused = available_methods(statistics[0], design)
        there = [method for method in methods if refused[Method(method)] is None]
        return list(weighted_intervals_many(statistics, drawn, level, also_levels=also, methods=there))
    # A search is decided on one plan for all its candidates, and their own intervals come from it too.
    compute = intervals_many if claim.quantifier == "some" else headline_intervals_many
    groups = compute(
        [(question.table, question.weights) for question in asked],
        plan,
        level,
        also_levels=also,
        methods=methods,
        studentized_replicates=spec.studentized_replicates,
    )
    return [group[0] for group in groups]


def _design(
    claim: Hypothesis | Control, asked: Sequence[Question], frame: Frame, spec: Inference
) -> Design | None:
    """Return how dependent cases are drawn; None where every unit is independent of the others."""
    if claim.block_length is not None:
        return blocks(range(asked[0].table.n_units), claim.block_length)
    if claim.unit is not None or spec.unit == "subject":
        return None
    if spec.unit == "subject_by_template":
        return crossed(frame.subjects, frame.templates)
    return nested(frame.relations, frame.subjects)


def _some(
    name: str,
    claim: Hypothesis | Control,
    asked: Sequence[Question],
    spec: Inference,
    plan: BootstrapPlan,
    level: float,
    results: Sequence[ContrastResult],
    records: tuple[ContrastRecord, ...],
) -> ClaimResult:
    """Decide a claim that one contrast is enough for, the search over them corrected for."""
    decision = decide_some(
        [(question.table, question.weights) for question in asked],
        plan,
        claim.threshold,
        claim.direction,
        level,
        min_units=spec.minimum_units,
        constant_is_proof=isinstance(claim, Control),
    )
    best = results[decision.best]
    return ClaimResult(
        name=name,
        outcome=decision.outcome,
        estimate=decision.estimate,
        low=decision.low,
        high=decision.high,
        binds=records[decision.best].label,
        reason=decision.reason,
        contrasts=records,
        search=Search(
            decision.adjusted_p,
            decision.equivalence_bound,
            decision.mde,
            decision.mde_largest,
            decision.critical,
        ),
        cautions=cautions(best, claim.threshold, claim.direction, level, method=spec.interval),
    )


def _cautions(
    claim: Hypothesis | Control,
    asked: Sequence[Question],
    results: Sequence[ContrastResult],
    level: float,
    method: str,
) -> tuple[str, ...]:
    """Say of each contrast why to be careful with it; in front stands which one, where there are several."""
    return tuple(
        f"{question.label}: {line}" if len(asked) > 1 else line
        for question, result in zip(asked, results, strict=True)
        for line in cautions(result, claim.threshold, claim.direction, level, method=method)
    )


def _record(question: Question, result: ContrastResult, level: float, method: str) -> ContrastRecord:
    at: Mapping[Method, object] = result.at(level)
    chosen = result.interval(method, level)
    return ContrastRecord(
        label=question.label,
        updates=question.updates,
        estimate=result.estimate,
        low=chosen.low,
        high=chosen.high,
        se=result.standard_error,
        sensitivity={
            str(m): (result.interval(m, level).low, result.interval(m, level).high) for m in at if m != method
        },
        influence=result.largest_influence,
        degenerate=result.degenerate,
        n_units=result.n_units,
        n_rows=result.n_rows,
    )
