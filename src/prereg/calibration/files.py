"""A calibration as files: the same numbers give the same bytes."""

from __future__ import annotations

from pathlib import Path

from prereg.calibration.picture import picture
from prereg.calibration.records import Calibration, Rate
from prereg.tabular import Cell, csv_bytes, json_bytes, put

__all__ = ["FILES", "calibration_csv", "write_calibration"]

FILES = ("calibration.json", "calibration.csv", "calibration.svg")

_RATES = ("supported", "refuted", "inconclusive", "invalid", "coverage")
_COLUMNS = (
    "hypothesis", "population", "n_units", "case", "kind", "claim_holds", "alpha", "replications",
    *(f"{rate}{end}" for rate in _RATES for end in ("", "_low", "_high")), "coverage_of",
)  # fmt: skip


def write_calibration(calibration: Calibration, folder: Path) -> tuple[Path, ...]:
    """Write calibration.json, calibration.csv and calibration.svg; return the files.

    Raises
    ------
    StorageError
        If the folder can't be written.
    """
    contents = (
        json_bytes(calibration.as_record()),
        calibration_csv(calibration),
        picture(calibration).encode(),
    )
    for name, content in zip(FILES, contents, strict=True):
        put(folder / name, content)
    return tuple(folder / name for name in FILES)


def calibration_csv(calibration: Calibration) -> bytes:
    """Return one row for each gate, world, number of units and truth."""
    alpha = {gate.hypothesis: gate.alpha for gate in calibration.gates}
    rows: list[dict[str, Cell]] = []
    for result in calibration.results:
        row: dict[str, Cell] = {
            "hypothesis": result.hypothesis,
            "population": result.population,
            "n_units": result.n_units,
            "case": result.case,
            "kind": result.kind,
            "claim_holds": result.holds,
            "alpha": alpha[result.hypothesis],
            "replications": calibration.replications,
            "coverage_of": result.coverage_of,
        }
        for name in _RATES:
            rate: Rate = getattr(result, name)
            row |= {name: rate.share, f"{name}_low": rate.low, f"{name}_high": rate.high}
        rows.append(row)
    return csv_bytes(_COLUMNS, rows)
