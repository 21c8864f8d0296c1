"""What populations are made from: per-unit sums of a pilot, split into what is expected and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference import RatioTable

__all__ = ["Matrix", "Part", "Sums", "moving"]

Matrix = npt.NDArray[np.float64]


def moving(weights: Matrix) -> Matrix:
    """Return how far each ratio moves where theta moves by 1, so that ``weights @ moving(weights)`` is 1."""
    step: Matrix = weights / (weights @ weights)
    return step


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One contrast's sums.

    Parameters
    ----------
    residual
        ``N - R D`` of each unit and ratio, shape (n_units, n_ratios); each column adds up to 0.
    denominator
        D, same shape.
    ratios
        R on the whole pilot, shape (n_ratios,).
    weights
        theta = weights @ ratios, shape (n_ratios,).
    """

    residual: Matrix
    denominator: Matrix
    ratios: Matrix
    weights: Matrix

    @property
    def estimate(self) -> float:
        """Theta on the whole pilot."""
        return float(self.weights @ self.ratios)

    @property
    def speaking(self) -> Matrix:
        """Share of the pilot's units that have a denominator above 0, shape (n_ratios,)."""
        share: Matrix = (self.denominator > 0.0).mean(axis=0)
        return share

    def standard_error(self) -> float:
        """Delta-method standard error of theta on the pilot."""
        psi = (self.residual / self.denominator.sum(axis=0)) @ self.weights
        return float(np.sqrt((psi**2).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """A gate's contrasts over the same units.

    Parameters
    ----------
    parts
        One for each contrast, all with the same units in the same order.
    rows
        Rows that were summed into each unit, shape (n_units,).
    """

    parts: tuple[Part, ...]
    rows: npt.NDArray[np.int64]

    @classmethod
    def of(cls, tables: Sequence[tuple[RatioTable, npt.ArrayLike]], rows: npt.ArrayLike) -> Sums:
        """Take apart the tables that a gate is decided by.

        Raises
        ------
        InferenceError
            If the tables don't share their units, or a contrast doesn't vary between them.
        """
        counts = np.asarray(rows, dtype=np.int64)
        parts = []
        for table, weights in tables:
            if table.units != tables[0][0].units or counts.shape != (table.n_units,):
                raise InferenceError(
                    "the contrasts of a gate have different units: they can't be drawn together"
                )
            ratios = table.ratios()
            residual = table.numerator - ratios * table.denominator
            part = Part(residual, table.denominator, ratios, np.asarray(weights, dtype=np.float64))
            size = float(np.abs(table.numerator / table.denominator.sum(axis=0)).sum())
            if not part.standard_error() > 1e-12 * max(size, abs(part.estimate)):
                raise InferenceError(
                    "a contrast of the pilot doesn't vary between units: there is nothing to simulate",
                    remedy="choose another pilot with --pilot MODEL",
                )
            parts.append(part)
        return cls(tuple(parts), counts)

    @property
    def n_units(self) -> int:
        """Number of independent units in the pilot."""
        return len(self.rows)

    @property
    def estimates(self) -> tuple[float, ...]:
        """Theta of each contrast on the pilot."""
        return tuple(part.estimate for part in self.parts)
