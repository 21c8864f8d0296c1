"""Folds: by subject, every stratum spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prereg.analysis.folds import subject_folds
from prereg.analysis.frame import Frame
from prereg.errors import AnalysisError
from tests.analysis import planted

WORLD = planted.world(None)


@pytest.mark.parametrize("seed", range(5))
def test_a_subject_is_in_one_fold_and_a_stratum_in_all(seed: int) -> None:
    """Folds keep subjects together, and each stratum is spread as evenly as it can be."""
    frame = Frame.of(WORLD, "template")
    folds = subject_folds(frame, 4, seed)

    training = frame.subjects[: frame.n_train]
    assert len(set(zip(training, folds.tolist(), strict=True))) == len(set(training))
    for code in range(4):
        counts = np.bincount(folds[frame.strata[: frame.n_train] == code], minlength=4)
        assert counts.tolist() == [4, 4, 4, 4]


def test_a_stratum_of_two_subjects_stands_in_two_folds() -> None:
    """Rare strata weigh most in the deal, so that their mean survives every fold."""
    rare = {"p00-0", "p04-0", "p02-0"}
    templates = tuple("rare" if p in rare else t for p, t in zip(WORLD.prompts, WORLD.templates, strict=True))
    frame = Frame.of(replace(WORLD, templates=templates), "template")

    for seed in range(10):
        folds = subject_folds(frame, 4, seed)
        of_rare = folds[
            [p for p in range(frame.n_train) if frame.names["template"][frame.strata[p]] == "r0/rare"]
        ]
        assert len(of_rare) == len(set(of_rare.tolist())) == 2


def test_a_stratum_of_one_subject_is_refused_by_name() -> None:
    """Its prompts could not be left out, and they may not silently drop out of the criterion."""
    templates = tuple(
        "odd" if p == "p00-0" else t for p, t in zip(WORLD.prompts, WORLD.templates, strict=True)
    )

    with pytest.raises(AnalysisError, match="r0/odd"):
        subject_folds(Frame.of(replace(WORLD, templates=templates), "template"), 4, 0)


def test_more_folds_than_subjects_are_refused() -> None:
    """An empty fold would leave nothing out."""
    with pytest.raises(AnalysisError, match="32 training subjects for 33 folds"):
        subject_folds(Frame.of(WORLD, "template"), 33, 0)


def test_the_seed_matters_and_is_all_that_matters() -> None:
    """One seed gives one deal; another seed another."""
    frame = Frame.of(WORLD, "template")

    np.testing.assert_array_equal(subject_folds(frame, 4, 1), subject_folds(frame, 4, 1))
    assert (subject_folds(frame, 4, 1) != subject_folds(frame, 4, 2)).any()
