"""A study on a model: `study.verdict("H1")` is all that a gate calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from prereg.errors import EvidenceError, StudyError
from prereg.evidence import Evidence, read_provenance
from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    Method,
    Outcome,
    bonferroni_level,
    decide_conjunction,
    headline_intervals_many,
)
from prereg.pipeline import ANALYSES, Pipeline, RunOptions, arms_of
from prereg.protocol import Control, Hypothesis, Protocol, ProtocolFile, digest, read_protocol
from prereg.study.frames import Frame, contrast_table, frame_of
from prereg.study.permutation import permutation_results
from prereg.study.records import ClaimResult, ContrastRecord, PermutationResult, Verdict

__all__ = ["Study"]


@dataclass(frozen=True, slots=True)
class _Memory:
    """What one process has already read and decided; shared by every view of a study."""

    evidence: dict[tuple[str, str], Evidence] = field(default_factory=dict)
    frames: dict[tuple[str, str], Frame] = field(default_factory=dict)
    controls: dict[str, ClaimResult] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Study:
    """One protocol, one model, and the answers.

    Open one with `Study.open`. Answers are deterministic: the same evidence gives the same verdict.
    """

    folder: Path
    protocol_file: ProtocolFile
    pipeline: Pipeline
    _memory: _Memory = field(default_factory=_Memory, repr=False)
    _watcher: Callable[[Verdict], None] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, folder: Path, *, model: str, options: RunOptions) -> Study:
        """Open the study in `folder` for one model.

        Raises
        ------
        ProtocolError
            If protocol.toml is missing or breaks its rules.
        StudyError
            If the protocol names an analysis that nobody provides.
        ModelError
            If the model isn't known.
        """
        protocol_file = read_protocol(folder)
        for analysis in protocol_file.protocol.analyses:
            if analysis not in ANALYSES:
                raise StudyError(
                    f"{protocol_file.path}: [analyses.{analysis}]: no analysis is called that",
                    remedy=f"name one of {', '.join(ANALYSES)}",
                )
        return cls(protocol_file.path.parent, protocol_file, Pipeline(protocol_file, model, options))

    def watched(self, watcher: Callable[[Verdict], None]) -> Study:
        """Return the same study, telling `watcher` of each verdict that is asked for."""
        return replace(self, _watcher=watcher)

    @property
    def protocol(self) -> Protocol:
        """The promise."""
        return self.protocol_file.protocol

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """Ids of the hypotheses, in the protocol's order."""
        return tuple(self.protocol.hypotheses)

    def verdicts(self) -> tuple[Verdict, ...]:
        """Answer every hypothesis."""
        return tuple(self.verdict(name) for name in self.hypotheses)

    def verdict(self, hypothesis: str) -> Verdict:
        """Answer one hypothesis, capturing and measuring first where evidence is missing.

        Parameters
        ----------
        hypothesis
            Its id in the protocol, such as ``"H1"``.

        Raises
        ------
        StudyError
            If the protocol has no such hypothesis.
        PreregError
            Whatever keeps evidence from being measured or read.
        """
        if hypothesis not in self._memory.verdicts:
            self._memory.verdicts[hypothesis] = self._decide(hypothesis)
        verdict = self._memory.verdicts[hypothesis]
        if self._watcher is not None:
            self._watcher(verdict)
        return verdict

    def is_ready(self, hypothesis: str) -> bool:
        """Tell whether the evidence for one hypothesis, its controls included, is there."""
        return all(self.pipeline.present(a, arm) for a, arm in self._needs(hypothesis))

    def prepare(self) -> None:
        """Measure whatever evidence the study still lacks."""
        for name in self.hypotheses:
            for analysis, arm in self._needs(name):
                self.evidence(analysis, arm)

    def header(self) -> list[str]:
        """Return a few lines that say which study, model, registration and sample this is."""
        record = next(
            (
                record
                for analysis in self.protocol.analyses
                for arm in arms_of(self.protocol_file)
                if self.pipeline.present(analysis, arm)
                and (record := read_provenance(self.pipeline.evidence_folder, f"{analysis}.{arm}"))
                is not None
            ),
            None,
        )
        sample = (
            "no evidence yet: it is captured and measured on the way"
            if record is None
            else f"{record.n_prompts} held-out prompts of {record.n_subjects} subjects, "
            f"{record.n_training_prompts} for training"
        )
        return [
            f"study: {self.protocol.study.name} on {self.pipeline.alias} ({self.pipeline.entry.source})",
            f"protocol: {self.protocol_file.digest[:16]}, not registered: no freeze is on record",
            f"sample: {sample}",
        ]

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of the verdict table must know."""
        level = self.protocol.inference.level
        return (
            f"Intervals: {self.protocol.inference.interval.replace('_', ' ')} bootstrap of subjects, level {level:g} "
            f"({1 - 2 * self.protocol.inference.equivalence_alpha:g} for equivalence). A claim with several "
            "contrasts shows its worst one; the bound that could refute it is Bonferroni-corrected.",
            f"Protocol {self.protocol_file.digest[:16]}. Not registered: no freeze is on record, so nothing here "
            "shows that the thresholds came before the data.",
        )

    def evidence(self, analysis: str, arm: str = "model") -> Evidence:
        """Return verified evidence, measuring it first where it is missing; read once in a process."""
        key = (analysis, arm)
        if key not in self._memory.evidence:
            self._memory.evidence[key] = self.pipeline.evidence(analysis, arm)
        return self._memory.evidence[key]

    # -- how an answer is made ------------------------------------------------------------------------

    def _hypothesis(self, name: str) -> Hypothesis:
        try:
            return self.protocol.hypotheses[name]
        except KeyError as error:
            raise StudyError(
                f"{self.protocol_file.path}: there is no hypothesis {name!r}; there are {', '.join(self.hypotheses)}"
            ) from error

    def _needs(self, name: str) -> list[tuple[str, str]]:
        promise = self._hypothesis(name)
        claims = [promise, *(self.protocol.controls[c] for c in promise.controls)]
        return list(dict.fromkeys((claim.evidence, arm) for claim in claims for arm in claim.arms))

    def _frame(self, analysis: str, arm: str) -> Frame:
        key = (analysis, arm)
        if key not in self._memory.frames:
            self._memory.frames[key] = frame_of(self.evidence(*key), f"{analysis} ({arm})")
        return self._memory.frames[key]

    def _decide(self, name: str) -> Verdict:
        promise = self._hypothesis(name)
        if digest(self.protocol) != self.protocol_file.digest:
            raise StudyError(
                f"{self.protocol_file.path}: the promise was changed in memory since it was read"
            )
        result = self._claim(name, promise)
        controls = tuple(self._control(control) for control in promise.controls)
        permutations = self._permutations(promise)
        broken = [
            f"{analysis} ({arm}): {check.name}: {check.detail}"
            for analysis, arm in self._needs(name)
            for check in self.evidence(analysis, arm).checks
            if not check.passed
        ]
        outcome, reason = _join(result, controls, permutations, broken)
        tables: dict[str, str] = {}
        for analysis, arm in self._needs(name):
            record = self.evidence(analysis, arm).provenance
            if record is not None:
                tables.update(record.tables)
        return Verdict(
            study=self.protocol.study.name,
            hypothesis=name,
            model=self.pipeline.alias,
            outcome=outcome,
            reason=reason,
            promise=promise,
            result=result,
            controls=controls,
            permutations=permutations,
            published=self.protocol.published.get(name),
            level=self._level(promise),
            n_units=min(c.n_units for c in result.contrasts),
            n_rows=min(c.n_rows for c in result.contrasts),
            protocol_digest=self.protocol_file.digest,
            evidence=tables,
        )

    def _level(self, claim: Hypothesis | Control) -> float:
        spec = self.protocol.inference
        return 1.0 - 2.0 * spec.equivalence_alpha if claim.direction == "equivalence" else spec.level

    def _control(self, name: str) -> ClaimResult:
        if name not in self._memory.controls:
            self._memory.controls[name] = self._claim(name, self.protocol.controls[name])
        return self._memory.controls[name]

    def _claim(self, name: str, claim: Hypothesis | Control) -> ClaimResult:
        spec, level = self.protocol.inference, self._level(claim)
        frames = {arm: self._frame(claim.evidence, arm) for arm in claim.arms}
        sets = self._update_sets(claim.evidence)
        updates = [sets[contrast.updates] for contrast in claim.contrasts]
        requests = [
            contrast_table(contrast, frames, at)
            for contrast, at in zip(claim.contrasts, updates, strict=True)
        ]
        plan = BootstrapPlan(requests[0][0].n_units, spec.replicates, spec.seed)
        refuting = bonferroni_level(level, len(requests))
        groups = headline_intervals_many(
            requests,
            plan,
            level,
            also_levels=(refuting,),
            methods=(spec.interval, *spec.sensitivity),
            studentized_replicates=spec.studentized_replicates,
        )
        results = [group[0] for group in groups]
        decision = decide_conjunction(
            results,
            claim.threshold,
            claim.direction,
            level,
            method=spec.interval,
            min_units=spec.minimum_units,
            constant_is_proof=isinstance(claim, Control),
        )
        labels = [contrast.label for contrast in claim.contrasts]
        return ClaimResult(
            name=name,
            outcome=decision.outcome,
            estimate=decision.estimate,
            low=decision.low,
            high=decision.high,
            binds=labels[decision.binding],
            reason=decision.reason,
            contrasts=tuple(
                _record(label, at, result, level, spec.interval)
                for label, at, result in zip(labels, updates, results, strict=True)
            ),
        )

    def _update_sets(self, analysis: str) -> dict[str, tuple[int, ...]]:
        """Return the protocol's sets for the depth that was measured: from the promise, not from the record."""
        record = self.evidence(analysis).provenance
        deepest = self._frame(analysis, "model").updates[-1]
        if record is None or record.n_layers != deepest + 1:
            raise EvidenceError(f"{analysis}: the deepest update measured is {deepest}, not the model's last")
        return self.protocol.resolve_updates(record.n_layers)

    def _permutations(self, promise: Hypothesis) -> tuple[PermutationResult, ...]:
        if promise.permutation is None:
            return ()
        evidence = self.evidence(promise.evidence, "model")
        frame = self._frame(promise.evidence, "model")
        return permutation_results(promise.permutation, evidence, frame, self._update_sets(promise.evidence))


def _record(
    label: str, updates: Sequence[int], result: ContrastResult, level: float, method: str
) -> ContrastRecord:
    at: Mapping[Method, object] = result.at(level)
    chosen = result.interval(method, level)
    return ContrastRecord(
        label=label,
        updates=tuple(updates),
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


def _join(
    result: ClaimResult,
    controls: Sequence[ClaimResult],
    permutations: Sequence[PermutationResult],
    broken: Sequence[str],
) -> tuple[Outcome, str]:
    """Let whatever speaks against trusting the interval speak before it."""
    if broken:
        return Outcome.INVALID, f"a check of the analysis failed: {broken[0]}"
    for control in controls:
        if control.outcome is not Outcome.SUPPORTED:
            return Outcome.INVALID, f"control {control.name} does not hold: {control.reason}"
    reason = f"{result.reason} ({result.binds})" if len(result.contrasts) > 1 else result.reason
    if result.outcome is Outcome.SUPPORTED:
        for test in permutations:
            if not test.passed:
                return (
                    Outcome.INCONCLUSIVE,
                    f"{reason}; but the refitted permutation over {test.updates} gives p = {test.p:.4g}",
                )
    return result.outcome, reason
