"""Contrasts made ready for resampling: centred numerators over shared denominators.

Two rewritings keep the arithmetic small and accurate. Ratios with the same denominator are merged, since
`w1*N1/D + w2*N2/D = (w1*N1 + w2*N2)/D`. And numerators are centred at the sample's own ratio,
`N - R*D`, whose total is 0: what is left in a replicate is the deviation from the estimate, so nothing is
lost to cancellation when the gap is tiny beside the errors it is the difference of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.inference.ratios import RatioTable, contrast_weights
from prereg.inference.units import FloatArray, column_sums, exact_sum

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DEGENERATE", "Contrast", "prepare"]

# Replicates closer together than this, relative to the size of what is summed, differ by rounding only.
DEGENERATE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """One contrast of a table.

    Attributes
    ----------
    estimate
        `theta = sum_r w_r R_r` on the whole sample.
    numerator
        Shape (n_units, n_groups): centred, weighted numerators, one column per distinct denominator.
    denominator
        Shape (n_units, n_groups): the distinct denominators, scaled by a power of two to a total near 1;
        the numerators carry the same scale.
    raw_numerator
        Shape (n_units, n_groups): the weighted numerators before centring, which keep the lattice that
        counts lie on.
    totals
        Shape (n_groups,): the denominators' correctly rounded totals.
    scale
        `sum_r |w_r| sum_i |N_ir| / sum_i D_ir`: the size of what was added up, against which rounding
        is judged.
    n_rows
        Rows behind the table.
    """

    estimate: float
    numerator: FloatArray
    denominator: FloatArray
    raw_numerator: FloatArray
    totals: FloatArray
    scale: float
    n_rows: int

    @property
    def n_units(self) -> int:
        """Number of independent units."""
        return int(self.numerator.shape[0])

    @property
    def n_groups(self) -> int:
        """Number of distinct denominators."""
        return int(self.numerator.shape[1])

    def influence(self) -> FloatArray:
        """Return `psi_i = sum_r w_r (N_ir - R_r D_ir) / sum_i D_ir`, shape (n_units,).

        The infinitesimal jackknife (Efron 1982, doi:10.1137/1.9781611970319, chapter 6); its total is 0.
        """
        psi: FloatArray = (self.numerator / self.totals).sum(axis=1)
        return psi

    def standard_error(self) -> float:
        """Return the delta-method standard error `sqrt(sum_i psi_i**2)`, in units of theta."""
        return math.sqrt(exact_sum(self.influence() ** 2))

    def is_degenerate(self) -> bool:
        """Tell whether no unit deviates from the common ratio by more than rounding."""
        largest = float(np.abs(self.influence()).max()) * self.n_units
        return largest <= DEGENERATE * max(self.scale, abs(self.estimate))

    def leave_one_out(self) -> FloatArray | None:
        """Return theta without each unit, shape (n_units,), or None where a denominator would be 0."""
        rest = self.totals - self.denominator
        if bool((rest <= 1e-15 * self.totals).any()):
            return None
        # The centred numerators add up to 0, so what is left without unit i is minus its own.
        without: FloatArray = self.estimate - (self.numerator / rest).sum(axis=1)
        return without


def prepare(table: RatioTable, weights: npt.ArrayLike) -> tuple[Contrast, ...]:
    """Make each row of `weights` (n_contrasts, n_ratios) ready for resampling.

    Raises
    ------
    InferenceError
        The weights don't fit the table (see `contrast_weights`).
    """
    matrix = contrast_weights(weights, table.n_ratios)
    totals = column_sums(table.denominator)
    ratios = column_sums(table.numerator) / totals
    centred = table.numerator - ratios * table.denominator
    sizes = np.abs(table.numerator).sum(axis=0) / totals
    group = _denominator_groups(table.denominator)
    return tuple(_contrast(table, row, ratios, centred, sizes, totals, group) for row in matrix)


def _denominator_groups(denominator: FloatArray) -> tuple[int, ...]:
    """Return, for each ratio, the first ratio that has the same denominator column."""
    first: dict[bytes, int] = {}
    return tuple(first.setdefault(column.tobytes(), r) for r, column in enumerate(denominator.T))


def _contrast(
    table: RatioTable,
    row: FloatArray,
    ratios: FloatArray,
    centred: FloatArray,
    sizes: FloatArray,
    totals: FloatArray,
    group: tuple[int, ...],
) -> Contrast:
    used = [r for r in range(table.n_ratios) if row[r] != 0.0]
    leaders = sorted({group[r] for r in used})
    numerator = np.zeros((table.n_units, len(leaders)))
    raw = np.zeros_like(numerator)
    for r in used:
        numerator[:, leaders.index(group[r])] += row[r] * centred[:, r]
        raw[:, leaders.index(group[r])] += row[r] * table.numerator[:, r]
    shift = -np.frexp(totals[leaders])[1]
    return Contrast(
        estimate=math.fsum(float(row[r] * ratios[r]) for r in used),
        numerator=np.ldexp(numerator, shift),
        denominator=np.ldexp(table.denominator[:, leaders], shift),
        raw_numerator=np.ldexp(raw, shift),
        # Of scaled numbers: scaling by a power of two rounds nothing.
        totals=np.ldexp(totals[leaders], shift),
        scale=math.fsum(float(abs(row[r]) * sizes[r]) for r in used),
        n_rows=table.n_rows,
    )
