"""CSV as pandas frames: names stay text, numbers are numbers. pandas is imported when a frame is asked for."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from prereg.hostile import printable, read_bounded
from prereg.report.figures.tables import MAX_TABLE, ReportError

if TYPE_CHECKING:
    import pandas as pd

    from prereg.report.frames import Report

__all__ = ["Tables", "UnknownTable", "frame_of", "need_pandas"]

PANDAS = "pip install 'pandas>=2.2'"

# Names stay text, whatever they look like: a hypothesis called 1, a label "None".
_TEXT = (
    "hypothesis", "model", "family", "outcome", "answer", "registration", "direction", "units", "binds",
    "failed_controls", "version", "other_version", "other_answer", "published_verdict", "published_value",
    "published_model", "claim", "reason", "protocol_digest", "role", "name", "label", "updates",
    "arm", "fit", "fit_on", "evaluated_on", "status", "pid", "subject", "relation", "template", "predictor",
    "null", "stack",
)  # fmt: skip


class UnknownTable(ReportError, KeyError):
    """A table that this report doesn't have."""

    __str__ = ReportError.__str__


class Tables(Mapping[str, "pd.DataFrame"]):
    """The tracked CSV tables of one model by name, each read when it is asked for.

    ``verdicts`` is checked against verdicts.json; what else the tables hold is compared with the evidence by
    `prereg audit` alone.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(file.stem for file in self._report.folder.glob("*.csv")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return one table.

        Raises
        ------
        UnknownTable
            If there is none of that name.
        ReportError
            If it can't be read, pandas is not installed, or verdicts.csv says something else than verdicts.json.
        """
        if name not in list(self):
            raise UnknownTable(f"there is no table {name!r}; there are {_names(self)}")
        file = self._report.folder / f"{name}.csv"
        try:
            content = read_bounded(file, MAX_TABLE)
        except (OSError, ValueError) as error:
            raise ReportError(f"{file} can't be read: {error}", remedy=f"git checkout -- {file}") from error
        frame = frame_of(content, file)
        if name == "verdicts":
            self._report.must_agree(frame, file)
        return frame

    def __repr__(self) -> str:
        return f"<Tables: {_names(self)}>"


def _names(tables: Tables) -> str:
    # A file may have any name, and a terminal shows this.
    return ", ".join(printable(name) for name in tables)


def need_pandas() -> ModuleType:
    """Return pandas.

    Raises
    ------
    ReportError
        If it is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ReportError("frames are pandas', which is not installed", remedy=PANDAS) from error
    return pandas


def frame_of(content: bytes, file: Path) -> pd.DataFrame:
    """Return a CSV table as a frame.

    Parameters
    ----------
    content
        UTF-8, comma-separated, the first line being the columns. An empty field is a missing value.
    file
        Where it came from, for messages.

    Raises
    ------
    ReportError
        If it is no table, or pandas is not installed.
    """
    pandas = need_pandas()
    try:
        head = content.split(b"\n", 1)[0].decode("utf-8").split(",")
        # In a table of contrasts `binds` tells whether this is the one; elsewhere it is that one's label.
        text = [name for name in head if name in _TEXT and not (name == "binds" and "label" in head)]
        frame: pd.DataFrame = pandas.read_csv(
            io.BytesIO(content),
            encoding="utf-8",
            keep_default_na=False,
            na_values=[""],
            dtype=dict.fromkeys(text, "str"),
        )
    except ValueError as error:  # pandas' parser errors are ValueErrors
        raise ReportError(f"{file} is no table: {error}", remedy=f"git checkout -- {file}") from error
    return frame
