"""`prereg audit`: everything that a reviewer would check, on one page."""

from __future__ import annotations

from typing import Annotated

import typer

from prereg.cli.completion import reported
from prereg.cli.options import (
    CacheDir,
    Json,
    ReportDir,
    StudyFolder,
    project_root,
    run_options,
    study_folder,
)
from prereg.cli.told import result, show, told

__all__ = ["audit"]


def audit(
    study: StudyFolder = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="look only at this model's reports; repeat it for several [default: every model that has reports]",
            autocompletion=reported,
            show_default=False,
        ),
    ] = None,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    json: Json = False,
) -> None:
    """Check everything that the study's verdicts rest on, and print a page for a reviewer.

    The whole git history of the promise, the gates, the evidence and the attempts is walked, and every interval and
    verdict is computed again from per-prompt evidence. Nothing is measured, and nothing is written but digests of
    local models, which the cache folder remembers; neither torch nor a model is needed. It takes seconds.

    \b
    The checks, in the order in which they are shown:
      repository    the whole history can be seen; all files are committed
      registration  there, whole, and the one that was committed first
      order         committed before the results that carry its digest
      promise       protocol.toml is the promise in force
      windows       it was so at every commit since, reverted edits included
      components    gates, code and facts are the registered ones
      amendments    each shown; none edited, removed or denying what was known
      attempts      the log is whole, and every verdict is in it
      evidence      whole, and measured under the registration
      verdicts      computed again from evidence; every table compared
      witnesses     signatures and receipts
      accounting    how many of the hypotheses were tested

    \b
    What a finding can be:
      verified    it was shown
      note        a fact to weigh: results known at the freeze, no signature, ...
      UNVERIFIED  it can't be shown from here; the line "next" names what would
      VIOLATION   what is here contradicts what was registered

    \b
    Exit codes:
      0  everything is verified
      1  at least one violation
      2  something is unverified, or an error

    \b
    Examples:
      prereg audit
      prereg audit gates/delta_stream
      prereg audit gates/delta_stream --model smollm2-135m
      prereg audit gates/delta_stream --json > audit.json
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.audit import audit as carry_out
        from prereg.audit import page
        from prereg.report import replication_contents, report_contents

        folder = study_folder(study)
        options = run_options(project_root(folder), cache_dir=cache_dir, report_dir=report_dir)
        report = carry_out(folder, options, model, tables=report_contents, replicated=replication_contents)
        if json:
            result(report.as_record())
        else:
            show(page(report))
    if report.exit_code:
        raise typer.Exit(report.exit_code)
