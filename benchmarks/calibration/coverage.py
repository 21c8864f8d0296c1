"""Coverage and width of every interval at nominal 95%, over processes and numbers of units.

One cell is a process at one n. A finished cell is written at once, and ``--resume`` takes up what an interrupted run
left. A cell's data and plans depend on the seed and the cell alone, so any order and any number of jobs give the same
bytes. Fifty samples share one plan of resamples; a plan is never used for another fifty.

``python benchmarks/calibration/coverage.py [--trials N] [--seed S] [--jobs J] [--resume]``
"""

from __future__ import annotations

import os

# Before numpy is imported: one thread a job.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from common import RESULTS, SEED, plan_seed, read_rows, share_cells, stream, write_rows
from processes import PROCESSES, Process, Table, Weighted
from svg import Panel, Series, write_panels

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    ContrastResult,
    WeightPlan,
    available_methods,
    has_ideal,
    ideal_intervals,
    intervals_many,
    weighted_intervals_many,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVEL = 0.95
SIZES = (10, 20, 50, 200, 1000)
BATCH = 50
# The ideal interval differs from the plan's by Monte Carlo noise only, and case weights cost a hundred times more.
IDEAL_SHARE = 4
COSTLY_SHARE = 4
N_REPLICATES = 1999
N_COSTLY_REPLICATES = 999

METHODS = ("expanded_percentile", "percentile", "basic", "bca", "studentized", "delta_t")
IDEAL = {"expanded_percentile": "ideal_expanded_percentile", "percentile": "ideal_percentile"}
ORDER = (*METHODS, *IDEAL.values())
HEADER = (
    "process",
    "analysis",
    "n",
    "interval",
    "trials",
    "coverage",
    "coverage_low",
    "coverage_high",
    "wholly_below",
    "wholly_above",
    "mean_width",
    "unbounded",
    "flagged",
    "coverage_unflagged",
    "seed",
)
TABLE = RESULTS / "coverage.csv"
PICTURE = RESULTS / "coverage.svg"


@dataclass(slots=True)
class Tally:
    """What one interval did over the samples of a cell."""

    trials: int = 0
    below: int = 0
    above: int = 0
    flagged: int = 0
    hits_unflagged: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, low: float, high: float, truth: float, *, flagged: bool) -> None:
        """Count one interval; a flagged one is one that no verdict would rest on."""
        self.trials += 1
        self.below += high < truth
        self.above += low > truth
        self.flagged += flagged
        self.hits_unflagged += low <= truth <= high and not flagged
        if math.isfinite(high - low):
            self.widths.append(high - low)

    def cells(self) -> list[str]:
        """Return the columns from `trials` to `coverage_unflagged`."""
        n = self.trials
        bounded, unflagged = len(self.widths), n - self.flagged
        return [
            str(n),
            *share_cells(n - self.below - self.above, n),
            f"{self.below / n:.4f}",
            f"{self.above / n:.4f}",
            f"{math.fsum(self.widths) / bounded:.4g}" if bounded else "",
            f"{1.0 - bounded / n:.4f}",
            f"{self.flagged / n:.4f}",
            f"{self.hits_unflagged / unflagged:.4f}" if unflagged else "",
        ]


Tallies = dict[tuple[str, str], Tally]


def measure(process: Process, n: int, trials: int, seed: int) -> list[list[str]]:
    """Return the rows of one cell."""
    tallies: Tallies = {}
    wanted = max(1, trials // COSTLY_SHARE) if process.costly and n == SIZES[-1] else trials
    for first in range(0, wanted, BATCH):
        rng = np.random.default_rng(stream(seed, process.name, n, first))
        samples = [process.draw(rng, n) for _ in range(min(BATCH, wanted - first))]
        for analysis in samples[0]:
            requests = [sample[analysis] for sample in samples]
            key = plan_seed(seed, process.name, n, first, analysis)
            for result in _results(requests, key):
                _count(tallies, analysis, result, process.truth, {})
            if process.ideal and first < max(BATCH, wanted // IDEAL_SHARE):
                _count_ideal(tallies, analysis, requests, process.truth)
    order = sorted(tallies, key=lambda at: (list(samples[0]).index(at[0]), ORDER.index(at[1])))
    return [[process.name, at[0], str(n), at[1], *tallies[at].cells(), str(seed)] for at in order]


def _results(requests: list[Table | Weighted], seed: int) -> Iterator[ContrastResult]:
    one = requests[0]
    if isinstance(one, Weighted):
        open_to_all = available_methods(one.statistic, one.design)
        methods = [method for method in METHODS if open_to_all[method] is None]
        plan = WeightPlan(one.design, N_COSTLY_REPLICATES, seed)
        yield from weighted_intervals_many([r.statistic for r in requests], plan, LEVEL, methods=methods)
        return
    pairs = [(r.table, r.weights) for r in requests]
    plan = BootstrapPlan(one.table.n_units, N_REPLICATES, seed)
    for (result,) in intervals_many(pairs, plan, LEVEL, methods=METHODS):
        yield result


def _count(
    tallies: Tallies, analysis: str, result: ContrastResult, truth: float, names: dict[str, str]
) -> None:
    flagged = result.degenerate or not result.usable
    for interval in result.intervals:
        name = names.get(interval.method, str(interval.method))
        tally = tallies.setdefault((analysis, name), Tally())
        tally.add(interval.low, interval.high, truth, flagged=flagged)


def _count_ideal(tallies: Tallies, analysis: str, requests: list[Table | Weighted], truth: float) -> None:
    for request in requests:
        if not isinstance(request, Table) or not has_ideal(request.table, request.weights):
            return
        try:
            (result,) = ideal_intervals(request.table, request.weights, LEVEL)
        except InferenceError:
            # No interval: a miss, and flagged.
            for name in IDEAL.values():
                tallies.setdefault((analysis, name), Tally()).add(math.inf, math.inf, truth, flagged=True)
            continue
        _count(tallies, analysis, result, truth, IDEAL)


def draw_picture(rows: list[list[str]]) -> None:
    """Draw one panel for each process and analysis: coverage against n."""
    names = {process.name: process.title for process in PROCESSES}
    panels: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        if row[3] in METHODS:
            lines = panels.setdefault((row[0], row[1]), {})
            lines.setdefault(row[3], []).append((float(row[2]), float(row[5])))
    write_panels(
        PICTURE,
        [
            Panel(
                names[name] + ("" if analysis == "iid" else f", {analysis}"),
                tuple(Series(method, tuple(points)) for method, points in lines.items()),
            )
            for (name, analysis), lines in panels.items()
        ],
        title="Coverage of nominal 95% intervals by number of independent units",
        floor=0.2,
        line=LEVEL,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000, help="samples a cell (default 1000)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--resume", action="store_true", help="keep the finished cells of this seed and size")
    options = parser.parse_args()
    cells = [(process, n) for process in PROCESSES for n in SIZES]
    done: dict[tuple[str, str], list[list[str]]] = {}
    for row in read_rows(TABLE, HEADER) if options.resume else []:
        done.setdefault((row[0], row[2]), []).append(row)
    done = {at: rows for at, rows in done.items() if _same_run(rows, at, options.trials, options.seed)}
    left = [(process, n) for process, n in cells if (process.name, str(n)) not in done]

    def save() -> list[list[str]]:
        rows = [row for process, n in cells for row in done.get((process.name, str(n)), [])]
        write_rows(TABLE, HEADER, rows)
        return rows

    with ProcessPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(_measure, p.name, n, options.trials, options.seed) for p, n in left]
        for (process, n), task in zip(left, tasks, strict=True):
            done[process.name, str(n)] = task.result()
            save()
            print(f"{process.name}, n = {n}", flush=True)
    draw_picture(save())


def _measure(name: str, n: int, trials: int, seed: int) -> list[list[str]]:
    """Find the process by name: its functions don't travel to another Python process."""
    return measure(next(p for p in PROCESSES if p.name == name), n, trials, seed)


def _same_run(rows: list[list[str]], at: tuple[str, str], trials: int, seed: int) -> bool:
    costly = next((p.costly for p in PROCESSES if p.name == at[0]), False)
    wanted = max(1, trials // COSTLY_SHARE) if costly and at[1] == str(SIZES[-1]) else trials
    return rows[0][4] == str(wanted) and all(row[-1] == str(seed) for row in rows)


if __name__ == "__main__":
    main()
