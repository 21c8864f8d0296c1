"""A registered project that is attacked through the real commands, each a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import synthetic
from tests.registration.repositories import isolated

__all__ = ["REPORTS", "STUDY", "Attacked", "Take", "taker"]

STUDY = "gates/sample"
REPORTS = "reports/sample/pythia-tiny"
SECONDS = 120


@dataclass(frozen=True, slots=True)
class Done:
    """What a command came to."""

    code: int
    text: str

    @property
    def flat(self) -> str:
        """The text without the line breaks that a narrow page puts in, for `in`."""
        return " ".join(self.text.split())


class Attacked:
    """A project; paths are from its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = isolated(root.parent / "home") | {
            "COLUMNS": "300", "NO_COLOR": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        for name in ("PYTEST_ADDOPTS", "PYTHONOPTIMIZE", "FORCE_COLOR"):
            self.environment.pop(name, None)

    def run(self, *command: str, cwd: Path | None = None, **environment: str) -> Done:
        """Run a command; a traceback is a fault whatever the attack is."""
        done = subprocess.run(
            command, cwd=cwd or self.root, env=self.environment | environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert "Traceback (most recent call last)" not in done.stdout, done.stdout
        assert "INTERNALERROR" not in done.stdout, done.stdout
        return Done(done.returncode, done.stdout)

    def gates(self, *arguments: str, **environment: str) -> Done:
        """Run ``python -m pytest gates/sample``."""
        options = ("-p", "no:cacheprovider", "--cache-dir", "cache", "--junitxml", str(self.junit))
        return self.run(sys.executable, "-m", "pytest", STUDY, *options, *arguments, **environment)

    def prereg(self, *arguments: str, **environment: str) -> Done:
        """Run ``prereg``."""
        return self.run(str(Path(sys.executable).with_name("prereg")), *arguments, **environment)

    def audit(self, *arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
        """Return exit code and record of ``prereg audit --json``, which say the same."""
        done = self.prereg("audit", STUDY, "--json", *arguments, **environment)
        record = json.loads(done.text)
        assert record["exit_code"] == done.code
        return done.code, record

    @property
    def junit(self) -> Path:
        return self.root.parent / "junit.xml"

    def cases(self) -> dict[str, str]:
        """Return what JUnit XML says of each gate: passed, skipped, failure or error."""
        found = {}
        for case in ElementTree.parse(self.junit).iter("testcase"):  # noqa: S314 - written a moment ago
            kinds = {child.tag for child in case} & {"skipped", "failure", "error"}
            found[str(case.get("name"))] = next(iter(kinds), "passed")
        return found

    def verdicts(self, folder: str = REPORTS) -> dict[str, dict[str, Any]]:
        """Return the verdicts in verdicts.json by hypothesis."""
        document = json.loads(self.read(f"{folder}/verdicts.json"))
        return {verdict["hypothesis"]: verdict for verdict in document["verdicts"]}

    def statuses(self) -> set[str]:
        """Return how the study stood for each verdict in verdicts.json."""
        return {verdict["registration"]["status"] for verdict in self.verdicts().values()}

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> str:
        return self.path(name).read_text("utf-8")

    def write(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text, "utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text that is there."""
        text = self.read(name)
        assert old in text, (name, old)
        self.write(name, text.replace(old, new))

    def looser(self) -> None:
        """Loosen the threshold of H1, 0.1 as frozen."""
        self.edit(f"{STUDY}/protocol.toml", "threshold = 0.1", "threshold = 0.01")

    def attempts(self) -> list[Path]:
        """Return the files of the log."""
        return sorted(self.path(f"{STUDY}/attempts").glob("*.json"))

    def git(self, *arguments: str) -> str:
        return synthetic.git(self.root, *arguments)

    def commit(self, message: str = "A change") -> str:
        return synthetic.commit(self.root, message)

    def measure(self, effect: float) -> None:
        """Put other evidence in place, under the registration in force, and nothing else."""
        registered = json.loads(self.read(f"{STUDY}/registration.json"))["root"]
        fits = {"history_1": effect, "history_2": effect, "null": -0.01}
        for arm in ("model", "twin-3"):
            synthetic.write(self.root, arm, fits, registration=registered)


def words(record: dict[str, Any], check: str | None = None, status: str | None = None) -> str:
    """Return all that the findings of an audit's record say, for `in`."""
    return "\n".join(
        json.dumps(finding, ensure_ascii=False)
        for finding in record["findings"]
        if check in (None, finding["check"]) and status in (None, finding["status"])
    )


Take = Callable[[str], Attacked]

_MADE: dict[str, Path] = {}
_KINDS: dict[str, Callable[[Path], object]] = {
    "supported": synthetic.registered_project,
    "refuted": lambda root: synthetic.registered_project(root, effect=0.03),
    "frozen": synthetic.frozen_project,
    "loose": synthetic.make_project,
}


def taker(tmp_path: Path, factory: pytest.TempPathFactory) -> Take:
    """Return a function that copies a project of a kind; each kind is made once in a process.

    ``supported`` and ``refuted`` (H1) are registered, measured and committed; ``frozen`` is not measured yet, and
    ``loose`` was never frozen.
    """

    def take(kind: str) -> Attacked:
        if kind not in _MADE:
            root = factory.mktemp(kind) / "project"
            root.mkdir()
            _KINDS[kind](root)
            _MADE[kind] = root
        root = tmp_path / "project"
        shutil.copytree(_MADE[kind], root, symlinks=True)
        return Attacked(root)

    return take
