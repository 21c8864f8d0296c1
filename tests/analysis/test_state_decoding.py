"""Reading answers off states and codes, on streams that carry them where they were put."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from prereg.analysis import state_decoding
from prereg.analysis.state_decoding import FITS, StateDecodingSettings, fit_names
from prereg.analysis.state_space.candidates import Problem, within
from prereg.analysis.state_space.discriminant import classify, principal, shrunken_covariance, whitened
from prereg.errors import AnalysisError
from prereg.workers import Workers
from tests.analysis.state_space import planted
from tests.analysis.state_space.planted import N_LAYERS, F, KnownLibrary, System

SUBJECTS = 120
SHARED = {k: v for k, v in planted.SETTINGS.model_dump().items() if k in StateDecodingSettings.model_fields}
SETTINGS = StateDecodingSettings(
    **SHARED, kind="topk", relations=("elsewhere", "r0"), min_prompts=6, min_answers=3
)
ANSWER = np.array([(s // 6) % 3 for s in range(SUBJECTS) for _ in range(2)])


def world(system: System, where: tuple[int, ...]):
    """Return a stream in which the codes of some updates say a prompt's answer, and those of others nothing."""
    added = np.zeros((N_LAYERS, len(ANSWER), F))
    centres = 3.0 * np.random.default_rng(9).standard_normal((N_LAYERS, 3, F))
    for layer in where:
        added[layer] = centres[layer][ANSWER]
    activations, library = planted.world(system, n_subjects=SUBJECTS, added=added)
    answered = replace(activations, answers=tuple(f"a{i}" for i in ANSWER))
    return answered, KnownLibrary(library.codes, answered)


def measure(activations, library, settings=SETTINGS):
    return state_decoding.measure(activations, settings, Workers(), dictionaries=library)


def accuracy(evidence, fit: str, first: int = planted.FIRST) -> float:
    """Return the mean of a value over all rows from an update on."""
    table = evidence.table
    return float(table[f"value.{fit}"].to_numpy()[table["update"].to_numpy() >= first].mean())


@pytest.fixture(scope="module")
def carried():
    """The codes of update 1 say the answer; later ones don't, but the state remembers."""
    return measure(*world(System.draw(1, decay=0.95), (1,)))


def test_a_state_that_carries_the_answer_wins(carried) -> None:
    """It reads what codes of the same update can't."""
    assert accuracy(carried, "state") > 0.65
    for fit in ("pca", "pca_within", "codes"):
        assert accuracy(carried, fit) < 0.5


def test_codes_that_say_the_answer_win_where_nothing_was_said_before() -> None:
    """At the one update whose codes say it they are read; the state, which knows earlier codes only, can't tell."""
    evidence = measure(*world(System.draw(1), (N_LAYERS - 1,)))
    for fit in ("pca", "pca_within", "codes"):
        assert accuracy(evidence, fit, N_LAYERS - 1) > 0.85
    assert accuracy(evidence, "state", N_LAYERS - 1) < 0.5


def test_rows_are_those_of_held_out_candidates(carried) -> None:
    """One for each update and held-out prompt of the relation; every value is 0 or 1; names are those promised."""
    table = carried.table
    assert set(carried.fits) == fit_names(SETTINGS) == set(FITS)
    assert set(table["relation"].to_pylist()) == {"r0"}
    held_out = [s % 6 in (2, 3) and s % 2 == 0 for s in range(SUBJECTS)]
    assert table.num_rows == 2 * sum(held_out) * (N_LAYERS - planted.FIRST)
    for fit in FITS:
        assert set(table[f"value.{fit}"].to_pylist()) <= {0.0, 1.0}
    assert all(check.passed for check in carried.checks), carried.checks


def test_chance_is_the_most_frequent_training_answer(carried) -> None:
    """It is the same at every update, and right where that answer is the prompt's."""
    rows = carried.side["candidates"].to_pylist()
    best = max(rows, key=lambda row: (row["training"], row["answer"] == "a0"))
    found = carried.table
    per_update = {
        u: found["value.chance"].to_numpy()[found["update"].to_numpy() == u].mean()
        for u in set(found["update"].to_pylist())
    }
    assert len(set(per_update.values())) == 1
    asked = sum(row["held_out"] for row in rows)
    assert per_update[planted.FIRST] == pytest.approx(best["held_out"] / asked)
    assert carried.side["accuracy"].num_rows == N_LAYERS - planted.FIRST


def test_an_answer_with_too_few_training_prompts_is_no_candidate() -> None:
    """Its held-out prompts aren't asked either."""
    activations, library = world(System.draw(1), (1,))
    answers = list(activations.answers)
    rare = [i for i, s in enumerate(activations.subjects) if int(s[1:]) in (0, 8)]
    for i in rare:
        answers[i] = "rare"
    changed = replace(activations, answers=tuple(answers))
    evidence = measure(changed, KnownLibrary(library.codes, changed))
    assert {row["answer"] for row in evidence.side["candidates"].to_pylist()} == {"a0", "a1", "a2"}
    prompts = set(evidence.table["prompt"].to_pylist())
    assert "p0008-0" not in prompts
    assert "p0014-0" in prompts


def test_without_candidates_there_is_nothing_to_measure() -> None:
    """No relation, no answers, or too few prompts an answer: an error that says what was found."""
    activations, library = world(System.draw(1), (1,))
    with pytest.raises(AnalysisError, match="elsewhere: 0 candidates, 0 held-out"):
        measure(activations, library, SETTINGS.model_copy(update={"relations": ("elsewhere",)}))
    with pytest.raises(AnalysisError, match="4 answers with 6 fresh training prompts"):
        measure(activations, library, SETTINGS.model_copy(update={"min_answers": 4}))
    bare = replace(activations, answers=())
    with pytest.raises(AnalysisError, match="needs the prompts' answers"):
        measure(bare, KnownLibrary(library.codes, bare))


@pytest.mark.parametrize("relations", [[], ["r0", "r0"], [""]])
def test_relations_are_named_each_once(relations) -> None:
    """An empty list of relations asks nothing, and is refused."""
    data = json.loads(SETTINGS.model_dump_json()) | {"relations": relations}
    with pytest.raises(ValidationError):
        StateDecodingSettings.model_validate_json(json.dumps(data), strict=True)


def test_the_shrunken_covariance_follows_ledoit_and_wolf() -> None:
    """Written out sample by sample; white noise shrinks fully as samples grow few, structure hardly."""
    x = np.random.default_rng(1).standard_normal((12, 4)) * [1.0, 2.0, 0.5, 3.0]
    n, q = x.shape
    second = sum(np.outer(row, row) for row in x) / n
    mean = np.trace(second) / q
    distance = np.sum((second - mean * np.eye(q)) ** 2)
    spread = min(distance, sum(np.sum((np.outer(row, row) - second) ** 2) for row in x) / n**2)
    found, share = shrunken_covariance(x)
    assert share == pytest.approx(spread / distance)
    # scikit-learn 1.9.1, covariance.ledoit_wolf(x, assume_centered=True)
    assert share == pytest.approx(0.4275841713853324, rel=1e-12)
    assert found[0, 0] == pytest.approx(1.613008142156333, rel=1e-12)
    np.testing.assert_allclose(found, (1 - share) * second + share * mean * np.eye(q), atol=1e-12)
    assert shrunken_covariance(np.random.default_rng(2).standard_normal((8, 30)))[1] > 0.7
    assert shrunken_covariance(np.random.default_rng(3).standard_normal((4000, 3)) * [1, 5, 9])[1] < 0.02


def test_classes_are_told_apart_by_the_discriminant() -> None:
    """With equal spread it is the nearest mean, shifted by the priors; without coordinates the majority."""
    rng = np.random.default_rng(4)
    labels = np.repeat([0, 1], [30, 60])
    means = np.array([[0.0, 0.0], [4.0, 0.0]])
    x = means[labels] + rng.standard_normal((90, 2))
    new = np.array([[0.0, 1.0], [4.0, -1.0], [1.9, 0.0]])
    np.testing.assert_array_equal(classify(x, labels, new), [0, 1, 1])
    np.testing.assert_array_equal(classify(np.zeros((90, 0)), labels, np.zeros((2, 0))), [1, 1])
    np.testing.assert_array_equal(classify(np.zeros((90, 2)), labels, np.zeros((2, 2))), [1, 1])


def test_no_change_of_basis_moves_a_prediction() -> None:
    """States in other coordinates, invertibly mixed, are classified alike."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 60)
    x = rng.standard_normal((90, 4)) + np.eye(4)[np.concatenate([labels, rng.integers(0, 3, 30)])]
    mixed = x @ (rng.standard_normal((4, 4)) + 3 * np.eye(4))
    plain, moved = (classify(w[:60], labels, w[60:]) for w in (whitened(x, 60), whitened(mixed, 60)))
    np.testing.assert_array_equal(plain, moved)


def test_principal_scores_are_those_of_the_svd() -> None:
    """From the kernel alone, up to signs, held-out rows included; no more than there are."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((20, 6))
    x -= x[:15].mean(axis=0)
    axes = np.linalg.svd(x[:15], full_matrices=False)[2]
    found = principal(x @ x[:15].T, 3)
    np.testing.assert_allclose(np.abs(found), np.abs(x @ axes[:3].T), atol=1e-10)
    assert principal(x @ x[:15].T, 15).shape[1] == 6
    assert whitened(np.zeros((5, 2)), 3).shape == (5, 0)


def test_components_within_the_candidates_have_their_own_means() -> None:
    """The kernel of a problem's rows is centred by its own training rows' stratum means."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((9, 3))
    strata = np.array([0, 0, 1, 1, 0, 1, 0, 1, 0])
    problem = Problem("r", ("a",), np.array([0, 1, 2, 3, 6, 7]), 4, np.zeros(6, dtype=np.intp))
    kernel = x @ x[:6].T
    found = within(kernel, problem, strata)
    own = x[problem.rows].copy()
    codes = strata[problem.rows]
    for code in (0, 1):
        own[codes == code] -= own[:4][codes[:4] == code].mean(axis=0)
    np.testing.assert_allclose(found, own @ own[:4].T, atol=1e-12)
