"""`prereg`: the commands, and what their exit codes mean."""

from __future__ import annotations

import sys

import typer

from prereg.cli.audit import audit
from prereg.cli.cache import cache_app
from prereg.cli.calibrate import calibrate, power
from prereg.cli.diff import diff
from prereg.cli.doctor import doctor
from prereg.cli.models import models
from prereg.cli.new import new
from prereg.cli.registering import amend, freeze
from prereg.cli.report import report
from prereg.cli.schema import schema
from prereg.cli.stages import capture, measure
from prereg.cli.summary import summary
from prereg.cli.told import told, whole_or_error
from prereg.cli.verdicts import verdicts

__all__ = ["app", "main"]

app = typer.Typer(
    name="prereg",
    no_args_is_help=True,
    add_completion=False,
    # An exception that nobody foresaw keeps its traceback: it is a bug, and the traceback is the report.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """Ask a pre-registered interpretability study what it shows.

    A study is a folder with a protocol.toml: hypotheses, thresholds and how they are tested, written before the
    data. Three stages lead to an answer, each addressed by content and done at most once:

    \b
      prereg capture   run the model, keep its residual stream     minutes, needs torch
      prereg measure   fit kernels and their nulls, held out        minutes
      prereg verdicts  compare intervals with the thresholds        a second
      prereg report    figures, a page for a reviewer, a badge      seconds

    `pytest gates/` does all three where they are missing, and asserts what the study claims.

    What was promised, and that nothing was bent since:

    \b
      prereg calibrate simulate each gate: how often it errs, how often it finds what is there
      prereg freeze    register a study, before the data
      prereg amend     add a change to a registration, with its reason
      prereg audit     check everything that the verdicts rest on
      prereg diff      say what changed in a promise between two commits

    \b
    Start with:
      prereg doctor
      prereg new my-study
      prereg models
      prereg verdicts --measure --model pythia-tiny

    \b
    Exit codes: 0 done, and for verdicts all supported; 1 not all supported;
    2 an error; 130 interrupted (run the same command again to resume).
    """  # noqa: D301 (backslash-b keeps lines as they are)


app.command(short_help="Write a study to start from.")(new)
app.command(short_help="List models, or fetch one ahead of time.")(models)
app.command(short_help="Run the model over the prompts; keep its stream.")(capture)
app.command(short_help="Fit kernels and nulls; keep the evidence.")(measure)
app.command(short_help="Compare evidence with thresholds; write the report.")(verdicts)
app.command(short_help="Draw figures, write a page and a badge.")(report)
app.command(short_help="Verdicts in Markdown, for a job's page.")(summary)
app.command(short_help="Print the JSON Schema of verdicts.json.")(schema)
app.command(short_help="Simulate each gate: its size and its power.")(calibrate)
app.command(short_help="How many units a wanted power needs.")(power)
app.command(short_help="Register a study, once, before the data.")(freeze)
app.command(short_help="Add a change to a registration, with its reason.")(amend)
app.command(short_help="Check everything that the verdicts rest on.")(audit)
app.command(short_help="Say what changed in a promise between two commits.")(diff)
app.command(short_help="Say what is here, what is missing, what to do next.")(doctor)
app.add_typer(cache_app, name="cache", short_help="Show, check and clear the cache.")


def main() -> None:
    """Run the command line; the entry point of the `prereg` script."""
    try:
        # Help and usage are written outside of any command's body.
        with told(as_json=False), whole_or_error():
            app()
    except typer.Exit as end:
        sys.exit(end.exit_code)
