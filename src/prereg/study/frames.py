"""Evidence tables as arrays: one row per prompt, one column per update, in one fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prereg.errors import EvidenceError
from prereg.evidence import Evidence
from prereg.inference import RatioTable
from prereg.protocol import Contrast, Term

__all__ = ["Frame", "contrast_table", "frame_of"]

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One arm's evidence as matrices.

    Parameters
    ----------
    prompts, subjects
        n identifiers, sorted by prompt.
    updates
        Ascending indices l of the updates that were measured.
    columns
        Name -> (n, len(updates)) float64.
    """

    name: str
    prompts: tuple[str, ...]
    subjects: tuple[str, ...]
    updates: tuple[int, ...]
    columns: Mapping[str, Matrix]

    def at(self, column: str, updates: Sequence[int]) -> Matrix:
        """Return a column at some updates, (n, len(updates)).

        Raises
        ------
        EvidenceError
            If the column or an update was not measured, or a number is not finite, or below 0.
        """
        if column not in self.columns:
            have = ", ".join(sorted(c for c in self.columns if c.startswith(("sse.", "sst"))))
            raise EvidenceError(f"{self.name}: no column {column!r} was measured; there are {have}")
        missing = sorted(set(updates) - set(self.updates))
        if missing:
            raise EvidenceError(f"{self.name}: updates {missing} were not measured")
        values = self.columns[column][:, np.searchsorted(self.updates, updates)]
        if not np.isfinite(values).all():
            raise EvidenceError(f"{self.name}: column {column!r} holds NaN or infinite values")
        if not (values >= 0.0).all():
            raise EvidenceError(
                f"{self.name}: column {column!r} holds negative numbers, and is a sum of squares"
            )
        return values


def frame_of(evidence: Evidence, name: str) -> Frame:
    """Turn a table into matrices.

    Raises
    ------
    EvidenceError
        If the rows are not one for each prompt and update, or a prompt has two subjects.
    """
    table = evidence.table
    prompt, subject = (np.asarray(table[column].to_pylist()) for column in ("prompt", "subject"))
    update = _numbers(table["update"]).astype(np.int64)
    order = np.lexsort((update, prompt))
    prompt, subject, update = prompt[order], subject[order], update[order]
    updates = np.unique(update)
    k = len(updates)
    n, rest = divmod(len(prompt), k)
    shape = (n, k)
    complete = (
        rest == 0
        and bool((update.reshape(shape) == updates).all())
        and bool((prompt.reshape(shape) == prompt.reshape(shape)[:, :1]).all())
        and len(np.unique(prompt)) == n
    )
    if not complete:
        raise EvidenceError(f"{name}: the rows are not one for each prompt and update")
    by_prompt = subject.reshape(shape)
    if not bool((by_prompt == by_prompt[:, :1]).all()):
        raise EvidenceError(f"{name}: a prompt has rows of two subjects")
    columns = {}
    for column in table.column_names:
        if pa.types.is_floating(table.schema.field(column).type):
            columns[column] = _numbers(table[column])[order].astype(np.float64).reshape(shape)
    return Frame(
        name,
        tuple(str(p) for p in prompt.reshape(shape)[:, 0]),
        tuple(str(s) for s in by_prompt[:, 0]),
        tuple(int(u) for u in updates),
        columns,
    )


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
    # Not ChunkedArray.to_numpy: that brings in pandas where it is installed.
    array = column.combine_chunks()
    if array.null_count:
        raise EvidenceError(f"a column of numbers holds {array.null_count} nulls")
    return np.from_dlpack(array)


def contrast_table(
    contrast: Contrast, frames: Mapping[str, Frame], updates: Sequence[int]
) -> tuple[RatioTable, Matrix]:
    """Return the ratios behind one contrast, and their weights.

    Terms that share arm and baseline share a denominator at each update, so they are one ratio:
    ``sum_i sum_t w_t (SST_i - SSE_ti) / sum_i SST_i``. The contrast is the mean over updates of the sum of such
    ratios over arms.

    Parameters
    ----------
    contrast
        From the protocol.
    frames
        Frame of each arm that the contrast names.
    updates
        The updates of its set.

    Returns
    -------
    tuple
        RatioTable with one ratio per (arm, baseline, update), clusters by subject; weights (n_ratios,).

    Raises
    ------
    EvidenceError
        If arms hold different prompts, or a column was not measured.
    """
    groups: dict[tuple[str, str | None], list[Term]] = {}
    for term in contrast.terms:
        groups.setdefault((term.arm, term.baseline), []).append(term)
    first = frames[contrast.terms[0].arm]
    numerators, denominators = [], []
    for (arm, baseline), terms in groups.items():
        frame = frames[arm]
        if frame.prompts != first.prompts or frame.subjects != first.subjects:
            raise EvidenceError(f"{frame.name} and {first.name} hold different prompts: they can't be paired")
        sst = frame.at("sst" if baseline is None else f"sst.{baseline}", updates)
        gain = np.zeros_like(sst)
        for term in terms:
            gain += term.weight * (sst - frame.at(f"sse.{term.fit}", updates))
        numerators.append(gain)
        denominators.append(sst)
    numerator, denominator = np.hstack(numerators), np.hstack(denominators)
    table = RatioTable.from_rows(first.subjects, numerator, denominator)
    return table, np.full(table.n_ratios, 1.0 / len(updates))
