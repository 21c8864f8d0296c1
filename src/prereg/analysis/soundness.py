"""What evidence must be before it is written: whole, of finite numbers, and about held-out prompts alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.errors import AnalysisError
from prereg.evidence import IDENTITY, Evidence

__all__ = ["require_sound"]

MEASURED = ("sst", "sse.", "value.", "cases.")
"""Columns that claims are about; in the others a null is allowed."""

RESERVED = ("selection",)
"""Side tables that the pipeline adds."""


def require_sound(evidence: object, activations: Activations, source: str) -> None:
    """Refuse evidence that no verdict could be read from, or that speaks of prompts which trained.

    Parameters
    ----------
    evidence
        What `measure` returned.
    activations
        What it was given.
    source
        The analysis, as an error names it.

    Raises
    ------
    AnalysisError
        Names the first things that are wrong.
    """
    if not isinstance(evidence, Evidence):
        raise AnalysisError(
            f"{source}: measure returned {type(evidence).__name__}, wanted Evidence",
            remedy="return Evidence(table, side, checks)",
        )
    faults = list(_faults(evidence, activations))
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise AnalysisError(
            f"{source}: its evidence can't be used: {'; '.join(faults[:3])}{more}",
            remedy="prereg.analysis.authoring.held_out_table lays a table out as it must be",
        )


def _faults(evidence: Evidence, activations: Activations) -> Iterator[str]:
    yield from (f"{name} is no name for a side table" for name in evidence.side if not _names_a_table(name))
    wrong = [name for name in IDENTITY if not _is_identity(evidence.table.schema.field(name))]
    if wrong:
        yield f"the columns {', '.join(wrong)} are not what they must be: strings, and int16 for update"
        return
    yield from _strangers(evidence.table, activations)
    yield from _holes(evidence.table)
    yield from _numbers(evidence.table)


def _names_a_table(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and name not in RESERVED


def _is_identity(column: pa.Field) -> bool:
    return bool(
        pa.types.is_int16(column.type) if column.name == "update" else pa.types.is_string(column.type)
    )


def _strangers(table: pa.Table, activations: Activations) -> Iterator[str]:
    """Find rows about prompts that trained or weren't asked, and labels that aren't the prompt's own."""
    labels = zip(activations.subjects, activations.relations, activations.templates, strict=True)
    known = dict(
        zip(activations.prompts, zip(labels, activations.held_out.tolist(), strict=True), strict=True)
    )
    columns = [table[name].to_pylist() for name in IDENTITY[:4]]
    for prompt, *found in sorted(set(zip(*columns, strict=True)), key=str):
        if prompt not in known:
            yield f"{prompt!r} is none of the prompts"
        elif not known[prompt][1]:
            yield f"{prompt!r} is a training prompt, and evidence is about held-out ones"
        elif tuple(found) != known[prompt][0]:
            yield f"{prompt!r} is labelled {found}, but is {list(known[prompt][0])}"
    updates = [update for update in set(table["update"].to_pylist()) if update is None]
    updates += [
        u for u in set(table["update"].to_pylist()) if u is not None and not 0 <= u < activations.n_layers
    ]
    if updates:
        yield f"updates {updates} are none of 0 to {activations.n_layers - 1}"


def _holes(table: pa.Table) -> Iterator[str]:
    """Find prompts that don't have one row for each update that any has."""
    rows = Counter(zip(table["prompt"].to_pylist(), table["update"].to_pylist(), strict=True))
    twice = [row for row, count in rows.items() if count > 1]
    if twice:
        yield f"{len(twice)} prompts and updates have several rows, {twice[0]} among them"
    prompts, updates = {prompt for prompt, _ in rows}, {update for _, update in rows}
    if len(rows) != len(prompts) * len(updates):
        missing = len(prompts) * len(updates) - len(rows)
        yield f"{missing} rows of {len(prompts)} prompts and {len(updates)} updates are missing"


def _numbers(table: pa.Table) -> Iterator[str]:
    for field in table.schema:
        if field.name in IDENTITY:
            continue
        if not pa.types.is_float64(field.type):
            yield f"the column {field.name} holds {field.type}, wanted float64"
        elif field.name.startswith(MEASURED):
            column = table[field.name].combine_chunks()
            if column.null_count or not np.isfinite(column.to_numpy(zero_copy_only=False)).all():
                yield f"the column {field.name} holds NaN, infinity or nothing somewhere"
