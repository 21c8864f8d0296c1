"""What `measure` says about dictionaries, and when its checks fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from prereg.analysis.dictionaries import DictionarySettings, Library, fit_names, measure
from prereg.analysis.frame import Frame
from prereg.errors import AnalysisError
from prereg.workers import Workers
from tests.analysis.dictionaries import worlds
from tests.analysis.dictionaries.worlds import BRIEF, SETTINGS

WORLD = worlds.world()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory):
    """The planted world's dictionaries, and what they explain."""
    shelf = Library.open(tmp_path_factory.mktemp("shelf"), WORLD, SETTINGS, identity="store")
    return shelf, measure(WORLD, SETTINGS, Workers(), dictionaries=shelf)


def checks(evidence) -> dict[str, bool]:
    return {check.name: check.passed for check in evidence.checks}


def test_planted_updates_are_reconstructed(measured) -> None:
    """Held-out prompts of subjects never seen: most of their variance, and all checks pass."""
    _, evidence = measured
    for fit in fit_names(SETTINGS):
        r2 = 1 - evidence.table[f"sse.{fit}"].to_numpy().sum() / evidence.table["sst"].to_numpy().sum()
        assert r2 > (0.8 if fit.startswith("topk") else 0.6), fit
    assert all(checks(evidence).values()), evidence.checks


def test_the_fits_are_those_that_a_contrast_may_name(measured) -> None:
    """One for each kind and seed."""
    _, evidence = measured
    assert set(evidence.fits) == fit_names(SETTINGS) == {"topk_1", "topk_2", "l1_1", "l1_2"}


def test_errors_are_those_of_raw_updates(measured) -> None:
    """Row by row, |delta - decode(codes(delta))|^2 of the prompt it names."""
    shelf, evidence = measured
    dictionary = shelf.dictionary("topk", 2, 1)
    delta = WORLD.update(1)
    missed = np.square(dictionary.decode(dictionary.codes(delta)) - delta).sum(axis=1)
    rows = evidence.table.filter(np.asarray(evidence.table["update"]) == 1)
    wanted = [missed[WORLD.prompts.index(p)] for p in rows["prompt"].to_pylist()]
    assert np.allclose(rows["sse.topk_2"].to_numpy(), wanted)
    frame = Frame.of(WORLD, "template")
    total = frame.totals(delta[frame.rows])["sst.template"].sum()
    assert rows["sst"].to_numpy().sum() == pytest.approx(total)


def test_side_tables_name_every_dictionary(measured) -> None:
    """One row each with L0 here and there, and the points of every curve."""
    _, evidence = measured
    rows = evidence.side["dictionaries"].to_pylist()
    assert len(rows) == 2 * 2 * worlds.N_LAYERS
    assert all(row["l0_held_out"] <= SETTINGS.k for row in rows if row["kind"] == "topk")
    assert len({row["tensors"] for row in rows}) == len(rows)
    curves = evidence.side["training"].to_pylist()
    assert {(r["kind"], r["seed"], r["update"]) for r in curves} == {
        (r["kind"], r["seed"], r["update"]) for r in rows
    }


def test_thin_strata_fail_their_check(measured) -> None:
    """The others still pass."""
    shelf, _ = measured
    name = "baseline_support"
    settings = SETTINGS.model_copy(update={"min_stratum_prompts": 1000})
    other = Library.open(shelf.folder, WORLD, settings, identity="store")
    found = checks(measure(WORLD, settings, Workers(), dictionaries=other))
    assert not found.pop(name)
    assert all(found.values())


def test_dead_features_fail_their_check(tmp_path: Path) -> None:
    """A dictionary far wider than the truth leaves features unused, and more than allowed."""
    settings = BRIEF.model_copy(
        update={
            "width": 400,
            "steps": 150,
            "auxiliary_weight": 0.0,
            "max_dead_share": 0.0,
            "learning_rate": 0.1,
        }
    )
    shelf = Library.open(tmp_path, WORLD, settings, identity="store")
    assert not checks(measure(WORLD, settings, Workers(), dictionaries=shelf))["features_alive"]


def test_training_on_a_fresh_prompts_readout_fails_its_check(tmp_path: Path) -> None:
    """A library that a careless hand gave a held-out readout row is told from an honest one."""
    shelf = Library.open(tmp_path, WORLD, BRIEF, identity="store")
    held_out = int(WORLD.tokens.selected[np.flatnonzero(WORLD.held_out)[0]])
    rows = np.append(shelf.selection.rows, (held_out + 1) * worlds.LENGTH - 1)
    shelf.selection = replace(shelf.selection, rows=rows, readout=np.append(shelf.selection.readout, True))
    assert not checks(measure(WORLD, BRIEF, Workers(), dictionaries=shelf))["fresh_prompts"]


def test_a_held_out_prompt_that_counts_as_seen_fails_its_check(tmp_path: Path) -> None:
    """Held-out prompts must be fresh, every one."""
    shelf = Library.open(tmp_path, WORLD, BRIEF, identity="store")
    fresh = shelf.selection.fresh & (np.cumsum(WORLD.held_out) != 1)
    shelf.selection = replace(shelf.selection, fresh=fresh)
    assert not checks(measure(WORLD, BRIEF, Workers(), dictionaries=shelf))["fresh_prompts"]


def test_dictionaries_that_explain_nothing_fail_their_check(tmp_path: Path) -> None:
    """Noise without structure is reconstructed worse than its mean by a dictionary trained on other noise."""
    rng = np.random.default_rng(0)
    stream = WORLD.tokens.stream.copy()
    shift = rng.standard_normal(worlds.D_MODEL).astype(np.float32) * 100
    resid = WORLD.resid.copy()
    resid[1:] += shift
    # Readouts of the study lie elsewhere than the tokens that trained.
    other = replace(WORLD, resid=resid, tokens=replace(WORLD.tokens, stream=stream))
    shelf = Library.open(tmp_path, other, BRIEF, identity="store")
    assert not checks(measure(other, BRIEF, Workers(), dictionaries=shelf))["dictionaries_explain"]


def test_another_studys_library_is_refused(tmp_path: Path) -> None:
    """The settings that are reported must be those that trained."""
    shelf = Library.open(tmp_path, WORLD, BRIEF, identity="store")
    with pytest.raises(AnalysisError, match="other settings"):
        measure(WORLD, SETTINGS, Workers(), dictionaries=shelf)


@pytest.mark.parametrize(
    "change",
    [
        {"kinds": ("l1",)},
        {"kinds": ()},
        {"kinds": ("topk", "topk")},
        {"seeds": ()},
        {"seeds": (1, 1)},
        {"k": 32},
        {"share": 1.0},
        {"learning_rate": float("inf")},
    ],
    ids=str,
)
def test_settings_that_can_not_be_kept_are_refused(change: dict[str, object]) -> None:
    """L1 alone, nothing at all, one thing twice, a code that isn't sparse, everybody, no number."""
    with pytest.raises(ValidationError):
        DictionarySettings(**{**SETTINGS.model_dump(), **change})


def test_the_protocol_names_every_value() -> None:
    """No setting has a default."""
    assert all(field.is_required() for field in DictionarySettings.model_fields.values())
