"""Ten and a hundred gates on one plan against as many arch runs, and the memory that intervals take.

Both sides are timed in turn, in one process. Run it alone on an idle machine: ``python benchmarks/gates100.py``;
``--write`` replaces ``benchmarks/results/gates100.csv``, whose column `load` says whether the machine was idle.
"""

from __future__ import annotations

import os

# Before numpy is imported: one thread, as arch uses one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from machine import machine
from rich.console import Console
from rich.table import Table

from inference import (
    N_REPLICATES,
    N_UNITS,
    alternate,
    arch_percentile,
    check_agreement,
    make_table,
    peak_extra_mb,
)
from prereg.inference import (
    BootstrapPlan,
    RatioTable,
    headline_intervals,
    ideal_intervals,
    intervals,
    intervals_many,
)

RESULTS = Path(__file__).parent / "results" / "gates100.csv"
HEADER = ("what", "prereg", "arch_percentile", "unit", "ratio", "wanted", "met", "load", "machine")
REGISTERED = ("expanded_percentile",)
MANY_UNITS = 1_000_000
# The peak is in the blocks of draws, which are alike; only the replicates themselves, 8 bytes each, grow with B.
FEW_REPLICATES = 128
IDLE = 1.5

Row = tuple[str, float, float | None, str, str, bool]


def load() -> float:
    """Return the load of the last minute."""
    return os.getloadavg()[0]


def wait_for_idle(seconds: float) -> None:
    """Wait until the load is low, at most so long."""
    until = time.monotonic() + seconds
    while load() >= IDLE and time.monotonic() < until:
        time.sleep(5.0)


def state_of(before: float, after: float) -> str:
    """Say whether the machine was idle: by the load before, and by the load after, of which 1 is this process."""
    idle = before < IDLE and after < IDLE + 1.0
    return f"{'idle' if idle else 'loaded'} ({before:.2f} to {after:.2f})"


def speed(n_gates: int, wanted: float, repeats: int) -> Row:
    """Time the registered interval of each gate on one plan against arch's percentile interval of each."""
    tables = [make_table(seed) for seed in range(n_gates)]
    plan = BootstrapPlan(N_UNITS, N_REPLICATES, 1)
    requests = [(table, [1.0]) for table in tables]

    def ours() -> object:
        return intervals_many(requests, plan, methods=REGISTERED)

    ours()
    a, b = alternate(ours, lambda: [arch_percentile(table) for table in tables], repeats)
    return (f"{n_gates} gates on one plan", a, b, "ms", f"ratio >= {wanted:g}", b / a >= wanted)


def memory() -> list[Row]:
    """Measure the peak of memory beyond the tables, which are made before."""
    rows: list[Row] = []

    def add(what: str, mb: float, arch: float | None, most: float) -> None:
        rows.append((what, mb, arch, "MB", f"<= {most:g} MB", mb <= most))

    hundred = [(make_table(seed), [1.0]) for seed in range(100)]
    one = hundred[0][0]
    plan = BootstrapPlan(N_UNITS, N_REPLICATES, 1)
    theirs = peak_extra_mb(lambda: arch_percentile(one))
    add("peak memory, one gate, six methods", peak_extra_mb(lambda: intervals(one, [1.0], plan)), theirs, 50)
    add(
        "peak memory, 100 gates",
        peak_extra_mb(lambda: intervals_many(hundred, plan, methods=REGISTERED)),
        None,
        50,
    )
    table = _large_table()
    large = BootstrapPlan(MANY_UNITS, FEW_REPLICATES, 1)
    what = f"peak memory, N = 1,000,000, B = {FEW_REPLICATES}"
    for name, methods in (("registered interval", REGISTERED), ("six methods", None)):
        chosen = {} if methods is None else {"methods": methods}
        add(f"{what}, {name}", peak_extra_mb(lambda c=chosen: intervals(table, [1.0], large, **c)), None, 200)
    ideal = peak_extra_mb(lambda: ideal_intervals(table, [1.0]))
    add("peak memory, N = 1,000,000, ideal", ideal, None, 200)
    headline = peak_extra_mb(lambda: headline_intervals(table, [1.0], large))
    add(f"{what}, all that a gate reports", headline, None, 200)
    return rows


def _large_table() -> RatioTable:
    rng = np.random.default_rng(1)
    names = tuple(f"s{i:07d}" for i in range(MANY_UNITS))
    top, bottom = rng.normal(0.1, 1.0, MANY_UNITS), rng.exponential(1.0, MANY_UNITS)
    return RatioTable(names, top, bottom, MANY_UNITS)


def cells(row: Row, state: str) -> list[str]:
    """Return one row of the table as text."""
    what, ours, theirs, unit, wanted, met = row
    arch, ratio = ("", "") if theirs is None else (f"{theirs:.2f}", f"{theirs / ours:.2f}")
    return [
        what,
        f"{ours:.2f}",
        arch,
        unit,
        ratio,
        wanted,
        "yes" if met else "no",
        state,
        machine("numpy", "arch"),
    ]


def show(rows: list[list[str]]) -> None:
    table = Table(title=f"N = {N_UNITS:,} units, B = {N_REPLICATES:,}", caption=machine("numpy", "arch"))
    for heading in HEADER[:-1]:
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for row in rows:
        table.add_row(*row[:-1])
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="timings of each side (default 5)")
    parser.add_argument("--wait", type=float, default=300.0, help="seconds to wait for an idle machine")
    parser.add_argument("--write", action="store_true", help=f"replace {RESULTS.name}")
    options = parser.parse_args()
    check_agreement(make_table(0))
    wait_for_idle(options.wait)
    before = load()
    timed = [speed(10, 10.0, options.repeats), speed(100, 40.0, max(3, options.repeats // 2))]
    state = state_of(before, load())
    rows = [cells(row, state) for row in timed] + [cells(row, "") for row in memory()]
    show(rows)
    if options.write:
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
