"""`prereg verdicts`: the answers, as a table, as files and as an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from prereg.cli.completion import hypotheses
from prereg.cli.options import (
    CacheDir,
    Device,
    Dtype,
    Engine,
    Jobs,
    Json,
    Models,
    Offline,
    ReportDir,
    StudyFolder,
    distinct,
    open_study,
    project_root,
    run_options,
    study_folder,
)
from prereg.cli.told import NOT_SUPPORTED, result, show, told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from prereg.study import Study

__all__ = ["verdicts"]

_ANSWERS = ("supported", "refuted", "inconclusive")


def verdicts(
    study: StudyFolder = None,
    model: Models = None,
    hypothesis: Annotated[
        list[str] | None,
        typer.Option(
            "--hypothesis",
            metavar="ID",
            help="only this hypothesis; repeatable. Tables are written only when all were asked [default: all]",
            autocompletion=hypotheses,
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="capture and measure first where evidence is missing")
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="also draw the table as a picture", show_default=False),
    ] = None,
    gate_exit: Annotated[
        Literal["claims", "harness"],
        typer.Option(
            "--gate-exit",
            help="what the exit code speaks of: `claims` is 0 only if every verdict is supported; `harness` is 0 "
            "if every hypothesis was answered, whatever the answer",
        ),
    ] = "claims",
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    offline: Offline = False,
    engine: Engine = "loky",
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Compare the evidence's intervals with the frozen thresholds, print the table, write the report.

    Takes about a second and needs neither torch nor a model, once the evidence is there. verdicts.json and CSV
    tables go to reports/<study>/<model>/; they hold no date, so the same evidence writes the same bytes. With several
    models there is one table with a column each, and replication.csv and .json in reports/<study>/ pool every contrast
    over them.

    \b
    Exit codes:
      0  every verdict asked for is supported, and the study is registered
         (--gate-exit=harness: supported, refuted or inconclusive,
         registered or not)
      1  some verdict is not
      2  an error: evidence is missing, the protocol is broken, ...

    \b
    Examples:
      prereg verdicts --measure --model pythia-tiny
      prereg verdicts gates/delta_stream --model smollm2-135m --model gemma3-270m
      prereg verdicts --model smollm2-135m --hypothesis H1 --json
      prereg verdicts --model smollm2-135m --svg table.svg
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        folder = study_folder(study)
        options = run_options(
            project_root(folder), cache_dir=cache_dir, report_dir=report_dir, device=device, dtype=dtype,
            offline=offline, engine=engine, jobs=jobs,
        )  # fmt: skip
        studies = [open_study(folder, name, options) for name in distinct(model)]
        asked = _asked(studies[0], hypothesis)
        if not measure:
            for opened in studies:
                _need_evidence(opened, asked)
        records, files = [], []
        for opened in studies:
            found = tuple(opened.verdict(name) for name in asked)
            opened.record_attempt(found)
            records += [verdict.as_record() for verdict in found]
            if set(asked) == set(opened.hypotheses):
                from prereg.report import write_report

                files += [str(file) for file in write_report(opened, found)]
        if len({opened.pipeline.alias for opened in studies}) > 1 and set(asked) == set(
            studies[0].hypotheses
        ):
            files += _replicated(studies, records)
        picture = None if svg is None else str(_draw(svg, studies, records))
        if json:
            result({"study": folder.name, "verdicts": records, "files": files, "picture": picture})
        else:
            _show_verdicts(studies, records, files)
            if picture is not None:
                show(f"picture: {picture}")
    good = ("supported",) if gate_exit == "claims" else _ANSWERS
    said = [record["outcome" if gate_exit == "claims" else "answer"] for record in records]
    tampered = any(record["registration"]["status"] == "tampered" for record in records)
    if tampered or any(word not in good for word in said):
        raise typer.Exit(NOT_SUPPORTED)


def _replicated(studies: list[Study], records: list[dict[str, Any]]) -> list[str]:
    """Write what several models say together; nothing where the registration is tampered with on any of them."""
    from prereg.report import write_replication

    if any(record["registration"]["status"] == "tampered" for record in records):
        return []
    first = studies[0]
    folder = first.pipeline.report_folder.parent
    written = write_replication(folder, first.protocol.study.name, records, first.hypotheses)
    return [str(file) for file in written]


def _table(studies: list[Study], records: list[dict[str, Any]]) -> RenderableType:
    from prereg.report import render_verdicts

    notes = dict.fromkeys(note for study in studies for note in study.notes())
    return render_verdicts(records, hypotheses=studies[0].hypotheses, notes=list(notes))


def _draw(file: Path, studies: list[Study], records: list[dict[str, Any]]) -> Path:
    from prereg.report import to_svg
    from prereg.workers import write_atomically

    table = _table(studies, records)
    picture = to_svg(table, title=f"pytest {studies[0].folder}")
    write_atomically(file, lambda part: part.write_text(picture, "utf-8"))
    return file


def _asked(study: Study, named: list[str] | None) -> list[str]:
    from prereg.errors import StudyError

    for name in named or ():
        if name not in study.hypotheses:
            raise StudyError(
                f"{study.protocol_file.path}: there is no hypothesis {name!r}; "
                f"there are {', '.join(study.hypotheses)}",
                remedy="name one of these with --hypothesis",
            )
    # The protocol's order, whatever order they were asked in.
    return [name for name in study.hypotheses if not named or name in named]


def _need_evidence(study: Study, asked: list[str]) -> None:
    from prereg.errors import EvidenceError

    missing = {name: why for name in asked if (why := study.missing(name))}
    if missing:
        reasons = list(dict.fromkeys(reason for why in missing.values() for reason in why))
        more = f" (and {len(reasons) - 3} more)" if len(reasons) > 3 else ""
        raise EvidenceError(
            f"{study.pipeline.alias}: no evidence for {', '.join(missing)}: {'; '.join(reasons[:3])}{more}",
            remedy=f"prereg measure {study.folder} --model {study.pipeline.alias}   "
            "# or add --measure to this command",
        )


def _show_verdicts(studies: list[Study], records: list[dict[str, Any]], files: list[str]) -> None:
    show(_table(studies, records))
    folders = dict.fromkeys(str(Path(file).parent) for file in files)
    if folders:
        show("\n" + "\n".join(f"tables: {folder}" for folder in folders))
    else:
        show("\nnot every hypothesis was asked: tables are left as they were")
