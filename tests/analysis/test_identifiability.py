"""H5: the same features from different seeds, told from chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prereg.analysis.dictionaries import Dictionary, Library
from prereg.analysis.identifiability import (
    IdentifiabilitySettings,
    compare,
    fit_names,
    matched_cosines,
    measure,
)
from prereg.errors import AnalysisError
from prereg.workers import Workers
from tests.analysis.dictionaries import worlds
from tests.analysis.dictionaries.worlds import SETTINGS

WORLD = worlds.world()
ASKED = IdentifiabilitySettings(updates="all", kinds=("topk", "l1"), close=0.9, null_draws=2, null_seed=1)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Three seeds of each kind of the planted world."""
    settings = SETTINGS.model_copy(update={"seeds": (1, 2, 5), "steps": 600})
    return Library.open(tmp_path_factory.mktemp("shelf"), WORLD, settings, identity="store")


@pytest.fixture(scope="module")
def evidence(library: Library):
    return measure(WORLD, ASKED, Workers(), dictionaries=library)


def values(evidence, name: str) -> np.ndarray:
    found: np.ndarray = evidence.table[f"value.{name}"].to_numpy()
    return found


def unit(seed: int, n: int = 20, d: int = 50) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Fixed:
    """A library of given directions."""

    def __init__(self, directions: dict[tuple[str, int, int], np.ndarray]) -> None:
        self.directions = directions

    def dictionary(self, kind, seed: int, update: int) -> Dictionary:
        D = self.directions[kind, seed, update]
        return Dictionary(kind, 2, D, np.zeros(len(D)), D, np.zeros(D.shape[1]), 1.0)


def compared(one: np.ndarray, other: np.ndarray, live_one=None, live_other=None) -> dict[str, float]:
    """Compare two dictionaries under seeds 1 and 2; another update holds something else."""
    shelf = Fixed({("topk", 1, 0): one, ("topk", 2, 0): other, ("topk", 2, 1): unit(99, *other.shape)})
    live = {
        ("topk", 1, 0): np.ones(len(one), bool) if live_one is None else live_one,
        ("topk", 2, 0): np.ones(len(other), bool) if live_other is None else live_other,
        ("topk", 2, 1): np.ones(len(other), bool),
    }
    settings = ASKED.model_copy(update={"kinds": ("topk",)})
    found = compare(library=shelf, live=live, settings=settings, pairs=[(1, 2)], update=0, distant=1)
    return {name: float(value[0]) for name, value in found.items()}


def test_planted_features_are_found_again_by_other_seeds(evidence) -> None:
    """Matched cosines are above 0.9 at every update and pair, and far above what chance gives."""
    for kind in ("topk", "l1"):
        assert values(evidence, f"{kind}_cosine").mean() > 0.9
        assert np.all(values(evidence, f"{kind}_cosine") > values(evidence, "null_cosine") + 0.2)
        assert values(evidence, f"{kind}_share").mean() > 0.6
    assert np.all(values(evidence, "null_share") < 0.05)


def test_rows_are_pairs_of_seeds_and_updates(evidence) -> None:
    """Three pairs at two updates, each once; every column is a fit that a contrast may name."""
    pairs = list(zip(evidence.table["prompt"].to_pylist(), evidence.table["update"].to_pylist(), strict=True))
    assert sorted(pairs) == sorted((f"seeds {p}", u) for p in ("1-2", "1-5", "2-5") for u in (0, 1))
    assert evidence.table["subject"].to_pylist() == evidence.table["prompt"].to_pylist()
    assert set(evidence.fits) == fit_names(ASKED)
    assert all(np.isfinite(values(evidence, name)).all() for name in evidence.fits)
    assert all(check.passed for check in evidence.checks)
    assert evidence.side["features"].num_rows == 2 * 3 * 2


def test_the_order_of_features_does_not_matter() -> None:
    """A dictionary and itself in another order are one."""
    found = compared(unit(1), unit(1)[np.random.default_rng(3).permutation(20)])
    assert found["topk_cosine"] == pytest.approx(1.0)
    assert found["topk_share"] == 1.0


def test_an_opposite_direction_is_another_feature() -> None:
    """Activations are not negative, so -d does not do what d does."""
    found = compared(unit(1), -unit(1))
    assert found["topk_cosine"] < 0.5
    assert found["topk_share"] == 0.0


def test_unrelated_dictionaries_are_no_closer_than_the_null() -> None:
    """The null is matched as well: matching alone lifts cosines above zero."""
    found = compared(unit(1), unit(2))
    assert abs(found["topk_cosine"] - found["null_cosine"]) < 0.05
    assert found["null_cosine"] > 0.15


def test_dead_features_are_left_out_of_the_primary_values() -> None:
    """They keep their random start; over all features they count as what they are, unmatched."""
    one, other = unit(1), unit(1)
    other[:5] = unit(7)[:5]
    live = np.arange(20) >= 5
    found = compared(one, other, live, live)
    assert found["topk_cosine"] == pytest.approx(1.0)
    assert found["topk_cosine_all"] < 0.95


def test_greedy_matching_would_find_less() -> None:
    """One-to-one matching of the largest sum, not each feature's nearest neighbour."""
    e = np.eye(3)
    one = np.stack([e[0], (e[0] + 0.5 * e[1]) / np.sqrt(1.25)])
    other = np.stack([(e[0] + 0.2 * e[1]) / np.sqrt(1.04), e[2]])
    cosines = one @ other.T
    assert cosines.argmax(axis=1).tolist() == [0, 0]
    assert matched_cosines(one, other).sum() == pytest.approx(
        max(cosines[0, 0] + cosines[1, 1], cosines[0, 1] + cosines[1, 0])
    )


@pytest.mark.parametrize(("one", "other"), [(unit(1)[:0], unit(1)), (unit(1), unit(1, d=49))])
def test_nothing_to_match_is_refused(one: np.ndarray, other: np.ndarray) -> None:
    """No features, or features of another model."""
    with pytest.raises(AnalysisError, match="to match"):
        matched_cosines(one, other)


def test_one_seed_or_one_update_can_not_be_compared(tmp_path: Path, library: Library) -> None:
    """Identifiability is between dictionaries."""
    alone = Library.open(tmp_path, WORLD, SETTINGS.model_copy(update={"seeds": (1,)}), identity="store")
    with pytest.raises(AnalysisError, match="two or more"):
        measure(WORLD, ASKED, Workers(), dictionaries=alone)
    with pytest.raises(AnalysisError, match="two or more"):
        measure(WORLD, ASKED.model_copy(update={"updates": "one"}), Workers(), dictionaries=library)


def test_two_workers_find_what_one_finds(library: Library, evidence) -> None:
    """Every value, to the last bit."""
    again = measure(WORLD, ASKED, Workers(jobs=2), dictionaries=library)
    assert again.table.equals(evidence.table)


@pytest.mark.parametrize(("allowed", "passed"), [(0.9, True), (1e-6, False)])
def test_kinds_that_are_not_equally_sparse_are_not_compared(
    library: Library, allowed: float, passed: bool
) -> None:
    """L1 has TopK's L0 where codes are read, as nearly as registered, or the comparison is void."""
    settings = library.settings.model_copy(update={"l0_tolerance": allowed})
    other = Library.open(library.folder, WORLD, settings, identity="store")
    found = {check.name: check for check in measure(WORLD, ASKED, Workers(), dictionaries=other).checks}
    assert found["l0_matched"].passed is passed
    one = measure(WORLD, ASKED.model_copy(update={"kinds": ("topk",)}), Workers(), dictionaries=other)
    assert "l0_matched" not in {check.name for check in one.checks}
