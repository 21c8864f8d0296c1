"""Adjusted p-values for a closed family of tests.

Input order is kept, results are monotone in p and capped at 1. A family is frozen: its size is part of the
promise, and an empty one is an error.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prereg.errors import InferenceError
from prereg.inference.units import FloatArray, finite_matrix

__all__ = ["benjamini_hochberg", "benjamini_yekutieli", "hochberg", "holm", "step_down_maxt"]

_TIE = 1e-12


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Return Holm's step-down adjusted p-values.

    `max over i <= j of (m - i + 1) p_(i)`, capped at 1. Controls the family-wise error under any
    dependence (Holm 1979, doi:10.2307/4615733).

    Parameters
    ----------
    p_values
        Shape (m,), each between 0 and 1.

    Returns
    -------
    numpy.ndarray
        Shape (m,), in the order of the input.

    Raises
    ------
    InferenceError
        Empty, nan, or outside [0, 1].
    """
    p, order = _sorted(p_values)
    m = p.size
    stepped = np.maximum.accumulate((m - np.arange(m)) * p)
    return _restore(stepped, order)


def hochberg(p_values: npt.ArrayLike) -> FloatArray:
    """Return Hochberg's step-up adjusted p-values.

    `min over i >= j of (m - i + 1) p_(i)`. Controls the family-wise error for independent or positively
    dependent tests (Hochberg 1988, doi:10.1093/biomet/75.4.800). Shapes and errors as for `holm`.
    """
    p, order = _sorted(p_values)
    m = p.size
    return _restore(_step_up((m - np.arange(m)) * p), order)


def benjamini_hochberg(p_values: npt.ArrayLike) -> FloatArray:
    """Return Benjamini and Hochberg's adjusted p-values.

    `min over i >= j of m p_(i) / i`. Controls the false discovery rate for independent or positively
    dependent tests (1995, doi:10.1111/j.2517-6161.1995.tb02031.x). Shapes and errors as for `holm`.
    """
    p, order = _sorted(p_values)
    m = p.size
    return _restore(_step_up(m * p / np.arange(1, m + 1)), order)


def benjamini_yekutieli(p_values: npt.ArrayLike) -> FloatArray:
    """Return Benjamini and Yekutieli's adjusted p-values.

    As `benjamini_hochberg`, times `sum_{i=1..m} 1/i`: any dependence (2001, doi:10.1214/aos/1013699998).
    Shapes and errors as for `holm`.
    """
    p, order = _sorted(p_values)
    m = p.size
    ranks = np.arange(1, m + 1)
    return _restore(_step_up(m * float((1.0 / ranks).sum()) * p / ranks), order)


def _sorted(p_values: npt.ArrayLike) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    matrix = finite_matrix(p_values, "p-values")
    if matrix.shape[1] != 1:
        raise InferenceError(f"p-values have shape {matrix.shape}; one dimension is wanted.")
    p = matrix[:, 0]
    if float(p.min()) < 0.0 or float(p.max()) > 1.0:
        raise InferenceError(f"p-values range from {p.min()!r} to {p.max()!r}; 0 to 1 is wanted.")
    order = np.argsort(p, kind="stable")
    return p[order], order


def _step_up(values: FloatArray) -> FloatArray:
    stepped: FloatArray = np.minimum.accumulate(values[::-1])[::-1]
    return stepped


def _restore(ordered: FloatArray, order: npt.NDArray[np.intp]) -> FloatArray:
    result = np.empty_like(ordered)
    result[order] = np.minimum(ordered, 1.0)
    return result


def step_down_maxt(observed: npt.ArrayLike, null: npt.ArrayLike) -> FloatArray:
    """Return step-down maxT adjusted p-values from joint null replicates.

    Hypotheses are taken from the largest statistic down; each is compared with the maximum, in every
    replicate, over the hypotheses not yet passed (Westfall and Young 1993, algorithm 4.1). The joint
    replicates carry the dependence, so it is sharper than Holm and controls the family-wise error under
    subset pivotality.

    Parameters
    ----------
    observed
        Statistics, shape (m,); large values speak against the null. For a claim "theta > c" use
        `(theta - c) / se`: a test against 0 finds effects too small to mean anything.
    null
        Replicates under the null, shape (b, m); from a shared plan `(theta* - theta) / se*`.

    Returns
    -------
    numpy.ndarray
        Shape (m,), in the order of the input: `(1 + #{max* >= observed}) / (b + 1)`, made monotone. Ties
        within 1e-12 of the largest magnitude count as extreme. Never 0.

    Raises
    ------
    InferenceError
        Empty, nan or inf, or the numbers of hypotheses differ.
    """
    statistics = finite_matrix(observed, "observed statistics")[:, 0]
    replicates = finite_matrix(null, "null replicates")
    if np.ndim(observed) != 1 or replicates.shape[1] != statistics.size:
        raise InferenceError(
            f"length mismatch: {np.shape(observed)} observed statistics, null replicates of shape "
            f"{replicates.shape}."
        )
    slack = _TIE * max(float(np.abs(statistics).max()), float(np.abs(replicates).max()))
    return step_down(statistics, replicates, slack)


def step_down(statistics: FloatArray, replicates: FloatArray, slack: float | FloatArray) -> FloatArray:
    """Return step-down adjusted p-values, shapes (m,) and (b, m) to (m,); replicates may be infinite, never nan.

    A replicate counts as extreme from `slack` below the statistic on, one number or one per hypothesis; one of inf
    counts always.
    """
    order = np.argsort(-statistics, kind="stable")
    # Column j: the maximum over hypotheses j, j+1, ... in the order of the observed statistics.
    successive = np.maximum.accumulate(replicates[:, order[::-1]], axis=1)[:, ::-1]
    exceed = (successive >= (statistics - slack)[order]).sum(axis=0)
    adjusted = np.maximum.accumulate((1.0 + exceed) / (replicates.shape[0] + 1.0))
    return _restore(adjusted, order)
