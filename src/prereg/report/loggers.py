"""Verdicts beside a training run's own numbers: MLflow and Weights & Biases.

What is written: words as tags (or in the run's summary), estimates and finite bounds as numbers, verdicts.json as a
file. No number stands for a verdict: a dashboard that averages ones and zeros would make a claim that nobody tested.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from prereg.report.figures.tables import ReportError

if TYPE_CHECKING:
    from prereg.report.frames import Report

__all__ = ["Backend", "log_verdicts"]

Backend = Literal["mlflow", "wandb"]

PREFIX = "prereg"


def log_verdicts(report: Report, backend: Backend) -> None:
    """Write a report into the run that is active.

    Parameters
    ----------
    report
        As `prereg.load_report` gives it.
    backend
        ``mlflow``: tags, metrics and an artifact of the active run. ``wandb``: the summary of the current run, and an
        artifact of type ``prereg-verdicts``. Neither starts a run, nor ends one.

    Raises
    ------
    ReportError
        If the library is not installed, no run is active, or there is no such backend.

    Notes
    -----
    Words are those of the report: recorded, not verified. A run's page is no audit.
    """
    writer = _WRITERS.get(backend)
    if writer is None:
        raise ReportError(
            f"verdicts can't be logged to {backend!r}", remedy=f"name one of {', '.join(_WRITERS)}"
        )
    try:
        library = importlib.import_module(backend)
    except ImportError as error:
        raise ReportError(
            f"{backend} is not installed", remedy=f"pip install 'prereg-gates[{backend}]'"
        ) from error
    writer(library, report)


def words(report: Report) -> dict[str, str]:
    """Return what is logged as words: the registration, and each hypothesis' outcome as it may be shown."""
    document = report.document
    return {
        f"{PREFIX}.study": report.study,
        f"{PREFIX}.model": report.model,
        f"{PREFIX}.model_digest": document.model.digest,
        f"{PREFIX}.protocol_digest": document.protocol_digest,
        f"{PREFIX}.registration": report.standing,
        f"{PREFIX}.verified": "no: recorded; `prereg audit` verifies",
        **{
            f"{PREFIX}.verdict.{row.hypothesis}": f"{row.outcome} ({row.answer})"
            if row.answer
            else row.outcome
            for row in report.rows
        },
    }


def numbers(report: Report) -> dict[str, float]:
    """Return what is logged as numbers: estimate, bounds and threshold of each claim; open bounds are left out."""
    found = {
        f"{PREFIX}/{verdict.hypothesis}/{name}": getattr(verdict, name)
        for verdict in report.document.verdicts
        for name in ("estimate", "low", "high", "threshold")
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _to_mlflow(mlflow: Any, report: Report) -> None:
    if mlflow.active_run() is None:
        # MLflow would open a run by itself, and leave it open.
        raise ReportError(
            "no MLflow run is active", remedy="with mlflow.start_run(): log_verdicts(report, ...)"
        )
    mlflow.set_tags(words(report))
    mlflow.log_metrics(numbers(report))
    mlflow.log_artifact(str(report.folder / "verdicts.json"), artifact_path=f"{PREFIX}/{report.folder.name}")


def _to_wandb(wandb: Any, report: Report) -> None:
    run = wandb.run
    if run is None:
        raise ReportError(
            "no Weights & Biases run is active", remedy="with wandb.init(): log_verdicts(report, ...)"
        )
    run.summary.update({**words(report), **numbers(report)})
    artifact = wandb.Artifact(f"{PREFIX}-{report.study}-{report.folder.name}", type="prereg-verdicts")
    artifact.add_file(str(report.folder / "verdicts.json"))
    run.log_artifact(artifact)


_WRITERS: Mapping[str, Callable[[Any, Report], None]] = MappingProxyType(
    {"mlflow": _to_mlflow, "wandb": _to_wandb}
)
