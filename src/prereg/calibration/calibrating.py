"""`prereg calibrate`: every gate, in every world, under every truth."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

import prereg.inference
from prereg.calibration.gates import Case
from prereg.calibration.records import Calibration, CaseResult, GateRecord, Rate
from prereg.calibration.simulate import Answers, Trial, run_trials
from prereg.calibration.sources import Plan, Source
from prereg.errors import StudyError
from prereg.inference import Outcome
from prereg.protocol import ProtocolFile
from prereg.workers import Workers

__all__ = ["REPLICATIONS", "SEED", "calibrate", "run_digest"]

REPLICATIONS = 1_000
SEED = 20_261_130


def calibrate(
    protocol_file: ProtocolFile,
    source: Source,
    *,
    n_units: Sequence[int] = (),
    replications: int = REPLICATIONS,
    seed: int = SEED,
    workers: Workers | None = None,
) -> Calibration:
    """Simulate each gate at its null boundary and under its alternative.

    Parameters
    ----------
    protocol_file
        The promise.
    source
        From `plans_from_pilot` or `plans_from_moments`.
    n_units
        Independent units in a simulated data set; several to compare. None given: as many as the pilot had.
    replications
        Data sets for each gate, world and number of units, at least 100.
    seed
        Of the simulation. The gates resample by their own registered seed.
    workers
        Who does it; its checkpoint folder is used as it is (see `run_digest`). Counts do not depend on it.

    Raises
    ------
    StudyError
        If there are too few units or replications to say anything.
    """
    if replications < 100:
        raise StudyError(
            f"{replications} replications can't tell an error rate from its alpha; at least 100 are wanted",
            remedy="add --replications 1000",
        )
    for n in n_units:
        if n < 2:
            raise StudyError(f"{n} units: at least 2 are wanted", remedy="give --n a larger number")
    trials = [
        Trial(plan.gate, population, plan.cases, n)
        for plan in source.plans
        for n in (n_units or (plan.n_units,))
        for population in plan.populations
    ]
    hands = Workers() if workers is None else workers
    answers = run_trials(trials, replications=replications, seed=seed, workers=hands)
    return Calibration(
        study=protocol_file.protocol.study.name,
        protocol_digest=protocol_file.digest,
        pilot=source.pilot,
        evidence=dict(source.evidence),
        seed=seed,
        replications=replications,
        gates=tuple(_gate(plan) for plan in source.plans),
        results=tuple(
            _result(trial, number, case, answer)
            for trial, answer in zip(trials, answers, strict=True)
            for number, case in enumerate(trial.cases)
        ),
    )


def run_digest(protocol_file: ProtocolFile, source: Source, **choices: object) -> str:
    """Return a name for a run's checkpoints: nothing that its numbers depend on can differ under one name.

    Parameters
    ----------
    protocol_file, source
        As for `calibrate`.
    choices
        Everything else that was chosen; plain JSON values.
    """
    content = {
        "protocol": protocol_file.digest,
        "pilot": source.pilot,
        "evidence": dict(source.evidence),
        "gates": [plan.gate.name for plan in source.plans],
        "code": _code_digest(),
        "numpy": np.__version__,
        **choices,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()


@cache
def _code_digest() -> str:
    found = hashlib.sha256()
    for folder in (Path(__file__).parent, Path(prereg.inference.__file__).parent):
        for file in sorted(folder.glob("*.py")):
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def _gate(plan: Plan) -> GateRecord:
    gate = plan.gate
    return GateRecord(
        hypothesis=gate.name,
        direction=gate.direction,
        threshold=gate.threshold,
        units=plan.units,
        level=_short(gate.level),
        alpha=_short(gate.alpha),
        interval=gate.interval,
        resamples=gate.replicates,
        labels=gate.labels,
        source=plan.source,
        pilot_units=plan.n_units,
        expected=tuple(_short(value) for value in plan.alternative.values),
    )


def _result(trial: Trial, number: int, case: Case, answers: Answers) -> CaseResult:
    total = len(answers.outcomes)
    counts = answers.counts(number)
    covered = answers.covered.sum(axis=0)
    worst = int(covered.argmin())
    return CaseResult(
        hypothesis=trial.gate.name,
        population=trial.population.name,
        n_units=trial.n_units,
        case=case.name,
        kind=case.kind,
        holds=case.holds,
        values=tuple(_short(value) for value in case.values),
        supported=Rate.of(counts[Outcome.SUPPORTED], total),
        refuted=Rate.of(counts[Outcome.REFUTED], total),
        inconclusive=Rate.of(counts[Outcome.INCONCLUSIVE], total),
        invalid=Rate.of(counts[Outcome.INVALID], total),
        coverage=Rate.of(int(covered[worst]), total),
        coverage_of=trial.gate.labels[worst],
    )


def _short(value: float) -> float:
    """Keep 12 significant digits, which are the same on every machine."""
    return float(f"{value:.12g}")
