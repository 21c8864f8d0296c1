"""What a state-space fit reads: codes of fresh prompts as kernels, and the updates they are to explain.

A dictionary knows its own training prompts better than any others; codes of those would carry that into a fit.
So only *fresh* prompts count, which no dictionary has seen: the training means, the fits and the folds come from
the fresh training prompts, the evaluation from the held-out ones. Codes and targets are centred by training stratum
means and divided by their training RMS, update by update. Our own definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from prereg.activations.view import Activations
from prereg.analysis.dictionaries.dictionary import Dictionary
from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.frame import Floats, Frame, centre, training_power
from prereg.analysis.state_space.banded import compressed
from prereg.errors import AnalysisError
from prereg.workers import Workers

__all__ = ["Codes", "Dictionaries", "Target", "code_kernel", "fresh_part", "read_codes", "target_of"]


class Dictionaries(Protocol):
    """What is asked of a `Library`."""

    def fresh(self, activations: Activations) -> npt.NDArray[np.bool_]:
        """Return which prompts no dictionary has seen, (n,)."""

    def ensure(self, wanted: Sequence[tuple[Kind, int, int]], workers: Workers) -> None:
        """Train what is missing of (kind, seed, update)."""

    def dictionary(self, kind: Kind, seed: int, update: int) -> Dictionary:
        """Return one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One update's targets.

    Parameters
    ----------
    training
        (n_train, q), centred and of unit mean squared length, in coordinates that keep every squared error.
    isometry
        (d_model, q): ``training @ isometry.T`` are the full-dimensional targets.
    held_out
        (n_held_out, d_model), centred by training means and in the same units.
    power
        Mean squared length of the raw centred training rows; 0 where they don't vary, and all targets are 0.
    """

    training: Floats
    isometry: Floats
    held_out: Floats
    power: float


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """The codes of one kind and seed.

    Parameters
    ----------
    kernels
        For each update from 0 on, (n, n_train): inner products of centred codes with the training ones; rows of unit
        mean squared length over the training prompts. Zeros where codes don't vary within strata.
    n_features
        F.
    """

    kernels: tuple[Floats, ...]
    n_features: int


def fresh_part(activations: Activations, dictionaries: Dictionaries) -> Activations:
    """Return the prompts that no dictionary has seen.

    Raises
    ------
    AnalysisError
        If a held-out prompt was seen, or too few training prompts are left to have two subjects.
    """
    fresh = np.asarray(dictionaries.fresh(activations), dtype=bool)
    seen = int((activations.held_out & ~fresh).sum())
    if seen:
        raise AnalysisError(
            f"{seen} held-out prompts were seen by a dictionary; wanted none, since a code knows the prompts its "
            "dictionary was trained on"
        )
    rows = np.flatnonzero(fresh)
    left = {activations.subjects[i] for i in rows if not activations.held_out[i]}
    if len(left) < 2:
        raise AnalysisError(
            f"{len(left)} training subject(s) that no dictionary has seen; wanted at least 2",
            remedy="lower `share` in [analyses.dictionaries]",
        )
    return select(activations, rows)


def select(activations: Activations, rows: npt.NDArray[np.intp]) -> Activations:
    """Return the prompts at some positions, in that order, without the other token positions."""
    labels: dict[str, Any] = {
        name: tuple(getattr(activations, name)[i] for i in rows)
        for name in ("prompts", "subjects", "relations", "templates", "answers")
        if getattr(activations, name)
    }
    ids = activations.answer_ids
    return replace(
        activations,
        held_out=activations.held_out[rows],
        resid=activations.resid[:, rows],
        answer_ids=None if ids is None else ids[rows],
        tokens=None,
        **labels,
    )


def read_codes(
    activations: Activations,
    frame: Frame,
    dictionaries: Dictionaries,
    kind: Kind,
    seed: int,
    last: int,
) -> Codes:
    """Encode every update up to `last`; the dictionaries are there already."""
    kernels = []
    n_features = 0
    for update in range(last + 1):
        dictionary = dictionaries.dictionary(kind, seed, update)
        n_features = dictionary.n_features
        kernels.append(code_kernel(dictionary.codes(activations.update(update)[frame.rows]), frame))
    return Codes(tuple(kernels), n_features)


def code_kernel(codes: Floats, frame: Frame) -> Floats:
    """Return the (n, n_train) kernel of (n, F) codes in canonical order; see `Codes`."""
    features = unit_codes(codes, frame)
    kernel: Floats = features @ features[: frame.n_train].T
    square = kernel[: frame.n_train]
    kernel[: frame.n_train] = (square + square.T) / 2
    return kernel


def unit_codes(codes: Floats, frame: Frame) -> Floats:
    """Return (n, F) codes centred by training stratum means and of unit training RMS; zeros where they don't vary."""
    centred = centre(codes, frame.strata, frame.n_train)
    power = training_power(codes, centred, frame)
    return np.zeros_like(centred) if power is None else centred / np.sqrt(power)


def target_of(delta: Floats, frame: Frame) -> Target:
    """Return the targets of (n, d_model) raw updates in canonical order."""
    centred = centre(delta, frame.strata, frame.n_train)
    power = training_power(delta, centred, frame)
    scaled = np.zeros_like(centred) if power is None else centred / np.sqrt(power)
    training, isometry = compressed(scaled[: frame.n_train])
    return Target(training, isometry, scaled[frame.n_train :], power or 0.0)
