"""Which n functionals of the future a state has to predict: subspace identification, one update at a time.

Past codes (z[0..l-1], their kernels summed) and the codes of the first update ahead are regressed together on the
*future residuals*: what PL leaves, subject by subject left out, of the next `horizon` updates that have targets. The
past's share of the fit is decomposed (an oblique projection; Van Overschee and De Moor 1996, Subspace Identification
for Linear Systems, chapter 2; the time-varying form, with prompts as trajectories: Verhaegen and Yu 1995,
doi:10.1016/0005-1098(94)00091-3). Its leading right singular vectors V are a basis in the future's space. The basis is
fixed from then on; states are whatever predicts V' f, and are estimated anew.

There is always a basis, even where the past predicts nothing: whether a state is worth having is decided by
its weight in C, and a null that never came that far would not have tried.

Only Gram matrices are needed. With F the futures, E = F F', and C the map from futures to the past's share of the fit,
C F = U s V' gives F V = E C' U / s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from prereg.analysis.frame import Floats, Indices
from prereg.analysis.settings import Penalties
from prereg.analysis.state_space.banded import LeftOut, choose_path, remainder
from prereg.analysis.threads import one_thread
from prereg.workers import Arrays

__all__ = ["identify", "past_kernel", "window"]


def window(update: int, first: int, last: int, horizon: int) -> range:
    """Return the updates from which the state at `update` is identified: `horizon` of those with targets."""
    start = max(update, first)
    return range(start, min(start + horizon, last + 1))


def past_kernel(kernels: Sequence[Floats], update: int) -> Floats:
    """Return the summed training kernel of the codes before an update, (n_train, n_train)."""
    n_train = kernels[0].shape[1]
    total = np.zeros((n_train, n_train))
    for kernel in kernels[:update]:
        total += kernel[:n_train]
    return total


@one_thread
def identify(
    *,
    past: Floats,
    ahead: Floats,
    future: Floats,
    strata: Indices,
    subjects: Indices,
    penalties: Penalties,
    size: int,
) -> Arrays:
    """Find the functionals of the future that past codes predict best.

    Parameters
    ----------
    past, ahead
        (n_train, n_train) kernels of the past codes, and of the first update's in the window.
    future
        (n_train, n_train) Gram matrix of the future residuals, summed over the window.
    strata, subjects
        (n_train,) numbers.
    penalties
        Relative finite candidates.
    size
        How many functionals; those of smaller states are the first of them.

    Returns
    -------
    Arrays
        ``functionals`` (n_train, size): values of V' f, zeros where the past predicts less than `size` of them;
        ``spectrum`` (size,) singular values; ``choice`` as `Choice.as_row`.
    """
    n_train = len(past)
    kernel = past + ahead
    left_out = LeftOut.of(strata, subjects)
    choice = choose_path(kernel, _root(future), penalties, left_out, finite=True).choice
    functionals, spectrum = np.zeros((n_train, size)), np.zeros(size)
    if math.isfinite(choice.penalty) and float(np.trace(past)) > 0.0:
        strength = choice.penalty * float(np.trace(kernel)) / n_train
        solved = remainder(kernel, strength) / strength
        share = past @ solved
        squares, vectors = _largest(share @ future @ share.T, size)
        found = squares > max(float(squares[0]), 0.0) * n_train * np.finfo(np.float64).eps
        spectrum[: len(squares)] = np.sqrt(np.maximum(squares, 0.0))
        # The sign of a singular vector is nobody's choice: the largest entry is made positive.
        vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
        kept = np.flatnonzero(found)
        functionals[:, kept] = (future @ (share.T @ vectors[:, kept])) / spectrum[kept]
    return {"functionals": functionals, "spectrum": spectrum, "choice": choice.as_row()}


def _root(gram: Floats) -> Floats:
    """Return T with T T' = gram: futures in coordinates that keep every squared error."""
    values, vectors = scipy.linalg.eigh(gram, driver="evd", check_finite=False)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _largest(gram: Floats, size: int) -> tuple[Floats, Floats]:
    n = len(gram)
    values, vectors = scipy.linalg.eigh(
        (gram + gram.T) / 2, subset_by_index=(max(0, n - size), n - 1), check_finite=False
    )
    return values[::-1], vectors[:, ::-1]
