"""Where a simulation's worlds come from: a pilot's evidence, or the precision that a hypothesis states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prereg.calibration.cases import Case, cases_of
from prereg.calibration.crossing import DESIGN_KINDS, FromDesign, Pilot, Rows
from prereg.calibration.gates import Gate, gate_of
from prereg.calibration.populations import (
    MOMENT_KINDS,
    PILOT_KINDS,
    SERIES_KINDS,
    FromMoments,
    FromPilot,
    Population,
)
from prereg.calibration.sums import Sums
from prereg.errors import EvidenceError, StudyError
from prereg.evidence import Evidence
from prereg.inference import mean_of_ratios
from prereg.inference.jackknife import unit_influence
from prereg.pipeline import Pipeline
from prereg.protocol import Hypothesis, Protocol, ProtocolFile
from prereg.study.frames import Frame, Question, depth_of, frame_of, questions

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
        How many units the pilot had, or the precision states; subjects, where these are crossed or within relations.
    unit_errors
        Standard error of each contrast times the root of `n_units`: that of one unit.
    source
        In words.
    evidence
        Name of each of the pilot's tables that it rests on -> blake3 of its bytes.
    """

    gate: Gate
    cases: tuple[Case, ...]
    populations: tuple[Population | FromDesign, ...]
    units: str
    n_units: int
    unit_errors: tuple[float, ...]
    source: str
    evidence: Mapping[str, str] = field(default_factory=dict)

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
    reader = _Reader(pipeline, {})
    plans = tuple(_plan(reader, name, protocol_file.protocol) for name in hypotheses)
    evidence = {table: digest for plan in plans for table, digest in plan.evidence.items()}
    return Source(plans, pipeline.alias, evidence)


def _plan(reader: _Reader, name: str, protocol: Protocol) -> Plan:
    gate_of(protocol, name)  # an unknown name is refused before any evidence is read
    claim = protocol.hypotheses[name]
    asked, frame, evidence = reader.asked(claim, protocol)
    gate = gate_of(protocol, name, [question.label for question in asked])
    populations: tuple[Population | FromDesign, ...]
    if gate.design is None:
        rows = Counter(frame.subjects)
        sums = Sums.of(
            [(question.table, question.weights) for question in asked],
            [rows.get(unit, 1) for unit in asked[0].table.units],
        )
        kinds = PILOT_KINDS if gate.block_length is None else SERIES_KINDS
        populations = tuple(FromPilot(kind, sums, gate.block_length) for kind in kinds)
        n_units, errors = sums.n_units, [part.standard_error() for part in sums.parts]
    else:
        groups = frame.templates if gate.design == "subject_by_template" else frame.relations
        parts = tuple((*question.rows, question.weights) for question in asked)
        pilot = Pilot.of(gate.design, Rows(parts, frame.subjects, groups))
        populations = tuple(FromDesign(kind, pilot) for kind in DESIGN_KINDS)
        n_units, errors = pilot.n_subjects, _design_errors(pilot.rows, gate)
    return Plan(
        gate=gate,
        cases=cases_of(gate, populations[0].truth),
        populations=populations,
        units=claim.units,
        n_units=n_units,
        unit_errors=tuple(error * float(n_units) ** 0.5 for error in errors),
        source=f"pilot on {reader.pipeline.alias}",
        evidence=evidence,
    )


def _design_errors(rows: Rows, gate: Gate) -> list[float]:
    """Return each contrast's delta-method standard error on the pilot, as beside a verdict."""
    design = rows.design(gate.design)
    return [float((unit_influence(mean_of_ratios(*part), design) ** 2).sum() ** 0.5) for part in rows.parts]


def plans_from_moments(hypotheses: Sequence[str], protocol: Protocol) -> Source:
    """Make worlds from the precision that hypotheses state.

    Raises
    ------
    StudyError
        If a hypothesis states none; or its units are crossed, nested or drawn in blocks: one standard error doesn't
        tell how much of it more subjects would take away, and how much stays with the templates or relations, or
        how alike neighbours are. Only a pilot could tell.
    """
    gates = {name: gate_of(protocol, name) for name in hypotheses}
    several = [
        name for name, gate in gates.items() if gate.design is not None or gate.block_length is not None
    ]
    if several:
        raise StudyError(
            f"{', '.join(several)}: units are crossed, nested or drawn in blocks, and a stated standard error doesn't "
            "tell how dependent they are",
            remedy="add --pilot MODEL, a model on which the study was measured",
        )
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

    def asked(
        self, claim: Hypothesis, protocol: Protocol
    ) -> tuple[tuple[Question, ...], Frame, dict[str, str]]:
        """Return a claim's contrasts, the prompts behind them, and the digests of the tables that they come from."""
        read = {arm: self._read(claim.evidence, arm) for arm in dict.fromkeys((*claim.arms, "model"))}
        evidence, frame = read["model"]
        every = self.pipeline.spec(claim.evidence).every_update
        n_layers = depth_of(evidence, frame, claim.evidence, every_update=every)
        frames = {arm: found for arm, (_, found) in read.items()}
        sets = protocol.resolve_updates(n_layers)
        asked = questions(claim, frames, sets, n_layers)
        digests: dict[str, str] = {}
        for one, _ in read.values():
            if one.provenance is not None:
                digests.update(one.provenance.tables)
        return asked, frames[claim.arms[0]], digests

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
                        remedy="name another model with --pilot, or with --hypothesis those that don't rest on it",
                    )
            self.frames[key] = (evidence, frame_of(evidence, f"{analysis} ({arm})"))
        return self.frames[key]
