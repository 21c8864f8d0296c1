"""Options that several commands share, named and explained as in `pytest --help`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prereg.cli.completion import aliases, reported, studies, words
from prereg.errors import StorageError, StudyError

if TYPE_CHECKING:
    from prereg.pipeline import RunOptions
    from prereg.study import Study

__all__ = [
    "DEFAULT_MODEL",
    "CacheDir",
    "Device",
    "Dtype",
    "Engine",
    "Jobs",
    "Json",
    "Models",
    "Offline",
    "ReportDir",
    "Shown",
    "StudyFolder",
    "cache_folder",
    "distinct",
    "open_study",
    "project_root",
    "run_options",
    "studies_here",
    "study_folder",
]

DEFAULT_MODEL = "pythia-tiny"

Shown = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="show only this model; repeat it for several [default: every model that has reports]",
        autocompletion=reported,
        show_default=False,
    ),
]
StudyFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="STUDY",
        help="folder with the protocol.toml, or its name under gates/ [default: the only one there is]",
        autocompletion=studies,
        show_default=False,
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="model to ask: an alias (`prereg models` lists them), a hub id (org/name[@revision]) or a "
        f"folder; repeat it for several models [default: {DEFAULT_MODEL}]",
        autocompletion=aliases,
        show_default=False,
    ),
]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        metavar="DIR",
        help="where models and activations are kept [default: $PREREG_CACHE, else the user's cache folder]",
        show_default=False,
    ),
]
ReportDir = Annotated[
    Path | None,
    typer.Option(
        "--report-dir",
        metavar="DIR",
        help="where evidence, tables and verdicts.json are written [default: reports/ beside pyproject.toml]",
        show_default=False,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help="torch device for capture: cpu, cuda, mps",
        autocompletion=words("cpu", "cuda", "mps"),
    ),
]
Dtype = Annotated[
    Literal["float32"], typer.Option("--dtype", help="precision of the forward pass; evidence is float32")
]
Offline = Annotated[bool, typer.Option("--offline", help="never ask the network for a model")]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="what spreads measurements: loky, threading, or a cluster's dask, ray",
        autocompletion=words("loky", "threading", "dask", "ray"),
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        metavar="N",
        help="worker processes for measurements [default: one for each core]",
        show_default=False,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="print one JSON document on standard output; progress stays on stderr")
]


def project_root(start: Path) -> Path:
    """Return the nearest folder at or above `start` that has a pyproject.toml or a gates folder, else cwd.

    A project ends where its repository does: what lies above is another one's, and no history here speaks of it.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file() or (folder / "gates").is_dir():
            return folder
        if (folder / ".git").exists():  # a folder, or a file in a worktree or submodule
            break
    return Path.cwd()


def study_folder(named: Path | None) -> Path:
    """Return the study that a command is about.

    Raises
    ------
    StudyError
        If none is named and there is not exactly one, or the named one has no protocol.
    """
    here = Path.cwd()
    if named is not None:
        for folder in (named, project_root(here) / "gates" / named):
            if (folder / "protocol.toml").is_file():
                return folder
        if named.is_file() and named.name == "protocol.toml":
            return named.parent
        raise StudyError(
            f"{named}: there is no protocol.toml in this folder", remedy=_which(studies_here(here))
        )
    if (here / "protocol.toml").is_file():
        return here
    found = studies_here(here)
    if len(found) == 1:
        return found[0]
    if not found:
        raise StudyError(
            f"there is no study under {project_root(here) / 'gates'}: no folder with a protocol.toml",
            remedy="name the study's folder, as in: prereg verdicts path/to/study",
        )
    raise StudyError(
        f"there are {len(found)} studies here: {', '.join(folder.name for folder in found)}",
        remedy=_which(found),
    )


def studies_here(here: Path) -> list[Path]:
    """Return the studies under the project's gates/, sorted; relative to where one stands, where they lie below."""
    return [
        _short(folder, here)
        for folder in sorted(file.parent for file in (project_root(here) / "gates").glob("*/protocol.toml"))
    ]


def _which(found: list[Path]) -> str:
    if not found:
        return "name a folder with a protocol.toml, such as gates/delta_stream"
    return f"name one of {', '.join(map(str, found))}"


def _short(folder: Path, here: Path) -> Path:
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def cache_folder(named: Path | None) -> Path:
    """Return the folder for models and stores.

    Raises
    ------
    StorageError
        If it begins with the home of a user that there isn't.
    """
    from prereg.pipeline import default_cache

    try:
        return default_cache() if named is None else named.expanduser()
    except RuntimeError as error:
        raise StorageError(f"the cache folder: {error}", remedy="write its path out, without ~") from error


def run_options(
    root: Path,
    *,
    cache_dir: Path | None,
    report_dir: Path | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    offline: bool = False,
    engine: str = "loky",
    jobs: int | None = None,
) -> RunOptions:
    """Return what a pipeline needs to know of a run, with progress on standard error.

    Raises
    ------
    PreregError
        If the engine can't be used: better told now than after the capture.
    """
    from prereg.console import Board
    from prereg.pipeline import RunOptions
    from prereg.workers import available_cores, require_engine

    jobs = available_cores() if jobs is None else jobs
    require_engine(engine, jobs)
    board = Board(sys.stderr)
    return RunOptions(
        root=root,
        cache=cache_folder(cache_dir),
        reports=report_dir,
        device=device,
        dtype=dtype,
        offline=offline,
        engine=engine,
        jobs=jobs,
        progress=board.bar,
        say=lambda line: board.say(f"prereg: {line}"),
    )


def distinct(models: list[str] | None) -> list[str]:
    """Return the models to ask, each once, in the order in which they were named."""
    return list(dict.fromkeys(models or [DEFAULT_MODEL]))


def open_study(folder: Path, model: str, options: RunOptions) -> Study:
    """Open a study for one model."""
    from prereg.study import Study

    return Study.open(folder, model=model, options=options)
