"""`prereg.load_report`: from a path, a study's folder or an opened study to what was recorded on one model."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.hostile import printable
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
        If it is given something else than these, there is no report, there are several and none is named, or
        verdicts.json can't be trusted to be whole.
    """
    if isinstance(path_or_study, str | os.PathLike):
        file = _chosen(_path(path_or_study), model)
    else:
        pipeline = _opened(path_or_study).pipeline
        if model not in (None, pipeline.alias, pipeline.report_folder.name):
            raise ReportError(
                f"this study was opened for {pipeline.alias}, not for {model}",
                remedy=f"Study.open(..., model={model!r})",
            )
        file = pipeline.report_folder / NAME
    return Report(file.parent, read_verdicts(file))


def _path(named: str | os.PathLike[str]) -> Path:
    try:
        return Path(named)
    except TypeError as error:  # a path of bytes
        raise _unknown(named) from error


def _opened(study: object) -> Study:
    from prereg.study import Study

    if not isinstance(study, Study):
        raise _unknown(study)
    return study


def _unknown(what: object) -> ReportError:
    return ReportError(
        f"a path or an opened study is wanted, not {type(what).__name__}: {printable(repr(what), 60)}",
        remedy="prereg.load_report('reports/STUDY/MODEL')",
    )


def _chosen(path: Path, model: str | None) -> Path:
    said = printable(str(path))
    try:
        files = _files(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ReportError(f"{said}: can't be looked into: {why}", remedy="check the path") from error
    if model is not None:
        # An alias with other characters than a file's name may have has a folder of another name.
        files = [f for f in files if f.parent.name == model] or [f for f in files if _alias(f) == model]
    if len(files) == 1:
        return files[0]
    if not files:
        on = "" if model is None else f" on {printable(str(model))}"
        raise ReportError(
            f"{said}: there is no verdicts.json{on} there",
            remedy=f"prereg verdicts --measure --model {shlex.quote(str(model or 'pythia-tiny'))}",
        )
    names = ", ".join(printable(f.parent.name) for f in files)
    raise ReportError(
        f"{said}: there are reports on {len(files)} models: {names}",
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
