"""One claim: its contrasts' intervals by the registered methods and units, and what they say about the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    Design,
    Method,
    RatioTable,
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
from prereg.study.frames import Frame, Matrix, Question
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
    case = _Case(name, claim, tuple(asked), frame, spec, level)
    results = _intervals(case)
    records = tuple(
        _record(question, result, level, spec.interval)
        for question, result in zip(asked, results, strict=True)
    )
    if case.is_search:
        return _some(case, results, records)
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
        cautions=_cautions(case, results),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """What there is to settle: the arguments of `settle`."""

    name: str
    claim: Hypothesis | Control
    asked: tuple[Question, ...]
    frame: Frame
    spec: Inference
    level: float

    @property
    def is_search(self) -> bool:
        return self.claim.quantifier == "some"

    @property
    def plan(self) -> BootstrapPlan:
        return BootstrapPlan(self.asked[0].table.n_units, self.spec.replicates, self.spec.seed)

    @property
    def tables(self) -> list[tuple[RatioTable, Matrix]]:
        return [(question.table, question.weights) for question in self.asked]

    @property
    def design(self) -> Design | None:
        """How dependent cases are drawn; None where every unit is independent of the others."""
        if self.claim.block_length is not None:
            n = self.asked[0].table.n_units
            # In a model too shallow for two such blocks, two shorter ones are too few units to decide anything.
            return blocks(range(n), min(self.claim.block_length, n / 2))
        if self.claim.unit is not None or self.spec.unit == "subject":
            return None
        if self.spec.unit == "subject_by_template":
            return crossed(self.frame.subjects, self.frame.templates)
        return nested(self.frame.relations, self.frame.subjects)


def _intervals(case: _Case) -> list[ContrastResult]:
    """Return each contrast's intervals by the registered methods, units resampled as registered."""
    spec, level, design = case.spec, case.level, case.design
    methods = (spec.interval, *spec.sensitivity)
    also = () if case.is_search else (bonferroni_level(level, len(case.asked)),)
    if design is not None:
        statistics = [mean_of_ratios(*question.rows, question.weights) for question in case.asked]
        drawn = WeightPlan(design, n_replicates=spec.replicates, seed=spec.seed)
        # A registration lists methods for all claims; of blocks there is no studentized one.
        refused = available_methods(statistics[0], design)
        there = [method for method in methods if refused[Method(method)] is None]
        return list(weighted_intervals_many(statistics, drawn, level, also_levels=also, methods=there))
    # A search is decided on one plan for all its candidates, and their own intervals come from it too.
    compute = intervals_many if case.is_search else headline_intervals_many
    groups = compute(
        case.tables,
        case.plan,
        level,
        also_levels=also,
        methods=methods,
        studentized_replicates=spec.studentized_replicates,
    )
    return [group[0] for group in groups]


def _some(case: _Case, results: Sequence[ContrastResult], records: tuple[ContrastRecord, ...]) -> ClaimResult:
    """Decide a claim that one contrast is enough for, the search over them corrected for."""
    claim, spec = case.claim, case.spec
    decision = decide_some(
        case.tables,
        case.plan,
        claim.threshold,
        claim.direction,
        case.level,
        min_units=spec.minimum_units,
        constant_is_proof=isinstance(claim, Control),
    )
    best = results[decision.best]
    return ClaimResult(
        name=case.name,
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
        cautions=cautions(best, claim.threshold, claim.direction, case.level, method=spec.interval),
    )


def _cautions(case: _Case, results: Sequence[ContrastResult]) -> tuple[str, ...]:
    """Say of each contrast why to be careful with it; in front stands which one, where there are several."""
    claim, method = case.claim, case.spec.interval
    return tuple(
        f"{question.label}: {line}" if len(case.asked) > 1 else line
        for question, result in zip(case.asked, results, strict=True)
        for line in cautions(result, claim.threshold, claim.direction, case.level, method=method)
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
