"""Reading one verdicts.json whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from prereg.hostile import printable, read_bounded
from prereg.report.figures.tables import ReportError
from prereg.report.schema.document import VerdictsDocument

__all__ = ["read_verdicts"]

MAX_BYTES = 20_000_000


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
    remedy = f"git checkout -- {file}   # or make it again: prereg verdicts --model {file.parent.name}"
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
