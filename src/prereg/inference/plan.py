"""The resampling plan: which units each bootstrap replicate draws, and how often.

A plan is drawn once from a registered seed and shared by every gate of a run with the same number of
units. It is streamed in small blocks: indices are drawn, counted, used and forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, Self, TypeGuard

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference.fixed_point import split_limbs
from prereg.inference.units import FloatArray, finite_matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BLOCK", "BootstrapPlan", "ExplicitPlan", "IndexArray", "ResamplingPlan", "plan_sums"]

IndexArray = npt.NDArray[np.int64]

# Replicates that share one random stream. Part of the plan's definition: changing it changes every number.
BLOCK = 64

# Bytes of one index block; three arrays of this size are alive at a time.
_CHUNK_BYTES = 4 * 2**20

# Plans whose counts take no more than this are kept: 10,000 replicates of 200 units.
_KEPT_BYTES = 16 * 2**20


class ResamplingPlan(Protocol):
    """What the engines need of a plan."""

    @property
    def n_units(self) -> int:
        """Number of units drawn from."""
        ...

    @property
    def n_draws(self) -> int:
        """Number of draws in one replicate."""
        ...

    @property
    def n_replicates(self) -> int:
        """Number of replicates."""
        ...

    def indices(self) -> Iterator[IndexArray]:
        """Yield chunks of drawn unit numbers, shape (b, n_draws); all chunks together are the plan."""
        ...

    def first(self, n_replicates: int) -> Self:
        """Return the plan of the first so many replicates; itself where it has no more."""
        ...


@dataclass(frozen=True, slots=True)
class BootstrapPlan:
    """Units drawn with replacement, from a registered seed.

    Block b of 64 replicates is drawn as int64 from `PCG64(SeedSequence(seed, spawn_key=(family, b)))`.
    Each block is independent of the others, so a plan of more replicates begins with the same ones.

    Parameters
    ----------
    n_units
        Number of independent units, at least 2.
    n_replicates
        Number of replicates B, at least 1.
    seed
        Registered seed, a non-negative integer.
    family
        Number of the stream, so that two uses of one seed don't share draws.
    chunk_rows
        At most this many replicates are in memory at once (1 to 64). No effect on any number.

    Raises
    ------
    InferenceError
        A parameter is out of range.
    """

    n_units: int
    n_replicates: int
    seed: int
    family: int = 0
    chunk_rows: int = BLOCK

    def __post_init__(self) -> None:
        bounds = {"n_units": 2, "n_replicates": 1, "seed": 0, "family": 0, "chunk_rows": 1}
        for name, lowest in bounds.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise InferenceError(f"{name} is {value!r}; an integer of at least {lowest} is wanted.")
        if self.chunk_rows > BLOCK:
            raise InferenceError(f"chunk_rows is {self.chunk_rows}; at most {BLOCK} is possible.")

    @property
    def n_draws(self) -> int:
        """Number of draws in one replicate: as many as there are units."""
        return self.n_units

    def first(self, n_replicates: int) -> Self:
        """Return the plan of the first so many replicates; itself where it has no more."""
        return self if n_replicates >= self.n_replicates else replace(self, n_replicates=n_replicates)

    def indices(self) -> Iterator[IndexArray]:
        """Yield chunks of drawn unit numbers, int64 of shape (b, n_units)."""
        affordable = max(1, _CHUNK_BYTES // (8 * self.n_units))
        rows = min(self.chunk_rows, affordable)
        for first in range(0, self.n_replicates, BLOCK):
            key = np.random.SeedSequence(self.seed, spawn_key=(self.family, first // BLOCK))
            rng = np.random.Generator(np.random.PCG64(key))
            left = min(BLOCK, self.n_replicates - first)
            while left > 0:
                take = min(rows, left)
                # int64 draws consume the stream row by row, so a split chunk draws the same numbers.
                yield rng.integers(0, self.n_units, size=(take, self.n_units), dtype=np.int64)
                left -= take


@dataclass(frozen=True, slots=True, eq=False)
class ExplicitPlan:
    """Draws given as a matrix: for full enumeration, and to replay another library's draws.

    Parameters
    ----------
    n_units
        Number of independent units, at least 2.
    matrix
        Unit numbers, int64 of shape (n_replicates, n_draws).

    Raises
    ------
    InferenceError
        Empty, not integers, or a number that names no unit.
    """

    n_units: int
    matrix: IndexArray

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.size == 0 or matrix.dtype.kind not in "iu":
            raise InferenceError(
                f"draws have shape {matrix.shape} and type {matrix.dtype}; "
                "a non-empty integer matrix (n_replicates, n_draws) is wanted."
            )
        if self.n_units < 2 or int(matrix.min()) < 0 or int(matrix.max()) >= self.n_units:
            raise InferenceError(
                f"draws name units {int(matrix.min())} to {int(matrix.max())}; "
                f"there are {self.n_units}, and at least 2 are needed."
            )
        copy = matrix.astype(np.int64)
        copy.setflags(write=False)
        object.__setattr__(self, "matrix", copy)

    @property
    def n_draws(self) -> int:
        """Number of draws in one replicate."""
        return int(self.matrix.shape[1])

    def first(self, n_replicates: int) -> Self:
        """Return the plan of the first so many replicates; itself where it has no more."""
        few = self.matrix[:n_replicates]
        return self if n_replicates >= self.n_replicates else replace(self, matrix=few)

    @property
    def n_replicates(self) -> int:
        """Number of replicates."""
        return int(self.matrix.shape[0])

    def indices(self) -> Iterator[IndexArray]:
        """Yield the matrix in chunks of 64 rows."""
        for first in range(0, self.n_replicates, BLOCK):
            yield self.matrix[first : first + BLOCK]


def is_kept(plan: ResamplingPlan) -> TypeGuard[BootstrapPlan]:
    """Tell whether the plan is so small that its counts are kept from one use to the next."""
    return isinstance(plan, BootstrapPlan) and 8 * plan.n_units * plan.n_replicates <= _KEPT_BYTES


def small_counts(plan: ResamplingPlan) -> npt.NDArray[np.uint8] | None:
    """Return how often each unit was drawn in each replicate, uint8 of shape (n_replicates, n_units).

    None where some replicate draws a unit more than 255 times.
    """
    counts = np.empty((plan.n_replicates, plan.n_units), dtype=np.uint8)
    done = 0
    for chunk in plan.indices():
        counted = _counted(chunk, plan.n_units)
        if int(counted.max()) > np.iinfo(np.uint8).max:
            return None
        counts[done : done + chunk.shape[0]] = counted
        done += chunk.shape[0]
    return counts


def count_blocks(plan: ResamplingPlan) -> Iterator[FloatArray]:
    """Yield how often each unit was drawn, float64 of shape (b, n_units), chunk by chunk.

    The counts of the last two small plans are kept: the gates of a run share a plan, and
    drawing it anew for each would cost more than their sums.
    """
    if is_kept(plan):
        yield from _kept_counts(plan)
    else:
        yield from _counts(plan)


def merged_count_blocks(plan: ResamplingPlan) -> Iterator[FloatArray]:
    """Yield the same counts in larger chunks, up to 4 MB, for which a matrix product is a sixth faster."""
    if is_kept(plan):
        yield from _kept_counts(plan)
        return
    rows = max(1, _CHUNK_BYTES // (8 * plan.n_units))
    merged, done = np.empty((0, 0)), 0
    for chunk in plan.indices():
        if done + chunk.shape[0] > merged.shape[0]:
            if done:
                yield merged[:done]
            merged, done = np.empty((max(rows, chunk.shape[0]), plan.n_units)), 0
        merged[done : done + chunk.shape[0]] = _counted(chunk, plan.n_units)
        done += chunk.shape[0]
    yield merged[:done]


@lru_cache(maxsize=2)
def _kept_counts(plan: BootstrapPlan) -> tuple[FloatArray, ...]:
    return tuple(_counts(plan))


def _counts(plan: ResamplingPlan) -> Iterator[FloatArray]:
    for chunk in plan.indices():
        block = _counted(chunk, plan.n_units).astype(np.float64)
        block.setflags(write=False)
        yield block


def _counted(chunk: IndexArray, n: int) -> IndexArray:
    """Return how often each of n units was drawn, int64 of shape (b, n)."""
    offset = chunk + (np.arange(chunk.shape[0], dtype=np.int64) * n)[:, None]
    return np.bincount(offset.ravel(), minlength=chunk.shape[0] * n).reshape(chunk.shape[0], n)


def plan_sums(plan: ResamplingPlan, columns: npt.ArrayLike) -> FloatArray:
    """Return the sum of each column over the units of each replicate.

    Parameters
    ----------
    plan
        The draws.
    columns
        Shape (n_units, k).

    Returns
    -------
    numpy.ndarray
        Shape (n_replicates, k); bit-identical for every chunking, thread count and BLAS kernel.

    Raises
    ------
    InferenceError
        The number of rows is not the plan's number of units, or a number is not finite.
    """
    matrix = finite_matrix(columns, "columns")
    if matrix.shape[0] != plan.n_units:
        raise InferenceError(
            f"length mismatch: columns have {matrix.shape[0]} units, the plan {plan.n_units}."
        )
    limbs = split_limbs(matrix, plan.n_draws)
    return np.vstack([limbs.sums(counts) for counts in count_blocks(plan)])
