"""`prereg summary`: verdicts and audit in Markdown, for a job's page or a merge request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

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
from prereg.cli.told import result, show, show_as_it_is, told
from prereg.errors import StudyError

__all__ = ["summary"]

VARIABLE = "GITHUB_STEP_SUMMARY"


def summary(
    study: StudyFolder = None,
    model: Shown = None,
    github: Annotated[
        bool,
        typer.Option("--github", help=f"append to the file that ${VARIABLE} names, not to standard output"),
    ] = False,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    json: Json = False,
) -> None:
    """Write the verdicts in Markdown, as an audit that is carried out now can show them.

    For the summary of a job, or a comment on a change. A verdict's word is never more than the audit shows; what stands
    in the way is listed, with the command that would settle it. It takes seconds, and needs neither torch nor a model.

    \b
    Exit codes, as of prereg audit:
      0  written, and everything is verified
      1  written, and the audit found a violation
      2  written, and something is unverified; or an error, and nothing is written

    \b
    Examples:
      prereg summary
      prereg summary gates/delta_stream > summary.md
      prereg summary gates/delta_stream --github
      prereg summary gates/delta_stream --json
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        file = _step_summary() if github else None
        from prereg.audit import audit
        from prereg.report import replication_contents, report_contents
        from prereg.report.summary import summary_markdown

        folder = study_folder(study)
        options = run_options(project_root(folder), cache_dir=cache_dir, report_dir=report_dir)
        report = audit(folder, options, model, tables=report_contents, replicated=replication_contents)
        text = summary_markdown(report)
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.write(text)
        if json:
            where = None if file is None else str(file)
            result({"study": report.study, "result": report.result, "markdown": text, "file": where})
        elif file is None:
            # Not wrapped to the terminal: a wrapped table is no table. Markdown has character references.
            show_as_it_is(text, lacking="xmlcharrefreplace")
        else:
            show(f"summary: {file}")
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _step_summary() -> Path:
    named = os.environ.get(VARIABLE)
    if not named:
        raise StudyError(
            f"${VARIABLE} is not set: this is no step of a GitHub job",
            remedy="prereg summary   # without --github",
        )
    return Path(named)
