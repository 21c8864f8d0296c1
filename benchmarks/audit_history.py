"""What walking a long history costs, beside the least that git itself needs for it.

    python benchmarks/audit_history.py [--commits 10000] [--rounds 5] [--write]

A repository is made with `git fast-import`: a commit in ten is a merge of a side branch, every commit changes a
file, and the files of a study change now and then. Timed are, in turn, the walk (commits, the versions of six paths
and the listings of one folder, from a fresh `Repository`) and the floor: `git rev-list --count HEAD`, which reads
each commit once, commit-graph off, and prints one number. Nobody can know the history without reading it, so no
audit is faster than the floor. The ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from machine import machine

from prereg.registration.history import Repository

RESULTS = Path(__file__).parent / "results" / "audit_history.csv"
STUDY = "gates/study"
PATHS = (
    f"{STUDY}/protocol.toml",
    f"{STUDY}/registration.json",
    f"{STUDY}/test_h1.py",
    f"{STUDY}/test_h2.py",
    "reports/study/model/verdicts.json",
    "src/package/analysis.py",
)


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=20, help="files in the root of the tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"replace {RESULTS.name}")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build(root, asked.commits, asked.files)
        rows = measure(root, asked.commits, asked.rounds)
    for row in rows:
        print(f"{row['what']:44s} {row['seconds']:>8s} s   {row['ratio']:>7s} of the floor")
    if asked.write:
        with RESULTS.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def measure(root: Path, commits: int, rounds: int) -> list[dict[str, str]]:
    """Return one row for each part, in the order of the walk."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        clock = time.perf_counter()
        git(root, "-c", "core.commitGraph=false", "rev-list", "--count", "HEAD")
        floor = time.perf_counter() - clock
        times.setdefault("git rev-list --count HEAD (the floor)", []).append(floor)
        for what, seconds in walk(root, commits):
            times.setdefault(what, []).append(seconds)
    base = times["git rev-list --count HEAD (the floor)"]
    return [
        {
            "what": what,
            "commits": str(commits),
            "rounds": str(rounds),
            "seconds": f"{statistics.median(found):.3f}",
            "ratio": f"{statistics.median(a / b for a, b in zip(found, base, strict=True)):.1f}",
            "machine": machine(),
        }
        for what, found in times.items()
    ]


def walk(root: Path, commits: int) -> Iterator[tuple[str, float]]:
    """Yield what was done and how long it took."""
    start = clock = time.perf_counter()
    repository = Repository.open(root)
    if len(repository.commits) != commits:
        raise SystemExit(f"{len(repository.commits)} commits were read, {commits} were made")
    yield "commits", time.perf_counter() - clock
    clock = time.perf_counter()
    for path in PATHS:
        repository.versions(path)
    yield f"versions of {len(PATHS)} paths", time.perf_counter() - clock
    yield f"commits and versions of {len(PATHS)} paths", time.perf_counter() - start
    clock = time.perf_counter()
    repository.listings(STUDY)
    yield "listings of the study's folder", time.perf_counter() - clock
    clock = time.perf_counter()
    repository.is_ancestor(repository.commits[0].id, repository.head)
    yield "descendants of one commit", time.perf_counter() - clock
    clock = time.perf_counter()
    found = repository.obstacles()
    yield "obstacles, once the commits are known", time.perf_counter() - clock
    if found:
        raise SystemExit(f"obstacles in a whole history: {found}")
    clock = time.perf_counter()
    Repository.open(root).quick(root / STUDY / "registration.json")
    yield "quick look", time.perf_counter() - clock


def build(root: Path, commits: int, files: int) -> None:
    """Make the repository, packed as a clone would be, with its files checked out."""
    git(root, "init", "--quiet", "--initial-branch=main")
    stream = b"".join(commands(commits, files))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=stream, check=True)
    git(root, "repack", "-a", "-d", "--quiet")
    git(root, "reset", "--quiet", "--hard", "main")


def commands(commits: int, files: int) -> Iterator[bytes]:
    """Yield the history for fast-import: mark n is commit n."""
    for number in range(1, commits + 1):
        side, joins = number % 10 == 8, number % 10 == 9
        yield b"commit refs/heads/%s\nmark :%d\n" % (b"side" if side else b"main", number)
        yield b"committer Ada <ada@example.org> %d +0000\n" % (1_700_000_000 + 60 * number)
        yield b"data 9\nA change.\n"
        if number > 1:
            yield b"from :%d\n" % (number - 2 if joins else number - 1)
        if joins:
            yield b"merge :%d\n" % (number - 1)
        if number == 1:
            for other in range(files):
                yield inline(f"file{other:03d}", "as it was")
            for path in PATHS:
                yield inline(path, "at first")
        yield inline(f"file{number % files:03d}", f"as commit {number} has it")
        if joins:
            yield inline(f"file{(number - 1) % files:03d}", f"as commit {number - 1} has it")
        if number % 50 == 0:
            yield inline(PATHS[number // 50 % len(PATHS)], f"as commit {number} has it")
        yield b"\n"


def inline(path: str, text: str) -> bytes:
    """Return the command that sets one file."""
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(text), text.encode())


def git(root: Path, *arguments: str) -> None:
    """Run git quietly, without the machine's configuration."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=root, env=env, capture_output=True, check=True)


if __name__ == "__main__":
    main()
