"""The tracked tables as figures read them: text out of CSV files, numbers where a figure asks for one.

Nothing but tables is opened: no evidence, no cache, no model. A table that is missing is no error, for a study has
only the tables of its own analyses; one that lacks a column or holds something else than a number is one.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prereg.errors import PreregError
from prereg.hostile import printable, read_bounded

__all__ = ["ReportError", "Row", "Table", "Tables", "read_tables"]

MAX_TABLE = 50_000_000
MAX_ROWS = 200_000

Row = Mapping[str, str]
"""One line of a table: column -> its text; empty where there is no value."""


class ReportError(PreregError):
    """A figure, page or badge that can't be made from what is there: says what is missing, and what would give it."""


@dataclass(frozen=True, slots=True)
class Table:
    """One CSV file.

    Parameters
    ----------
    file
        Where it came from, for messages.
    columns, rows
        What it holds, in the file's order.
    """

    file: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def need(self, columns: Sequence[str]) -> None:
        """Demand columns and at least one row.

        Raises
        ------
        ReportError
            If a column is missing, or the table is empty.
        """
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise ReportError(
                f"{self.file} lacks the columns {', '.join(missing)}; it has {', '.join(self.columns)}",
                remedy="prereg verdicts   # writes the tables again from the evidence",
            )
        if not self.rows:
            raise ReportError(
                f"{self.file} has no rows: there is nothing to draw",
                remedy="prereg verdicts   # writes the tables again from the evidence",
            )

    def number(self, row: Row, column: str) -> float | None:
        """Return a field as a number; None where it is empty.

        Raises
        ------
        ReportError
            If it is something else, or not finite.
        """
        text = row[column]
        if text == "":
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ReportError(
                f"{self.file}: column {column} holds {printable(text, 40)!r} where a finite number was expected",
                remedy="prereg verdicts   # writes the tables again from the evidence",
            )
        return value

    def numbers(self, rows: Sequence[Row], column: str) -> list[float]:
        """Return a column's numbers, without the empty fields."""
        return [value for row in rows if (value := self.number(row, column)) is not None]

    def where(self, **equal: str) -> tuple[Row, ...]:
        """Return the rows that have these texts in these columns, in order."""
        return tuple(row for row in self.rows if all(row[k] == v for k, v in equal.items()))

    def values(self, column: str) -> tuple[str, ...]:
        """Return the distinct texts of a column, in the order in which they come."""
        return tuple(dict.fromkeys(row[column] for row in self.rows))


@dataclass(frozen=True, slots=True)
class Tables:
    """A study's tables.

    Parameters
    ----------
    study
        Its name.
    shared
        File name -> a table that lies beside the models' folders.
    models
        Model -> file name -> table.
    """

    study: str
    shared: Mapping[str, Table] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Table]] = field(default_factory=dict)

    def of(self, model: str) -> Tables:
        """Return the tables of one model, with the shared ones."""
        return Tables(self.study, self.shared, {model: self.models[model]})

    def find(self, name: str) -> Iterator[tuple[str, Table]]:
        """Yield (model, table) for each model that has a table of this name."""
        for model, tables in self.models.items():
            if name in tables:
                yield model, tables[name]

    def one(self, name: str) -> Table:
        """Return the only model's table.

        Raises
        ------
        ReportError
            If there isn't exactly one.
        """
        found = [table for _, table in self.find(name)]
        if len(found) != 1:
            raise ReportError(f"{self.study}: {len(found)} tables called {name}, one model's was wanted")
        return found[0]


def read_tables(folder: Path, models: Sequence[str] | None = None) -> Tables:
    """Read every CSV table of a study's reports.

    Parameters
    ----------
    folder
        The study's reports, ``reports/<study>``: one folder for each model.
    models
        Names of the models' folders, in the order to show them; None for each that holds a verdicts.csv.

    Raises
    ------
    ReportError
        If there is no folder, no model, or a table that can't be read.
    """
    if not folder.is_dir():
        raise ReportError(f"{folder}: there are no reports here", remedy="prereg verdicts --measure")
    if models is None:
        models = sorted(file.parent.name for file in folder.glob("*/verdicts.csv"))
    found: dict[str, dict[str, Table]] = {}
    for model in models:
        if not (folder / model / "verdicts.csv").is_file():
            raise ReportError(
                f"{folder / model}: there is no verdicts.csv here",
                remedy=f"prereg verdicts --measure --model {model}",
            )
        found[model] = _folder(folder / model)
    if not found:
        raise ReportError(f"{folder}: no model has a verdicts.csv", remedy="prereg verdicts --measure")
    return Tables(printable(folder.name), _folder(folder), found)


def _folder(folder: Path) -> dict[str, Table]:
    return {file.name: _read(file) for file in sorted(folder.glob("*.csv"))}


def _read(file: Path) -> Table:
    try:
        columns, rows = _parsed(read_bounded(file, MAX_TABLE).decode("utf-8"))
    except (OSError, ValueError, csv.Error) as error:
        raise ReportError(
            f"{file} can't be read as a table: {error}", remedy=f"git checkout -- {file}"
        ) from error
    return Table(file, columns, rows)


def _parsed(text: str) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    columns = tuple(reader.fieldnames or ())
    if len(set(columns)) != len(columns):
        raise ValueError("it names a column twice")
    rows: list[Row] = []
    for row in reader:
        if len(rows) >= MAX_ROWS:
            raise ValueError(f"more than {MAX_ROWS:,} rows")
        if None in row or None in row.values():
            raise ValueError(f"line {reader.line_num} has not {len(columns)} fields")
        rows.append(row)
    return columns, tuple(rows)
