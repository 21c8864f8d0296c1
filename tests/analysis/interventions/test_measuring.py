"""The causal test finds what was planted, and nothing where nothing is."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prereg.activations.view import Activations
from prereg.analysis.interventions import InterventionSettings, fit_names, measure
from prereg.analysis.interventions.continuation import Continuation
from prereg.errors import ActivationsError, AnalysisError
from prereg.evidence import Evidence
from prereg.workers import Workers
from tests.analysis.interventions.fakes import FakeLibrary, loaded
from tests.analysis.interventions.planted import (
    IDLE,
    SEEN,
    SETTINGS,
    UPDATE,
    WIRED,
    activations,
    directions,
    library,
    model,
    reordered,
)


def run(
    found: Activations | None = None,
    settings: InterventionSettings = SETTINGS,
    workers: Workers | None = None,
    dictionaries: FakeLibrary | None = None,
) -> Evidence:
    """Measure the planted model."""
    return measure(
        found or activations(),
        settings,
        workers or Workers(),
        dictionaries=dictionaries or library(),
        model=loaded(model()),
    )


@cache
def planted() -> Evidence:
    """Return its evidence, measured once."""
    return run()


def column(evidence: Evidence, name: str) -> np.ndarray:
    """Return one column."""
    found: np.ndarray = evidence.table[name].to_numpy()
    return found


def mean(evidence: Evidence, fit: str) -> float:
    """Return a fit's number as a contrast takes it."""
    return float(column(evidence, f"value.{fit}").sum() / column(evidence, f"cases.{fit}").sum())


def fit_of(evidence: Evidence, feature: int) -> str:
    """Return the fit under which a feature was tested."""
    side = evidence.side["candidates"]
    return str(side["fit"].to_pylist()[side["feature"].to_pylist().index(feature)])


def same(one: Evidence, other: Evidence, tolerance: float) -> None:
    """Demand the same numbers for the same prompts."""
    assert one.table.column_names == other.table.column_names
    where = np.argsort(one.table["prompt"].to_numpy(zero_copy_only=False))
    there = np.argsort(other.table["prompt"].to_numpy(zero_copy_only=False))
    for name in one.table.column_names:
        if name.startswith(("value.", "cases.")):
            np.testing.assert_allclose(
                column(one, name)[where], column(other, name)[there], rtol=0, atol=tolerance
            )


def test_wired_feature_is_found() -> None:
    """It ranks first, its removal costs over a nat, a random direction of its norm and an idle feature next to none."""
    evidence = planted()
    assert fit_of(evidence, WIRED) == "feature_000"
    effect = mean(evidence, "feature_000")
    assert effect > 1.0
    assert abs(mean(evidence, "feature_000_random")) < 0.2 * effect
    assert abs(mean(evidence, fit_of(library_of_idle(), IDLE))) < 0.2 * effect
    assert mean(evidence, "feature_000_matched") < 0.5 * effect


@cache
def library_of_idle() -> Evidence:
    """Return evidence in which every feature is a candidate, the idle one too."""
    return run(settings=SETTINGS.model_copy(update={"candidates": 12, "min_subjects": 1}))


def test_idle_feature_is_idle() -> None:
    """A feature as strong as the wired one, which the head doesn't read, moves the answer by far less."""
    evidence = library_of_idle()
    assert abs(mean(evidence, fit_of(evidence, IDLE))) < 0.15 * mean(evidence, fit_of(evidence, WIRED))


def test_group_and_reconstruction() -> None:
    """The group holds the wired feature and beats its random directions; so does the whole reconstruction."""
    evidence = planted()
    assert mean(evidence, "group") > 1.0
    assert abs(mean(evidence, "group_random")) < 0.3 * mean(evidence, "group")
    assert mean(evidence, "group_matched") < 0.5 * mean(evidence, "group")
    assert column(evidence, "value.all_features").mean() > 1.0
    assert column(evidence, "value.reconstruction").mean() > 1.0


def test_table_speaks_of_held_out_prompts() -> None:
    """Its rows are the held-out prompts, its fits those promised, and no value stands where there is no case."""
    evidence = planted()
    found = activations()
    assert evidence.table["prompt"].to_pylist() == [
        p for p, out in zip(found.prompts, found.held_out, strict=True) if out
    ]
    assert set(evidence.table["update"].to_pylist()) == {UPDATE}
    assert set(evidence.fits) == fit_names(SETTINGS)
    for name in evidence.table.column_names:
        if name.startswith("value."):
            assert np.isfinite(column(evidence, name)).all()
        if name.startswith("cases."):
            cases = column(evidence, name)
            assert set(cases.tolist()) <= {0.0, 1.0}
            assert not column(evidence, name.replace("cases.", "value."))[cases == 0.0].any()
    assert [check.name for check in evidence.checks if check.passed] == [
        "continuation_parity",
        "stream_recomputed",
    ]
    assert evidence.side["parity"].num_rows == 10


def test_effects_are_those_of_the_raw_stream() -> None:
    """Taking the update's own component out by hand, in a whole pass, costs what the table says (the scale undone)."""
    evidence, found = planted(), activations()
    way = Continuation(model(), batch_rows=1)
    held_out = np.flatnonzero(found.held_out)
    delta = found.update(UPDATE)
    assert found.tokens is not None
    assert found.answer_ids is not None
    compared = 0
    for rank, feature in enumerate(evidence.side["candidates"]["feature"].to_pylist()):
        row = directions()[feature]
        for place in np.flatnonzero(column(evidence, f"cases.feature_{rank:03d}"))[:4]:
            at = held_out[place]
            ids, answer = found.tokens.ids[at], int(found.answer_ids[at])
            clean = way.whole_pass(ids, answer, UPDATE, np.zeros_like(row))
            gone = way.whole_pass(ids, answer, UPDATE, (delta[at] @ row) * row)
            assert column(evidence, f"value.feature_{rank:03d}")[place] == pytest.approx(
                clean - gone, abs=1e-5
            )
            assert column(evidence, "value.clean")[place] == pytest.approx(clean, abs=1e-5)
            compared += 1
    assert compared > 10


def test_batches_order_and_workers_do_not_matter() -> None:
    """Another batch size, and another order of the prompts, change rounding alone; the number of workers nothing."""
    wanted = planted()
    same(run(settings=SETTINGS.model_copy(update={"batch_rows": 7})), wanted, 1e-5)
    order = np.random.default_rng(1).permutation(len(activations().prompts))
    same(run(reordered(activations(), order)), wanted, 1e-5)
    same(run(workers=Workers(jobs=3)), wanted, 0.0)


def test_two_updates_stand_side_by_side() -> None:
    """Each registered update has its own candidates and rows, and the same numbers as alone."""
    both = run(settings=SETTINGS.model_copy(update={"updates": ("later", "wired")}))
    assert both.table["update"].to_pylist()[:4] == [1, 2, 1, 2]
    mask = both.table["update"].to_numpy() == UPDATE
    alone = planted()
    np.testing.assert_allclose(
        column(both, "value.feature_000")[mask], column(alone, "value.feature_000"), rtol=0, atol=1e-5
    )
    assert both.side["candidates"].num_rows == 12


def changed_answers(which: np.ndarray) -> Activations:
    """Return the same prompts, some of them with another answer."""
    found = activations()
    assert found.answer_ids is not None
    return replace(found, answer_ids=np.where(which, 200, found.answer_ids))


def test_candidates_come_from_fresh_training_prompts() -> None:
    """The answers of held-out prompts, and of those that trained the dictionaries, have no say in who is tested."""
    found = activations()
    seen = np.array([s in SEEN for s in found.subjects])
    chosen = ("feature", "training_effect", "training_prompts", "training_subjects", "training_norm")
    wanted = planted().side["candidates"].select(chosen)
    for which in (found.held_out, seen):
        assert run(changed_answers(which)).side["candidates"].select(chosen).equals(wanted)
    other = run(changed_answers(~found.held_out & ~seen)).side["candidates"].select(chosen)
    assert not other.equals(wanted)


def test_candidates_are_ranked_and_active_enough() -> None:
    """Mean training effects descend, and each candidate is active on the registered number of subjects."""
    side = planted().side["candidates"].to_pydict()
    assert side["training_effect"] == sorted(side["training_effect"], reverse=True)
    assert min(side["training_subjects"]) >= SETTINGS.min_subjects
    assert side["rank"] == list(range(6))
    assert min(side["held_out_prompts"]) > 0


def test_finished_work_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption only what had not finished is computed again, and the numbers are the same."""
    workers = Workers(checkpoint=tmp_path)
    wanted = run(workers=workers)
    reads: list[int] = []
    real = Continuation.read

    def counting(self: Continuation, *args: Any) -> Any:
        reads.append(1)
        return real(self, *args)

    monkeypatch.setattr(Continuation, "read", counting)
    same(run(workers=workers), wanted, 0.0)
    assert not reads
    next(tmp_path.glob("interventions-effects-*-0001.npz")).unlink()
    same(run(workers=workers), wanted, 0.0)
    assert reads


def test_wrong_continuation_fails_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A continuation that forgets the prefix is caught by the comparison with whole passes."""
    from prereg.analysis.interventions import continuation

    real = continuation._rows_of

    def forgetful(prefix: Any, rows: Any, first: int) -> Any:
        cache = real(prefix, rows, first)
        for layer in cache.layers[first:]:
            if rows is not None and layer.get_seq_length() > 0:
                layer.values = layer.values * 0.5
        return cache

    monkeypatch.setattr(continuation, "_rows_of", forgetful)
    checks = {check.name: check.passed for check in run().checks}
    assert checks == {"continuation_parity": False, "stream_recomputed": True}


def test_other_prompts_fail_their_check() -> None:
    """Where the model reads other prompts than were captured, the stream is another, and the check says so."""
    found = activations()
    assert found.tokens is not None
    moved = replace(found, tokens=replace(found.tokens, selected=np.roll(found.tokens.selected, 1)))
    checks = {check.name: check.passed for check in run(moved).checks}
    assert checks["stream_recomputed"] is False


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"updates": ("pair",)}, "has 2 updates"),
        ({"updates": ("wired", "again")}, "each once"),
        ({"updates": ("nowhere",)}, "no update set"),
        ({"kind": "l1"}, "no l1 dictionaries of seed 7"),
        ({"seed": 8}, "no topk dictionaries of seed 8"),
        ({"min_subjects": 17}, "wanted 6 candidates"),
        ({"candidates": 13}, "wanted 13 candidates"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict[str, Any], said: str) -> None:
    """Settings that these activations can't serve are refused in words."""
    with pytest.raises(AnalysisError, match=said):
        run(settings=SETTINGS.model_copy(update=changes))


@pytest.mark.parametrize("missing", ["tokens", "answer_ids"])
def test_tokens_and_answers_are_needed(missing: str) -> None:
    """Activations of the readout position alone are refused."""
    with pytest.raises(AnalysisError, match="token ids and its answer"):
        run(replace(activations(), **{missing: None}))


def test_dictionaries_must_be_fresh() -> None:
    """A dictionary that has seen a held-out prompt, or every training one, is refused."""
    with pytest.raises(AnalysisError, match="held-out prompts were among those"):
        run(dictionaries=library(seen=frozenset({"s40"})))
    with pytest.raises(AnalysisError, match="none is left"):
        run(dictionaries=library(seen=frozenset(f"s{i:02d}" for i in range(32))))


def test_model_must_be_the_captured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of another depth, or in training mode, is refused."""
    other = replace(loaded(model()), n_layers=4)
    with pytest.raises(AnalysisError, match="another model was captured"):
        measure(activations(), SETTINGS, Workers(), dictionaries=library(), model=other)
    monkeypatch.setattr(model(), "training", True)
    with pytest.raises(ActivationsError, match="training mode"):
        run()


def test_importing_it_does_not_import_torch() -> None:
    """Reading settings, as every command does, is cheap."""
    code = "import sys, prereg.analysis.interventions; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
