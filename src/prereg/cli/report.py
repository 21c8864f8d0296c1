"""`prereg report`: figures, a page for a reviewer, and a badge."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prereg.cli.options import (
    CacheDir,
    Json,
    ReportDir,
    Shown,
    StudyFolder,
    project_root,
    run_options,
    study_folder,
)
from prereg.cli.told import result, show, told

if TYPE_CHECKING:
    from prereg.report.page.making import Made

__all__ = ["report"]


class _Part(StrEnum):
    # Typer takes no list of literals.
    FIGURES = "figures"
    PAGE = "page"
    BADGE = "badge"


def report(
    study: StudyFolder = None,
    model: Shown = None,
    only: Annotated[
        list[_Part] | None,
        typer.Option(
            "--only",
            help="make only this; repeatable. Figures alone need no audit [default: all three]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="write the files there [default: beside the tables, in reports/<study>]",
            show_default=False,
        ),
    ] = None,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    json: Json = False,
) -> None:
    """Draw the figures, write a page for a reviewer and a badge, from what is tracked in reports/.

    Neither torch, a model nor a cache is needed, and nothing is measured. The numbers in figures come from the CSV
    tables alone. The page, the badge, and the verdicts' words in figures made with them rest on an audit that is
    carried out now, and say no more than it can show: where the audit is unverified, so is every verdict. It takes
    some ten seconds.

    \b
    What is written to reports/<study>/:
      <model>/figures/*.svg, *.png  figures on one model
      gates.svg, .png               each gate against its threshold, all models
      replication.svg, .png         models pooled, where replication.csv is
      report.html                   one file, to be opened or sent; loads nothing
      badge.svg, badge.json         a badge, and for shields.io's endpoint

    The audit looks at files as they are committed. Commit the tables first, then run this, then commit what it wrote;
    or write it elsewhere with --out.

    The badge is green only if everything that was asked is supported; blue where all was answered, refuted or not.

    \b
    Exit codes, as of prereg audit (always 0 with --only figures):
      0  written, and everything is verified
      1  written, and the audit found a violation
      2  written, and something is unverified; or an error, and nothing is written

    \b
    Examples:
      prereg report
      prereg report gates/delta_stream --model smollm2-135m
      prereg report --only figures --out figures
      prereg report --only badge --json

    Needs `pip install 'prereg-gates[report]'`.
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.report.page.making import PARTS, make_report

        folder = study_folder(study)
        root = project_root(folder)
        options = run_options(root, cache_dir=cache_dir, report_dir=report_dir)
        parts = [part for part in PARTS if not only or part in only]
        made = make_report(folder, options, model, out=out, parts=parts)
        files = made.write()
        if json:
            result(_record(made, files))
        else:
            _tell(made, files, root)
    if made.audit is not None and made.audit.exit_code:
        raise typer.Exit(made.audit.exit_code)


def _record(made: Made, files: tuple[Path, ...]) -> dict[str, object]:
    return {
        "study": made.study,
        "result": None if made.audit is None else made.audit.result,
        "badge": None if made.badge is None else made.badge.endpoint,
        "files": [str(file) for file in files],
    }


def _tell(made: Made, files: tuple[Path, ...], root: Path) -> None:
    from rich.text import Text

    from prereg.report.page.making import own_files_only

    figures = sum(file.suffix == ".svg" and file.name != "badge.svg" for file in files)
    lines = [f"{figures} figures, as SVG and PNG: {made.folder}"] if figures else []
    lines += [f"{file.suffix.removeprefix('.')}: {file}" for file in files if file.name == "report.html"]
    if made.badge is not None:
        lines.append(f"badge: {made.badge.label} | {made.badge.message}")
    if made.audit is not None:
        lines.append(f"audit: {made.audit.result}")
        if own_files_only(made.audit, made.folder, root):
            lines.append(
                "it names only files of an earlier report: commit them and run this again, or use --out"
            )
        elif made.audit.exit_code:
            lines.append(f"next: prereg audit {made.audit.folder}")
    show(Text("\n".join(lines)))
