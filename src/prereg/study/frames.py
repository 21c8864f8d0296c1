"""Evidence tables as arrays: one row per prompt, one column per update, in one fixed order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prereg.errors import EvidenceError
from prereg.evidence import Evidence
from prereg.inference import RatioTable
from prereg.protocol import EACH, Claim, Contrast, Term

__all__ = ["Frame", "Matrix", "Question", "depth_of", "frame_of", "questions"]

Matrix = npt.NDArray[np.float64]

MOST_NAMED = 12
"""Columns that an error names."""

_AGAIN = "put back the file that was measured (git checkout), or remove it and run `prereg measure` again"


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One arm's evidence as matrices.

    Parameters
    ----------
    prompts, subjects, relations, templates
        n identifiers, sorted by prompt. A template is named with its relation.
    updates
        Ascending indices l of the updates that were measured.
    columns
        Name -> (n, len(updates)) float64.
    """

    name: str
    prompts: tuple[str, ...]
    subjects: tuple[str, ...]
    relations: tuple[str, ...]
    templates: tuple[str, ...]
    updates: tuple[int, ...]
    columns: Mapping[str, Matrix]

    def at(self, column: str, updates: Sequence[int]) -> Matrix:
        """Return a column of sums of squares, or of counts, at some updates, (n, len(updates)).

        Raises
        ------
        EvidenceError
            If the column or an update was not measured, or a number is not finite, or below 0.
        """
        values = self.any(column, updates)
        if not (values >= 0.0).all():
            raise EvidenceError(
                f"{self.name}: column {column!r} holds negative numbers, and is a sum of squares or a count"
            )
        return values

    def any(self, column: str, updates: Sequence[int]) -> Matrix:
        """Return a column of whatever sign at some updates, (n, len(updates)).

        Raises
        ------
        EvidenceError
            If the column or an update was not measured, or a number is not finite.
        """
        if column not in self.columns:
            have = sorted(c for c in self.columns if c.startswith(("sse.", "sst", "value.")))
            more = f" and {len(have) - MOST_NAMED} more" if len(have) > MOST_NAMED else ""
            raise EvidenceError(
                f"{self.name}: no column {column!r} was measured; there are {', '.join(have[:MOST_NAMED])}{more}",
                remedy=_AGAIN,
            )
        missing = sorted(set(updates) - set(self.updates))
        if missing:
            raise EvidenceError(f"{self.name}: updates {missing} were not measured")
        values = self.columns[column][:, np.searchsorted(self.updates, updates)]
        if not np.isfinite(values).all():
            raise EvidenceError(f"{self.name}: column {column!r} holds NaN or infinite values", remedy=_AGAIN)
        return values

    def ratio(self, fit: str, baseline: str | None, updates: Sequence[int]) -> tuple[Matrix, Matrix]:
        """Return the parts of a fit's number: what is summed above the line, and what below, (n, len(updates)) each.

        For a fit that has squared errors SST - SSE and SST, so that the ratio of their sums is R2; for one that has
        values these and the cases they speak of, so that it is their mean.

        Raises
        ------
        EvidenceError
            If the fit was not measured, a value has a baseline, or a value stands where it speaks of no case.
        """
        if f"value.{fit}" not in self.columns:
            if "sst" not in self.columns:
                self.any(f"value.{fit}", updates)
            sst = self.at("sst" if baseline is None else f"sst.{baseline}", updates)
            return sst - self.at(f"sse.{fit}", updates), sst
        if baseline is not None:
            raise EvidenceError(f"{self.name}: {fit} is a value, which no baseline ({baseline}) belongs to")
        values = self.any(f"value.{fit}", updates)
        if f"cases.{fit}" not in self.columns:
            return values, np.ones_like(values)
        cases = self.at(f"cases.{fit}", updates)
        if not ((cases == 0.0) | (cases == 1.0)).all() or (values[cases == 0.0] != 0.0).any():
            raise EvidenceError(
                f"{self.name}: cases.{fit} is not 0 or 1, or {fit} has a value where it is 0", remedy=_AGAIN
            )
        return values, cases

    @property
    def fits(self) -> tuple[str, ...]:
        """Names of what was measured, sorted."""
        return tuple(sorted(c.partition(".")[2] for c in self.columns if c.startswith(("sse.", "value."))))


def frame_of(evidence: Evidence, name: str) -> Frame:
    """Turn a table into matrices.

    Raises
    ------
    EvidenceError
        If the rows are not one for each prompt and update, or a prompt has two subjects.
    """
    table = evidence.table
    prompt = np.asarray(table["prompt"].to_pylist())
    update = _numbers(table["update"]).astype(np.int64)
    order = np.lexsort((update, prompt))
    prompt, update = prompt[order], update[order]
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
    who = {
        label: _one_each(table[label], order, shape, name) for label in ("subject", "relation", "template")
    }
    columns = {}
    for column in table.column_names:
        if pa.types.is_floating(table.schema.field(column).type):
            columns[column] = _numbers(table[column])[order].astype(np.float64).reshape(shape)
    return Frame(
        name,
        tuple(str(p) for p in prompt.reshape(shape)[:, 0]),
        who["subject"],
        who["relation"],
        tuple(f"{r}/{t}" for r, t in zip(who["relation"], who["template"], strict=True)),
        tuple(int(u) for u in updates),
        columns,
    )


def depth_of(evidence: Evidence, frame: Frame, analysis: str, *, every_update: bool) -> int:
    """Return the number of blocks L of the model that was measured.

    Parameters
    ----------
    evidence, frame, analysis
        Of the model, and what it is called.
    every_update
        Whether the analysis has rows up to the model's last update.

    Raises
    ------
    EvidenceError
        If the table's updates are not those of a model of the recorded depth.
    """
    record, deepest = evidence.provenance, frame.updates[-1]
    if record is None or (record.n_layers != deepest + 1 if every_update else record.n_layers <= deepest):
        raise EvidenceError(f"{analysis}: the deepest update measured is {deepest}, not the model's last")
    return record.n_layers


def _one_each(
    column: pa.ChunkedArray, order: npt.NDArray[np.intp], shape: tuple[int, int], name: str
) -> tuple[str, ...]:
    """Return a label of each prompt, the same in all its rows."""
    labels = np.asarray(column.to_pylist())[order].reshape(shape)
    if not bool((labels == labels[:, :1]).all()):
        raise EvidenceError(f"{name}: a prompt has rows of two subjects, relations or templates")
    return tuple(str(label) for label in labels[:, 0])


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
    # Not ChunkedArray.to_numpy: that brings in pandas where it is installed.
    array = column.combine_chunks()
    if array.null_count:
        raise EvidenceError(f"a column of numbers holds {array.null_count} nulls")
    return np.from_dlpack(array)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One contrast as inference takes it.

    Parameters
    ----------
    label
        The contrast's, and which candidate, where it stands for several.
    updates
        The updates of its set.
    table, weights
        Its ratios, and what each counts, (n_ratios,).
    rows
        Numerators and denominators before they were summed into units, (n_rows, n_ratios) each.
    """

    label: str
    updates: tuple[int, ...]
    table: RatioTable
    weights: Matrix
    rows: tuple[Matrix, Matrix]


def questions(
    claim: Claim, frames: Mapping[str, Frame], sets: Mapping[str, Sequence[int]], n_layers: int
) -> tuple[Question, ...]:
    """Return every contrast of a claim, a pattern's once for each candidate.

    Parameters
    ----------
    claim
        From the protocol.
    frames
        Frame of each arm that the claim names.
    sets
        The protocol's sets of updates for this model.
    n_layers
        Its number of blocks L.

    Raises
    ------
    EvidenceError
        If arms hold different prompts, a column was not measured, or nothing fits a pattern.
    """
    found = []
    for contrast in claim.contrasts:
        updates = tuple(sets[contrast.updates])
        for label, terms in _candidates(contrast, frames):
            if claim.unit == "update":
                units, rows = _by_update(terms, frames, updates)
                weights = np.ones(1)
            else:
                units, rows = _by_prompt(terms, frames, updates)
                n_ratios = rows[0].shape[1]
                weights = np.full(n_ratios, 1.0 / len(updates))
                if contrast.over == "trend":
                    weights = _trend(n_ratios, updates, n_layers)
            if not (rows[1].sum(axis=0) > 0.0).all():
                raise EvidenceError(
                    f"{label}: no held-out prompt speaks of it at updates {list(updates)}, so it can't be asked",
                    remedy="ask of candidates that more subjects have, in a study of its own",
                )
            found.append(Question(label, updates, RatioTable.from_rows(units, *rows), weights, rows))
    return tuple(found)


def _candidates(contrast: Contrast, frames: Mapping[str, Frame]) -> list[tuple[str, tuple[Term, ...]]]:
    """Return the contrast itself, or one for each text that may stand for the star."""
    if not contrast.is_pattern:
        return [(contrast.label, contrast.terms)]
    stars: set[str] | None = None
    for term in (t for t in contrast.terms if EACH in t.fit):
        before, _, after = term.fit.partition(EACH)
        fitting = re.compile(re.escape(before) + r"([0-9]+)" + re.escape(after))
        have = {m[1] for fit in frames[term.arm].fits if (m := fitting.fullmatch(fit))}
        if stars is not None and stars != have:
            raise EvidenceError(
                f"{frames[term.arm].name}: {term.fit} was not measured for the same candidates as the rest"
            )
        stars = have
    if not stars:
        patterns = ", ".join(term.fit for term in contrast.terms if EACH in term.fit)
        raise EvidenceError(f"nothing that was measured fits {patterns}: there is no candidate")
    return [
        (
            f"{contrast.label} {star}",
            tuple(term.model_copy(update={"fit": term.fit.replace(EACH, star)}) for term in contrast.terms),
        )
        for star in sorted(stars)
    ]


def _by_prompt(
    terms: Sequence[Term], frames: Mapping[str, Frame], updates: Sequence[int]
) -> tuple[tuple[str, ...], tuple[Matrix, Matrix]]:
    """Return each prompt's subject, and its part in the ratios behind one contrast.

    Terms that share a denominator at each update are one ratio: ``sum_i sum_t w_t (SST_i - SSE_ti) / sum_i SST_i``.
    The contrast is the mean over updates of the sum of such ratios.
    """
    first = frames[terms[0].arm]
    parts: list[tuple[Matrix, Matrix]] = []
    for term in terms:
        frame = frames[term.arm]
        if frame.prompts != first.prompts or frame.subjects != first.subjects:
            raise EvidenceError(f"{frame.name} and {first.name} hold different prompts: they can't be paired")
        above, below = frame.ratio(term.fit, term.baseline, updates)
        for numerator, denominator in parts:
            if np.array_equal(denominator, below):
                numerator += term.weight * above
                break
        else:
            parts.append((term.weight * above, below))
    numerator, denominator = (np.hstack(side) for side in zip(*parts, strict=True))
    return first.subjects, (numerator, denominator)


def _by_update(
    terms: Sequence[Term], frames: Mapping[str, Frame], updates: Sequence[int]
) -> tuple[tuple[str, ...], tuple[Matrix, Matrix]]:
    """Return the updates' names, and one number each, of which the contrast is the mean."""
    each = np.zeros(len(updates))
    for term in terms:
        above, below = frames[term.arm].ratio(term.fit, term.baseline, updates)
        total = below.sum(axis=0)
        if not (total > 0.0).all():
            raise EvidenceError(
                f"{frames[term.arm].name}: {term.fit} has nothing to divide by at some update"
            )
        each += term.weight * above.sum(axis=0) / total
    return tuple(f"update {update:03d}" for update in updates), (each[:, None], np.ones((len(updates), 1)))


def _trend(n_ratios: int, updates: Sequence[int], n_layers: int) -> Matrix:
    """Return what each ratio counts in a least-squares slope against l / L."""
    if len(updates) < 3:
        raise EvidenceError(f"a trend wants three updates at least, the set has {len(updates)}")
    depth = np.asarray(updates, np.float64) / n_layers
    from_mean = depth - depth.mean()
    slope: Matrix = np.tile(from_mean / (from_mean @ from_mean), n_ratios // len(updates))
    return slope
