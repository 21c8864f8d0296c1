"""`prereg schema`: what others may rely on in verdicts.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prereg.cli.options import Json
from prereg.cli.told import result, show, told

__all__ = ["schema"]


def schema(
    check: Annotated[
        list[Path] | None,
        typer.Option(
            "--check",
            metavar="FILE",
            help="instead of printing it, check this verdicts.json against it; repeatable",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the JSON Schema of verdicts.json, or check files against it.

    The check also demands what a schema can't say: that the counts are those of the list, and that no outcome says more
    than its own registration allows. It shows that a file is well formed; that it is true is shown by prereg audit.
    The schema is JSON with or without --json; what --check found is with it.

    \b
    Exit codes:
      0  printed, or every file holds
      2  an error: a file is missing, or is no verdicts.json

    \b
    Examples:
      prereg schema > verdicts.schema.json
      prereg schema --check reports/delta_stream/smollm2-135m/verdicts.json
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.report.schema import published_schema, read_verdicts

        checked = []
        for file in check or ():
            found = read_verdicts(file)
            checked.append(
                {
                    "file": str(file),
                    "study": found.study,
                    "model": found.model.alias,
                    "hypotheses_total": found.hypotheses_total,
                    "tested": found.tested,
                }
            )
            if not json:
                show(f"{file}: well formed, {found.tested} of {found.hypotheses_total} hypotheses tested")
        if not check:
            result(published_schema())
        elif json:
            result({"checked": checked})
