"""One band's kernel: fit on the band's updates, evaluated on all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from prereg.activations.view import UpdateSet
from prereg.analysis.frame import (
    BASELINES,
    Floats,
    Frame,
    Indices,
    centre,
    square_norms,
    training_power,
)
from prereg.analysis.primal import PrimalFit, fit_primal
from prereg.analysis.settings import Order, Penalties
from prereg.analysis.threads import one_thread
from prereg.errors import AnalysisError
from prereg.workers import Arrays

__all__ = ["fit_band"]


@one_thread
def fit_band(
    *,
    band: UpdateSet,
    updates: UpdateSet,
    first: int,
    stream: Sequence[np.ndarray],
    frame: Frame,
    folds: Indices,
    order: Order,
    penalties: Penalties,
) -> Arrays:
    """Fit one kernel on `band`, scaled and raw, and evaluate it on `updates`.

    Parameters
    ----------
    band, updates
        Where the kernel is fit, and where it is evaluated.
    first, stream
        v[first], v[first+1], ... in canonical order, (n, d_model) each.
    frame, folds
        The prompts, and the training prompts' folds.
    order, penalties
        The kernel's order, and its candidates.

    Returns
    -------
    Arrays
        ``sse``, ``sse_raw``, ``sst``, ``sst.<baseline>``, ``sst.raw`` (n_updates, n_held_out); ``choice``,
        ``choice_raw`` as `Choice.as_row`; ``rounding`` (2,).

    Raises
    ------
    AnalysisError
        If an update doesn't vary within strata.
    """
    resid = [np.asarray(v, dtype=np.float64) for v in stream]
    raw = {first + i: after - before for i, (before, after) in enumerate(pairwise(resid))}
    needed = {layer - j for layer in updates for j in range(order + 1)}
    centred = {i: centre(raw[i], frame.strata, frame.n_train) for i in sorted(needed)}
    rms = {layer: _training_rms(layer, raw[layer], centred[layer], frame) for layer in centred}
    scaled = {layer: values / rms[layer] for layer, values in centred.items()}
    fit, fit_raw = (_fit(deltas, band, frame, folds, order, penalties) for deltas in (scaled, centred))
    results: dict[str, np.ndarray] = {
        "sse": _errors(fit, scaled, updates, frame, order),
        "sse_raw": _errors(fit_raw, centred, updates, frame, order),
        "choice": fit.choice.as_row(),
        "choice_raw": fit_raw.choice.as_row(),
        "rounding": np.array([fit.rounding, fit_raw.rounding]),
    }
    results["sst.raw"] = np.stack([square_norms(centred[i][frame.n_train :]) for i in updates])
    results["sst"] = np.stack([square_norms(scaled[i][frame.n_train :]) for i in updates])
    for name in BASELINES:
        totals = [frame.totals(raw[layer])[f"sst.{name}"] / rms[layer] ** 2 for layer in updates]
        results[f"sst.{name}"] = np.stack(totals)
    return results


def _training_rms(layer: int, raw: Floats, centred: Floats, frame: Frame) -> float:
    power = training_power(raw, centred, frame)
    if power is None:
        raise AnalysisError(
            f"update {layer} is the same for all training prompts of a {frame.baseline}: "
            "it has no scale to be divided by",
            remedy="let the update sets named in `bands` begin later",
        )
    return float(np.sqrt(power))


def _features(deltas: dict[int, Floats], layer: int, order: int) -> Floats:
    return np.concatenate([deltas[layer - j] for j in range(1, order + 1)], axis=1)


def _fit(
    deltas: dict[int, Floats],
    band: UpdateSet,
    frame: Frame,
    folds: Indices,
    order: Order,
    penalties: Penalties,
) -> PrimalFit:
    n_train = frame.n_train
    features = np.concatenate([_features(deltas, layer, order)[:n_train] for layer in band])
    targets = np.concatenate([deltas[layer][:n_train] for layer in band])
    strata = frame.strata[:n_train]
    # An intercept for every update and stratum: a band's kernel is judged on what varies between prompts.
    groups = np.concatenate([strata + i * (strata.max() + 1) for i in range(len(band))])
    return fit_primal(features, targets, groups, np.tile(folds, len(band)), penalties)


def _errors(
    fit: PrimalFit, deltas: dict[int, Floats], updates: UpdateSet, frame: Frame, order: Order
) -> Floats:
    errors = []
    for layer in updates:
        features = _features(deltas, layer, order)[frame.n_train :]
        errors.append(square_norms(deltas[layer][frame.n_train :] - features @ fit.weights))
    return np.stack(errors)
