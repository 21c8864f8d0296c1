"""Evidence: what was measured, one row per prompt and update, and where it came from.

Evidence is the only thing that inference reads. One analysis of one arm (the model, or one untrained twin)
gives one `Evidence`: a wide parquet table of sums of squares, small side tables, the checks that the
analysis made on itself, and a provenance record. The parquet's bytes are bound to the record by digest.

The main table's columns
------------------------
``prompt``, ``subject``, ``relation``, ``template`` : str
    Who the row is about; ``subject`` is the cluster that the bootstrap resamples.
``update`` : int16
    The block l that wrote ``delta[l] = v[l+1] - v[l]``.
``sst``, ``sst.<baseline>`` : float64
    Squared distance of the prompt's update from the training mean that gates use, and from the others.
``sse.<fit>`` : float64
    Squared error of a named fit on that prompt and update, held out.
``value.<fit>`` : float64
    In place of squared errors, a number for that prompt and update: nats, 0 or 1 for correct, a cosine.
``cases.<fit>`` : float64
    1 where the value speaks of that prompt, else 0 (and the value is 0 there). Without the column, it speaks of all.

The layout is our own definition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import blake3
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from prereg.errors import EvidenceError
from prereg.hostile import read_bounded
from prereg.workers import write_atomically

__all__ = [
    "IDENTITY",
    "Check",
    "Evidence",
    "Provenance",
    "digest_of",
    "read_evidence",
    "read_provenance",
    "write_evidence",
]

FORMAT = 1
MAX_RECORD = 5_000_000
MAX_TABLE = 1_000_000_000
IDENTITY = ("prompt", "subject", "relation", "template", "update")
"""Columns that say who and what a row is about."""


class Check(BaseModel):
    """Something the analysis verified about its own working; a failed one makes a verdict invalid."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    passed: bool
    detail: str


class Provenance(BaseModel):
    """Where a table came from, digest by digest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    format: int = FORMAT
    study: str
    analysis: str
    arm: str
    """``model``, or ``twin-<seed>`` for an untrained twin."""
    key: str
    """Digest of everything that the numbers depend on; see `prereg.pipeline`."""
    model: str
    model_source: str
    model_revision: str
    model_digest: str
    store_digest: str
    protocol_digest: str
    registration: str | None = None
    """Root digest of the registration under which it was measured; None for none."""
    facts_sha256: str
    settings: dict[str, Any]
    source_digest: str
    """Digest of the source of the analyses that measured it."""
    libraries: dict[str, str]
    n_layers: int
    d_model: int
    n_prompts: int
    """Held-out prompts, those that the table has rows for."""
    n_subjects: int
    n_training_prompts: int
    update_sets: dict[str, list[int]]
    """The protocol's named sets of updates, resolved for this model's depth."""
    tables: dict[str, str] = {}
    """File name of each table -> blake3 of its bytes; filled in on writing."""
    checks: tuple[Check, ...] = ()
    seal: str = ""
    """Digest of all the other fields; filled in on writing."""

    def sealed(self) -> Provenance:
        """Return the record with its seal."""
        content = self.model_dump(mode="json", exclude={"seal"}, exclude_none=True)
        return self.model_copy(update={"seal": digest_of(content)})


@dataclass(frozen=True, slots=True)
class Evidence:
    """One analysis of one arm.

    Parameters
    ----------
    table
        One row per held-out prompt and update; columns as in the module's docstring.
    side
        Small tables by name, such as ``fits`` (chosen penalties) or ``draws`` (refitted permutations).
    checks
        What the analysis verified about itself.
    provenance
        None until the pipeline has said where the numbers came from.
    """

    table: pa.Table
    side: Mapping[str, pa.Table] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.table, pa.Table) and isinstance(self.side, Mapping)
        if not whole or not all(isinstance(table, pa.Table) for table in self.side.values()):
            raise EvidenceError("evidence is a pyarrow table, with others beside it by name")
        if not isinstance(self.checks, tuple) or not all(isinstance(check, Check) for check in self.checks):
            raise EvidenceError("the checks of evidence are a tuple of Check")
        names = self.table.column_names
        missing = [name for name in IDENTITY if name not in names]
        if "sst" not in names and not any(name.startswith("value.") for name in names):
            missing.append("sst (or value.<fit>)")
        if missing:
            raise EvidenceError(f"an evidence table lacks the columns {', '.join(missing)}")
        if self.table.num_rows == 0:
            raise EvidenceError("an evidence table has no rows: nothing was measured")

    @property
    def fits(self) -> tuple[str, ...]:
        """Names of the fits whose squared errors or values the table holds."""
        return tuple(n.partition(".")[2] for n in self.table.column_names if n.startswith(("sse.", "value.")))


def digest_of(value: object) -> str:
    """Return the blake3 digest (32 hex characters) of a JSON-able value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return blake3.blake3(text.encode()).hexdigest(length=16)


def write_evidence(evidence: Evidence, folder: Path, name: str) -> Provenance:
    """Write the tables and then their record into `folder`; return the record with its digests.

    The record is written last and in one step: a kill before it leaves tables that nothing points to.

    Raises
    ------
    EvidenceError
        If the evidence has no provenance.
    StorageError
        If the folder can't be written.
    """
    if evidence.provenance is None:
        raise EvidenceError(f"{name}: evidence without provenance can't be written")
    digests = {}
    for suffix, table in {
        "": evidence.table,
        **{f".{k}": v for k, v in evidence.side.items()},
    }.items():
        file = folder / f"{name}{suffix}.parquet"
        write_atomically(file, partial(_write_parquet, table))
        digests[file.name] = _hash(file)
    record = evidence.provenance.model_copy(update={"tables": digests, "checks": evidence.checks}).sealed()
    text = json.dumps(record.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"
    write_atomically(folder / f"{name}.json", lambda part: part.write_text(text, "utf-8"))
    return record


def read_provenance(folder: Path, name: str) -> Provenance | None:
    """Return the record of `name` in `folder`, or None where there is none.

    Raises
    ------
    EvidenceError
        If the record can't be read, or was edited after it was written.
    """
    file = folder / f"{name}.json"
    try:
        record = Provenance.model_validate_json(read_bounded(file, MAX_RECORD, links=True), strict=True)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise EvidenceError(
            f"{file} is not a record of evidence: {error}",
            remedy=f"remove {file} and run `prereg measure` again",
        ) from error
    if record.seal != record.sealed().seal:
        raise EvidenceError(
            f"{file} was edited: its seal is not that of what it says now",
            remedy=f"restore it (git checkout {file}), or remove it and run `prereg measure` again",
        )
    return record


def read_evidence(folder: Path, name: str, *, key: str) -> Evidence:
    """Read evidence back, after checking that its bytes and its key are the expected ones.

    Parameters
    ----------
    folder, name
        Where `write_evidence` put it.
    key
        The key the caller's protocol, model and settings lead to.

    Raises
    ------
    EvidenceError
        If it is missing, was measured under another key, or a table's bytes are not the recorded ones.
    """
    remedy = "prereg measure <study> --model <model>"
    record = read_provenance(folder, name)
    if record is None:
        raise EvidenceError(f"{folder / name}: no evidence here", remedy=remedy)
    if record.key != key:
        raise EvidenceError(
            f"{folder / name}: measured under key {record.key}, the protocol as it stands wants {key}",
            remedy=remedy,
        )
    tables = {}
    for file_name, digest in record.tables.items():
        if Path(file_name).name != file_name:
            raise EvidenceError(f"{folder / name}: a table may not lie outside its folder: {file_name}")
        file = folder / file_name
        if not file.is_file():
            raise EvidenceError(f"{file} is missing", remedy=remedy)
        found = _hash(file)
        if found != digest:
            raise EvidenceError(
                f"{file} was changed after it was measured: digest {found[:12]}, recorded {digest[:12]}",
                remedy=f"remove {file}, then {remedy}",
            )
        # Not pq.read_table: that brings in pandas where it is installed, for a third of a warm run's time.
        with pq.ParquetFile(file) as parquet:
            tables[file_name] = parquet.read()
    main = tables.pop(f"{name}.parquet", None)
    if main is None:
        raise EvidenceError(f"{folder / name}: the record names no main table", remedy=remedy)
    side = {k.removeprefix(f"{name}.").removesuffix(".parquet"): v for k, v in tables.items()}
    return Evidence(main, side, record.checks, record)


def _write_parquet(table: pa.Table, file: Path) -> None:
    # No statistics-driven or time-driven metadata: the same table gives the same bytes. Sums of squares look like
    # noise to a compressor unless their bytes are split by place.
    floats = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    pq.write_table(
        table,
        file,
        compression="zstd",
        compression_level=9,
        use_dictionary=[f.name for f in table.schema if f.name not in floats],
        use_byte_stream_split=floats,
    )


def _hash(file: Path) -> str:
    try:
        return blake3.blake3(read_bounded(file, MAX_TABLE, links=True)).hexdigest()
    except ValueError as error:
        raise EvidenceError(f"{file}: {error}") from error
    except OSError as error:
        raise EvidenceError(f"{file} can't be read: {error.strerror or error}") from error
