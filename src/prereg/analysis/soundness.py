"""What evidence must be before it is written: whole, of finite numbers, and about held-out prompts alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.errors import AnalysisError
from prereg.evidence import IDENTITY, Evidence

__all__ = ["require_sound"]

MEASURED = ("sst", "sse.", "value.", "cases.")
"""Columns that claims are about; in the others a null is allowed."""

LARGEST = 1e100

RESERVED = ("selection",)
"""Side tables that the pipeline adds."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who was asked, as it stood before anybody measured.

    Parameters
    ----------
    labels
        Prompt -> its subject, relation and template, and whether it is held out.
    n_layers
        Number of blocks.
    """

    labels: Mapping[str, tuple[tuple[str, str, str], bool]]
    n_layers: int

    @classmethod
    def of(cls, activations: Activations) -> Asked:
        """Note who is asked."""
        who = zip(activations.subjects, activations.relations, activations.templates, strict=True)
        sides = zip(who, activations.held_out.tolist(), strict=True)
        return cls(dict(zip(activations.prompts, sides, strict=True)), activations.n_layers)


def require_sound(evidence: object, asked: Asked, source: str) -> None:
    """Refuse evidence that no verdict could be read from, or that speaks of prompts which trained.

    Parameters
    ----------
    evidence
        What `measure` returned.
    asked
        About whom.
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
    faults = list(_faults(evidence, asked))
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise AnalysisError(
            f"{source}: its evidence can't be used: {'; '.join(faults[:3])}{more}",
            remedy="prereg.analysis.authoring.held_out_table lays a table out as it must be",
        )


def _faults(evidence: Evidence, asked: Asked) -> Iterator[str]:
    names = evidence.table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"the columns {', '.join(twice)} stand twice"
        return
    yield from (f"{name} is no name for a side table" for name in evidence.side if not _names_a_table(name))
    wrong = [name for name in IDENTITY if not _is_identity(evidence.table.schema.field(name))]
    if wrong:
        yield f"the columns {', '.join(wrong)} are not what they must be: strings, and int16 for update"
        return
    yield from _strangers(evidence.table, asked)
    yield from _holes(evidence.table)
    yield from _numbers(evidence.table)


def _names_a_table(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and name not in RESERVED


def _is_identity(column: pa.Field) -> bool:
    return bool(
        pa.types.is_int16(column.type) if column.name == "update" else pa.types.is_string(column.type)
    )


def _strangers(table: pa.Table, asked: Asked) -> Iterator[str]:
    """Find rows about prompts that trained or weren't asked, and labels that aren't the prompt's own."""
    columns = [table[name].to_pylist() for name in IDENTITY[:4]]
    for prompt, *found in sorted(set(zip(*columns, strict=True)), key=str):
        if prompt not in asked.labels:
            yield f"{prompt!r} is none of the prompts"
            continue
        labels, held_out = asked.labels[prompt]
        if not held_out:
            yield f"{prompt!r} is a training prompt, and evidence is about held-out ones"
        elif tuple(found) != labels:
            yield f"{prompt!r} is labelled {found}, but is {list(labels)}"
    updates = [u for u in set(table["update"].to_pylist()) if u is None or not 0 <= u < asked.n_layers]
    if updates:
        yield f"updates {updates} are none of 0 to {asked.n_layers - 1}"


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
            fault = "nothing somewhere" if column.null_count else _fault(field.name, column.to_numpy())
            if fault is not None:
                yield f"the column {field.name} holds {fault}"


def _fault(name: str, values: np.ndarray) -> str | None:
    if not np.isfinite(values).all():
        return "NaN or infinity"
    if np.abs(values).max() > LARGEST:
        return f"numbers beyond {LARGEST:g}, whose squares and sums can't be told apart"
    if not name.startswith("value.") and values.min() < 0.0:
        return "numbers below 0, and is a sum of squares or a count"
    if name.startswith("cases.") and not np.isin(values, (0.0, 1.0)).all():
        return "numbers other than 0 and 1"
    return "nothing but 0" if name.startswith("sst") and not values.max() > 0.0 else None
