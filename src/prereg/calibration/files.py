"""A calibration as files: the same numbers give the same bytes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from prereg.calibration.picture import picture
from prereg.calibration.records import Calibration, Rate
from prereg.workers import write_atomically

__all__ = ["csv_bytes", "json_bytes", "put", "write_calibration"]

_RATES = ("supported", "refuted", "inconclusive", "invalid", "coverage")


def write_calibration(calibration: Calibration, folder: Path) -> tuple[Path, ...]:
    """Write calibration.json, calibration.csv and calibration.svg; return the files.

    Raises
    ------
    StorageError
        If the folder can't be written.
    """
    contents = {
        "calibration.json": json_bytes(calibration.as_record()),
        "calibration.csv": csv_bytes(calibration),
        "calibration.svg": picture(calibration).encode(),
    }
    return tuple(put(folder / name, content) for name, content in contents.items())


def put(file: Path, content: bytes) -> Path:
    """Make `file` hold `content`; return the file."""
    write_atomically(file, lambda part: part.write_bytes(content))
    return file


def json_bytes(value: Any) -> bytes:
    """Return a record as UTF-8 JSON: sorted keys, two blanks of indent, LF, a final newline."""
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def csv_bytes(calibration: Calibration) -> bytes:
    """Return one row for each gate, world, number of units and truth, as UTF-8 CSV with LF line ends."""
    alpha = {gate.hypothesis: gate.alpha for gate in calibration.gates}
    head = ("hypothesis", "population", "n_units", "case", "kind", "claim_holds", "alpha", "replications")
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        (*head, *(f"{rate}{end}" for rate in _RATES for end in ("", "_low", "_high")), "coverage_of")
    )
    for result in calibration.results:
        rates: list[Rate] = [getattr(result, rate) for rate in _RATES]
        writer.writerow(
            (
                result.hypothesis, result.population, result.n_units, result.case, result.kind,
                "true" if result.holds else "false", repr(alpha[result.hypothesis]), calibration.replications,
                *(repr(value) for rate in rates for value in (rate.share, rate.low, rate.high)),
                result.coverage_of,
            )
        )  # fmt: skip
    return out.getvalue().encode()
