"""Copies of projects that take a second to make: written, registered, or answered as well; each with its history."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from prereg.protocol import read_protocol
from prereg.registration.amend import amend
from prereg.registration.records import Amendment, Known
from prereg.registration.standing import Standing, standing_of
from prereg.study import Study
from tests.synthetic import commit, frozen_project, measured, options, prepared

__all__ = ["added", "answered", "edit", "frozen", "opened", "standing", "written"]

H9 = """
[hypotheses.H9]
claim = "A looser thing holds as well."
evidence = "kernels"
estimand = "mean over the deep set of R2(history)"
units = "R2"
direction = "greater"
threshold = 0.0
rationale = "Thought of after the data were seen."
family = "secondary"
contrasts = [{ label = "history", updates = "deep", terms = [{ weight = 1.0, fit = "history_1" }] }]
"""


def frozen(root: Path) -> Path:
    """Put a registered and committed project, not measured yet, into `root`; return the study's folder."""
    return _copy(_frozen, root)


def written(root: Path) -> Path:
    """Put a committed project that nobody has registered into `root`; return the study's folder."""
    return _copy(_written, root)


def answered(root: Path) -> Path:
    """Put a registered, measured and answered project, all committed, into `root`; return the study's folder."""
    return _copy(_answered, root)


def opened(root: Path) -> Study:
    """Open the study anew, as a new process would."""
    return Study.open(root / "gates" / "sample", model="pythia-tiny", options=options(root))


def standing(root: Path) -> Standing:
    """Return how the study stands."""
    folder = root / "gates" / "sample"
    return standing_of(folder, read_protocol(folder), root)[0]


def edit(file: Path, old: str, new: str) -> None:
    """Replace what stands in a file once."""
    text = file.read_text("utf-8")
    assert text.count(old) == 1, (file, old, text.count(old))
    file.write_text(text.replace(old, new), "utf-8", newline="\n")


def added(
    root: Path, *subjects: str, known: Known = "none", statement: str | None = None, message: str = "Amend"
) -> Amendment:
    """Amend what was edited, and commit it."""
    found = amend(
        prepared(root), subjects, reason="It was read off the wrong table.", known=known, statement=statement
    )
    commit(root, message)
    return found


def _copy(template: Callable[[], Path], root: Path) -> Path:
    shutil.copytree(template(), root, symlinks=True, dirs_exist_ok=True)
    return root / "gates" / "sample"


@cache
def _frozen() -> Path:
    root = _folder()
    frozen_project(root)
    return root


@cache
def _written() -> Path:
    from tests.synthetic import git

    root = _folder()
    frozen(root)
    git(root, "reset", "--quiet", "--hard", "HEAD~1")
    return root


@cache
def _answered() -> Path:
    root = _folder()
    frozen(root)
    measured(root)
    commit(root, "Measure")
    return root


def _folder() -> Path:
    base = Path(tempfile.mkdtemp(prefix="prereg-"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    root = base / "project"
    root.mkdir()
    return root
