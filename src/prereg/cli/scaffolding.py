"""What a new study is made of: its own files, from templates, and those that it shares with others."""

from __future__ import annotations

import hashlib
import string
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.errors import StudyError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["project_files", "shared_files", "study_files"]

SEEDS = ("prompts", "split", "inference", "folds", "shuffles", "random", "twin_1", "twin_2", "twin_3")
FACTS = ("facts.csv", "SOURCES.md", "licences")
TINY = (
    "config.json",
    "facts.csv",
    "model.safetensors",
    "README.md",
    "tokenizer.json",
    "tokenizer_config.json",
)
IGNORED = """\
__pycache__/
.pytest_cache/
.venv/

# An attempt that was being written when its writer was killed.
gates/**/attempts/.*.part
"""


def study_files(study: str, evidence: str, analysis: str | None = None) -> dict[str, bytes]:
    """Return the files of a study of its own, by their path in the project.

    Parameters
    ----------
    study
        Its name.
    evidence
        The analysis of this package that it is about; another where `analysis` is given.
    analysis
        The name of an analysis of its own.

    Raises
    ------
    StudyError
        If this installation lacks what a study starts from.
    """
    templates = resources.files("prereg.cli") / "scaffold"
    words = {f"seed_{use}": str(_seed(study, use)) for use in SEEDS}
    words["name"] = study
    for key, place in (("facts_sha256", _packaged("facts")), ("world_sha256", _packaged("pythia-tiny"))):
        words[key] = hashlib.sha256((place / "facts.csv").read_bytes()).hexdigest()
    if analysis is not None:
        words |= {"analysis": analysis, "settings": f"{analysis.title().replace('_', '')}Settings"}
    body = templates / (evidence if analysis is None else "own")
    text = (templates / "head.toml").read_text("utf-8") + (body / "body.toml").read_text("utf-8")
    files = {f"gates/{study}/protocol.toml": string.Template(text).substitute(words).encode()}
    for gate in sorted(body.iterdir(), key=lambda file: file.name):
        if gate.name.startswith("H") and gate.name.endswith(".py.txt"):
            # Named after the study too: two test files of one name can't be collected together.
            hypothesis = gate.name.removesuffix(".py.txt").lower()
            files[f"gates/{study}/test_{study}_{hypothesis}.py"] = gate.read_bytes()
    for name, path in (
        ("analysis", f"gates/{study}/{analysis}.py"),
        ("analysis_test", f"tests/test_{study}_{analysis}.py"),
    ):
        if analysis is not None:
            source = (body / f"{name}.py.txt").read_text("utf-8")
            files[path] = string.Template(source).substitute(words).encode()
    return files


def project_files(*, tests: bool) -> dict[str, bytes]:
    """Return what a project has once, by its path: its pytest's settings, and what git passes over."""
    paths = ["gates", "tests"] if tests else ["gates"]
    listed = ", ".join(f'"{path}"' for path in paths)
    return {
        "pyproject.toml": f"[tool.pytest]\ntestpaths = [{listed}]\n".encode(),
        ".gitignore": IGNORED.encode(),
    }


def shared_files() -> dict[str, bytes]:
    """Return the facts and the embedded model, by their path in the project; errors as `study_files`."""
    facts, tiny = _packaged("facts"), _packaged("pythia-tiny")
    found = {f"fixtures/pythia-tiny/{name}": (tiny / name).read_bytes() for name in TINY}
    for name in FACTS:
        place = facts / name
        if place.is_dir():
            found |= {f"fixtures/facts/{name}/{file.name}": file.read_bytes() for file in place.iterdir()}
        else:
            found[f"fixtures/facts/{name}"] = place.read_bytes()
    return found


def _seed(study: str, use: str) -> int:
    """Draw a seed from the study's name: nobody chose it by its result, and no two studies share one by chance."""
    digest = hashlib.sha256(f"prereg new: {study}: {use}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _packaged(name: str) -> Traversable:
    """Return a folder of data that a wheel carries, and a checkout has under fixtures/.

    Raises
    ------
    StudyError
        If neither is there.
    """
    package = resources.files("prereg")
    for place in (package / "fixtures" / name, Path(str(package)).parents[1] / "fixtures" / name):
        if (place / "facts.csv").is_file():
            return place
    raise StudyError(
        f"this installation of prereg has no {name}, which a new study starts from",
        remedy="pip install --force-reinstall prereg-gates",
    )
