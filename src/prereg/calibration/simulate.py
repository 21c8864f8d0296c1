"""Simulated data sets, each answered by the gate's own interval and rule.

Moving a world's truth by c, ``N' = N + c D``, moves theta, every replicate and every bound of every interval by
c, and changes nothing else. So the interval is computed once for each data set and decided once for each truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prereg.calibration.gates import Case, Gate
from prereg.calibration.populations import Population, Streams, Tables
from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    Interval,
    Outcome,
    bonferroni_level,
    decide_conjunction,
    has_ideal,
    headline_intervals_many,
    ideal_intervals,
)
from prereg.workers import Arrays, Task, Workers

__all__ = ["CHUNK", "OUTCOMES", "Answers", "Trial", "run_trials", "simulate"]

CHUNK = 25
"""Data sets in one task; no number depends on it."""

OUTCOMES = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INCONCLUSIVE, Outcome.INVALID)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One gate, in one world, with so many units, under each of its truths."""

    gate: Gate
    population: Population
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
            f"{number:04d}.{trial.key}.{first:07d}-{count}",
            simulate,
            {"trial": trial, "seed": seed, "first": first, "count": count},
        )
        for number, trial in enumerate(trials)
        for first in range(0, replications, CHUNK)
        for count in (min(CHUNK, replications - first),)
    ]
    done = workers.map(tasks, label)
    chunks = iter([done[task.key] for task in tasks])
    each = -(-replications // CHUNK)
    return [_joined([next(chunks) for _ in range(each)]) for _ in trials]


def _joined(chunks: Sequence[Mapping[str, np.ndarray]]) -> Answers:
    return Answers(*(np.concatenate([chunk[name] for chunk in chunks]) for name in ("outcomes", "covered")))


def simulate(trial: Trial, seed: int, first: int, count: int) -> Arrays:
    """Answer `count` data sets from the `first`-th on; a task for `Workers`."""
    gate = trial.gate
    truth = trial.population.truth
    plan = BootstrapPlan(trial.n_units, gate.replicates, gate.seed)
    outcomes = np.empty((count, len(trial.cases)), np.uint8)
    covered = np.empty((count, len(gate.labels)), np.bool_)
    for i in range(count):
        try:
            tables = trial.population.tables(Streams(seed, first + i), trial.n_units)
        except InferenceError:
            # A sample whose denominators are all 0: a verdict would be an error, which supports nothing.
            outcomes[i], covered[i] = OUTCOMES.index(Outcome.INVALID), False
            continue
        results = _results(gate, tables, plan)
        intervals = [result.interval(gate.interval, gate.level) for result in results]
        covered[i] = [at.low <= true <= at.high for at, true in zip(intervals, truth, strict=True)]
        # Truths share most of their values, so each contrast is moved once to each.
        there = {
            (c, case.values[c]): _moved(results[c], case.values[c] - truth[c])
            for case in trial.cases
            for c in range(len(truth))
        }
        for j, case in enumerate(trial.cases):
            outcomes[i, j] = OUTCOMES.index(_decide(gate, [there[at] for at in enumerate(case.values)]))
    return {"outcomes": outcomes, "covered": covered}


def _results(gate: Gate, tables: Tables, plan: BootstrapPlan) -> list[ContrastResult]:
    """Compute the intervals as a verdict does; where all of them are ideal, without drawing the plan for nothing."""
    refuting = bonferroni_level(gate.level, len(tables))
    if gate.interval in ("percentile", "expanded_percentile") and all(has_ideal(*pair) for pair in tables):
        ideal = [ideal_intervals(*pair, gate.level, also_levels=(refuting,))[0] for pair in tables]
        if all(result.usable and not result.degenerate for result in ideal):
            return ideal
    groups = headline_intervals_many(
        tables, plan, gate.level, also_levels=(refuting,), methods=(gate.interval,)
    )
    return [group[0] for group in groups]


def _decide(gate: Gate, results: Sequence[ContrastResult]) -> Outcome:
    decision = decide_conjunction(
        results,
        gate.threshold,
        gate.direction,
        gate.level,
        method=gate.interval,
        min_units=gate.minimum_units,
    )
    return decision.outcome


def _moved(result: ContrastResult, by: float) -> ContrastResult:
    return replace(
        result,
        estimate=result.estimate + by,
        intervals=tuple(Interval(i.low + by, i.high + by, i.level, i.method) for i in result.intervals),
    )
