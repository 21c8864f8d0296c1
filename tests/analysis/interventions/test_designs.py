"""What is removed, and the controls that stand beside it, on a source made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from prereg.analysis.interventions import InterventionSettings, fit_names
from prereg.analysis.interventions.candidates import choose
from prereg.analysis.interventions.designs import Design, HeldOutDesigner, column_names
from prereg.analysis.interventions.sources import Prompts, Source
from tests.analysis.interventions.planted import SETTINGS

D_MODEL = 8


def source(codes: list[list[float]], update: int = 4) -> Source:
    """Return features along the axes, each of its own length."""
    found = np.array(codes)
    atoms = np.eye(D_MODEL)[: found.shape[1]] * np.arange(1.0, found.shape[1] + 1.0)[:, None]
    return Source(
        update,
        np.ones((len(found), D_MODEL), np.float32),
        found,
        atoms,
        found @ atoms + 0.5 * np.ones(D_MODEL),
    )


def designed(
    made: Source, features: list[int], prompt: int = 0, name: str = "p", **changes: int
) -> tuple[Design, dict[str, int]]:
    """Return a prompt's design, and its columns by name."""
    settings = SETTINGS.model_copy(update={"candidates": len(features), "group": 2, **changes})
    design = HeldOutDesigner(np.array(features), settings).design(made, prompt, name)
    return design, {fit: column for column, fit in enumerate(column_names(settings))}


def vectors(design: Design, column: int) -> list[np.ndarray]:
    """Return the removals that a column is the mean of."""
    rows = [(row, weight) for row, at, weight in design.shares if at == column]
    assert sum(weight for _, weight in rows) == pytest.approx(1.0)
    assert len({weight for _, weight in rows}) == 1
    return [design.removed[row] for row, _ in rows]


def test_features_group_and_reconstruction() -> None:
    """Each column removes what its name says."""
    made = source([[2.0, 0.0, 1.0, 0.5]])
    design, columns = designed(made, [2, 0, 1])
    axis = np.eye(D_MODEL)
    np.testing.assert_array_equal(vectors(design, columns["feature_000"]), [3.0 * axis[2]])
    np.testing.assert_array_equal(vectors(design, columns["feature_001"]), [2.0 * axis[0]])
    np.testing.assert_array_equal(vectors(design, columns["group"]), [3.0 * axis[2] + 2.0 * axis[0]])
    whole = 2.0 * axis[0] + 3.0 * axis[2] + 2.0 * axis[3]
    np.testing.assert_array_equal(vectors(design, columns["all_features"]), [whole])
    np.testing.assert_array_equal(vectors(design, columns["reconstruction"]), [whole + 0.5])


def test_inactive_feature_has_no_case() -> None:
    """A feature that isn't active, or a group of none that is, says nothing of the prompt, nor do its controls."""
    design, columns = designed(source([[2.0, 0.0, 0.0, 0.5]]), [1, 2, 0])
    absent = {"feature_000", "feature_001", "group"}
    for fit in absent | {f"{fit}_{control}" for fit in absent for control in ("random", "matched")}:
        assert columns[fit] not in design.cases
    assert columns["feature_002"] in design.cases


def test_random_directions_have_the_norm() -> None:
    """Random directions have the norm of what they stand for, are many, and are no two alike."""
    made = source([[2.0, 1.0, 1.0, 0.5]])
    design, columns = designed(made, [2, 0], random_draws=5, group_draws=9)
    for fit, norm, draws in (
        ("feature_000_random", 3.0, 5),
        ("feature_001_random", 2.0, 5),
        ("group_random", np.sqrt(13.0), 9),
    ):
        drawn = np.array(vectors(design, columns[fit]))
        assert drawn.shape == (draws, D_MODEL)
        np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), norm)
        assert len({tuple(vector) for vector in drawn}) == draws


def test_random_directions_are_isotropic() -> None:
    """Over many draws no axis is preferred."""
    design, columns = designed(source([[1.0, 1.0]]), [0, 1], random_draws=4000)
    drawn = np.array(vectors(design, columns["feature_000_random"]))
    np.testing.assert_allclose((drawn**2).mean(axis=0), 1.0 / D_MODEL, rtol=0.12)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.03)


def test_random_directions_depend_on_who_they_are_for() -> None:
    """Prompt, update, feature and seed each change them; place in a file and rank do not."""
    made = source([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])

    def first(
        features: list[int], of: Source = made, fit: str = "feature_000", **more: object
    ) -> tuple[float, ...]:
        design, columns = designed(of, features, **more)  # type: ignore[arg-type]
        vector = vectors(design, columns[f"{fit}_random"])[0]
        return tuple(vector / np.linalg.norm(vector))

    wanted = first([0, 1])
    assert first([0, 1], prompt=1) == wanted
    assert first([1, 0], fit="feature_001") == wanted
    others = {
        first([0, 1], name="q"),
        first([1, 0]),
        first([0, 1], source([[1.0, 1.0, 1.0]], update=5)),
        first([0, 1], random_seed=12),
        first([0, 1], fit="group"),
    }
    assert len(others | {wanted}) == 6


def test_matched_features_are_the_nearest() -> None:
    """Of the other active features those nearest in norm stand in, ties to the lower number."""
    # Norms: 4, 2, 0, 8, 1: feature 0 has 1 and 3 at a factor of two, and 4 at four.
    made = source([[4.0, 1.0, 0.0, 2.0, 0.2]])
    axis = np.eye(D_MODEL)
    design, columns = designed(made, [0, 2], matched_features=1)
    np.testing.assert_allclose(vectors(design, columns["feature_000_matched"]), [2.0 * axis[1]])
    design, columns = designed(made, [0, 2], matched_features=2)
    np.testing.assert_allclose(
        vectors(design, columns["feature_000_matched"]), [2.0 * axis[1], 8.0 * axis[3]]
    )


def test_lone_feature_has_no_match() -> None:
    """Where no other feature is active the matched control says nothing of the prompt."""
    design, columns = designed(source([[4.0, 0.0]]), [0, 1])
    assert columns["feature_000"] in design.cases
    assert columns["feature_000_matched"] not in design.cases
    assert columns["group_matched"] not in design.cases


def test_matched_group_is_apart() -> None:
    """Each active member has a stand-in of its own, none of the group; where one lacks, there is no case."""
    axis = np.eye(D_MODEL)
    # Norms: 4, 4, 6, 4, 10; the group is 0 and 1, both nearest to 3, which can stand in once.
    design, columns = designed(source([[4.0, 2.0, 2.0, 1.0, 2.0]]), [0, 1, 3])
    np.testing.assert_allclose(vectors(design, columns["group_matched"]), [4.0 * axis[3] + 6.0 * axis[2]])
    design, columns = designed(source([[4.0, 2.0, 2.0, 0.0, 0.0]]), [0, 1, 3])
    assert columns["group"] in design.cases
    assert columns["group_matched"] not in design.cases


def test_ties_go_to_the_lower_number() -> None:
    """Candidates of equal effect are ranked by number, and means are over the prompts where they are active."""
    made = source([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    prompts = Prompts(
        ("a", "b"), ("s", "t"), ((1,), (1,)), (1, 1), np.array([0, 1]), np.array([], dtype=np.intp)
    )
    chosen = choose(made, prompts, np.array([0, 1, 2]), np.array([[0.5, 1.0, 0.5], [0.5, 0.0, 0.5]]), 3)
    assert chosen.features.tolist() == [1, 0, 2]
    assert chosen.effects.tolist() == [1.0, 0.5, 0.5]
    assert chosen.prompts.tolist() == [1, 2, 2]
    assert chosen.norms.tolist() == [2.0, 1.0, 3.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"group": 7},
        {"updates": ()},
        {"updates": ("a", "a")},
        {"candidates": 0},
        {"random_draws": 0},
        {"parity_prompts": 0},
        {"parity_tolerance": 0.0},
        {"kind": "other"},
        {"unknown": 1},
    ],
)
def test_settings_are_closed(changes: dict[str, object]) -> None:
    """Values that mean nothing are refused."""
    with pytest.raises(ValidationError):
        InterventionSettings.model_validate(SETTINGS.model_dump() | changes)


def test_fit_names_are_those_of_a_twin_too() -> None:
    """Three context fits, and the group and each candidate with two controls each."""
    names = fit_names(SETTINGS)
    assert names == fit_names(SETTINGS, twin=True)
    assert len(names) == 3 + 3 * (1 + SETTINGS.candidates)
    assert {"feature_005_random", "group_matched", "clean"} <= names
