"""The plan of a design: which weights each replicate gives to the cases.

All designs share one rule. Block b of 64 replicates comes from `PCG64(SeedSequence(seed, spawn_key=(family, b)))`,
replicate after replicate, so a longer plan begins with the shorter one and no chunking changes a draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.plan import BLOCK, IndexArray
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Drawn = TypeVar("Drawn")

__all__ = ["CHUNK_BYTES", "Design", "WeightPlan"]

# Bytes of one chunk of weights. A statistic holds several arrays of this size, which should fit a core's cache, and be
# so small that the allocator keeps them: larger ones cost more in page faults than in arithmetic.
CHUNK_BYTES = 2**18


class Design(Protocol):
    """What the engine needs of a design.

    Attributes
    ----------
    units
        Groupings of the cases into independent units, each int64 of shape (n_rows,) with numbers 0 to G - 1. One for
        most designs, two for a crossed one. The jackknife leaves these out, and influence is added up over them.
    not_studentized
        Why no standard error can be recomputed inside a resample, or None where one can: where a case's weight is its
        unit's count.
    """

    @property
    def n_rows(self) -> int:
        """Number of cases, which is the length of a weight vector."""
        ...

    @property
    def n_independent(self) -> int:
        """Number of independent units: the n of the expanded percentile and of the least number of units."""
        ...

    @property
    def units(self) -> tuple[IndexArray, ...]:
        """Groupings of the cases into independent units."""
        ...

    @property
    def not_studentized(self) -> str | None:
        """Why there is no studentized interval, or None."""
        ...

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return the weights of one resample, float64 of shape (n_rows,), whole numbers."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class WeightPlan:
    """Resamples of a design from a registered seed.

    Parameters
    ----------
    design
        What is drawn.
    n_replicates
        Number of replicates B, at least 1.
    seed, family
        Registered seed, and the number of the stream, so that two uses of one seed don't share draws.
    chunk_rows
        At most this many replicates are in memory at once (1 to 64). No effect on any number.

    Raises
    ------
    InferenceError
        A parameter is out of range.

    Examples
    --------
    >>> from prereg.inference import clusters
    >>> plan = WeightPlan(clusters(["a", "a", "b", "c"]), n_replicates=2, seed=7)
    >>> [chunk.shape for chunk in plan.weights()]
    [(2, 4)]
    """

    design: Design
    n_replicates: int
    seed: int
    family: int = 0
    chunk_rows: int = BLOCK

    def __post_init__(self) -> None:
        for name, lowest in (("n_replicates", 1), ("seed", 0), ("family", 0), ("chunk_rows", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise InferenceError(f"{name} is {value!r}; an integer of at least {lowest} is wanted.")
        if self.chunk_rows > BLOCK:
            raise InferenceError(f"chunk_rows is {self.chunk_rows}; at most {BLOCK} is possible.")

    def weights(self) -> Iterator[FloatArray]:
        """Yield chunks of weights, float64 of shape (b, n_rows), read-only; all chunks together are the plan."""
        for drawn in self.drawn(self.design.draw):
            chunk = np.stack(drawn)
            chunk.setflags(write=False)
            yield chunk

    def drawn(self, draw: Callable[[np.random.Generator], Drawn]) -> Iterator[list[Drawn]]:
        """Yield what `draw` makes of the plan's streams, replicate by replicate, in the chunks of `weights`."""
        rows = min(self.chunk_rows, max(1, CHUNK_BYTES // (8 * self.design.n_rows)))
        for start in range(0, self.n_replicates, BLOCK):
            key = np.random.SeedSequence(self.seed, spawn_key=(self.family, start // BLOCK))
            rng = np.random.Generator(np.random.PCG64(key))
            left = min(BLOCK, self.n_replicates - start)
            while left > 0:
                take = min(rows, left)
                yield [draw(rng) for _ in range(take)]
                left -= take
