"""The frame: one order, training means only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prereg.analysis.frame import Frame, centre, training_power
from prereg.errors import AnalysisError
from tests.analysis import planted

WORLD = planted.world(None)


def test_rows_are_training_then_held_out_each_sorted_by_prompt() -> None:
    """The canonical order doesn't depend on the order in which prompts are listed."""
    order = np.random.default_rng(0).permutation(len(WORLD.prompts))
    shuffled = planted.reordered(WORLD, order)
    frame, other = Frame.of(WORLD, "template"), Frame.of(shuffled, "template")

    names = [WORLD.prompts[i] for i in frame.rows]
    assert [shuffled.prompts[i] for i in other.rows] == names
    assert names == sorted(names[: frame.n_train]) + sorted(names[frame.n_train :])
    assert not WORLD.held_out[frame.rows[: frame.n_train]].any()
    assert WORLD.held_out[frame.rows[frame.n_train :]].all()


def test_a_template_is_one_within_its_relation() -> None:
    """Two relations that use the same template name have two strata."""
    assert Frame.of(WORLD, "template").names["template"] == ("r0/t0", "r0/t1", "r1/t0", "r1/t1")


def test_means_come_from_training_rows_alone() -> None:
    """Held-out values move neither the training rows nor the mean that is removed from held-out rows."""
    values = np.arange(12.0).reshape(6, 2)
    codes = np.array([0, 0, 1, 0, 1, 1])

    found = centre(values, codes, 3)

    np.testing.assert_array_equal(found[:3], [[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(found[3], values[3] - values[:2].mean(axis=0))
    np.testing.assert_array_equal(found[4:], values[4:] - values[2])


def test_a_held_out_stratum_without_training_prompts_is_refused() -> None:
    """A baseline that can't be computed is an error that names the stratum."""
    templates = tuple(
        "new" if p == "p02-0" else t for p, t in zip(WORLD.prompts, WORLD.templates, strict=True)
    )

    with pytest.raises(AnalysisError, match="r0/new"):
        Frame.of(replace(WORLD, templates=templates), "relation")


def test_a_prompt_that_stands_twice_is_refused() -> None:
    """Two rows of one prompt would be told apart by nothing."""
    with pytest.raises(AnalysisError, match="p00-0"):
        Frame.of(replace(WORLD, prompts=("p00-0", "p00-0", *WORLD.prompts[2:])), "template")


def test_rounding_is_not_variation() -> None:
    """Values that are constant within strata have no training power, small real ones do."""
    frame = Frame.of(WORLD, "template")
    constant = np.random.default_rng(0).standard_normal((4, 6))[frame.strata] * 1e3 + 0.1
    little = constant + 1e-4 * np.random.default_rng(1).standard_normal(constant.shape)

    assert training_power(constant, centre(constant, frame.strata, frame.n_train), frame) is None
    power = training_power(little, centre(little, frame.strata, frame.n_train), frame)
    assert power == pytest.approx(6e-8, rel=0.3)
