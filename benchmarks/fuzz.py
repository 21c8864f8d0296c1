"""Reads very many hostile variants of protocols, registrations, amendments and attempts.

Each must end in a PreregError or in what the file says, within seconds and within a bound of memory. What doesn't
is printed, and kept under --keep; the exit code is then 1.

    python benchmarks/fuzz.py --n 100000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.protocol.fuzz import SLOW, Fault, attack, targets

MEMORY = 1 << 30
"""Bytes that a process may take beyond what it has when it starts."""


def stop(_signum: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"not done after {4 * SLOW:.0f} s")


def limit_memory() -> None:
    with Path("/proc/self/statm").open() as handle:
        pages = int(handle.read().split()[0])
    bound = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def work(seed: int, n: int) -> tuple[Counter[str], list[Fault], float]:
    """Attack n files; return how many of each were read or refused, the faults, and the longest time (CPU s)."""
    signal.signal(signal.SIGPROF, stop)
    rnd = random.Random(seed)  # noqa: S311 (nothing secret)
    all_targets = targets()
    limit_memory()
    counts: Counter[str] = Counter()
    faults: list[Fault] = []
    longest = 0.0
    for _ in range(n):
        target = rnd.choice(all_targets)
        signal.setitimer(signal.ITIMER_PROF, 4 * SLOW)
        start = time.process_time()
        _, read, fault = attack(target, rnd)
        longest = max(longest, time.process_time() - start)
        signal.setitimer(signal.ITIMER_PROF, 0)
        counts[f"{target.name}: {'read' if read else 'refused'}"] += 1
        if fault is not None:
            faults.append(fault)
            if len(faults) == 100:
                break
    return counts, faults, longest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000, help="files to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, help="folder for the files that broke a rule")
    options = parser.parse_args()
    start = time.perf_counter()
    # In pieces, so that a seed says the same whatever the number of processes.
    size = 5_000
    pieces = [
        (options.seed * 1_000_003 + i, min(size, options.n - i * size)) for i in range(-(-options.n // size))
    ]
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        found = list(pool.map(work, *zip(*pieces, strict=True)))
    counts = sum((counts for counts, _, _ in found), Counter[str]())
    faults = [fault for _, some, _ in found for fault in some]
    for name, count in sorted(counts.items()):
        print(f"{count:>9,}  {name}")
    took = time.perf_counter() - start
    print(
        f"{counts.total():,} files in {took:.0f} s, the longest {max(f[2] for f in found):.2f} s; {len(faults)} faults"
    )
    for i, fault in enumerate(faults):
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{i:04d}").write_bytes(fault.raw)
        print(f"FAULT {i}: {fault.target}: {fault.what}: {fault.raw[:200]!r}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
