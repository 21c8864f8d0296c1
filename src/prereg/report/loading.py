"""`prereg.load_report`: from a path, a study's folder or an opened study to what was recorded on one model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.report.figures.tables import ReportError
from prereg.report.frames import Report
from prereg.report.schema import read_verdicts

if TYPE_CHECKING:
    from prereg.study import Study

__all__ = ["load_report"]

NAME = "verdicts.json"


def load_report(path_or_study: str | os.PathLike[str] | Study, model: str | None = None) -> Report:
    """Load what was recorded of one study on one model. Nothing is measured, recomputed or verified.

    Parameters
    ----------
    path_or_study
        A verdicts.json; the folder that holds one (``reports/<study>/<model>``); a study's reports
        (``reports/<study>``); a study's own folder (``gates/<study>``) or its name; or an opened `Study`, which has a
        model already.
    model
        Alias or folder of the model, where there are reports on several.

    Returns
    -------
    Report
        Verdicts and contrasts as pandas frames, the tracked tables, the paths of the evidence.

    Raises
    ------
    ReportError
        If there is no report, there are several and none is named, or verdicts.json can't be trusted to be whole.
    """
    if isinstance(path_or_study, str | os.PathLike):
        file = _chosen(Path(path_or_study), model)
    else:
        pipeline = path_or_study.pipeline
        if model not in (None, pipeline.alias, pipeline.report_folder.name):
            raise ReportError(
                f"this study was opened for {pipeline.alias}, not for {model}",
                remedy=f"Study.open(..., model={model!r})",
            )
        file = pipeline.report_folder / NAME
    return Report(file.parent, read_verdicts(file))


def _chosen(path: Path, model: str | None) -> Path:
    files = _files(path)
    if model is not None:
        # An alias with other characters than a file's name may have has a folder of another name.
        files = [f for f in files if f.parent.name == model] or [f for f in files if _alias(f) == model]
    if len(files) == 1:
        return files[0]
    if not files:
        on = "" if model is None else f" on {model}"
        raise ReportError(
            f"{path}: there is no verdicts.json{on} there",
            remedy=f"prereg verdicts --measure --model {model or 'pythia-tiny'}",
        )
    names = ", ".join(f.parent.name for f in files)
    raise ReportError(
        f"{path}: there are reports on {len(files)} models: {names}",
        remedy=f"load_report({str(path)!r}, model={files[0].parent.name!r})",
    )


def _files(path: Path) -> list[Path]:
    """Return each verdicts.json that a path may mean."""
    if path.name == NAME:
        return [path] if path.is_file() else []
    for folder in (path, Path("gates") / path):
        if (folder / "protocol.toml").is_file():
            return _of_study(folder)
    for folder in (path, Path("reports") / path):
        if (folder / NAME).is_file():
            return [folder / NAME]
        if found := sorted(folder.glob(f"*/{NAME}")):
            return found
    return []


def _of_study(folder: Path) -> list[Path]:
    from prereg.protocol import read_protocol

    name = read_protocol(folder).protocol.study.name
    for above in folder.resolve().parents:
        if found := sorted((above / "reports" / name).glob(f"*/{NAME}")):
            return found
    return []


def _alias(file: Path) -> str:
    return read_verdicts(file).model.alias
