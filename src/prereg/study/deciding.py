"""One promise, its evidence, and the answers that follow from these two alone; registration is not asked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from prereg.errors import StudyError
from prereg.evidence import Evidence
from prereg.inference import (
    Outcome,
    look_level,
)
from prereg.pipeline import Pipeline
from prereg.protocol import Control, Hypothesis, Protocol, ProtocolFile, digest
from prereg.study.frames import Frame, depth_of, frame_of, questions
from prereg.study.permutation import permutation_results
from prereg.study.records import ClaimResult, PermutationResult, Verdict, unit_of
from prereg.study.settling import settle

__all__ = ["Answers"]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What one protocol's evidence on one model says; what was read and decided is remembered.

    Parameters
    ----------
    protocol_file
        The promise.
    pipeline
        Where its evidence comes from.
    """

    protocol_file: ProtocolFile
    pipeline: Pipeline
    _evidence: dict[tuple[str, str], Evidence] = field(default_factory=dict, repr=False)
    _frames: dict[tuple[str, str], Frame] = field(default_factory=dict, repr=False)
    _controls: dict[tuple[str, float], ClaimResult] = field(default_factory=dict, repr=False)

    @property
    def protocol(self) -> Protocol:
        """The promise."""
        return self.protocol_file.protocol

    def needs(self, name: str) -> list[tuple[str, str]]:
        """Return the analyses and arms that a hypothesis and its controls rest on.

        Raises
        ------
        StudyError
            If the protocol has no such hypothesis.
        """
        promise = self.hypothesis(name)
        claims = [promise, *(self.protocol.controls[c] for c in promise.controls)]
        return list(dict.fromkeys((claim.evidence, arm) for claim in claims for arm in claim.arms))

    def hypothesis(self, name: str) -> Hypothesis:
        """Return what one hypothesis promises."""
        try:
            return self.protocol.hypotheses[name]
        except KeyError as error:
            raise StudyError(
                f"{self.protocol_file.path}: there is no hypothesis {name!r}; there are "
                f"{', '.join(self.protocol.hypotheses)}"
            ) from error

    def evidence(self, analysis: str, arm: str = "model") -> Evidence:
        """Return verified evidence, measuring it first where it is missing; read once in a process."""
        key = (analysis, arm)
        if key not in self._evidence:
            self._evidence[key] = self.pipeline.evidence(analysis, arm)
        return self._evidence[key]

    def tables(self, name: str) -> dict[str, str]:
        """Return each table that a hypothesis rests on, with the blake3 of its bytes."""
        found: dict[str, str] = {}
        for analysis, arm in self.needs(name):
            record = self.evidence(analysis, arm).provenance
            if record is not None:
                found.update(record.tables)
        return found

    def alpha(self, name: str, look: int = 1) -> float:
        """Return the two-sided alpha that a hypothesis is tested at, at one look at the data.

        Without registered looks it is ``1 - level`` (twice ``equivalence_alpha`` for a claim of equivalence);
        with them, the part of it that the spending function gives to this look. 0 where all of it is spent.
        """
        looks = self.protocol.inference.looks
        if looks is not None and look > looks.planned:
            return 0.0
        return 1.0 - self._level(self.hypothesis(name), look)

    def verdict(self, name: str, look: int = 1) -> Verdict:
        """Answer one hypothesis.

        Parameters
        ----------
        name
            Its id.
        look
            Which look at new data this is, from 1; it matters where the protocol registers looks.

        Raises
        ------
        StudyError
            If the protocol has no such hypothesis, or was changed in memory.
        PreregError
            Whatever keeps evidence from being measured or read.
        """
        promise = self.hypothesis(name)
        if digest(self.protocol) != self.protocol_file.digest:
            raise StudyError(
                f"{self.protocol_file.path}: the promise was changed in memory since it was read"
            )
        level = self._level(promise, look)
        result = self._claim(name, promise, level)
        # A further look is no second chance for a control either.
        controls = tuple(self._control(control, look) for control in promise.controls)
        permutations = self._permutations(promise)
        broken = [
            f"{analysis} ({arm}): {check.name}: {check.detail}"
            for analysis, arm in self.needs(name)
            for check in self.evidence(analysis, arm).checks
            if not check.passed
        ]
        outcome, reason = _join(result, controls, permutations, broken)
        if not self.alpha(name, look) > 0.0 and outcome is not Outcome.INVALID:
            outcome, reason = Outcome.INCONCLUSIVE, f"look {look}: the registered alpha is spent; {reason}"
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
            level=level,
            unit=unit_of(promise, self.protocol.inference),
            n_units=min(c.n_units for c in result.contrasts),
            n_rows=min(c.n_rows for c in result.contrasts),
            protocol_digest=self.protocol_file.digest,
            evidence=self.tables(name),
        )

    # -- how an answer is made ------------------------------------------------------------------------

    def _level(self, claim: Hypothesis | Control, look: int) -> float:
        """Return the level of a claim's interval; past the last planned look, that of the last."""
        spec = self.protocol.inference
        level = 1.0 - 2.0 * spec.equivalence_alpha if claim.direction == "equivalence" else spec.level
        if spec.looks is None:
            return level
        return look_level(level, spec.looks.planned, spec.looks.spending, look)

    def _control(self, name: str, look: int) -> ClaimResult:
        control = self.protocol.controls[name]
        key = (name, self._level(control, look))
        if key not in self._controls:
            self._controls[key] = self._claim(name, control, key[1])
        return self._controls[key]

    def _frame(self, analysis: str, arm: str) -> Frame:
        key = (analysis, arm)
        if key not in self._frames:
            self._frames[key] = frame_of(self.evidence(*key), f"{analysis} ({arm})")
        return self._frames[key]

    def _claim(self, name: str, claim: Hypothesis | Control, level: float) -> ClaimResult:
        frames = {arm: self._frame(claim.evidence, arm) for arm in claim.arms}
        asked = questions(claim, frames, self._update_sets(claim.evidence), self._depth(claim.evidence))
        first = frames[claim.contrasts[0].terms[0].arm]
        return settle(name, claim, asked, first, self.protocol.inference, level)

    def _depth(self, analysis: str) -> int:
        """Return the number of blocks of the model that was measured."""
        every = self.pipeline.spec(analysis).every_update
        return depth_of(self.evidence(analysis), self._frame(analysis, "model"), analysis, every_update=every)

    def _update_sets(self, analysis: str) -> dict[str, tuple[int, ...]]:
        """Return the protocol's sets for the depth that was measured: from the promise, not from the record."""
        return self.protocol.resolve_updates(self._depth(analysis))

    def _permutations(self, promise: Hypothesis) -> tuple[PermutationResult, ...]:
        if promise.permutation is None:
            return ()
        evidence = self.evidence(promise.evidence, "model")
        frame = self._frame(promise.evidence, "model")
        return permutation_results(promise.permutation, evidence, frame, self._update_sets(promise.evidence))


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
    # What the search found names its candidate by number; the label says which one that is.
    reason = f"{result.reason} ({result.binds})" if len(result.contrasts) > 1 else result.reason
    if result.outcome is Outcome.SUPPORTED:
        for test in permutations:
            if not test.passed:
                return (
                    Outcome.INCONCLUSIVE,
                    f"{reason}; but the refitted permutation over {test.updates} gives p = {test.p:.4g}",
                )
    return result.outcome, reason
