"""Evidence files, opened with distrust: small, flat, whole, and bound to their record by digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import blake3
import pyarrow as pa
import pyarrow.parquet as pq

from prereg.errors import EvidenceError, PreregError
from prereg.evidence import Provenance, read_provenance
from prereg.registration.witness import read_bounded

__all__ = ["Counted", "count_rows", "read_record", "table_faults"]

MAX_RECORD = 2_000_000
MAX_TABLE = 1_000_000_000
MAX_UNPACKED = 8_000_000_000
MAX_ROWS = 50_000_000
MAX_COLUMNS = 8_000
_FLAT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a main table holds."""

    prompts: int
    subjects: int
    updates: tuple[int, ...]
    rows: int


def read_record(file: Path) -> Provenance:
    """Return the record of evidence in a file, its seal checked.

    Raises
    ------
    PreregError
        If it is a link, too large, no record, or was edited.
    """
    read_bounded(file, MAX_RECORD)
    record = read_provenance(file.parent, file.name.removesuffix(".json"))
    if record is None:
        raise EvidenceError(f"{file.name} is gone")
    return record


def table_faults(folder: Path, record: Provenance) -> tuple[str, ...]:
    """Say which of a record's tables are missing, not the recorded bytes, or nothing that may be opened."""
    faults = []
    for name, digest in sorted(record.tables.items()):
        if Path(name).name != name or not name.endswith(".parquet"):
            faults.append(f"{name}: a table may not lie outside its folder")
            continue
        try:
            raw = read_bounded(folder / name, MAX_TABLE)
        except PreregError as error:
            faults.append(error.message)
            continue
        found = blake3.blake3(raw).hexdigest()
        if found != digest:
            faults.append(f"{name}: digest {found[:12]}, recorded {digest[:12]}: it was changed")
            continue
        fault = _shape(folder / name)
        if fault is not None:
            faults.append(f"{name}: {fault}")
    if f"{record.analysis}.{record.arm}.parquet" not in record.tables:
        faults.append("the record names no main table")
    return tuple(faults)


def count_rows(file: Path) -> Counted:
    """Return how many prompts, subjects and updates a main table has.

    Raises
    ------
    EvidenceError
        If it lacks the columns.
    """
    try:
        with pq.ParquetFile(file, arrow_extensions_enabled=False) as parquet:
            table = parquet.read(columns=["prompt", "subject", "update"])
        prompts, subjects, updates = (
            column.combine_chunks().unique().to_pylist()
            for column in (table["prompt"], table["subject"], table["update"])
        )
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise EvidenceError(f"{file.name} can't be read as evidence: {error}") from error
    at = tuple(sorted(int(update) for update in updates if update is not None))
    return Counted(len(prompts), len(subjects), at, table.num_rows)


def _shape(file: Path) -> str | None:
    """Say why a table may not be opened, from its footer alone."""
    try:
        with pq.ParquetFile(file, arrow_extensions_enabled=False) as parquet:
            meta, schema = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"no parquet: {error}"
    unpacked = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    if meta.num_rows > MAX_ROWS or meta.num_columns > MAX_COLUMNS or unpacked > MAX_UNPACKED:
        return f"too large: {meta.num_rows:,} rows, {meta.num_columns:,} columns, {unpacked:,} bytes"
    odd = [field.name for field in schema if not any(is_one(field.type) for is_one in _FLAT)]
    return f"columns of a type that evidence never has: {', '.join(odd[:3])}" if odd else None
