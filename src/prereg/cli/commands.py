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
from prereg.cli.root import Root, asks_for_json
from prereg.cli.schema import schema
from prereg.cli.stages import capture, measure
from prereg.cli.summary import summary
from prereg.cli.told import BUG, tell_machine, told, whole_or_error
from prereg.cli.verdicts import verdicts

__all__ = ["app", "main"]

app = typer.Typer(
    name="prereg",
    cls=Root,
    no_args_is_help=True,
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
      prereg capture    run the model, keep its residual stream   minutes, torch
      prereg measure    fit kernels and their nulls, held out     minutes
      prereg verdicts   compare intervals with the thresholds     a second
      prereg report     figures, a page for a reviewer, a badge   seconds

    `pytest gates/` does all three where they are missing, and asserts what the study claims.

    What was promised, and that nothing was bent since:

    \b
      prereg calibrate  simulate each gate: how often it errs, and how often
                        it finds what is there
      prereg freeze     register a study, before the data
      prereg amend      add a change to a registration, with its reason
      prereg audit      check everything that the verdicts rest on
      prereg diff       say what changed in a promise between two commits

    \b
    Start with:
      prereg doctor
      prereg new my-study
      prereg models
      prereg verdicts --measure --model pythia-tiny

    \b
    For machines:
      --json            each command then prints one JSON document on standard
                        output and nothing else, errors included
      NO_COLOR=1        no colours; there are none in a pipe or a file anyway

    \b
    Exit codes:
      0    done, and what was asked about holds
      1    done, and it doesn't hold: not all supported (verdicts), a violation
           (audit, report, summary), not answerable here (doctor), changed
           (diff), errs too often (calibrate)
      2    an error; nothing may be concluded. Also: something is unverified
           (audit, report, summary), something is damaged (cache verify)
      3    a bug in prereg; the traceback is the report
      130  interrupted; run the same command again to resume
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
    as_json = asks_for_json(sys.argv[1:])
    try:
        # Help and usage are written outside of any command's body.
        with told(as_json), whole_or_error():
            app()
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except Exception as bug:
        # Python's own exit code for it is 1, which says that something is not supported.
        sys.excepthook(type(bug), bug, bug.__traceback__)
        if as_json:
            tell_machine(
                type(bug).__name__, f"a bug in prereg: {bug}", "report the traceback on standard error"
            )
        sys.exit(BUG)
