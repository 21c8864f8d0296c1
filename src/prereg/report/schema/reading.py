"""Reading one verdicts.json whole, or not at all."""

from __future__ import annotations

import shlex
from pathlib import Path

from pydantic import ValidationError

from prereg.hostile import printable, read_bounded
from prereg.report.figures.tables import ReportError
from prereg.report.schema.document import VerdictsDocument

__all__ = ["read_verdicts", "remedy_for"]

MAX_BYTES = 20_000_000


def remedy_for(file: Path) -> str:
    """Return the next step for a verdicts.json that can't be read: get it back, or make it again."""
    model = file.absolute().parent.name or "NAME"
    again = f"prereg verdicts --model {shlex.quote(model)}"
    return f"git checkout -- {shlex.quote(str(file))}   # or make it again: {again}"


def read_verdicts(file: Path) -> VerdictsDocument:
    """Read a verdicts.json.

    Parameters
    ----------
    file
        A regular file; a link is not followed.

    Raises
    ------
    ReportError
        If it is missing, larger than 20 MB, no verdicts.json of format 1, or at odds with itself: an outcome that its
        own registration doesn't allow, counts that are not those of its list, a verdict of another model.
    """
    remedy = remedy_for(file)
    try:
        return VerdictsDocument.model_validate_json(read_bounded(file, MAX_BYTES))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "as a whole"
        raise ReportError(
            f"{file} is no verdicts.json of format 1: {printable(where)}: {printable(first['msg'])}",
            remedy=remedy,
        ) from error
    except (OSError, ValueError) as error:
        raise ReportError(f"{file} can't be read: {error}", remedy=remedy) from error
