"""From rows to independent units.

Prompts about one subject are not independent, so nothing here resamples rows. Rows are summed into units
(clusters) first; every later module sees units only. The sums are correctly rounded, so the order in which
rows were written can't change a single bit of what follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FloatArray", "UnitSums", "align_rows", "column_sums", "exact_sum", "finite_matrix", "unit_sums"]

FloatArray = npt.NDArray[np.float64]

# Squares of larger numbers overflow, and a sum of squares that is inf would be a silent nan later.
_LARGEST = 1e100

# Numbers that are Python's at a time.
_CHUNK = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class UnitSums:
    """Per-unit sums of per-row numbers.

    Attributes
    ----------
    units
        Labels of the units, sorted, each once.
    sums
        Array of shape (n_units, n_columns), float64, read-only.
    rows
        Number of rows in each unit, in the order of `units`.
    """

    units: tuple[str, ...]
    sums: FloatArray
    rows: tuple[int, ...]


def finite_matrix(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return a read-only float64 copy of shape (n, k), with nothing missing in it.

    Parameters
    ----------
    values
        Numbers of shape (n,) or (n, k); one dimension is read as one column.
    name
        What the numbers are, for the error message.

    Raises
    ------
    InferenceError
        Empty, not numeric, not one- or two-dimensional, or holding nan, inf or numbers beyond 1e100.
    """
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiub":
        raise InferenceError(f"{name} holds {raw.dtype}; real numbers are wanted.")
    array = np.array(raw, dtype=np.float64, order="C", copy=True)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InferenceError(f"{name} has shape {raw.shape}; one or two dimensions are wanted.")
    if array.size == 0:
        raise InferenceError(
            f"{name} is empty (shape {raw.shape}): there is nothing to infer from.",
            remedy="Check the filter that selected the rows.",
        )
    _refuse_holes(array, name)
    array.setflags(write=False)
    return array


def _refuse_holes(array: FloatArray, name: str) -> None:
    n_nan = int(np.isnan(array).sum())
    if n_nan:
        raise InferenceError(
            f"{name} holds {n_nan} nan among {array.size} numbers; none is allowed.",
            remedy="Find out why the measurement is missing; dropping it would change the estimand.",
        )
    n_inf = int(np.isinf(array).sum())
    if n_inf:
        raise InferenceError(f"{name} holds {n_inf} inf among {array.size} numbers; none is allowed.")
    largest = float(np.abs(array).max())
    if largest > _LARGEST:
        raise InferenceError(f"{name} holds {largest:.3g}; at most {_LARGEST:g} is allowed.")


def exact_sum(values: FloatArray) -> float:
    """Return the correctly rounded sum of a vector, which no order of additions changes."""
    # A million Python numbers at once would take 40 MB.
    chunks = (values[first : first + _CHUNK].tolist() for first in range(0, values.size, _CHUNK))
    return math.fsum(chain.from_iterable(chunks))


def column_sums(matrix: FloatArray) -> FloatArray:
    """Return the correctly rounded sum of each column: shape (n, k) to (k,)."""
    return np.array([exact_sum(column) for column in matrix.T], dtype=np.float64)


def unit_sums(labels: Sequence[str], values: npt.ArrayLike) -> UnitSums:
    """Sum rows into units.

    Parameters
    ----------
    labels
        The unit (cluster) of each row, length n_rows; non-empty strings.
    values
        Numbers of shape (n_rows,) or (n_rows, n_columns).

    Returns
    -------
    UnitSums
        Units in sorted order. Sums are correctly rounded (`math.fsum`), hence the same to the last bit
        for every order of the rows.

    Raises
    ------
    InferenceError
        Lengths differ, a label is not a non-empty string, or `finite_matrix` refuses the numbers.
    """
    matrix = finite_matrix(values, "values")
    if len(labels) != matrix.shape[0]:
        raise InferenceError(
            f"length mismatch: {len(labels)} unit labels for {matrix.shape[0]} rows of values."
        )
    for label in labels:
        if not isinstance(label, str) or not label:
            raise InferenceError(f"unit label {label!r} found; non-empty strings are wanted.")
    order = sorted(range(len(labels)), key=labels.__getitem__)
    ordered = [labels[row] for row in order]
    starts = [i for i, label in enumerate(ordered) if i == 0 or label != ordered[i - 1]]
    bounds = [*starts, len(ordered)]
    columns = matrix[order].T.tolist()
    sums = np.array(
        [[math.fsum(column[a:b]) for a, b in pairwise(bounds)] for column in columns],
        dtype=np.float64,
    ).T.copy()
    sums.setflags(write=False)
    return UnitSums(
        units=tuple(ordered[start] for start in starts),
        sums=sums,
        rows=tuple(b - a for a, b in pairwise(bounds)),
    )


def align_rows(keys: Sequence[str], other_keys: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the positions that bring `other_keys` into the order of `keys`.

    Pairing is by key, never by position: a paired difference of rows that merely stand at the same place
    is a wrong number that looks right.

    Parameters
    ----------
    keys, other_keys
        Row keys, each unique within its sequence, in any order.

    Returns
    -------
    numpy.ndarray
        int64 of shape (n,), with `other_keys[result[i]] == keys[i]`.

    Raises
    ------
    InferenceError
        Empty, a repeated key, or the two sets of keys differ.
    """
    if len(keys) == 0 or len(other_keys) == 0:
        raise InferenceError("one side of the pairing is empty: there are no pairs.")
    position = {key: i for i, key in enumerate(other_keys)}
    for side, unique in ((keys, len(set(keys))), (other_keys, len(position))):
        if unique != len(side):
            raise InferenceError(f"{len(side) - unique} repeated row keys: pairs are ambiguous.")
    unpaired = sorted(set(keys) ^ set(position))
    if unpaired:
        raise InferenceError(
            f"{len(unpaired)} rows have no partner, the first is {unpaired[0]!r}.",
            remedy="Measure both sides on the same rows.",
        )
    return np.array([position[key] for key in keys], dtype=np.int64)
