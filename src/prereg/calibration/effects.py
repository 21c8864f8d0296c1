"""A pilot's row residuals as effects of crossed or nested factors, each with the variance that is really its own.

With several factors at once a residual is a sum of effects, ``E_r = sum over factors k of u_k[level of r] + e_r``. The
mean of a level's rows is no such effect: it holds the other factors' noise too. So variances are estimated first, by
moments (Henderson's method I in the form of Gao and Owen 2017, doi:10.1214/17-EJS1236: sums of squares within the
levels of each factor, which are linear in the variances), negative ones taken as 0. Then the effects are predicted
(best linear unbiased, by repeated sweeps), centred, and scaled to the estimated variance, as in the reflated
residual bootstrap of Carpenter, Goldstein and Rasbash (2003, doi:10.1111/1467-9876.00415). What is left is the row's.

Variances are those of each contrast's influence, one factor for all ratios behind it: what decides is the contrast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prereg.calibration.sums import Matrix

__all__ = ["Codes", "Effects", "effects_of", "variance_components"]

Codes = npt.NDArray[np.int64]

_SWEEPS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Effects of one contrast's ratios.

    Parameters
    ----------
    levels
        For each factor its levels' effects, (n_levels, n_ratios); each column adds up to 0.
    rows
        What is left of each row, (n_rows, n_ratios); each column adds up to 0.
    variances
        Of the contrast's influence: each factor's, and last the rows'.
    """

    levels: tuple[Matrix, ...]
    rows: Matrix
    variances: tuple[float, ...]


def effects_of(residual: Matrix, denominator: Matrix, weights: Matrix, factors: Sequence[Codes]) -> Effects:
    """Take one contrast's residuals apart.

    Parameters
    ----------
    residual
        ``N - R D`` of each row and ratio, (n_rows, n_ratios); 0 where D is.
    denominator
        D, same shape. Rows without any tell nothing of an effect.
    weights
        theta = weights @ R, (n_ratios,).
    factors
        Level of each row, (n_rows,), numbered from 0 without a gap; none of them one level a row.
    """
    per_unit = weights / denominator.sum(axis=0)
    speaking: npt.NDArray[np.bool_] = np.any(denominator > 0.0, axis=1)
    variances = variance_components((residual @ per_unit)[speaking], [codes[speaking] for codes in factors])
    counts = [np.bincount(codes, speaking.astype(np.float64))[:, None] for codes in factors]
    found = [np.zeros((len(count), residual.shape[1])) for count in counts]
    last = variances[-1]
    rest = residual.copy()
    for _ in range(_SWEEPS):
        for k, codes in enumerate(factors):
            if not variances[k] > 0.0:
                continue
            rest += found[k][codes] * speaking[:, None]
            below = counts[k] + last / variances[k]
            found[k] = _sums(codes, rest, len(found[k])) / np.where(below > 0.0, below, 1.0)
            rest -= found[k][codes] * speaking[:, None]
    return Effects(
        tuple(_reflated(each, per_unit, v) for each, v in zip(found, variances, strict=False)),
        _reflated(rest, per_unit, last),
        tuple(variances),
    )


def variance_components(values: Matrix, factors: Sequence[Codes]) -> list[float]:
    """Return the variance of each factor's effects, and last that of what is left, none below 0.

    Parameters
    ----------
    values
        Shape (n_rows,).
    factors
        Level of each row, (n_rows,).
    """
    n = values.size
    everyone = np.zeros(n, dtype=np.int64)
    within, shares = [], []
    for group in (everyone, *factors):
        size = np.maximum(np.bincount(group), 1).astype(np.float64)
        total = np.bincount(group, values)
        within.append(float((values**2).sum() - (total**2 / size).sum()))
        # Of the rows' pairs within a level, those that share the other factor's level too tell nothing of it.
        pairs = [*(_pairs(group, other) for other in factors), np.bincount(group).astype(np.float64)]
        shares.append([n - float((each / size).sum()) for each in pairs])
    solved = np.linalg.lstsq(np.array(shares), np.array(within), rcond=None)[0]
    return [max(0.0, float(value)) for value in solved]


def _pairs(group: Codes, other: Codes) -> Matrix:
    """Return, for each level of a group, the sum of squares of how its rows spread over the other's levels."""
    _, first, counts = np.unique(
        group * (int(other.max()) + 1) + other, return_index=True, return_counts=True
    )
    squares = counts.astype(np.float64) ** 2
    return np.bincount(group[first], squares, minlength=int(group.max()) + 1).astype(np.float64)


def _sums(codes: Codes, rows: Matrix, n_levels: int) -> Matrix:
    total = np.zeros((n_levels, rows.shape[1]))
    np.add.at(total, codes, rows)
    return total


def _reflated(effects: Matrix, per_unit: Matrix, variance: float) -> Matrix:
    """Centre effects, and give the contrast's influence the wanted variance over them."""
    centred = effects - effects.mean(axis=0)
    have = float(((centred @ per_unit) ** 2).mean())
    scaled: Matrix = centred * np.sqrt(variance / have) if have > 0.0 else np.zeros_like(centred)
    return scaled
