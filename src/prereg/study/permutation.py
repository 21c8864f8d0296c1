"""Refit permutation tests: the observed fit against the same fit on permuted data, refitted each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prereg.errors import EvidenceError
from prereg.evidence import Evidence
from prereg.inference import monte_carlo_p_value
from prereg.protocol import Permutation
from prereg.study.frames import Frame
from prereg.study.records import PermutationResult

__all__ = ["permutation_results"]


def permutation_results(
    promise: Permutation, evidence: Evidence, frame: Frame, update_sets: Mapping[str, Sequence[int]]
) -> tuple[PermutationResult, ...]:
    """Test the registered fit over each registered set of updates.

    The statistic is the mean over updates of the held-out R2; a draw permutes the data, refits with its own choice
    of penalty, and is scored on the same held-out prompts. ``p = (b + 1) / (draws + 1)``, ties counted as
    extreme.

    Raises
    ------
    EvidenceError
        If the draws were not measured, or not for every update.
    """
    if "draws" not in evidence.side:
        raise EvidenceError(f"{frame.name}: no refitted draws were measured")
    columns = evidence.side["draws"].to_pydict()
    rows = np.array([fit == promise.null_fit for fit in columns["fit"]])
    if not rows.any():
        raise EvidenceError(f"{frame.name}: no draws of {promise.null_fit!r} were measured")
    draw, update = np.asarray(columns["draw"])[rows], np.asarray(columns["update"])[rows]
    r2 = 1.0 - np.asarray(columns["sse"])[rows] / np.asarray(columns["sst"])[rows]
    results = []
    for name in promise.updates:
        at = update_sets[name]
        sst, sse = frame.at("sst", at), frame.at(f"sse.{promise.fit}", at)
        observed = float(np.mean(1.0 - sse.sum(axis=0) / sst.sum(axis=0)))
        inside = np.isin(update, at)
        draws = np.array([r2[inside & (draw == d)] for d in np.unique(draw)])
        if draws.shape[1:] != (len(at),):
            raise EvidenceError(f"{frame.name}: draws of {promise.null_fit!r} lack updates of {name!r}")
        null = draws.mean(axis=1)
        results.append(
            PermutationResult(
                name,
                observed,
                float(null.max()),
                monte_carlo_p_value(observed, null),
                len(null),
                promise.alpha,
            )
        )
    return tuple(results)
