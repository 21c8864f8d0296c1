"""`prereg doctor`: what is here, what is missing, and what to do next."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prereg.cli.completion import aliases
from prereg.cli.options import (
    DEFAULT_MODEL,
    CacheDir,
    Json,
    ReportDir,
    StudyFolder,
    cache_folder,
    open_study,
    project_root,
    run_options,
    studies_here,
    study_folder,
)
from prereg.cli.told import NOT_SUPPORTED, result, show, told
from prereg.errors import PreregError

if TYPE_CHECKING:
    from prereg.activations.models import ModelRow
    from prereg.cli.surroundings import Check
    from prereg.pipeline import RunOptions

__all__ = ["doctor"]


def doctor(
    study: StudyFolder = None,
    model: Annotated[
        str,
        typer.Option("--model", metavar="NAME", help="the model that is to be asked", autocompletion=aliases),
    ] = DEFAULT_MODEL,
    device: Annotated[
        bool, typer.Option("--device", help="load torch, and ask it which devices work; takes seconds")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="ask neither the model hub nor the package index")
    ] = False,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    json: Json = False,
) -> None:
    """Say what is installed, cached, reachable, writable and registered, and what to do next.

    One line each. Nothing is fetched, measured or verified, and nothing is written but digests of local models, which
    the cache folder remembers; torch is loaded only for --device. Without a STUDY every study under gates/ is looked
    at. How a study is registered is told at a glance, as each run sees it; the whole history is what prereg audit
    reads.

    \b
    Exit codes:
      0  each study that was looked at can be answered on this model, now
      1  one can't, or there is none; the line "next" says what would help
      2  an error

    \b
    Examples:
      prereg doctor
      prereg doctor gates/delta_stream --model smollm2-135m --offline
      prereg doctor --device
      prereg doctor --json
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        folders = [study_folder(study)] if study is not None else _studies()
        root = project_root(folders[0] if folders else Path.cwd())
        cache = cache_folder(cache_dir)
        checks, rows = _machine(root, cache, device=device, offline=offline)
        options = run_options(root, cache_dir=cache_dir, report_dir=report_dir, offline=offline, jobs=1)
        able = []
        for folder in folders:
            found, can = _study(folder, model, options, _obstacle(model, rows, checks))
            checks += found
            able.append(can)
        good = bool(able) and all(able)
        if not folders:
            checks.append(_none(root))
        if json:
            result({"model": model, "can_be_answered": good, "checks": [asdict(check) for check in checks]})
        else:
            _tell(checks, good, model)
    if not good:
        raise typer.Exit(NOT_SUPPORTED)


def _studies() -> list[Path]:
    here = Path.cwd()
    if (here / "protocol.toml").is_file():
        return [here]
    return studies_here(here)


def _machine(root: Path, cache: Path, *, device: bool, offline: bool) -> tuple[list[Check], list[ModelRow]]:
    from prereg.activations.models import describe, load_registry
    from prereg.cli import surroundings as around

    registry = load_registry()
    try:
        rows, models = describe(registry, cache, root), None
    except PreregError as error:
        rows, models = [], around.Check("models", "missing", error.message, error.remedy)
    checks = [
        around.python_check(),
        *around.extra_checks(),
        around.analyses_check(),
        around.git_check(root),
        around.cache_check(cache),
        models or _models(rows),
        around.device_check(device),
    ]
    if offline:
        return [*checks, around.Check("network", "note", "not asked: --offline")], rows
    packages = [part.package for e in registry.entries for part in getattr(e.source, "parts", ())]
    return [*checks, around.hub_check(cache), around.index_check(next(iter(packages), None))], rows


def _models(rows: list[ModelRow]) -> Check:
    from prereg.cli.surroundings import Check
    from prereg.cli.told import size

    here = [f"{row.alias} ({size(row.size)})" for row in rows if row.state == "present"]
    if not here:
        return Check("models", "note", "none is here", "prereg models --fetch NAME")
    return Check("models", "ok", ", ".join(here))


def _obstacle(model: str, rows: list[ModelRow], checks: list[Check]) -> tuple[str, str] | None:
    """Return why evidence on a model can't be measured here, and what would help; None where it can."""
    from prereg.cli.surroundings import missing_of

    if lacking := missing_of("capture"):
        return f"{', '.join(lacking[:3])} not installed", "pip install 'prereg-gates[capture]'"
    state = {check.name: check.state for check in checks}
    if state["cache"] == "missing":
        return "the cache can't be used", "--cache-dir DIR, or PREREG_CACHE=DIR"
    row = next((row for row in rows if row.alias == model), None)
    if row is None:
        if Path(model).is_dir():
            return None
        return f"{model} is in no list of models: only a fetch tells", f"prereg models --fetch {model}"
    source = "hub" if row.source.startswith("hub:") else "index"
    if row.state == "present" or state.get(source) == "ok":
        return None
    return f"{model} is not here, and the {source} was not reached", f"prereg models --fetch {model}"


def _study(
    folder: Path, model: str, options: RunOptions, obstacle: tuple[str, str] | None
) -> tuple[list[Check], bool]:
    """Return a study's lines, and whether it can be answered."""
    from prereg.cli.surroundings import Check, writable

    name = f"study {folder.resolve().name}"
    try:
        study = open_study(folder, model, options)
        standing = study.standing
        lacking = [h for h in study.hypotheses if study.missing(h)]
    except PreregError as error:
        return [Check(name, "missing", error.message, error.remedy)], False
    remedy = None if standing.is_registered else standing.remedy or f"prereg audit {folder}"
    checks = [Check(name, "ok" if standing.is_registered else "note", standing.line(), remedy)]
    what = f"answers {study.folder.name}"
    reports = study.pipeline.report_folder
    if not writable(reports):
        return [*checks, Check(what, "missing", f"{reports} can't be written", "--report-dir DIR")], False
    total = len(study.hypotheses)
    if not lacking:
        words = f"all {total} hypotheses have evidence on {model}"
        return [*checks, Check(what, "ok", words, f"prereg verdicts {folder} --model {model}")], True
    words = f"{len(lacking)} of {total} hypotheses have no evidence on {model}"
    if obstacle is None:
        command = f"prereg verdicts {folder} --measure --model {model}"
        return [*checks, Check(what, "ok", f"{words}; it can be measured here", command)], True
    return [*checks, Check(what, "missing", f"{words}; {obstacle[0]}", obstacle[1])], False


def _none(root: Path) -> Check:
    from prereg.cli.surroundings import Check

    return Check("study", "missing", f"there is none under {root / 'gates'}", "prereg new my-study")


def _tell(checks: list[Check], good: bool, model: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from prereg.cli.unwrapped import show_unwrapped

    first, second = (max(len(getattr(check, part)) for check in checks) for part in ("state", "name"))
    for check in checks:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, min_width=first)
        table.add_column(no_wrap=True, min_width=second)
        table.add_column(overflow="fold")
        table.add_row(Text(check.state), Text(check.name), Text(check.words))
        show(table)
        if check.next is not None:
            # A command is never broken: it is there to be copied.
            show_unwrapped([" " * (first + second + 4) + f"next: {check.next}"])
    said = "Each study can be answered" if good else "Not every study can be answered"
    show(f"\n{said} on {model}.")
    loose = [check.name for check in checks if check.name.startswith("study ") and check.state != "ok"]
    if good and loose:
        show(f"No answer may be claimed yet of {', '.join(name.removeprefix('study ') for name in loose)}.")
