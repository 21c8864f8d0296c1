"""Simulated data sets, spread over workers in chunks that a later run takes up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prereg.calibration.answering import Data, answer, check
from prereg.calibration.cases import Case
from prereg.calibration.crossing import FromDesign
from prereg.calibration.gates import Gate
from prereg.calibration.populations import Population, Streams
from prereg.errors import InferenceError
from prereg.inference import Outcome
from prereg.workers import Arrays, Task, Workers

__all__ = ["CHUNK", "OUTCOMES", "Answers", "Trial", "run_trials", "simulate", "tasks_in"]

CHUNK = 25
"""Data sets in one task; no number depends on it."""

OUTCOMES = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INCONCLUSIVE, Outcome.INVALID)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One gate, in one world, with so many units, under each of its truths."""

    gate: Gate
    population: Population | FromDesign
    cases: tuple[Case, ...]
    n_units: int

    @property
    def key(self) -> str:
        """Its name, fit for a file."""
        safe = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "-" for c in self.gate.name)
        return f"{safe}.{self.population.name}.n{self.n_units}"


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a trial answered.

    Parameters
    ----------
    outcomes
        Position in `OUTCOMES` of each data set's answer under each truth, shape (replications, n_cases).
    covered
        Whether each contrast's interval at the gate's level holds the true value, shape (replications, n_contrasts).
    """

    outcomes: npt.NDArray[np.uint8]
    covered: npt.NDArray[np.bool_]

    def counts(self, case: int) -> dict[Outcome, int]:
        """Return how often each outcome was answered under one truth."""
        column = self.outcomes[:, case]
        return {outcome: int((column == i).sum()) for i, outcome in enumerate(OUTCOMES)}


def run_trials(
    trials: Sequence[Trial], *, replications: int, seed: int, workers: Workers, label: str = "calibrate"
) -> list[Answers]:
    """Simulate every trial, spread over workers.

    Parameters
    ----------
    trials
        What to simulate.
    replications
        Data sets for each.
    seed
        Of the simulation; the r-th data set of a world is the same for every gate and every number of jobs.
    workers
        Who does it, and where finished chunks are kept.
    label
        Of the progress bar.

    Returns
    -------
    list of Answers
        In the order of `trials`.
    """
    tasks = [
        Task(
            # The last chunk of one run may be a part of another's.
            f"{trial.key}.{first:07d}-{count}",
            simulate,
            {"trial": trial, "seed": seed, "first": first, "count": count},
        )
        for trial in trials
        for first in range(0, replications, CHUNK)
        for count in (min(CHUNK, replications - first),)
    ]
    done = workers.map(tasks, label)
    chunks = iter([done[task.key] for task in tasks])
    each = tasks_in(replications)
    return [_joined([next(chunks) for _ in range(each)]) for _ in trials]


def tasks_in(replications: int) -> int:
    """Return in how many chunks a trial is simulated."""
    return -(-replications // CHUNK)


def _joined(chunks: Sequence[Mapping[str, np.ndarray]]) -> Answers:
    return Answers(*(np.concatenate([chunk[name] for chunk in chunks]) for name in ("outcomes", "covered")))


def simulate(trial: Trial, seed: int, first: int, count: int) -> Arrays:
    """Answer `count` data sets from the `first`-th on; a task for `Workers`.

    Raises
    ------
    StudyError
        If the first data set of all is answered otherwise by a verdict.
    """
    truth = trial.population.truth
    outcomes = np.empty((count, len(trial.cases)), np.uint8)
    covered = np.empty((count, len(trial.gate.labels)), np.bool_)
    for i in range(count):
        try:
            data = _sample(trial, Streams(seed, first + i))
        except InferenceError:
            # As where all denominators of a sample are 0: a verdict would be an error, which supports nothing.
            outcomes[i], covered[i] = OUTCOMES.index(Outcome.INVALID), False
            continue
        found, covered[i] = answer(trial.gate, data, truth, trial.cases)
        if first + i == 0:
            check(trial.gate, data, truth, trial.cases, found)
        outcomes[i] = [OUTCOMES.index(outcome) for outcome in found]
    return {"outcomes": outcomes, "covered": covered}


def _sample(trial: Trial, streams: Streams) -> Data:
    world = trial.population
    if isinstance(world, FromDesign):
        return world.sample(streams, trial.n_units)
    return world.tables(streams, trial.n_units)
