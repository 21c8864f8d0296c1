"""How much faster than arch, in one run on one machine.

Each pair is timed alternately, several times, and the medians are compared, so that a busy moment falls
on both. Run it alone on an idle machine: ``python benchmarks/inference.py``; ``--write`` replaces
``benchmarks/results/inference.csv``.
"""

from __future__ import annotations

import os

# Before numpy is imported: one thread, as arch uses one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import statistics
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from arch.bootstrap import IIDBootstrap
from machine import machine
from rich.console import Console
from rich.table import Table

from prereg.inference import (
    BootstrapPlan,
    RatioTable,
    ideal_intervals,
    intervals,
    intervals_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

N_UNITS = 2_000
N_REPLICATES = 10_000
N_GATES = 10
RESULTS = Path(__file__).parent / "results" / "inference.csv"


def make_table(seed: int) -> RatioTable:
    rng = np.random.default_rng(seed)
    names = [f"s{i:05d}" for i in range(N_UNITS)]
    return RatioTable.from_rows(names, rng.normal(0.1, 1.0, N_UNITS), rng.exponential(1.0, N_UNITS))


def ratio(d: np.ndarray, t: np.ndarray) -> float:
    return float(d.sum() / t.sum())


def arch_percentile(table: RatioTable) -> np.ndarray:
    boot = IIDBootstrap(table.numerator[:, 0], table.denominator[:, 0], seed=1)
    return boot.conf_int(ratio, reps=N_REPLICATES, method="percentile").ravel()


def alternate(first: Callable[[], object], second: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median wall milliseconds of each, measured in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for run, spent in zip((first, second), times, strict=True):
            start = time.perf_counter()
            run()
            spent.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[0]), statistics.median(times[1])


def peak_extra_mb(run: Callable[[], object]) -> float:
    """Return the peak of memory that Python and numpy allocated during one run, in MB."""
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def check_agreement(table: RatioTable) -> None:
    """Refuse to time two things that don't answer the same question."""
    ideal = ideal_intervals(table, [1.0])[0].interval("percentile", 0.95)
    width = ideal.high - ideal.low
    gap = np.abs(arch_percentile(table) - [ideal.low, ideal.high]).max()
    assert gap < 0.05 * width, f"arch and the ideal interval differ by {gap / width:.1%} of its width"


def measure(repeats: int) -> list[tuple[str, float, float, str]]:
    tables = [make_table(seed) for seed in range(N_GATES)]
    one = tables[0]
    plan = BootstrapPlan(N_UNITS, N_REPLICATES, 1)
    requests = [(table, [1.0]) for table in tables]
    check_agreement(one)
    rows = []

    def compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], n: int) -> None:
        ours()
        a, b = alternate(ours, theirs, n)
        rows.append((name, a, b, "ms"))

    compare("ideal interval", lambda: ideal_intervals(one, [1.0]), lambda: arch_percentile(one), repeats)
    compare(
        "six methods, one plan", lambda: intervals(one, [1.0], plan), lambda: arch_percentile(one), repeats
    )
    compare(
        f"{N_GATES} gates on one plan, the registered interval each",
        lambda: intervals_many(requests, plan, methods=("expanded_percentile",)),
        lambda: [arch_percentile(table) for table in tables],
        max(3, repeats // 3),
    )
    compare(
        f"{N_GATES} gates on one plan, six methods each",
        lambda: intervals_many(requests, plan),
        lambda: [arch_percentile(table) for table in tables],
        max(3, repeats // 3),
    )
    rows.append(
        (
            "peak extra memory",
            peak_extra_mb(lambda: intervals(one, [1.0], plan)),
            peak_extra_mb(lambda: arch_percentile(one)),
            "MB",
        )
    )
    return rows


def show(rows: list[tuple[str, float, float, str]]) -> None:
    table = Table(title=f"N = {N_UNITS:,} units, B = {N_REPLICATES:,}", caption=machine("numpy"))
    for heading in ("what", "prereg", "arch percentile", "arch / prereg"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for name, ours, theirs, unit in rows:
        table.add_row(name, f"{ours:.1f} {unit}", f"{theirs:.1f} {unit}", f"{theirs / ours:.1f}")
    Console().print(table)


def write(rows: list[tuple[str, float, float, str]]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "prereg", "arch_percentile", "unit", "ratio", "machine"])
        for name, ours, theirs, unit in rows:
            writer.writerow(
                [name, f"{ours:.3f}", f"{theirs:.3f}", unit, f"{theirs / ours:.2f}", machine("numpy")]
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="timings of each side (default 9)")
    parser.add_argument("--write", action="store_true", help=f"replace {RESULTS.name}")
    options = parser.parse_args()
    rows = measure(options.repeats)
    show(rows)
    if options.write:
        write(rows)


if __name__ == "__main__":
    main()
