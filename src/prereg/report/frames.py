"""A report in Python: verdicts and contrasts as pandas frames, evidence as paths that any reader of parquet opens.

Words are those of verdicts.json or less: a record that its own registration doesn't cover is never shown as an answer.
Nothing here verifies; that is what `prereg audit` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prereg.errors import EvidenceError
from prereg.hostile import printable, read_bounded
from prereg.report.figures.tables import MAX_TABLE, ReportError
from prereg.report.pandas_tables import Tables, frame_of, need_pandas
from prereg.report.rows import MARKS, Row, blocks

if TYPE_CHECKING:
    import pandas as pd

    from prereg.report.schema import VerdictsDocument

__all__ = ["Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """What was recorded of one study on one model.

    Parameters
    ----------
    folder
        Where it lies: ``reports/<study>/<model>``.
    document
        verdicts.json, checked field by field.
    """

    folder: Path
    document: VerdictsDocument

    @property
    def study(self) -> str:
        """Name of the study."""
        return self.document.study

    @property
    def model(self) -> str:
        """Alias of the model."""
        return self.document.model.alias

    @property
    def standing(self) -> str:
        """How the registration stood when the verdicts were written, in words. Not verified here."""
        found = self.document.registration
        root = "" if found.root is None else f" {found.root[:16]}"
        known = f"; {found.known} data were known" if found.known not in (None, "none") else ""
        why = f": {'; '.join(found.reasons)}" if found.reasons else ""
        return f"{found.status}{root}{known}{why}"

    @property
    def records(self) -> list[dict[str, Any]]:
        """The verdicts as plain data, as `Verdict.as_record` gives them."""
        return [verdict.model_dump(mode="json") for verdict in self.document.verdicts]

    @property
    def rows(self) -> tuple[Row, ...]:
        """One for each promised hypothesis, in words; ``outcome`` is what may be shown."""
        (block,) = blocks(self.records, self.document.hypotheses, [self.model])
        return block.rows

    @property
    def verdicts(self) -> pd.DataFrame:
        """One row a hypothesis, tested or not.

        ``outcome`` is what may be shown (``unregistered``, ``unverified`` or ``tampered`` where the answer may not be
        claimed), ``answer`` what the interval says whatever the registration; numbers are of the contrast that binds.

        Raises
        ------
        ReportError
            If pandas is not installed.
        """
        pandas = need_pandas()
        records = {record["hypothesis"]: record for record in self.records}
        own = ("claim", "estimand", "family", "direction", "threshold", "units", "estimate", "low", "high",
               "level", "unit", "n_subjects", "n_prompts", "binds", "reason")  # fmt: skip
        found = []
        for row in self.rows:
            record = records.get(row.hypothesis, {})
            failed = [c["name"] for c in record.get("controls", ()) if c["outcome"] != "supported"]
            found.append(
                {
                    "hypothesis": row.hypothesis,
                    "model": self.model,
                    "outcome": row.outcome,
                    "answer": record.get("answer"),
                    # Evidence may stand worse than the study does, so each verdict has its own.
                    "registration": record.get("registration", {}).get("status"),
                    "sets_of_data": row.tries if row.tested else None,
                    **{name: record.get(name) for name in own},
                    "failed_controls": " ".join(failed),
                    "cautions": "; ".join(record.get("cautions", ())),
                    "published": (record.get("published") or {}).get("verdict"),
                }
            )
        frame: pd.DataFrame = pandas.DataFrame(found)
        return frame

    @property
    def contrasts(self) -> pd.DataFrame:
        """One row a contrast, of claims and controls, with each interval method's bounds; as in contrasts.csv.

        Raises
        ------
        ReportError
            If pandas is not installed.
        """
        from prereg.report.verdict_tables import contrasts_csv

        return frame_of(contrasts_csv(self.records), self.folder / "verdicts.json")

    @property
    def tables(self) -> Tables:
        """The tracked tables by name: ``report.tables["r2_by_update"]``."""
        return Tables(self)

    @property
    def evidence(self) -> dict[str, Path]:
        """Each parquet file that lies there, by name without ``.parquet``: for pandas, polars, duckdb.

        One row a prompt and update in the main tables; squared errors, from which every R2 is formed. Columns are
        described where they are written, in `prereg.analysis`.
        """
        return {file.stem: file for file in sorted((self.folder / "evidence").glob("*.parquet"))}

    def check_evidence(self) -> tuple[Path, ...]:
        """Hash the tables that the verdicts rest on, and compare with the digests in verdicts.json.

        Returns
        -------
        tuple of Path
            The files, each as it was when the verdicts were written.

        Raises
        ------
        EvidenceError
            If one is missing or differs, or the verdicts name none.
        """
        import blake3

        wanted = {
            name: digest for verdict in self.document.verdicts for name, digest in verdict.evidence.items()
        }
        if not wanted:
            raise EvidenceError(f"{self.folder}: the verdicts name no evidence", remedy="prereg verdicts")
        files = []
        for name, digest in sorted(wanted.items()):
            file = self.folder / "evidence" / name
            remedy = f"git checkout -- {file}, then: prereg audit"
            if Path(name).name != name:
                raise EvidenceError(f"{name!r} is no name of a table", remedy=remedy)
            try:
                found = blake3.blake3(read_bounded(file, MAX_TABLE)).hexdigest()
            except (OSError, ValueError) as error:
                raise EvidenceError(f"{file} can't be read: {error}", remedy=remedy) from error
            if found != digest:
                raise EvidenceError(
                    f"{file} has the digest {found[:16]}, the verdicts rest on {digest[:16]}", remedy=remedy
                )
            files.append(file)
        return tuple(files)

    def must_agree(self, frame: pd.DataFrame, file: Path) -> None:
        """Demand that a verdicts.csv says what verdicts.json says.

        Raises
        ------
        ReportError
            If a hypothesis, outcome or answer differs.
        """
        said = dict.fromkeys(self.document.hypotheses, ("not_tested", ""))
        said |= {v.hypothesis: (str(v.outcome), str(v.answer)) for v in self.document.verdicts}
        columns = [frame[name].fillna("") for name in ("hypothesis", "outcome", "answer") if name in frame]
        if len(columns) < 3 or {h: (o, a) for h, o, a in zip(*columns, strict=True)} != said:
            raise ReportError(
                f"{file} says something else than verdicts.json beside it",
                remedy="prereg audit   # says which",
            )

    def __repr__(self) -> str:
        said = ", ".join(f"{row.hypothesis} {_word(row)}" for row in self.rows)
        # Names are those of a file that anyone may have written, and a terminal shows this.
        return printable(f"<Report of {self.study} on {self.model}, as recorded: {said}>", 20_000)

    def _repr_html_(self) -> str:
        """Return a table for a notebook: every text escaped, no colour, the registration as it was recorded."""
        head = "".join(
            f'<th scope="col">{name}</th>' for name in ("hypothesis", "verdict", "estimate", "interval",
            "promised", "claim")
        )  # fmt: skip
        body = "".join(
            "<tr>"
            + f'<th scope="row">{_html(row.hypothesis)}</th>'
            + "".join(
                f"<td>{_html(text)}</td>"
                for text in (_word(row), row.estimate, row.interval, row.promised, row.claim)
            )
            + "</tr>"
            for row in self.rows
        )
        caption = f"{self.study} on {self.model}: verdicts as recorded"
        doubts = dict.fromkeys(f"{row.hypothesis}: {doubt}." for row in self.rows for doubt in row.doubts)
        note = " ".join(
            [
                f"Registration, as recorded: {self.standing}.",
                *doubts,
                "Nothing was verified here; prereg audit does that.",
            ]
        )
        return (
            f"<table><caption>{_html(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{_html(note)}</p>"
        )


def _html(text: str) -> str:
    return escape(printable(text, 20_000))


def _word(row: Row) -> str:
    symbol, words, _ = MARKS.get(row.outcome, ("!", row.outcome, ""))
    beside = "".join(f" ({text})" for text in (row.answer, row.version) if text)
    tries = f" ({row.tries} tries)" if row.tries > 1 else ""
    return f"{symbol} {words}{beside}{tries}"
