"""A linear classifier for few prompts: discriminant analysis with a shrunken covariance.

Classes share one covariance, estimated from the residuals within classes and shrunk towards a multiple of the
identity by as much as Ledoit and Wolf's formula says (2004, doi:10.1016/S0047-259X(03)00096-4), with the class
means taken as known. Coordinates are whitened first, so that no change of a state's basis moves a prediction.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from prereg.analysis.frame import Floats, Indices

__all__ = ["classify", "principal", "shrunken_covariance", "whitened"]

VOID = 1e-10
"""Share of the largest variance below which a direction is rounding."""


def shrunken_covariance(residuals: Floats) -> tuple[Floats, float]:
    """Return the shrunken covariance (q, q) of n rows of mean zero, and how much of it is the identity's share.

    With S the second moment, m = tr(S) / q, d^2 = |S - m I|^2 and b^2 = min(d^2, sum_i |x_i x_i' - S|^2 / n^2), the
    share is b^2 / d^2 and the result (1 - share) S + share m I.
    """
    n, q = residuals.shape
    second = residuals.T @ residuals / n
    mean = float(np.trace(second)) / q
    distance = float(np.sum((second - mean * np.eye(q)) ** 2))
    lengths = np.einsum("ij,ij->i", residuals, residuals)
    spread = (float(np.sum(lengths**2)) / n - float(np.sum(second**2))) / n
    share = min(spread, distance) / distance if distance > 0.0 else 1.0
    shrunken: Floats = (1.0 - share) * second + share * mean * np.eye(q)
    return shrunken, share


def classify(training: Floats, labels: Indices, new: Floats) -> Indices:
    """Return a label for each new row.

    Parameters
    ----------
    training
        (n, q).
    labels
        (n,) class numbers 0, 1, ...; each occurs.
    new
        (m, q).

    Returns
    -------
    Indices
        (m,). Of equal scores the class of the lowest number; without any spread within classes, or without
        coordinates, the most frequent class.
    """
    counts = np.bincount(labels)
    log_prior = np.log(counts / len(labels))
    scores = np.tile(log_prior, (len(new), 1))
    if training.shape[1]:
        sums = np.zeros((len(counts), training.shape[1]))
        np.add.at(sums, labels, training)
        means = sums / counts[:, None]
        covariance, _ = shrunken_covariance(training - means[labels])
        if float(np.trace(covariance)) > 0.0:
            directions = scipy.linalg.solve(covariance, means.T, assume_a="pos", check_finite=False)
            scores += new @ directions - 0.5 * np.einsum("kq,qk->k", means, directions)
    chosen: Indices = np.argmax(scores, axis=1)
    return chosen


def whitened(values: Floats, n_train: int) -> Floats:
    """Return (n, k) coordinates with identity second moment over the training rows, k at most q.

    Directions that training rows don't reach are left out: 0 columns where they are all zero.
    """
    moment = values[:n_train].T @ values[:n_train] / n_train
    variances, axes = scipy.linalg.eigh(moment, check_finite=False)
    kept = variances > VOID * max(float(variances[-1]), 0.0)
    white: Floats = (values @ axes[:, kept]) / np.sqrt(variances[kept])
    return white


def principal(kernel: Floats, size: int) -> Floats:
    """Return the (n, k) scores on the leading principal components of the training rows, k at most `size`.

    Parameters
    ----------
    kernel
        (n, n_train), of centred features; training rows first.
    size
        How many components.
    """
    n_train = kernel.shape[1]
    first = max(0, n_train - size)
    values, vectors = scipy.linalg.eigh(
        kernel[:n_train], subset_by_index=(first, n_train - 1), check_finite=False
    )
    kept = values > VOID * max(float(np.trace(kernel[:n_train])), 0.0)
    scores: Floats = (kernel @ vectors[:, kept]) / np.sqrt(values[kept])
    return np.ascontiguousarray(scores[:, ::-1])
