"""Resampling designs: what is drawn with replacement, as weights of the cases.

A resample of cases is a vector of counts, so a design is a rule that turns a random stream into weights.

What is independent of what is a fact about the measurement, not a choice: rows about one subject are one unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.plan import IndexArray
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Clusters", "Crossed", "Nested", "clusters", "crossed", "iid", "nested"]


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Whole clusters drawn with replacement; see `clusters` and `iid`."""

    codes: IndexArray
    n_clusters: int

    @property
    def n_rows(self) -> int:
        """Number of cases."""
        return int(self.codes.size)

    @property
    def n_independent(self) -> int:
        """Number of clusters."""
        return self.n_clusters

    @property
    def units(self) -> tuple[IndexArray, ...]:
        """The clusters."""
        return (self.codes,)

    @property
    def not_studentized(self) -> str | None:
        """None: a case's weight is its cluster's count."""
        return None

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return each case's weight: how often its cluster was drawn."""
        return _counts(rng, self.n_clusters)[self.codes]


@dataclass(frozen=True, slots=True, eq=False)
class Crossed:
    """Rows and columns of a table drawn independently of each other; see `crossed`."""

    row_codes: IndexArray
    column_codes: IndexArray
    sides: tuple[int, int]

    @property
    def n_rows(self) -> int:
        """Number of cases."""
        return int(self.row_codes.size)

    @property
    def n_independent(self) -> int:
        """Size of the smaller side."""
        return min(self.sides)

    @property
    def units(self) -> tuple[IndexArray, ...]:
        """The rows, and the columns."""
        return self.row_codes, self.column_codes

    @property
    def not_studentized(self) -> str | None:
        """The reason why a standard error inside a resample is not available."""
        return "a crossed resample repeats cells, whose copies share both their row and their column"

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return each case's weight: its row's count times its column's."""
        rows = _counts(rng, self.sides[0])
        columns = _counts(rng, self.sides[1])
        weights: FloatArray = rows[self.row_codes] * columns[self.column_codes]
        return weights


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """Outer units drawn with replacement, and inner units anew within each; see `nested`.

    Attributes
    ----------
    outer_codes, inner_codes
        Shape (n_rows,). Inner units are numbered through, those of one outer unit next to each other.
    first, sizes
        Shape (n_outer,): the first inner unit of each outer one, and how many it has.
    studentized
        Whether studentized intervals are available: each copy's draws are then made a second time for them.
    """

    outer_codes: IndexArray
    inner_codes: IndexArray
    first: IndexArray
    sizes: IndexArray
    studentized: bool = False

    @property
    def n_rows(self) -> int:
        """Number of cases."""
        return int(self.outer_codes.size)

    @property
    def n_independent(self) -> int:
        """Number of outer units."""
        return int(self.sizes.size)

    @property
    def units(self) -> tuple[IndexArray, ...]:
        """The outer units."""
        return (self.outer_codes,)

    @property
    def not_studentized(self) -> str | None:
        """The reason why a standard error inside a resample is not available, unless it was asked for."""
        if self.studentized:
            return None
        return (
            "the copies of one outer unit hold different inner units, which case weights no longer tell apart"
        )

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return each case's weight: how often its inner unit was drawn, over all copies of its outer unit."""
        inner, _ = self.draw_copies(rng)
        counts = np.bincount(inner, minlength=int(self.sizes.sum()))
        return counts[self.inner_codes].astype(np.float64)

    def draw_copies(self, rng: np.random.Generator) -> tuple[IndexArray, IndexArray]:
        """Return the drawn inner units, and for each the number of the copy it was drawn for."""
        outer = rng.integers(0, self.sizes.size, size=self.sizes.size, dtype=np.int64)
        # One inner draw for each inner unit of each drawn copy.
        copies = np.repeat(outer, self.sizes[outer])
        inner = self.first[copies] + rng.integers(0, self.sizes[copies], dtype=np.int64)
        return inner, np.repeat(np.arange(outer.size), self.sizes[outer])


def _counts(rng: np.random.Generator, n: int) -> FloatArray:
    return np.bincount(rng.integers(0, n, size=n, dtype=np.int64), minlength=n).astype(np.float64)


def iid(n_rows: int) -> Clusters:
    """Every case is a unit of its own (Efron 1979, doi:10.1214/aos/1176344552).

    The draws are those of `BootstrapPlan` with the same seed and family.

    Parameters
    ----------
    n_rows
        Number of cases, at least 2.

    Raises
    ------
    InferenceError
        Not an integer of at least 2.

    Examples
    --------
    >>> iid(12).n_independent
    12
    """
    if isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < 2:
        raise InferenceError(f"n_rows is {n_rows!r}; an integer of at least 2 is wanted.")
    return Clusters(_frozen(np.arange(n_rows, dtype=np.int64)), n_rows)


def clusters(labels: Sequence[str]) -> Clusters:
    """Cases that share a label are drawn together (Davison and Hinkley 1997, doi:10.1017/CBO9780511802843, 3.8).

    Clusters are numbered in sorted order of their labels, so the order of the rows changes no draw.

    Parameters
    ----------
    labels
        Cluster of each case, length n_rows; non-empty strings, two different ones at least.

    Raises
    ------
    InferenceError
        Empty, not strings, or one cluster only.

    Examples
    --------
    >>> design = clusters(["b", "a", "b"])
    >>> design.n_rows, design.n_independent
    (3, 2)
    """
    codes, n = _coded(labels, "clusters")
    return Clusters(codes, n)


def crossed(rows: Sequence[str], columns: Sequence[str]) -> Crossed:
    """Two crossed factors, such as subjects and templates: the pigeonhole bootstrap.

    Rows and columns are each drawn with replacement, and a case weighs by the product of the two counts (Owen 2007,
    doi:10.1214/07-AOAS122). No resampling of a table estimates the variance of its mean exactly (McCullagh 2000,
    doi:10.2307/3318577). This one errs on the safe side: for a balanced R x C table of row, column and cell effects
    the bootstrap variance is about `s_row**2/R + s_column**2/C + 3 s_cell**2/(R C)`; the true one has
    `s_cell**2/(R C)` once. So the interval holds where both factors matter, and is too wide, by up to the square root
    of three, where neither does. It speaks of new rows and new columns alike; where a factor's levels are all there
    are, cluster on the other factor instead.

    The delta-method standard error adds both sides, `sum psi_row**2 + sum psi_column**2`, so it has cells twice.

    Parameters
    ----------
    rows, columns
        The two labels of each case, length n_rows. Cells may be empty or hold several cases.

    Raises
    ------
    InferenceError
        Lengths differ, empty, not strings, or a factor with one level only.

    Examples
    --------
    >>> design = crossed(["s1", "s1", "s2", "s2", "s3", "s3"], ["t1", "t2"] * 3)
    >>> design.n_independent
    2
    """
    if len(rows) != len(columns):
        raise InferenceError(f"length mismatch: {len(rows)} row labels, {len(columns)} column labels.")
    row_codes, n_row_levels = _coded(rows, "rows")
    column_codes, n_column_levels = _coded(columns, "columns")
    return Crossed(row_codes, column_codes, (n_row_levels, n_column_levels))


def nested(outer: Sequence[str], inner: Sequence[str], *, studentized: bool = False) -> Nested:
    """Inner units within outer ones: outer drawn with replacement, then inner within each drawn copy.

    The two-stage bootstrap (Davison and Hinkley 1997, doi:10.1017/CBO9780511802843, 3.8). It is the wider one: outer
    units alone already vary by what is inside them, and the second stage adds that once more (about the variance
    between inner units over their number). Where outer units differ much more than what is inside them, or have many
    inner ones, the two agree; `clusters(outer)` is the usual choice.

    With `studentized` that method is available too, and mends the width: `(theta* - theta)/s*` with
    `s***2 = sum over copies of (sum over its inner draws of psi*)**2`, psi* the influence in the resample. Given the
    data the copies are drawn independently, so s* estimates the spread of theta* itself, second stage included, and
    the interval scales the pivots by the data's own s, which has that stage once. With one inner unit in each outer
    one it is the clusters' formula. Our own definition, after Hall's pivot (1988, doi:10.1214/aos/1176350933).

    Parameters
    ----------
    outer, inner
        The two labels of each case. The same inner label under two outer ones names two units.
    studentized
        Whether to make studentized intervals available, for which every draw is made twice.

    Raises
    ------
    InferenceError
        Lengths differ, empty, not strings, or one outer unit only.

    Examples
    --------
    >>> nested(["a", "a", "b", "b"], ["1", "2", "1", "2"]).sizes.tolist()
    [2, 2]
    """
    if len(outer) != len(inner):
        raise InferenceError(f"length mismatch: {len(outer)} outer labels, {len(inner)} inner labels.")
    outer_codes, n_outer = _coded(outer, "outer")
    within, n_labels = _coded(inner, "inner", least=1)
    pairs, inner_codes = np.unique(outer_codes * n_labels + within, return_inverse=True)
    sizes = np.bincount(pairs // n_labels, minlength=n_outer)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    inner_codes, first, sizes = (_frozen(array.astype(np.int64)) for array in (inner_codes, first, sizes))
    return Nested(outer_codes, inner_codes, first, sizes, studentized)


def _coded(labels: Sequence[str], name: str, least: int = 2) -> tuple[IndexArray, int]:
    """Return each case's level, numbered in sorted order: a draw belongs to a label and not to a place."""
    if isinstance(labels, str) or len(labels) == 0:
        raise InferenceError(f"{name} holds no labels: there is nothing to draw from.")
    for label in labels:
        if not isinstance(label, str) or not label:
            raise InferenceError(f"{name} holds the label {label!r}; non-empty strings are wanted.")
    place = {label: k for k, label in enumerate(sorted(set(labels)))}
    if len(place) < least:
        raise InferenceError(
            f"{name} has one level only: a single unit has no sampling distribution.",
            remedy="Measure more units; rows within one unit are not independent.",
        )
    return _frozen(np.array([place[label] for label in labels], dtype=np.int64)), len(place)


def _frozen(array: IndexArray) -> IndexArray:
    array.setflags(write=False)
    return array
