"""Verdicts in MLflow and Weights & Biases: words as words, numbers as numbers, into the run that is active."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import prereg
from prereg.report.figures.tables import ReportError
from prereg.report.frames import Report
from prereg.report.loggers import log_verdicts
from tests.report.documents import document, write_document


class Mlflow:
    """The few calls of MLflow that are used."""

    def __init__(self, active: bool = True) -> None:
        self.active = active
        self.tags: dict[str, str] = {}
        self.metrics: dict[str, float] = {}
        self.artifacts: list[tuple[str, str]] = []

    def active_run(self) -> object | None:
        return object() if self.active else None

    def set_tags(self, tags: dict[str, str]) -> None:
        self.tags |= tags

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.metrics |= metrics

    def log_artifact(self, file: str, artifact_path: str) -> None:
        self.artifacts.append((file, artifact_path))


class Artifact:
    def __init__(self, name: str, type: str) -> None:  # noqa: A002 - the library's own name
        self.name, self.type, self.files = name, type, list[str]()

    def add_file(self, file: str) -> None:
        self.files.append(file)


class Run:
    def __init__(self) -> None:
        self.summary: dict[str, Any] = {}
        self.artifacts: list[Artifact] = []

    def log_artifact(self, artifact: Artifact) -> None:
        self.artifacts.append(artifact)


@pytest.fixture
def unverified(tmp_path: Path) -> Report:
    """A report whose answer may not be claimed, and with one bound that is open."""
    return prereg.load_report(
        write_document(tmp_path, document("unverified", "unregistered", None, high=None))
    )


def test_mlflow_gets_words_numbers_and_the_file(unverified: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tag says what may be claimed first; an open bound is no number; no number stands for a verdict."""
    mlflow = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)  # type: ignore[arg-type]
    log_verdicts(unverified, "mlflow")
    assert mlflow.tags["prereg.verdict.H1"] == "unregistered (supported)"
    assert mlflow.tags["prereg.registration"].startswith("unregistered")
    assert mlflow.tags["prereg.verified"].startswith("no")
    assert mlflow.metrics == {
        "prereg/H1/estimate": 0.61, "prereg/H1/low": 0.58, "prereg/H1/threshold": 0.05,
    }  # fmt: skip
    ((file, place),) = mlflow.artifacts
    assert (Path(file), place) == (unverified.folder / "verdicts.json", "prereg/smollm2-135m")


def test_wandb_gets_the_same(unverified: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the run's summary, and an artifact of a type of its own."""
    run = Run()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=run, Artifact=Artifact))  # type: ignore[arg-type]
    log_verdicts(unverified, "wandb")
    assert run.summary["prereg.verdict.H1"] == "unregistered (supported)"
    assert run.summary["prereg/H1/low"] == 0.58
    assert "prereg/H1/high" not in run.summary
    (artifact,) = run.artifacts
    assert (artifact.name, artifact.type) == ("prereg-sample-smollm2-135m", "prereg-verdicts")
    assert artifact.files == [str(unverified.folder / "verdicts.json")]


@pytest.mark.parametrize(
    ("backend", "library"),
    [("mlflow", Mlflow(active=False)), ("wandb", SimpleNamespace(run=None, Artifact=Artifact))],
)
def test_no_run_is_begun(
    backend: Any, library: Any, unverified: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none is active it is an error: nothing is written anywhere."""
    monkeypatch.setitem(sys.modules, backend, library)
    with pytest.raises(ReportError, match=r"no .* run is active"):
        log_verdicts(unverified, backend)


@pytest.mark.parametrize("backend", ["mlflow", "wandb"])
def test_a_library_that_is_not_there_is_an_error(
    backend: Any, unverified: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(ReportError) as found:
        log_verdicts(unverified, backend)
    assert found.value.remedy == f"pip install 'prereg-gates[{backend}]'"


def test_no_other_module_is_imported_by_name(unverified: Report) -> None:
    """A backend is one of two words, never a module to import."""
    with pytest.raises(ReportError, match="can't be logged to 'os'"):
        log_verdicts(unverified, "os")  # type: ignore[arg-type]
