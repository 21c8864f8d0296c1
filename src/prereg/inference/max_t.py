"""Studentized maxT on one plan: one-sided tests of many contrasts against a threshold, with their dependence kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.inference.contrasts import DEGENERATE, Contrast
from prereg.inference.multiplicity import step_down
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MaxT", "max_t", "studentized"]

_TIE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class MaxT:
    """What the tests found.

    Attributes
    ----------
    adjusted_p
        Step-down adjusted, shape (m,).
    critical
        The value that one statistic must pass for p <= alpha: the 1 - alpha point of the largest null statistic.
    loudest
        Position of the largest statistic.
    """

    adjusted_p: FloatArray
    critical: float
    loudest: int


def max_t(
    contrasts: Sequence[Contrast],
    values: FloatArray,
    errors: FloatArray,
    threshold: float,
    sign: float,
    alpha: float,
) -> MaxT:
    """Test each `sign * (theta_f - threshold) > 0` by step-down maxT; see `prereg.inference.some.decide_some`.

    Parameters
    ----------
    contrasts
        Prepared, all with variation; none is no test, with an infinite critical value.
    values, errors
        Their `aligned_replicates`, both (m, b), of at least `1/alpha - 1` resamples.
    threshold
        In the units of the contrasts.
    sign
        1.0 or -1.0.
    alpha
        One-sided error rate, for `critical` only.
    """
    if not contrasts:
        return MaxT(np.empty(0), math.inf, 0)
    observed = np.array([sign * (c.estimate - threshold) / c.standard_error() for c in contrasts])
    null = np.column_stack([_null(c, values[f], errors[f], sign) for f, c in enumerate(contrasts)])
    adjusted = step_down(observed, null, _TIE * np.maximum(1.0, np.abs(observed)))
    # p <= alpha allows one null maximum fewer than this at or above the statistic.
    allowed = math.floor(alpha * (null.shape[0] + 1.0))
    critical = float(np.sort(null.max(axis=1))[-allowed])
    return MaxT(adjusted, critical, int(observed.argmax()))


def studentized(contrast: Contrast, values: FloatArray, errors: FloatArray) -> FloatArray:
    """Return `(theta* - theta) / s*`, (b,): infinite where s* is 0 and they differ, nan where theta* is undefined."""
    gap = values - contrast.estimate
    scale = max(contrast.scale, abs(contrast.estimate))
    found = np.where(np.abs(gap) <= DEGENERATE * scale, 0.0, np.copysign(np.inf, gap))
    np.divide(gap, errors, out=found, where=errors > 0.0)
    found[np.isnan(values)] = np.nan
    return found


def _null(contrast: Contrast, values: FloatArray, errors: FloatArray, sign: float) -> FloatArray:
    """Return `(theta* - theta) / s*`, signed so that large speaks for the claim; inf where a resample is undefined."""
    null = sign * studentized(contrast, values, errors)
    # Never -inf: a resample that can't speak must not make p smaller.
    null[np.isnan(values)] = np.inf
    return null
