"""A project with the real study, made small, and no evidence: what a cold run starts from.

Nothing in it is made up: the embedded model, its facts, the study's gates. Only the protocol's sizes are cut,
by text, so that capture, three twins, kernels and bands take seconds. Each hypothesis then has an answer; none
of them means anything.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.synthetic import REPOSITORY

STUDY = "delta_stream"
ARMS = ("model", "twin-1", "twin-2", "twin-3")
ANSWERS = {"supported", "refuted", "inconclusive"}
LONGEST = 300.0
"""Seconds after which a run counts as hung. No test depends on how long anything takes."""

_FEWER = {
    "max_per_template     = 60": "max_per_template     = 15",
    "orders              = [1, 2, 3, 4]": "orders              = [1, 2]",
    "joint_orders        = [1, 4]": "joint_orders        = [1]",
    "[0.0, 0.1, 0.3, 1.0]": "[0.0, 1.0]",
    "1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 1e1, 3e1, 1e2, 3e2]": "1e-3, 1e-2, 1e-1, 1.0, 1e1]",
    "folds               = 5": "folds               = 3",
    "shuffles            = 99": "shuffles            = 19",
    "joint_shuffles      = 3": "joint_shuffles      = 2",
    "replicates        = 10000": "replicates        = 1000",
}

SOURCES = "delta_stream_sources"
"""The study of sparse sources."""

_FEWER_SOURCES = {
    "max_per_template     = 60": "max_per_template     = 20",
    "width               = 512": "width               = 24",
    "k                   = 32": "k                   = 4",
    "steps               = 400": "steps               = 30",
    "batch               = 256": "batch               = 64",
    "auxiliary_k         = 64": "auxiliary_k         = 4",
    "l0_tolerance        = 0.1": "l0_tolerance        = 0.9",
    "state               = 32": "state               = 4",
    "rank                = 32": "rank                = 4",
    "[[16, 16], [16, 32], [64, 32], [64, 64]]": "[[2, 2]]",
    "1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 1e1, 3e1, 1e2, 3e2, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6]": (
        "1e-3, 1e-1, 1e1, 1e3, 1e6]"
    ),
    "[0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 1e1, 3e1, 1e2, 3e2]": "[0.0, 0.1, 1.0, 10.0]",
    "edge_tolerance      = 0.005": "edge_tolerance      = 0.5",
    "shuffles            = 5": "shuffles            = 1",
    "jackknife_groups    = 20": "jackknife_groups    = 10",
    "candidates       = 64": "candidates       = 6",
    "min_subjects     = 30": "min_subjects     = 5",
    "group            = 8": "group            = 2",
    "random_draws     = 8": "random_draws     = 2",
    "group_draws      = 16": "group_draws      = 2",
    "replicates        = 10000": "replicates        = 1000",
}

_SMALLER = {STUDY: _FEWER, SOURCES: _FEWER_SOURCES}

# Takes part in every run of the project: tells which modules each process had loaded in the end, and halts the
# run at the n-th call of a function of ours, where a test asks for it.
_CONFTEST = """\
import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent


def halt(action):
    if action == "pause":
        (HERE / "paused").touch()
        while True:
            time.sleep(0.01)
    os.kill(os.getpid(), getattr(signal, action))


def stop_at(module, name, nth, action):
    # As a debugger does it: a function that was replaced would be found, and every gate refused.
    owner = importlib.import_module(module)
    for part in name.split("."):
        owner = getattr(owner, part)
    code, calls = owner.__code__, []

    def counted(frame, event, argument):
        if event == "call" and frame.f_code is code:
            calls.append(1)
            if len(calls) == int(nth):
                halt(action)

    sys.settrace(counted)
    threading.settrace(counted)


if "STOP_AT" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
    stop_at(*os.environ["STOP_AT"].split(":"))


def pytest_unconfigure(config):
    who = os.environ.get("PYTEST_XDIST_WORKER", "main")
    (HERE / f"modules.{who}").write_text("\\n".join(sorted(sys.modules)))
"""


def make_cold_project(root: Path, *, study: str = STUDY, pytest_options: str = "") -> Path:
    """Write the project into `root`, created if need be, and return it.

    Parameters
    ----------
    root
        Where; it must not hold a project yet.
    study
        Which of the project's own studies.
    pytest_options
        Further lines for the project's own pytest configuration.
    """
    folder = root / "gates" / study
    folder.mkdir(parents=True)
    (root / "fixtures").symlink_to(REPOSITORY / "fixtures")
    (root / "pyproject.toml").write_text(f'[tool.pytest]\ntestpaths = ["gates"]\n{pytest_options}')
    (root / "conftest.py").write_text(_CONFTEST)
    for gate in (REPOSITORY / "gates" / study).glob("test_*.py"):
        shutil.copy(gate, folder)
    protocol = (REPOSITORY / "gates" / study / "protocol.toml").read_text()
    (folder / "protocol.toml").write_text(_small(protocol, _SMALLER[study]))
    return root


def _small(protocol: str, fewer: dict[str, str]) -> str:
    for found, wanted in fewer.items():
        if found not in protocol:
            raise LookupError(f"protocol.toml no longer holds {found!r}: cut the sample another way")
        protocol = protocol.replace(found, wanted)
    return protocol


def copied(project: Path, root: Path, *, evidence: bool) -> Path:
    """Copy a project that has run, with or without what was measured; its captures come along."""
    shutil.copytree(project, root, symlinks=True)
    for file in root.glob("modules.*"):
        file.unlink()
    if not evidence:
        shutil.rmtree(root / "reports")
    return root


# -- running it ---------------------------------------------------------------------------------------


def command(*arguments: str, jobs: int = 1) -> list[str]:
    """Return the command that answers the study, by default in one process."""
    return [
        sys.executable, "-m", "pytest", "gates", "--model", "pythia-tiny", "--gate-exit=harness", "--offline",
        "--cache-dir", "cache", "--jobs", str(jobs), "-p", "no:cacheprovider", *arguments,
    ]  # fmt: skip


def environment(*, stop_at: str = "", one_thread: bool = True, cache: str = "") -> dict[str, str]:
    """Return this process' environment without anything of the outer test run or of a user's settings."""
    ours = ("PYTEST_", "PREREG_", "FORCE_COLOR", "OMP_NUM_THREADS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    wanted = {
        "COLUMNS": "100",
        "STOP_AT": stop_at,
        "PREREG_CACHE": cache,
        "OMP_NUM_THREADS": "1" if one_thread else "",
    }
    return kept | {name: value for name, value in wanted.items() if value}


def answer(
    project: Path, *arguments: str, jobs: int = 1, stop_at: str = "", one_thread: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run the gates to their end, or to where `stop_at` ends them (``module:function:nth call:signal``)."""
    return subprocess.run(
        command(*arguments, jobs=jobs), cwd=project, env=environment(stop_at=stop_at, one_thread=one_thread),
        capture_output=True, text=True, check=False, timeout=LONGEST,
    )  # fmt: skip


def prereg(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line."""
    code = "import sys; from prereg.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=project, env=environment(cache="cache"),
        capture_output=True, text=True, check=False, timeout=LONGEST,
    )  # fmt: skip


def begin(project: Path, *arguments: str, jobs: int = 1, stop_at: str = "") -> Run:
    """Start a run as the leader of a process group of its own, as a shell would."""
    # Files, not pipes: a worker that outlives its run would hold a pipe open, and hang who reads it.
    files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115 - `Run.end` closes them
    process = subprocess.Popen(
        command(*arguments, jobs=jobs), cwd=project, env=environment(stop_at=stop_at), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1],
    )  # fmt: skip
    return Run(process, *files)


@dataclass(frozen=True, slots=True)
class Run:
    """A run that was started and not waited for."""

    process: subprocess.Popen[bytes]
    out: IO[str]
    err: IO[str]

    @property
    def group(self) -> int:
        """Its process group, which is also its own process' number."""
        return self.process.pid

    def end(self) -> tuple[int, str, str]:
        """Wait for its end and return exit status, output and errors; a run that hangs is killed."""
        try:
            self.process.wait(LONGEST)
        finally:
            if self.process.poll() is None:
                os.killpg(self.group, signal.SIGKILL)
                self.process.wait()
        return self.process.returncode, _read(self.out), _read(self.err)


def _read(file: IO[str]) -> str:
    with file:
        file.seek(0)
        return file.read()


def paused(project: Path, run: Run) -> None:
    """Wait until a run with ``pause`` in its `stop_at` has got there."""
    until(lambda: (project / "paused").exists() or run.process.poll() is not None, "a run that paused")
    (project / "paused").unlink()


def until(holds: Callable[[], bool], what: str, *, longest: float = LONGEST) -> None:
    """Wait until a condition holds.

    Raises
    ------
    TimeoutError
        If it doesn't within `longest` seconds.
    """
    deadline = time.monotonic() + longest
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {longest:g} s for {what}")
        time.sleep(0.01)


def group_members(group: int) -> list[int]:
    """Return the processes of a group that still run; zombies have ended and don't count."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, of_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended meanwhile
            continue
        if int(of_group) == group and state not in "ZX":
            found.append(int(folder.name))
    return found


# -- what it left -------------------------------------------------------------------------------------


def reports(project: Path) -> dict[str, bytes]:
    """Return every byte of the study's reports, evidence included, by relative path."""
    folder = project / "reports"
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def evidence(project: Path) -> dict[str, bytes]:
    """Return the bytes of the evidence alone."""
    return {name: content for name, content in reports(project).items() if "/evidence/" in name}


def outcomes(project: Path, study: str = STUDY) -> dict[str, str]:
    """Return each hypothesis' answer as verdicts.json has it; nobody froze this study, so none may be claimed."""
    file = project / "reports" / study / "pythia-tiny" / "verdicts.json"
    return {v["hypothesis"]: v["answer"] for v in json.loads(file.read_text())["verdicts"]}


def stores(project: Path) -> dict[str, Path]:
    """Return each arm's store.

    Raises
    ------
    LookupError
        If an arm was captured twice.
    """
    found: dict[str, Path] = {}
    for manifest in (project / "cache" / "stores").glob("*/manifest.json"):
        arm = json.loads(manifest.read_text())["provenance"]["arm"]
        if arm in found:
            raise LookupError(f"{arm} has two stores: {found[arm]} and {manifest.parent}")
        found[arm] = manifest.parent
    return found


def modules(project: Path, who: str = "main") -> set[str]:
    """Return the modules that a process of the last run had loaded when it ended."""
    return set((project / f"modules.{who}").read_text().split())
