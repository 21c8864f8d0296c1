"""Pytest sessions inside tests: in this process where that is safe, apart where something is patched or killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Loaded here, so that a session in this process finds them as they are, and leaves them so.
import prereg.console.bars
import prereg.registration.history
import prereg.report.figure_tables
import prereg.report.verdict_tables  # noqa: F401

RUN = ("-p", "no:cacheprovider", "--cache-dir", "cache")
VERDICTS = "reports/sample/pythia-tiny/verdicts.json"


def again(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run the gates of the project that is there, in this process."""
    return pytester.runpytest_inprocess("gates", *RUN, *arguments)


def apart(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run the gates of the project that is there, in a process of their own."""
    return pytester.runpytest_subprocess("gates", *RUN, *arguments)


def optimised(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the gates under `python -O`."""
    return subprocess.run(
        [sys.executable, "-O", "-m", "pytest", "gates", *RUN, *arguments], cwd=root, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


def told(result: pytest.RunResult) -> str:
    """Return all that a session wrote."""
    return result.stdout.str() + result.stderr.str()
