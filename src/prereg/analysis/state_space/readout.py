"""The readout of one update from its own codes: PL, and the residuals that a state has to explain.

PL is the ridge of delta[l] on z[l]. Its penalty is chosen by leaving out one training subject at a time. PL(r) is the
minimiser of the same penalised criterion among maps of rank r, which is the truncated SVD of the fit with the penalty
written as further rows (Mukherjee and Zhu 2011, doi:10.1002/sam.10138): with H the smoother, the map is
projected on the r leading eigenvectors of Y'HY.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from prereg.analysis.frame import Floats, Indices, centre
from prereg.analysis.ridge import Choice
from prereg.analysis.settings import Penalties
from prereg.analysis.state_space.banded import LeftOut, choose_path, remainder
from prereg.analysis.state_space.sources import Target
from prereg.analysis.threads import one_thread
from prereg.workers import Arrays

__all__ = ["errors_of", "finite_strength", "leading", "read_out"]


@one_thread
def read_out(
    *,
    kernel: Floats,
    target: Target,
    strata: Indices,
    subjects: Indices,
    penalties: Penalties,
    ranks: Sequence[int],
) -> Arrays:
    """Fit PL and its truncations at one update.

    Parameters
    ----------
    kernel
        (n, n_train), of this update's codes.
    target
        This update's.
    strata, subjects
        (n_train,) numbers.
    penalties
        Relative finite candidates.
    ranks
        Ranks to truncate to.

    Returns
    -------
    Arrays
        ``choice`` as `Choice.as_row`; ``sse.full``, ``sse.<rank>`` (n_held_out,), in the targets' units; ``gram``
        (n_train, n_train), inner products of the leave-one-subject-out residuals, centred by stratum.
    """
    n_train = kernel.shape[1]
    square, cross = kernel[:n_train], kernel[n_train:]
    left_out = LeftOut.of(strata, subjects)
    choice = choose_path(square, target.training, penalties, left_out).choice
    strength = choice.penalty * float(np.trace(square)) / n_train
    y = target.training
    results: dict[str, np.ndarray] = {"choice": choice.as_row()}
    if math.isinf(choice.penalty):
        missed = left_out.errors(np.eye(n_train), y)
        dual = np.zeros_like(y)
        captured = np.zeros((y.shape[1], y.shape[1]))
    else:
        left = remainder(square, strength)
        missed = left_out.errors(left, y)
        residual = left @ y
        dual = residual / strength
        captured = y.T @ (y - residual)
    predicted = cross @ dual
    results["sse.full"] = errors_of(target, predicted)
    basis = leading(captured, max(ranks))
    for rank in ranks:
        kept = basis[:, :rank]
        results[f"sse.{rank}"] = errors_of(target, (predicted @ kept) @ kept.T)
    missed = centre(missed, strata, n_train)
    results["gram"] = missed @ missed.T
    return results


def errors_of(target: Target, predicted: Floats) -> Floats:
    """Return the full-dimensional squared error of each held-out prompt, for (n_held_out, q) predictions."""
    missed = target.held_out - predicted @ target.isometry.T
    errors: Floats = np.einsum("ij,ij->i", missed, missed)
    return errors


def leading(captured: Floats, rank: int) -> Floats:
    """Return the leading eigenvectors of a symmetric (q, q) matrix, the largest first, (q, min(rank, q))."""
    size = len(captured)
    first = max(0, size - rank)
    vectors = scipy.linalg.eigh(
        (captured + captured.T) / 2, subset_by_index=(first, size - 1), check_finite=False
    )[1]
    return np.ascontiguousarray(vectors[:, ::-1], dtype=np.float64)


def finite_strength(choice: Choice, penalties: Sequence[float], kernel: Floats) -> float:
    """Return the absolute penalty of the codes beside a state.

    The readout's own; where that one predicts nothing at all, the largest finite candidate, so that the
    state may still enter. Codes without spread have no unit: theirs is 1, as that of a state is.
    """
    n_train = kernel.shape[1]
    unit = float(np.trace(kernel[:n_train])) / n_train
    penalty = penalties[-1] if math.isinf(choice.penalty) else choice.penalty
    return penalty * (unit if unit > 0.0 else 1.0)
