"""A study on a model: `study.verdict("H1")` is all that a gate calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from prereg.analysis.own import find_analysis
from prereg.evidence import Evidence, read_provenance
from prereg.pipeline import Pipeline, RunOptions, arms_of
from prereg.protocol import Hypothesis, Protocol, ProtocolFile, read_protocol
from prereg.protocol.changes import substantive
from prereg.registration.attempts import ATTEMPTS, AttemptLog, Look
from prereg.registration.binding import Binding
from prereg.registration.chain import Chain
from prereg.registration.records import content_digest
from prereg.registration.standing import Standing, standing_of
from prereg.study.deciding import Answers
from prereg.study.records import Verdict

__all__ = ["Study"]


@dataclass(frozen=True, eq=False)
class Study:
    """One protocol, one model, and the answers, each with how the study stands.

    Open one with `Study.open`. Answers are deterministic: the same evidence and registration give the same verdict.

    Parameters
    ----------
    folder
        The study's.
    protocol_file, pipeline
        The promise as it lies in the working tree, and where its evidence comes from.
    standing
        Whether that promise is the registered one.
    chain
        The registration and its amendments, where there is one.
    """

    folder: Path
    protocol_file: ProtocolFile
    pipeline: Pipeline
    standing: Standing
    chain: Chain | None
    _verdicts: dict[str, Verdict] = field(default_factory=dict, repr=False)
    _watcher: Callable[[Verdict], None] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, folder: Path, *, model: str, options: RunOptions) -> Study:
        """Open the study in `folder` for one model.

        Raises
        ------
        ProtocolError
            If protocol.toml is missing or breaks its rules.
        StudyError
            If the protocol names an analysis that nobody provides, or two do.
        ModelError
            If the model isn't known.
        """
        protocol_file = read_protocol(folder)
        for analysis in protocol_file.protocol.analyses:
            find_analysis(analysis, protocol_file.path.parent)
        folder = protocol_file.path.parent
        standing, chain = standing_of(folder, protocol_file, options.root)
        binding = None if chain is None else Binding(chain, protocol_file, options.root)
        pipeline = Pipeline(protocol_file, model, options, binding)
        return cls(folder, protocol_file, pipeline, standing, chain)

    def watched(self, watcher: Callable[[Verdict], None]) -> Study:
        """Return the same study, telling `watcher` of each verdict that is asked for."""
        other = replace(self, _watcher=watcher)
        # One process reads and decides each thing once, whoever watches.
        for name in ("answers", "original", "log"):
            object.__setattr__(other, name, getattr(self, name))
        return other

    @property
    def protocol(self) -> Protocol:
        """The promise."""
        return self.protocol_file.protocol

    @property
    def promises(self) -> dict[str, Hypothesis]:
        """What each of `hypotheses` promises: as it is now, or as it was registered where it is withdrawn."""
        registered = {} if self.chain is None else self.chain.registration.promise.hypotheses
        found = {**registered, **self.protocol.hypotheses}
        return {name: found[name] for name in self.hypotheses}

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """Ids of the hypotheses, in the protocol's order; those that were registered and are withdrawn come last."""
        registered = () if self.chain is None else self.chain.registration.promise.hypotheses
        return tuple(dict.fromkeys((*self.protocol.hypotheses, *registered)))

    @cached_property
    def answers(self) -> Answers:
        """What the promise in the working tree says."""
        return Answers(self.protocol_file, self.pipeline)

    @cached_property
    def original(self) -> Answers | None:
        """What the promise says as it was frozen, where it was amended or edited since."""
        if self.chain is None or self.chain.original.digest == self.protocol_file.digest:
            return None
        pipe, frozen = self.pipeline, self.chain.original
        binding = Binding(self.chain, frozen, pipe.options.root)
        return Answers(frozen, Pipeline(frozen, pipe.alias, pipe.options, binding))

    @cached_property
    def log(self) -> AttemptLog:
        """The attempts that were made so far."""
        return AttemptLog(self.folder / ATTEMPTS)

    def verdicts(self) -> tuple[Verdict, ...]:
        """Answer every hypothesis."""
        return tuple(self.verdict(name) for name in self.hypotheses)

    def verdict(self, hypothesis: str) -> Verdict:
        """Answer one hypothesis, capturing and measuring first where evidence is missing.

        Where the promise was amended, both verdicts are computed. The amended one leads only if nothing was
        known of the data when it was amended; else the original one does, and the other stands beside it.

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
        if hypothesis not in self._verdicts:
            self._verdicts[hypothesis] = self._decide(hypothesis)
        verdict = self._verdicts[hypothesis]
        if self._watcher is not None:
            self._watcher(verdict)
        return verdict

    def is_ready(self, hypothesis: str) -> bool:
        """Tell whether the evidence for one hypothesis, its controls included, is there."""
        return not self.missing(hypothesis)

    def missing(self, hypothesis: str) -> tuple[str, ...]:
        """Say which evidence a hypothesis lacks, and why what lies there doesn't count."""
        return tuple(
            dict.fromkeys(
                answers.pipeline.why_absent(analysis, arm)
                for answers in self._versions(hypothesis)
                for analysis, arm in answers.needs(hypothesis)
                if not answers.pipeline.present(analysis, arm)
            )
        )

    def prepare(self) -> None:
        """Measure whatever evidence the study still lacks."""
        for name in self.hypotheses:
            for answers in self._versions(name):
                for analysis, arm in answers.needs(name):
                    answers.evidence(analysis, arm)

    def evidence(self, analysis: str, arm: str = "model") -> Evidence:
        """Return verified evidence, measuring it first where it is missing; read once in a process."""
        return self.answers.evidence(analysis, arm)

    def record_attempt(self, verdicts: Sequence[Verdict]) -> None:
        """Log what these verdicts answered, on which data; what is logged already is not logged again.

        Raises
        ------
        StorageError
            If the log can't be written.
        """
        results = {v.hypothesis: (v.data, v.outcome.value) for v in verdicts}
        looks = {v.hypothesis: v.look for v in verdicts if v.look is not None}
        self.log.record(
            study=self.protocol.study.name,
            model=self.pipeline.alias,
            # The one in force, also where it can't be shown to hold: what was seen then was seen under it.
            registration=self.standing.root,
            protocol=self._asked(),
            results=results,
            looks=looks,
        )

    def _asked(self) -> str:
        """Return the digest of what was asked: of the promise in force, where this one differs in wording alone."""
        chain = self.chain
        if chain is None or any(substantive(change) for change in chain.differs(self.protocol)):
            return self.protocol_file.digest
        return chain.current.components.protocol

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
            f"protocol: {self.protocol_file.digest[:16]}, {self.standing.line()}",
            f"sample: {sample}",
        ]

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of the verdict table must know."""
        level = self.protocol.inference.level
        return (
            f"Intervals: {self.protocol.inference.interval.replace('_', ' ')} bootstrap of subjects, level {level:g} "
            f"({1 - 2 * self.protocol.inference.equivalence_alpha:g} for equivalence). A claim with several "
            "contrasts shows its worst one; the bound that could refute it is Bonferroni-corrected.",
            *self._registration_notes(),
        )

    def _registration_notes(self) -> list[str]:
        standing, protocol = self.standing, f"Protocol {self.protocol_file.digest[:16]}"
        if standing.status == "unregistered":
            return [
                f"{protocol}. Not registered: no freeze is on record, so nothing here shows that the thresholds came "
                "before the data."
            ]
        lines = [f"{protocol}; {standing.line()}."]
        if standing.remedy is not None:
            lines.append(f"Next: {standing.remedy}")
        seen = () if self.chain is None else self.chain.registration.seen
        if standing.is_registered and {self.pipeline.entry.slug, self.pipeline.alias} & set(seen):
            lines.append(
                f"Results on {self.pipeline.alias} were on record when the thresholds were frozen: these verdicts "
                "are no predictions."
            )
        return lines

    # -- how an answer is made ------------------------------------------------------------------------

    def _versions(self, name: str) -> list[Answers]:
        """Return whose evidence a hypothesis needs: the promise in force, and the frozen one where they differ."""
        found = [self.answers] if name in self.protocol.hypotheses else []
        frozen = self.original
        is_frozen = frozen is not None and name in frozen.protocol.hypotheses
        if frozen is not None and is_frozen and (not found or self._is_amended(name)):
            found.append(frozen)
        if not found:
            self.answers.hypothesis(name)
        return found

    def _is_amended(self, name: str) -> bool:
        return self.chain is not None and bool(self.chain.concerns(name))

    def _decide(self, name: str) -> Verdict:
        versions = self._versions(name)
        chosen = self._answer(versions[0], name)
        if self.chain is None or not self.standing.is_registered:
            return chosen
        if self.chain.is_added(name):
            return replace(chosen, exploratory=True)
        if versions[0] is self.original:
            return replace(chosen, version="original")
        if len(versions) == 1:
            return chosen
        original = replace(self._answer(versions[1], name), version="original")
        amended = replace(chosen, version="amended")
        if self.chain.known_to(name, self._roots_seen()) == "none":
            return replace(amended, other=original)
        return replace(original, other=amended)

    def _answer(self, answers: Answers, name: str) -> Verdict:
        data = content_digest(answers.tables(name))
        roots = () if self.chain is None else self.chain.roots
        look = self.log.look_of(self.pipeline.alias, name, roots or None, data)
        tally = self.log.tally(self.pipeline.alias, name)
        looks = answers.protocol.inference.looks
        standing = self._standing_of_evidence(answers, name)
        return replace(
            answers.verdict(name, look if looks is not None else 1),
            standing=standing,
            data=data,
            attempts=len({*tally.data, data}),
            earlier=self._earlier(name, data),
            look=None if looks is None else _look(look, answers.alpha(name, look)),
        )

    def _earlier(self, name: str, data: str) -> tuple[str, ...]:
        """Return what other data answered to one hypothesis on this model, in the log's order."""
        found: dict[str, str] = {}
        for attempt in self.log.read().entries:
            if attempt.model == self.pipeline.alias and attempt.data.get(name, data) != data:
                found[attempt.data[name]] = attempt.outcomes[name]
        return tuple(found.values())

    def _standing_of_evidence(self, answers: Answers, name: str) -> Standing:
        """Return how the study stands, or what keeps this evidence from being the registered one."""
        if self.chain is None or not self.standing.is_registered:
            return self.standing
        for analysis, arm in answers.needs(name):
            record = answers.evidence(analysis, arm).provenance
            if record is None or record.registration not in self.chain.roots:
                binding = answers.pipeline.binding
                why = (
                    ()
                    if binding is None
                    else binding.obstacles(self.pipeline.alias, self.pipeline.revision())
                )
                reason = f"the evidence {analysis}.{arm} was measured outside the registration"
                remedy = f"prereg measure {self.folder} --model {self.pipeline.alias}"
                return replace(self.standing, status="unverified", reasons=(reason, *why[:3]), remedy=remedy)
        return self.standing

    def _roots_seen(self) -> frozenset[str]:
        """Return the roots under which results are logged; an unregistered attempt counts as before all of them."""
        found = {attempt.registration for attempt in self.log.read().entries}
        chain = self.chain
        return frozenset(chain.roots if chain is not None and None in found else {r for r in found if r})


def _look(look: int, alpha: float) -> Look | None:
    return Look(look=look, alpha=alpha) if alpha > 0.0 else None
