"""What answering a study costs: with its evidence at hand, and from nothing but the fetched model.

    python benchmarks/gates.py warm [--model NAME] [--report-dir DIR] [--write]
    python benchmarks/gates.py cold [--model NAME] [--write]

``warm`` times `pytest gates/` beside an empty pytest run that imports numpy, pydantic and pyarrow.parquet, the
least that a reader of evidence needs: interleaved, whole processes; the ratio is the median over rounds of one
round's two times. It also says which heavy modules the gates brought in; torch or transformers there is a failure.

``cold`` answers the study once in a fresh cache and a fresh report folder, and splits the time by what the run says
it is at. The model itself is taken from the usual cache, where ``prereg models --fetch NAME`` puts it.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from machine import machine

from prereg.pipeline import RunOptions, default_cache
from prereg.study import Study

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
FORBIDDEN = {"torch", "transformers"}
HEAVY = (
    *sorted(FORBIDDEN),
    "transformer_lens",
    "pandas",
    "scipy.stats",
    "joblib",
    "sklearn",
    "rich",
    "scipy",
)
FIELDS = {
    "warm": ("what", "model", "rounds", "wall_s", "cpu_s", "ratio_wall", "ratio_cpu", "heavy", "machine"),
    "cold": ("stage", "model", "minutes", "jobs", "machine"),
}
CACHED = ("stores", "checkpoints", "locks")
"""What of a cache comes from capturing and measuring; the rest is the fetched model."""

EMPTY = "import numpy, pydantic, pyarrow.parquet\n\n\ndef test_nothing():\n    pass\n"
TOLD = """\
import os
import sys


def pytest_unconfigure():
    with open(os.environ["TOLD"], "w") as file:
        file.write("\\n".join(sys.modules))
"""


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]


def gates(asked: argparse.Namespace, cache: Path, reports: Path | None) -> list[str]:
    """Return the command that answers the study, whatever the answers, on a model that is here."""
    where = ["--cache-dir", str(cache), *(["--report-dir", str(reports)] if reports else [])]
    jobs = ["--jobs", str(asked.jobs)] if asked.jobs else []
    return pytest(str(asked.study), "--model", asked.model, "--offline", "--gate-exit=harness", *where, *jobs)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


# -- warm -------------------------------------------------------------------------------------------


def warm(asked: argparse.Namespace) -> list[dict[str, Any]]:
    cache = asked.cache_dir or default_cache()
    require_evidence(asked, cache)
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty" / "test_empty.py"
        empty.parent.mkdir()
        empty.write_text(EMPTY)
        (empty.parent / "pytest.ini").write_text("[pytest]\n")
        commands = {
            "empty pytest and imports": pytest("-p", "no:prereg", "--rootdir", str(empty.parent), str(empty)),
            "gates": gates(asked, cache, asked.report_dir),
        }
        # Once unmeasured: files get into memory, and what the gates import is told.
        heavy = imported(commands["gates"], Path(folder))
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(asked.rounds):
            for name, command in commands.items():
                times[name].append(timed(command))
                print(
                    f"{name:26s} wall {times[name][-1][0]:6.2f} s   cpu {times[name][-1][1]:6.2f} s",
                    flush=True,
                )
    base = times["empty pytest and imports"]
    rows = [
        {
            "what": name,
            "model": asked.model,
            "rounds": asked.rounds,
            "wall_s": f"{statistics.median(wall for wall, _ in found):.2f}",
            "cpu_s": f"{statistics.median(cpu for _, cpu in found):.2f}",
            "ratio_wall": ratio(found, base, 0),
            "ratio_cpu": ratio(found, base, 1),
            "heavy": " ".join(heavy) if name == "gates" else "",
        }
        for name, found in times.items()
    ]
    print(f"heavy modules that the gates brought in: {', '.join(heavy) or 'none'}")
    if FORBIDDEN & set(heavy):
        raise SystemExit(f"a warm run must import none of {', '.join(sorted(FORBIDDEN))}")
    return rows


def require_evidence(asked: argparse.Namespace, cache: Path) -> None:
    """Refuse to time a run that would capture and measure."""
    options = RunOptions(root=ROOT, cache=cache, reports=asked.report_dir, offline=True)
    study = Study.open(asked.study, model=asked.model, options=options)
    missing = [name for name in study.hypotheses if not study.is_ready(name)]
    if missing:
        raise SystemExit(
            f"{asked.model}: no evidence for {', '.join(missing)} in {study.pipeline.evidence_folder}: "
            f"first run `prereg measure {asked.study} --model {asked.model}`"
        )


def imported(command: list[str], folder: Path) -> list[str]:
    (folder / "told_modules.py").write_text(TOLD)
    told = folder / "modules"
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [*command, "-p", "told_modules"],
        cwd=ROOT,
        env=environment(PYTHONPATH=paths, TOLD=str(told)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"the gates were not answered:\n{done.stdout}{done.stderr}")
    return [name for name in HEAVY if name in told.read_text().split()]


def timed(command: list[str]) -> tuple[float, float]:
    """Return the wall and CPU seconds of one process."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=True)
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent


def ratio(times: list[tuple[float, float]], base: list[tuple[float, float]], which: int) -> str:
    return f"{statistics.median(a[which] / b[which] for a, b in zip(times, base, strict=True)):.2f}"


# -- cold -------------------------------------------------------------------------------------------


def cold(asked: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        reports = asked.report_dir or Path(folder) / "reports"
        lend_model(asked.cache_dir or default_cache(), cache)
        command = gates(asked, cache, reports)
        print("$", " ".join(command), flush=True)
        seconds = by_stage(command)
    seconds["whole study"] = sum(seconds.values())
    for stage, spent in seconds.items():
        print(f"{stage:28s} {spent / 60:7.2f} min")
    jobs = asked.jobs or "one a core"
    return [
        {"stage": stage, "model": asked.model, "minutes": f"{spent / 60:.2f}", "jobs": jobs}
        for stage, spent in seconds.items()
    ]


def lend_model(usual: Path, fresh: Path) -> None:
    """Let a fresh cache see the models of the usual one, and nothing that was captured or measured."""
    fresh.mkdir()
    for entry in usual.iterdir() if usual.is_dir() else ():
        if entry.name not in CACHED:
            (fresh / entry.name).symlink_to(entry.resolve())


def by_stage(command: list[str]) -> dict[str, float]:
    """Run to the end and return the seconds of each stage, as the run's own lines divide it."""
    seconds: dict[str, float] = {}
    with tempfile.TemporaryFile("w+") as out:
        run = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=out, stderr=subprocess.PIPE, text=True
        )
        stage, since = "start", time.perf_counter()
        for line, wanted in stages(run.stderr or ()):
            print(line.rstrip(), flush=True)
            if wanted is not None:
                now = time.perf_counter()
                seconds[stage] = seconds.get(stage, 0.0) + now - since
                stage, since = wanted, now
        code = run.wait()
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - since
        out.seek(0)
        print(out.read())
    if code != 0:
        raise SystemExit(f"not every hypothesis was answered: exit status {code}")
    return seconds


def stages(lines: Iterable[str]) -> Iterable[tuple[str, str | None]]:
    """Yield each line with the stage that it begins, None where it begins none."""
    for line in lines:
        capture = re.match(r"prereg: activations of .* \((.+)\)", line)
        measure = re.match(r"prereg: measuring (\S+) on .* \((.+)\)", line)
        fitted = re.match(r"[a-z ]*kernels: \S+ done in", line)
        if capture:
            yield line, f"capture {capture[1]}"
        elif measure:
            yield line, f"{measure[1]} {measure[2]}"
        elif fitted:
            yield line, "loading, evidence, verdicts"
        else:
            yield line, None


def write(mode: str, rows: list[dict[str, Any]], model: str) -> None:
    """Replace this model's rows in the results, and keep other models'."""
    file = RESULTS / f"gates_{mode}.csv"
    kept = []
    if file.exists():
        with file.open(newline="", encoding="utf-8") as handle:
            kept = [row for row in csv.DictReader(handle) if row["model"] != model]
    file.parent.mkdir(exist_ok=True)
    where = machine("pytest", "numpy", "pyarrow", *(["torch"] if mode == "cold" else []))
    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, FIELDS[mode], lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept + [row | {"machine": where} for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=("warm", "cold"))
    parser.add_argument("--model", default="pythia-tiny")
    parser.add_argument("--study", type=Path, default=ROOT / "gates" / "delta_stream")
    parser.add_argument("--report-dir", type=Path, help="where evidence lies, or is left by a cold run")
    parser.add_argument("--cache-dir", type=Path, help="where the model lies [default: the usual cache]")
    parser.add_argument("--jobs", type=int, help="worker processes [default: one for each core]")
    parser.add_argument("--rounds", type=int, default=5, help="warm: rounds of both runs [default: 5]")
    parser.add_argument("--write", action="store_true", help="store the result under results/")
    asked = parser.parse_args()
    for name in ("study", "report_dir", "cache_dir"):
        if getattr(asked, name) is not None:
            setattr(asked, name, getattr(asked, name).resolve())
    rows = {"warm": warm, "cold": cold}[asked.mode](asked)
    for row in rows:
        print({name: value for name, value in row.items() if value != ""})
    if asked.write:
        write(asked.mode, rows, asked.model)


if __name__ == "__main__":
    main()
