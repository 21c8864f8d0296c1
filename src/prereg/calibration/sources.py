"""Where a simulation's worlds come from: a pilot's evidence, or the precision that a hypothesis states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prereg.analysis.catalogue import ANALYSES
from prereg.calibration.gates import Case, Gate, cases_of, gate_of
from prereg.calibration.populations import MOMENT_KINDS, PILOT_KINDS, FromMoments, FromPilot, Population
from prereg.calibration.sums import Sums
from prereg.errors import EvidenceError, StudyError
from prereg.evidence import Evidence
from prereg.pipeline import Pipeline
from prereg.protocol import Hypothesis, Protocol, ProtocolFile
from prereg.study.frames import Frame, frame_of, questions

__all__ = ["Plan", "Source", "plans_from_moments", "plans_from_pilot"]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One gate, the truths it is tried under, and the worlds it is tried in.

    Parameters
    ----------
    gate, cases, populations
        What to simulate.
    units
        Units of the threshold.
    n_units
        How many units the pilot had, or the precision states.
    unit_errors
        Standard error of each contrast times the root of `n_units`: that of one unit.
    source
        In words.
    """

    gate: Gate
    cases: tuple[Case, ...]
    populations: tuple[Population, ...]
    units: str
    n_units: int
    unit_errors: tuple[float, ...]
    source: str

    @property
    def alternative(self) -> Case:
        """The truth that is expected."""
        return self.cases[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Plans, and what they rest on.

    Parameters
    ----------
    plans
        One for each hypothesis asked.
    pilot
        The pilot's model; None where moments were stated.
    evidence
        Name of each of the pilot's tables -> blake3 of its bytes.
    """

    plans: tuple[Plan, ...]
    pilot: str | None
    evidence: Mapping[str, str]


def plans_from_pilot(pipeline: Pipeline, hypotheses: Sequence[str], protocol_file: ProtocolFile) -> Source:
    """Fit worlds to the evidence that a pilot left; nothing is measured.

    Parameters
    ----------
    pipeline
        The study on the pilot's model. One without a binding takes evidence from before a registration too.
    hypotheses
        Ids.
    protocol_file
        The promise.

    Raises
    ------
    EvidenceError
        If evidence is missing, or a check of the pilot's analysis failed.
    StudyError
        If there is no such hypothesis.
    InferenceError
        If a contrast doesn't vary in the pilot.
    """
    reader = _Reader(pipeline, {}, {})
    plans = []
    for name in hypotheses:
        gate = gate_of(protocol_file.protocol, name)
        claim = protocol_file.protocol.hypotheses[name]
        sums = reader.sums(claim, protocol_file.protocol)
        root = float(sums.n_units) ** 0.5
        plans.append(
            Plan(
                gate=gate,
                cases=cases_of(gate, sums.estimates),
                populations=tuple(FromPilot(kind, sums) for kind in PILOT_KINDS),
                units=claim.units,
                n_units=sums.n_units,
                unit_errors=tuple(part.standard_error() * root for part in sums.parts),
                source=f"pilot on {pipeline.alias}",
            )
        )
    return Source(tuple(plans), pipeline.alias, reader.digests)


def plans_from_moments(hypotheses: Sequence[str], protocol: Protocol) -> Source:
    """Make worlds from the precision that hypotheses state.

    Raises
    ------
    StudyError
        If a hypothesis states none: only a pilot could tell.
    """
    gates = {name: gate_of(protocol, name) for name in hypotheses}
    without = [name for name in hypotheses if protocol.hypotheses[name].precision is None]
    if without:
        raise StudyError(
            f"{', '.join(without)}: no [hypotheses.<id>.precision] states how these will vary, and no pilot was named",
            remedy="add --pilot MODEL, a model on which the study was measured"
            + ("" if len(without) == len(gates) else ", or name the others with --hypothesis"),
        )
    plans = []
    for name, gate in gates.items():
        claim = protocol.hypotheses[name]
        stated = claim.precision
        if stated is None:  # for the type checker: refused above
            continue
        unit_sd = stated.standard_error * float(stated.n_units) ** 0.5
        m = len(gate.labels)
        plans.append(
            Plan(
                gate=gate,
                cases=cases_of(gate, None),
                populations=tuple(FromMoments(kind, unit_sd, m) for kind in MOMENT_KINDS),
                units=claim.units,
                n_units=stated.n_units,
                unit_errors=(unit_sd,) * m,
                source=f"stated moments: {stated.source}",
            )
        )
    return Source(tuple(plans), None, {})


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """Reads each arm's evidence once."""

    pipeline: Pipeline
    frames: dict[tuple[str, str], tuple[Evidence, Frame]]
    digests: dict[str, str]

    def sums(self, claim: Hypothesis, protocol: Protocol) -> Sums:
        frames = {arm: self._read(claim.evidence, arm)[1] for arm in claim.arms}
        evidence, frame = self._read(claim.evidence, "model")
        record = evidence.provenance
        every = ANALYSES[claim.evidence].every_update
        if record is None or (every and record.n_layers != frame.updates[-1] + 1):
            raise EvidenceError(
                f"{claim.evidence}: the deepest update measured is {frame.updates[-1]}, not the model's last"
            )
        sets = protocol.resolve_updates(record.n_layers)
        asked = questions(claim, frames, sets, record.n_layers)
        tables = [(question.table, question.weights) for question in asked]
        rows = Counter(frames[claim.arms[0]].subjects)
        return Sums.of(tables, [rows.get(unit, 1) for unit in tables[0][0].units])

    def _read(self, analysis: str, arm: str) -> tuple[Evidence, Frame]:
        key = (analysis, arm)
        if key not in self.frames:
            if not self.pipeline.present(analysis, arm):
                raise EvidenceError(
                    f"the pilot on {self.pipeline.alias} has no evidence: {self.pipeline.why_absent(analysis, arm)}",
                    remedy=f"prereg measure {self.pipeline.protocol_file.path.parent} --model {self.pipeline.alias}",
                )
            evidence = self.pipeline.evidence(analysis, arm)
            for check in evidence.checks:
                if not check.passed:
                    raise EvidenceError(
                        f"the pilot's {analysis} ({arm}) failed a check of its own: {check.name}: {check.detail}",
                        remedy="name another model with --pilot",
                    )
            if evidence.provenance is not None:
                self.digests.update(evidence.provenance.tables)
            self.frames[key] = (evidence, frame_of(evidence, f"{analysis} ({arm})"))
        return self.frames[key]
