"""Folds for choosing a penalty: by subject, on training prompts only, with every stratum spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prereg.analysis.frame import Frame, Indices
from prereg.errors import AnalysisError

__all__ = ["subject_folds"]


def subject_folds(frame: Frame, folds: int, seed: int) -> Indices:
    """Deal the training subjects into folds.

    Subjects are dealt in a seeded order; each goes where its strata are thinnest, a rare stratum weighing
    more than a common one. A stratum that stood in a single fold would lose its mean, and with it its
    leave-fold-out residuals, so a stratum of one training subject is refused rather than left out of the
    criterion: which prompts choose the penalty must not depend on such an accident. Our own definition.

    Parameters
    ----------
    frame
        The prompts; held-out ones are not looked at.
    folds
        How many folds, at least 2.
    seed
        Orders the subjects, which are sorted first.

    Returns
    -------
    Indices
        (n_train,) fold numbers, canonical order.

    Raises
    ------
    AnalysisError
        If there are fewer subjects than folds, or a stratum can't be spread over two folds.
    """
    strata = frame.strata[: frame.n_train]
    subjects = frame.subjects[: frame.n_train]
    names = sorted(set(subjects))
    if len(names) < folds:
        raise AnalysisError(
            f"{len(names)} training subjects for {folds} folds; wanted at least one subject a fold",
            remedy="lower `folds`, or add subjects to the facts",
        )
    number = {name: i for i, name in enumerate(names)}
    owner = np.array([number[s] for s in subjects], dtype=np.intp)
    weight = np.zeros((len(names), len(frame.names[frame.baseline])))
    np.add.at(weight, (owner, strata), 1.0)
    share = weight / np.maximum(weight.sum(axis=0), 1.0)
    chosen = _deal(share, np.random.default_rng([seed, 1]).permutation(len(names)), folds)
    _refuse_unspread(strata, chosen[owner], frame.names[frame.baseline])
    return chosen[owner]


def _deal(share: np.ndarray, shuffled: np.ndarray, folds: int) -> Indices:
    held = np.zeros((folds, share.shape[1]))
    chosen = np.empty(len(shuffled), dtype=np.intp)
    for subject in shuffled:
        # Where the subject's own strata are thinnest; among equals, the emptiest fold, then the first.
        crowding = np.round(held @ share[subject], 12)
        filling = np.round(held.sum(axis=1), 12)
        chosen[subject] = np.lexsort((np.arange(folds), filling, crowding))[0]
        held[chosen[subject]] += share[subject]
    return chosen


def _refuse_unspread(strata: Indices, folds: Indices, names: Sequence[str]) -> None:
    alone = [names[code] for code in np.unique(strata) if len(np.unique(folds[strata == code])) == 1]
    if alone:
        raise AnalysisError(
            f"training prompts of {', '.join(alone[:5])} come from too few subjects to stand in two "
            "folds: their mean can't be left out",
            remedy="leave that stratum out of the facts, or use the baseline 'relation'",
        )
