"""Per-prompt evidence, small enough for a page: one row a prompt, one column a fit.

What a gate reads has a row for each prompt *and update*; here the updates of one set are summed, so that the R2 of a
prompt is ``1 - sum SSE / sum SST`` over them. It is our own summary, for looking, and decides nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.errors import PreregError

if TYPE_CHECKING:
    import numpy as np

    from prereg.evidence import Evidence

__all__ = ["MAX_ROWS", "PromptTable", "prompt_tables"]

MAX_ROWS = 1_500
"""Rows of one table that a page embeds; the parquet file has them all."""
MAX_COLUMNS = 14
_HIDDEN = (".along", ".across")


@dataclass(frozen=True, slots=True)
class PromptTable:
    """One analysis of one model, prompt by prompt.

    Parameters
    ----------
    model, analysis
        Which.
    file, digest
        The parquet file with all of it, from the project's root or as it was named, and its blake3.
    updates
        The set of updates that is summed over, in words.
    columns
        Headings: first those of text, then those of numbers.
    n_text
        How many are text.
    rows
        Text, and numbers to four digits; None where a number isn't defined.
    total
        How many prompts there are; more than `rows` where they were capped.
    left_out
        Columns that were too many.
    """

    model: str
    analysis: str
    file: str
    digest: str
    updates: str
    columns: tuple[str, ...]
    n_text: int
    rows: tuple[tuple[str | float | None, ...], ...]
    total: int
    left_out: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every prompt is in `rows`, with every column."""
        return len(self.rows) == self.total and not self.left_out

    @property
    def json(self) -> str:
        """Columns and rows as JSON that may stand inside a ``script`` element."""
        record = {"columns": self.columns, "n_text": self.n_text, "rows": self.rows}
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Nothing in it may end the element or open a comment.
        for letter in "<>&\u2028\u2029":
            text = text.replace(letter, f"\\u{ord(letter):04x}")
        return text


def prompt_tables(folder: Path, model: str, shown: str) -> tuple[PromptTable, ...]:
    """Return one table for each analysis of the model itself whose evidence is there and whole.

    Parameters
    ----------
    folder
        The model's reports; evidence lies in ``evidence/`` below it.
    model
        Its name.
    shown
        How the folder is called on the page.
    """
    tables = []
    for file in sorted((folder / "evidence").glob("*.model.json")):
        name = file.name.removesuffix(".json")
        evidence = _read(file.parent, name)
        if evidence is not None:
            table = _table(evidence, model, f"{shown}/evidence/{name}.parquet")
            tables += [] if table is None else [table]
    return tuple(tables)


def _read(folder: Path, name: str) -> Evidence | None:
    """Return evidence whose bytes are the recorded ones; None for any other: the audit says what ails it."""
    import pyarrow as pa

    from prereg.evidence import read_evidence, read_provenance

    try:
        record = read_provenance(folder, name)
        return None if record is None else read_evidence(folder, name, key=record.key)
    except (PreregError, pa.ArrowException, OSError, ValueError):
        return None


def _table(evidence: Evidence, model: str, file: str) -> PromptTable | None:
    import numpy as np

    record = evidence.provenance
    if record is None:
        return None
    table = evidence.table
    update = np.asarray(table["update"].to_numpy())
    name, at = _widest(record.update_sets, {int(u) for u in np.unique(update)})
    table = table.filter(np.isin(update, at))
    prompts, index = np.unique(
        np.asarray(table["prompt"].to_pylist(), dtype=object).astype(str), return_inverse=True
    )
    first = np.zeros(len(prompts), dtype=np.int64)
    first[index[::-1]] = np.arange(len(index))[::-1]

    def total(column: str | None) -> np.ndarray:
        weights = None if column is None else table[column].to_numpy()
        return np.bincount(index, weights=weights, minlength=len(prompts))

    numbers = _numbers(table.column_names, total)
    if not numbers:
        return None
    kept = dict(list(numbers.items())[:MAX_COLUMNS])
    text = {
        key: [str(v) for v in table[key].take(first).to_pylist()]
        for key in ("subject", "relation", "template")
    }
    shown_prompts = [
        t.replace("{subject}", s) for t, s in zip(text["template"], text["subject"], strict=True)
    ]
    order = sorted(range(len(prompts)), key=lambda i: (text["relation"][i], text["subject"][i], prompts[i]))[
        :MAX_ROWS
    ]
    columns = {k: _rounded(v) for k, v in kept.items()}
    rows = tuple(
        (
            shown_prompts[i],
            text["subject"][i],
            text["relation"][i],
            *(column[i] for column in columns.values()),
        )
        for i in order
    )
    return PromptTable(
        model, record.analysis, file, record.tables.get(file.rpartition("/")[2], ""), f"{name} ({len(at)} updates)",
        ("prompt", "subject", "relation", *columns), 3, rows, len(prompts),
        tuple(key for key in numbers if key not in kept),
    )  # fmt: skip


def _widest(sets: dict[str, list[int]], measured: set[int]) -> tuple[str, list[int]]:
    """Return the largest named set of updates that was measured whole, else all that were."""
    whole = [(name, at) for name, at in sets.items() if at and measured.issuperset(at)]
    return max(whole, key=lambda pair: len(pair[1]), default=("all", sorted(measured)))


def _numbers(names: Sequence[str], total: Callable[[str | None], np.ndarray]) -> dict[str, np.ndarray]:
    """Return R2 for each fit with squared errors, and the mean for each with values."""
    import numpy as np

    found: dict[str, np.ndarray] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name in names:
            if name.startswith("sse.") and not name.endswith(_HIDDEN) and "sst" in names:
                fit = name.removeprefix("sse.")
                below = f"sst.{fit.partition('_')[0]}" if fit.startswith("raw_") else "sst"
                found[f"R2 {fit}"] = 1.0 - total(name) / total(below if below in names else "sst")
            elif name.startswith("value."):
                cases = f"cases.{name.removeprefix('value.')}"
                found[name.removeprefix("value.")] = total(name) / total(cases if cases in names else None)
    return found


def _rounded(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]
