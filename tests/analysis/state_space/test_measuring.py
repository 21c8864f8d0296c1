"""H3's measurement as a whole."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from prereg.analysis import state_space
from prereg.analysis.state_space import StateSpaceSettings, fit_names
from prereg.analysis.state_space.settings import readout_rank
from prereg.errors import AnalysisError
from prereg.workers import Workers
from tests.analysis.state_space import planted
from tests.analysis.state_space.planted import D_MODEL, FIRST, N_LAYERS, SETTINGS, F, KnownLibrary, r2

SYSTEM = planted.System.draw(1)
BOTH = SETTINGS.model_copy(update={"kinds": ("topk", "l1")})
ACTIVATIONS, LIBRARY = planted.world(SYSTEM, n_subjects=72)
NAMES = {"ssm", "readout_rank", "readout_parameters", "ssm_full", "readout_full"}


def measure(settings=SETTINGS, activations=ACTIVATIONS, library=LIBRARY, workers=None, *, twin=False):
    return state_space.measure(activations, settings, workers or Workers(), dictionaries=library, twin=twin)


@pytest.fixture(scope="module")
def evidence():
    """Both kinds, on a world with a path."""
    return measure(BOTH)


def test_the_table_holds_the_fits_that_a_contrast_may_name(evidence) -> None:
    """`fit_names` and the columns agree, for the model and for a twin, and every prompt has every update."""
    assert set(evidence.fits) == fit_names(BOTH)
    twin = measure(BOTH, twin=True)
    assert set(twin.fits) == fit_names(BOTH, twin=True) == NAMES
    assert evidence.table.num_rows == ACTIVATIONS.held_out.sum() * (N_LAYERS - FIRST)
    for fit in NAMES:
        assert evidence.table[f"sse.{fit}"].equals(twin.table[f"sse.{fit}"])


def test_all_checks_pass_and_say_what_they_saw(evidence) -> None:
    """Penalties, weights, subjects, strata, and codes of unseen prompts."""
    assert {c.name for c in evidence.checks} == {
        "penalty_interior",
        "state_weights_reach",
        "subjects_apart",
        "baseline_support",
        "codes_unseen",
    }
    assert all(check.passed for check in evidence.checks), evidence.checks


def test_a_grid_of_weights_that_ends_too_early_fails_its_check() -> None:
    """Where the largest weight still gains, the state is held back by the grid."""
    short = measure(SETTINGS.model_copy(update={"state_weights": (0.0, 1e-4, 1e-3)}), twin=True)
    (check,) = [c for c in short.checks if c.name == "state_weights_reach"]
    assert not check.passed
    assert "still gaining more than 0.01: topk ssm at update 2" in check.detail


def test_a_path_gains_and_its_shuffled_null_does_not(evidence) -> None:
    """Past codes of another prompt, everything refit, explain nothing beyond the readout."""
    assert r2(evidence, "ssm_full") > r2(evidence, "readout_full") + 0.2
    assert r2(evidence, "ssm") > r2(evidence, "readout_rank") + 0.2
    assert abs(r2(evidence, "ssm_full_shuffled") - r2(evidence, "readout_full")) < 0.01
    assert abs(r2(evidence, "ssm_shuffled") - r2(evidence, "readout_rank")) < 0.01


def test_sums_of_squares_are_those_of_the_raw_updates(evidence) -> None:
    """SST is the distance from the relation's mean over fresh training prompts, in the stream's own units."""
    delta = ACTIVATIONS.update(FIRST)
    relations = np.array(ACTIVATIONS.relations)
    wanted = {}
    for i in np.flatnonzero(ACTIVATIONS.held_out):
        mean = delta[~ACTIVATIONS.held_out & (relations == relations[i])].mean(axis=0)
        wanted[ACTIVATIONS.prompts[i]] = np.sum((delta[i] - mean) ** 2)
    for row in evidence.table.to_pylist():
        if row["update"] == FIRST:
            assert row["sst"] == pytest.approx(wanted[row["prompt"]])
            assert row["sst"] == row["sst.relation"]


def test_neither_workers_nor_the_order_of_prompts_move_a_bit(evidence) -> None:
    """Two processes, or the prompts listed backwards, give the same table."""
    again = measure(BOTH, workers=Workers(jobs=2))
    assert again.table.equals(evidence.table)
    assert again.side["memory"].equals(evidence.side["memory"])
    order = np.arange(len(ACTIVATIONS.prompts))[::-1]
    labels = {n: getattr(ACTIVATIONS, n)[::-1] for n in ("prompts", "subjects", "relations", "templates")}
    turned = replace(
        ACTIVATIONS, held_out=ACTIVATIONS.held_out[order], resid=ACTIVATIONS.resid[:, order], **labels
    )
    back = measure(activations=turned, library=KnownLibrary(LIBRARY.codes[:, order], turned))
    columns = ["prompt", "update", "sse.ssm", "sse.ssm_full", "sse.ssm_shuffled"]
    keys = [("prompt", "ascending"), ("update", "ascending")]
    wanted = evidence.table.select(columns).sort_by(keys)
    assert back.table.select(columns).sort_by(keys).equals(wanted)


def test_only_prompts_that_no_dictionary_saw_are_used() -> None:
    """Seen training prompts change nothing, whatever they hold; a seen held-out prompt is refused."""
    seen = ~ACTIVATIONS.held_out & np.array([int(s[1:]) % 6 == 0 for s in ACTIVATIONS.subjects])
    found = measure(library=KnownLibrary(LIBRARY.codes, ACTIVATIONS, seen=seen), twin=True)
    resid = ACTIVATIONS.resid.copy()
    resid[:, seen] = np.random.default_rng(1).standard_normal(resid[:, seen].shape)
    changed = replace(ACTIVATIONS, resid=resid)
    again = measure(activations=changed, library=KnownLibrary(LIBRARY.codes, changed, seen=seen), twin=True)
    assert again.table.equals(found.table)
    assert not found.table["sse.ssm"].equals(measure(twin=True).table["sse.ssm"])
    with pytest.raises(AnalysisError, match="held-out prompts were seen by a dictionary"):
        measure(library=KnownLibrary(LIBRARY.codes, ACTIVATIONS, seen=ACTIVATIONS.held_out))
    with pytest.raises(AnalysisError, match=r"0 training subject\(s\) that no dictionary has seen"):
        measure(library=KnownLibrary(LIBRARY.codes, ACTIVATIONS, seen=~ACTIVATIONS.held_out))


def test_codes_that_are_constant_within_a_relation_are_no_source() -> None:
    """Where templates end in one token z[0] differs by rounding alone: it is dropped, not blown up to unit size."""
    codes = LIBRARY.codes.copy()
    relation = np.array([int(r[1:]) for r in ACTIVATIONS.relations])
    codes[0] = (1.0 + relation)[:, None] + 1e-11 * codes[0]
    found = measure(library=KnownLibrary(codes, ACTIVATIONS), twin=True)
    rows = found.side["path"].to_pylist()
    assert {row["energy"] for row in rows if row["source"] == 0} == {0.0}
    assert any(row["energy"] > 0.0 for row in rows if row["source"] == 1)


def test_updates_before_the_registered_set_are_sources_only() -> None:
    """Targets, futures and rows begin where the set does; what happened before may be anything."""
    resid = ACTIVATIONS.resid.copy()
    jump = np.random.default_rng(2).standard_normal(resid[0].shape).astype(np.float32) * 50
    resid[:FIRST] += jump
    changed = replace(ACTIVATIONS, resid=resid)
    again = measure(activations=changed, library=KnownLibrary(LIBRARY.codes, changed), twin=True)
    late = [f"sse.{fit}" for fit in sorted(NAMES)]
    table, plain = again.table, measure(twin=True).table
    keep = table["update"].to_numpy() > FIRST
    assert min(table["update"].to_pylist()) == FIRST
    # The jump ends in update FIRST - 1, whose codes the library knows by prompt: they have not changed.
    for name in late:
        np.testing.assert_allclose(table[name].to_numpy()[keep], plain[name].to_numpy()[keep], rtol=1e-4)


def test_the_parameter_matched_readout_has_the_registered_rank(evidence) -> None:
    """N + r + ceil(n^2 / (F + d)): 2 + 3 + 1 here; at n = r = 32, F = 512 and d = 576 it is 65."""
    assert readout_rank(2, 3, F, D_MODEL) == 6
    assert readout_rank(32, 32, 512, 576) == 65
    assert (
        r2(evidence, "readout_rank")
        < r2(evidence, "readout_parameters")
        <= r2(evidence, "readout_full") + 0.05
    )


def test_side_tables_tell_penalties_weights_states_and_spectrum(evidence) -> None:
    """One row for each fit and update; readouts have no state and so no weight."""
    rows = evidence.side["fits"].to_pylist()
    assert len(rows) == len(fit_names(BOTH)) * (N_LAYERS - FIRST)
    assert all(
        (row["state_weight"] is None) == ("readout" in row["fit"] or "shuffled" in row["fit"]) for row in rows
    )
    found = {(row["update"], row["fit"]): row["r2"] for row in rows}
    mean = np.mean([found[layer, "ssm"] for layer in range(FIRST, N_LAYERS)])
    assert mean == pytest.approx(r2(evidence, "ssm"))
    assert evidence.side["states"].num_rows == 2 * (N_LAYERS - 1)
    assert evidence.side["spectrum"].num_rows == (N_LAYERS - 1) * (2 + 2)
    memory = evidence.side["memory"].to_pylist()
    assert {row["groups"] for row in memory} == {10}
    assert all(row["se"] > 0 for row in memory if row["quantity"] == "memory_energy")
    assert {row["se"] for row in measure(twin=True).side["memory"].to_pylist()} == {None}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"updates": "from_zero"}, "wanted 1 to"),
        ({"updates": "nowhere"}, "no update set is called"),
        ({"max_gap": 7}, "lower `max_gap`|no update up to"),
        ({"jackknife_groups": 100}, "training subjects for 100 folds"),
        ({"folds": 100}, "training subjects for 100 folds"),
    ],
)
def test_settings_that_the_world_can_not_meet_are_refused(change, match) -> None:
    """Each says what was found and what would do."""
    with pytest.raises(AnalysisError, match=match):
        measure(SETTINGS.model_copy(update=change))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"penalties": [0.1, 1.0]}, "at least three penalties"),
        ({"state_weights": [0.1, 1.0]}, "wanted 0 first"),
        ({"kinds": []}, "at least one kind"),
        ({"kinds": ["topk", "topk"]}, "each value once"),
        ({"grid": [[8, 8], [8, 8]]}, "each value once"),
        ({"state": 0}, "greater than or equal to 1"),
        ({"unheard": 1}, "Extra inputs"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(change, match) -> None:
    """A protocol names every value, and each means something."""
    data = json.loads(SETTINGS.model_dump_json()) | change
    with pytest.raises(ValidationError, match=match):
        StateSpaceSettings.model_validate_json(json.dumps(data), strict=True)
    assert StateSpaceSettings.model_validate_json(SETTINGS.model_dump_json(), strict=True) == SETTINGS
