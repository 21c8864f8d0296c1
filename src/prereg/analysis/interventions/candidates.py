"""Which features are tested: chosen on training prompts that no dictionary has seen, never on held-out ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prereg.analysis.frame import Floats, Indices
from prereg.analysis.interventions.sources import Prompts, Source
from prereg.errors import AnalysisError

__all__ = ["Candidates", "choose", "eligible"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The m tested features of one update, by rank.

    Parameters
    ----------
    features
        (m,) their numbers in the dictionary.
    effects
        (m,) mean effect of removing each on the fresh training prompts where it is active, nats, descending.
    prompts, subjects
        (m,) how many such prompts there are, of how many subjects.
    norms
        (m,) mean norm of the contribution on them, raw units.
    """

    features: Indices
    effects: Floats
    prompts: Indices
    subjects: Indices
    norms: Floats


def eligible(source: Source, prompts: Prompts, min_subjects: int, wanted: int) -> Indices:
    """Return the features active on `min_subjects` fresh training subjects, ascending.

    Raises
    ------
    AnalysisError
        If there are fewer than `wanted`: the size of the tested family is part of the promise.
    """
    found = np.flatnonzero(_subjects(source, prompts) >= min_subjects)
    if len(found) < wanted:
        n_subjects = len({prompts.subjects[p] for p in prompts.fresh_training})
        raise AnalysisError(
            f"update {source.update}: {len(found)} of {source.n_features} features are active on {min_subjects} or "
            f"more of the {n_subjects} training subjects that no dictionary has seen; wanted {wanted} candidates",
            remedy="before registration, lower `candidates` or `min_subjects`, or train the dictionaries on fewer "
            "of the study's own subjects",
        )
    return found


def choose(source: Source, prompts: Prompts, pool: Indices, effects: Floats, wanted: int) -> Candidates:
    """Rank by mean effect where active, and keep the first.

    Parameters
    ----------
    source, prompts
        The features and where they are active.
    pool
        (p,) eligible features.
    effects
        (n_fresh_training, p) effect of removing each, nats; 0 where it isn't active.
    wanted
        How many to keep. Of equal ones, the lower number comes first.
    """
    norms = source.norms[np.ix_(prompts.fresh_training, pool)]
    cases = np.count_nonzero(norms > 0.0, axis=0)
    means = effects.sum(axis=0) / cases
    first = np.lexsort((pool, -means))[:wanted]
    return Candidates(
        features=pool[first],
        effects=means[first],
        prompts=cases[first],
        subjects=_subjects(source, prompts)[pool[first]],
        norms=(norms.sum(axis=0) / cases)[first],
    )


def _subjects(source: Source, prompts: Prompts) -> Indices:
    """Return (F,): on how many fresh training subjects each feature is active."""
    active = source.norms[prompts.fresh_training] > 0.0
    names = np.array([prompts.subjects[p] for p in prompts.fresh_training])
    counts = np.zeros(source.n_features, dtype=np.intp)
    for name in np.unique(names):
        counts += active[names == name].any(axis=0)
    return counts
