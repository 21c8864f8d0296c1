"""`prereg calibrate`: every gate, in every world, under every truth."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import scipy
from filelock import FileLock, Timeout

import prereg.inference
import prereg.study
from prereg.calibration.cases import Case
from prereg.calibration.parts import Parts, joined
from prereg.calibration.records import Calibration, CaseResult, GateRecord, Rate
from prereg.calibration.simulate import Answers, Trial, run_trials, tasks_in
from prereg.calibration.sources import Plan, Source
from prereg.errors import StudyError
from prereg.inference import Outcome
from prereg.protocol import ProtocolFile
from prereg.workers import NullProgress, Progress, Workers, refused_by_disk

__all__ = ["REPLICATIONS", "SEED", "calibrate", "code_digest", "gate_record", "run_digest"]

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
    parts: Parts | None = None,
    overall: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Simulate each gate at its null boundary and under its alternative, one gate after the other.

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
        Who does it. Finished chunks are kept in a folder for each gate under its checkpoint, until the gate's part is
        written. Counts do not depend on it.
    parts
        Where finished gates are kept; one that lies there is taken up. None keeps nothing.
    overall
        Told of each finished chunk of the whole run; the workers' own progress shows one gate in one world.
    say
        Told in words what is taken up, replaced or waited for.

    Raises
    ------
    StudyError
        If there are too few units or replications to say anything, or a simulated gate is not the registered one.
    """
    if replications < 100:
        raise StudyError(
            f"{replications} replications can't tell an error rate from its alpha; at least 100 are wanted",
            remedy="add --replications 1000",
        )
    for n in n_units:
        if n < 2:
            raise StudyError(f"{n} units: at least 2 are wanted", remedy="give --n a larger number")
    hands = Workers() if workers is None else workers
    whole = NullProgress() if overall is None else overall
    trials = [_trials(plan, n_units) for plan in source.plans]
    chunks = sum(len(each) for each in trials) * tasks_in(replications)
    whole.start(chunks, f"calibrate {protocol_file.protocol.study.name}")
    found = []
    try:
        for number, (plan, each) in enumerate(zip(source.plans, trials, strict=True), 1):
            job = _Job(protocol_file, source.pilot, replications, seed, parts, say)
            name = f"{plan.gate.name} ({number} of {len(trials)})" if len(trials) > 1 else plan.gate.name
            found.append(job.gate(plan, each, hands, whole, name))
    finally:
        whole.finish()
    return joined([plan.gate.name for plan in source.plans], found)


def _trials(plan: Plan, n_units: Sequence[int]) -> list[Trial]:
    return [
        Trial(plan.gate, population, plan.cases, n)
        for n in sorted(set(n_units)) or (plan.n_units,)
        for population in plan.populations
    ]


@dataclass(frozen=True, slots=True)
class _Job:
    """What one gate's simulation needs to know of the run."""

    protocol_file: ProtocolFile
    pilot: str | None
    replications: int
    seed: int
    parts: Parts | None
    say: Callable[[str], None]

    def gate(
        self, plan: Plan, trials: Sequence[Trial], hands: Workers, whole: Progress, name: str
    ) -> Calibration:
        """Take one gate up where it was left, or simulate it, and keep it."""
        only = Source((plan,), self.pilot, plan.evidence)
        digest = run_digest(self.protocol_file, only, what="calibrate", seed=self.seed)
        folder = None if hands.checkpoint is None else hands.checkpoint / digest[:32]
        with _one_at_a_time(folder, name, self.say):
            known = self._known(plan, trials)
            if known is not None:
                whole.advance(len(trials) * tasks_in(self.replications))
                return known
            hands = Workers(hands.jobs, hands.engine, _Both(hands.progress, whole), folder)
            found = self._simulated(plan, trials, hands, name)
            if self.parts is not None:
                self.parts.keep(found)
                hands.clear()
        return found

    def _known(self, plan: Plan, trials: Sequence[Trial]) -> Calibration | None:
        if self.parts is None:
            return None
        record, evidence = gate_record(plan), dict(plan.evidence)
        file = self.parts.file(record.hypothesis)
        stranger = self.parts.stranger(record, evidence)
        if stranger is not None:
            self.say(f"{file.name} in {file.parent} is {stranger}: it will be replaced")
        part = self.parts.find(record, evidence)
        if part is None:
            return None
        sizes = {trial.n_units for trial in trials}
        results = tuple(result for result in part.results if result.n_units in sizes)
        if {result.n_units for result in results} != sizes:
            return None
        self.say(f"{record.hypothesis}: taken from {file}, simulated before")
        return part.model_copy(update={"results": results})

    def _simulated(self, plan: Plan, trials: Sequence[Trial], hands: Workers, name: str) -> Calibration:
        several = len({trial.n_units for trial in trials}) > 1
        results = []
        for trial in trials:
            label = f"{name}, {trial.population.name}{f', {trial.n_units} units' if several else ''}"
            answers = run_trials(
                [trial], replications=self.replications, seed=self.seed, workers=hands, label=label
            )[0]
            results += [_result(trial, i, case, answers) for i, case in enumerate(trial.cases)]
        return Calibration(
            study=self.protocol_file.protocol.study.name,
            protocol_digest=self.protocol_file.digest,
            pilot=self.pilot,
            evidence=dict(sorted(plan.evidence.items())),
            seed=self.seed,
            replications=self.replications,
            gates=(gate_record(plan),),
            results=tuple(results),
        )


@contextlib.contextmanager
def _one_at_a_time(folder: Path | None, name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Let one run at a time simulate a gate: two would clear each other's finished chunks."""
    if folder is None:
        yield
        return
    locks = folder.parent.parent / "locks"
    lock = FileLock(locks / f"calibration-{folder.name}.lock")
    try:
        locks.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another run simulates {name}: waiting for it")
            lock.acquire()
    except OSError as error:
        raise refused_by_disk(locks, error, "can't be written") from error
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class _Both:
    """Progress of one gate in one world, and of the whole run with it."""

    inner: Progress
    outer: Progress

    def start(self, total: int, label: str) -> None:
        """Begin the inner bar."""
        self.inner.start(total, label)

    def advance(self, n: int = 1) -> None:
        """Tell both."""
        self.inner.advance(n)
        self.outer.advance(n)

    def finish(self) -> None:
        """Close the inner bar."""
        self.inner.finish()


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
        "code": code_digest(),
        **choices,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()


@cache
def code_digest() -> str:
    """Return a digest of what simulates and decides: this package, inference, study, and the numerical libraries."""
    found = hashlib.sha256(f"numpy {np.__version__} scipy {scipy.__version__}".encode())
    for package in (__file__, prereg.inference.__file__, prereg.study.__file__):
        for file in sorted(Path(package).parent.glob("*.py")):
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def gate_record(plan: Plan) -> GateRecord:
    """Return how a gate decides, and what it was fitted to."""
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
        quantifier=gate.quantifier,
        design=gate.design,
        block_length=gate.block_length,
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
