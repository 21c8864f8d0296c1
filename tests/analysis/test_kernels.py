"""H1's measurement, on streams whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest
from pydantic import ValidationError

from prereg.analysis import kernels
from prereg.analysis.frame import Frame, centre
from prereg.analysis.kernel_fits import block_kernel
from prereg.analysis.kernels import KernelSettings
from prereg.errors import AnalysisError
from prereg.workers import Workers
from tests.analysis import planted
from tests.analysis.planted import KERNELS

LINKED = planted.world(planted.rotations(1, same=False), noise=0.2)
UNLINKED = planted.world(None)


def columns(evidence) -> dict[str, np.ndarray]:
    """Return the evidence's numbers by column."""
    names = [n for n in evidence.table.column_names if n.startswith(("sst", "sse"))]
    return {n: evidence.table[n].to_numpy() for n in names}


def mean_r2(evidence, fit: str, updates=planted.SETS["late"]) -> float:
    """Return the mean over updates of 1 - SSE / SST."""
    found = []
    for layer in updates:
        rows = evidence.table.filter(pc.equal(evidence.table["update"], layer))
        found.append(1 - pc.sum(rows[f"sse.{fit}"]).as_py() / pc.sum(rows["sst"]).as_py())
    return float(np.mean(found))


@pytest.fixture(scope="module")
def linked():
    """Evidence where each update is a rotation of the one before, and a little noise."""
    return kernels.measure(LINKED, KERNELS, Workers())


@pytest.fixture(scope="module")
def unlinked():
    """Evidence where updates know nothing of each other."""
    return kernels.measure(UNLINKED, KERNELS, Workers())


def test_a_planted_kernel_is_recovered(linked) -> None:
    """The history explains all but the planted noise, and a longer history little more."""
    # delta has unit variance plus what noise adds per layer; 0.2^2 of it is new in each update.
    assert mean_r2(linked, "history_1") > 0.92
    assert abs(mean_r2(linked, "history_3") - mean_r2(linked, "history_1")) < 0.03
    assert mean_r2(linked, "running_sum") < mean_r2(linked, "history_1") - 0.1


def test_where_nothing_is_planted_nothing_is_explained(unlinked) -> None:
    """Held-out R2 stays near zero for every fit, whatever its order."""
    for fit in ("history_1", "history_2", "history_3", "running_sum", "running_sum_history_2"):
        assert -0.06 < mean_r2(unlinked, fit) < 0.06


def test_histories_that_carry_nothing_explain_nothing(linked) -> None:
    """Shuffled and Gaussian histories fall back on the baseline, even where the real one explains much."""
    assert abs(mean_r2(linked, "shuffled_history_1")) < 0.04
    assert abs(mean_r2(linked, "random_history_1")) < 0.06
    beside = mean_r2(linked, "running_sum_shuffled_history_1")
    assert beside < mean_r2(linked, "running_sum_history_1") - 0.1
    assert abs(beside - mean_r2(linked, "running_sum")) < 0.02


def test_a_history_beside_the_running_sum_has_a_weight_of_its_own(linked) -> None:
    """The weight of least cross-validation error is taken; a fixed one gives the sum of both kernels."""
    fixed = [
        kernels.measure(LINKED, KERNELS.model_copy(update={"history_weights": (w,)}), Workers(), twin=True)
        for w in (0.1, 1.0)
    ]
    scores = [{(r["update"], r["fit"]): r["cv_r2"] for r in e.side["fits"].to_pylist()} for e in fixed]
    for row in linked.side["fits"].to_pylist():
        if row["fit"] == "running_sum_history_1":
            alone = next(
                r["cv_r2"]
                for r in linked.side["fits"].to_pylist()
                if (r["update"], r["fit"]) == (row["update"], "running_sum")
            )
            wanted = dict(
                zip((0.0, 0.1, 1.0), (alone, *(s[row["update"], row["fit"]] for s in scores)), strict=True)
            )
            assert row["cv_r2"] == max(wanted.values())
            assert wanted[row["history_weight"]] == row["cv_r2"]
        elif row["fit"] != "running_sum_history_2":
            assert row["history_weight"] is None


@pytest.mark.parametrize("weight", [1.0, 0.09])
def test_the_kernel_of_both_is_their_weighted_sum(weight: float) -> None:
    """The joint fit is the ridge of the two blocks' scaled features, side by side."""
    evidence = kernels.measure(
        LINKED, KERNELS.model_copy(update={"history_weights": (weight,)}), Workers(), twin=True
    )
    frame = Frame.of(LINKED, "template")
    n = frame.n_train
    blocks = [
        centre(b[frame.rows], frame.strata, n) for b in (LINKED.resid[3].astype(float), LINKED.update(2))
    ]
    x = np.concatenate([b / np.sqrt(np.mean(np.sum(b[:n] ** 2, axis=1))) for b in blocks], axis=1)
    x[:, planted.D_MODEL :] *= np.sqrt(weight)
    y = centre(LINKED.update(3)[frame.rows], frame.strata, n)
    fit = next(
        r
        for r in evidence.side["fits"].to_pylist()
        if (r["update"], r["fit"]) == (3, "running_sum_history_1")
    )
    strength = fit["penalty"] * np.sum(x[:n] ** 2) / n
    weights = np.linalg.solve(x[:n].T @ x[:n] + strength * np.eye(x.shape[1]), x[:n].T @ y[:n])

    rows = evidence.table.filter(pc.equal(evidence.table["update"], 3))
    found = dict(zip(rows["prompt"].to_pylist(), rows["sse.running_sum_history_1"].to_pylist(), strict=True))
    wanted = np.sum((y[n:] - x[n:] @ weights) ** 2, axis=1)
    np.testing.assert_allclose([found[LINKED.prompts[i]] for i in frame.rows[n:]], wanted, rtol=1e-9)


def test_each_held_out_prompt_and_update_has_a_row(linked) -> None:
    """Rows follow the protocol's order; update 0 has no history and no row."""
    held_out = [p for p, out in zip(LINKED.prompts, LINKED.held_out, strict=True) if out]

    assert linked.table["prompt"].to_pylist() == [p for p in held_out for _ in range(1, 8)]
    assert linked.table["update"].to_pylist() == list(range(1, 8)) * len(held_out)


def test_baselines_are_distances_from_training_means_in_all_dimensions(linked) -> None:
    """Pitfall 5: SST is of the full-dimensional target; each baseline's mean is the training prompts'."""
    row = linked.table.filter(pc.equal(linked.table["prompt"], "p02-1")).slice(3, 1).to_pylist()[0]
    target = LINKED.update(4)
    i = LINKED.prompts.index("p02-1")
    training = ~LINKED.held_out
    relation = training & (np.array(LINKED.relations) == "r0")
    template = relation & (np.array(LINKED.templates) == "t1")

    for name, members in (("template", template), ("relation", relation), ("global", training)):
        wanted = np.sum((target[i] - target[members].mean(axis=0)) ** 2)
        assert row[f"sst.{name}"] == pytest.approx(wanted, rel=1e-12)
    assert row["sst"] == row["sst.template"]


def test_the_baseline_named_in_the_settings_is_the_one_that_counts() -> None:
    """With the relation's mean as baseline, `sst` is that distance and the fits are centred on it."""
    evidence = kernels.measure(
        LINKED, KERNELS.model_copy(update={"baseline": "relation"}), Workers(), twin=True
    )
    found = columns(evidence)

    np.testing.assert_array_equal(found["sst"], found["sst.relation"])
    assert (found["sst.template"] != found["sst"]).any()


def test_directional_parts_add_up(linked) -> None:
    """Along and across sum to the whole, for targets and for errors, to rounding error."""
    found = columns(linked)

    for whole in ("sst", "sse.history_1", "sse.history_3"):
        parts = found[f"{whole}.along"] + found[f"{whole}.across"]
        np.testing.assert_allclose(parts, found[whole], rtol=1e-10)
    assert "sse.history_2.along" not in found


def test_the_order_of_prompts_changes_nothing() -> None:
    """The same prompts listed in another order give the same numbers, bit for bit."""
    order = np.random.default_rng(0).permutation(len(LINKED.prompts))
    other = kernels.measure(planted.reordered(LINKED, order), KERNELS, Workers())
    first = kernels.measure(LINKED, KERNELS, Workers())
    keys = [("prompt", "ascending"), ("update", "ascending")]

    assert other.table["prompt"].to_pylist()[::7] == [LINKED.prompts[i] for i in order if LINKED.held_out[i]]
    assert other.table.sort_by(keys).equals(first.table.sort_by(keys))
    assert all(other.side[name].equals(first.side[name]) for name in ("fits", "draws"))


def test_two_workers_give_what_one_gives(linked, tmp_path) -> None:
    """Neither processes nor a resumed checkpoint change a bit."""
    workers = Workers(jobs=2, checkpoint=tmp_path)
    assert kernels.measure(LINKED, KERNELS, workers).table.equals(linked.table)
    for file in sorted(tmp_path.iterdir())[::2]:
        file.unlink()

    resumed = kernels.measure(LINKED, KERNELS, Workers(checkpoint=tmp_path))

    assert resumed.table.equals(linked.table)
    assert resumed.side["fits"].equals(linked.side["fits"])
    assert resumed.side["draws"].equals(linked.side["draws"])


def test_held_out_targets_choose_nothing(linked) -> None:
    """A leak test: with other held-out activations, all penalties and CV scores stay what they were."""
    resid = LINKED.resid.copy()
    resid[:, LINKED.held_out] = np.random.default_rng(0).standard_normal(resid[:, LINKED.held_out].shape)
    altered = kernels.measure(replace(LINKED, resid=resid), KERNELS, Workers())

    chosen = ["update", "fit", "penalty", "infinite", "cv_r2"]
    assert altered.side["fits"].select(chosen).equals(linked.side["fits"].select(chosen))
    drawn = ["draw", "update", "fit", "penalty", "infinite"]
    assert altered.side["draws"].select(drawn).equals(linked.side["draws"].select(drawn))
    assert (columns(altered)["sst"] != columns(linked)["sst"]).all()


def test_a_stream_that_is_constant_within_strata_is_no_regressor() -> None:
    """Pitfall 9: v[0] is a template's own. Its centred Gram is zero, not rounding blown up to unit size."""
    frame = Frame.of(LINKED, "template")

    assert not block_kernel(LINKED.resid[0][frame.rows].astype(float) + 0.1, frame).any()
    kernel = block_kernel(LINKED.update(2)[frame.rows], frame)
    assert np.trace(kernel[: frame.n_train]) == pytest.approx(frame.n_train, rel=1e-12)


def test_an_update_that_is_constant_within_strata_leaves_no_history() -> None:
    """With delta[0] a template's own, update 1 has no usable history: the baseline, at infinite penalty."""
    resid = LINKED.resid.copy()
    offset = np.array([[hash_ % 5, 1, 2, 3, 4, hash_] for hash_ in range(len(LINKED.prompts))], np.float32)
    strata = [2 * int(r[1]) + int(t[1]) for r, t in zip(LINKED.relations, LINKED.templates, strict=True)]
    resid[1] = resid[0] + offset[strata]
    evidence = kernels.measure(replace(LINKED, resid=resid), KERNELS, Workers(), twin=True)

    fit = evidence.side["fits"].to_pylist()[0]
    assert (fit["update"], fit["fit"], fit["infinite"], fit["r2"]) == (1, "history_1", True, 0.0)


def test_a_twin_needs_only_the_splits(linked) -> None:
    """Without nulls, the fits of the splits remain, with the very numbers of the full measurement."""
    evidence = kernels.measure(LINKED, KERNELS, Workers(), twin=True)

    assert evidence.side["draws"].num_rows == 0
    splits = [n for n in evidence.fits if not n.endswith(("along", "across"))]
    assert splits == [
        "history_1",
        "history_2",
        "running_sum",
        "running_sum_history_1",
        "running_sum_history_2",
    ]
    for fit in splits:
        assert evidence.table[f"sse.{fit}"].equals(linked.table[f"sse.{fit}"])


def test_draws_are_kept_for_a_refitted_permutation_test(linked) -> None:
    """Each draw's summed errors are there, and their mean is the main table's."""
    draws = linked.side["draws"]
    shuffled = draws.filter(
        pc.and_(pc.equal(draws["fit"], "shuffled_history_1"), pc.equal(draws["update"], 3))
    )
    rows = linked.table.filter(pc.equal(linked.table["update"], 3))

    assert shuffled["draw"].to_pylist() == list(range(19))
    assert pc.mean(shuffled["sse"]).as_py() == pytest.approx(
        pc.sum(rows["sse.shuffled_history_1"]).as_py(), rel=1e-12
    )
    assert shuffled["sst"][0].as_py() == pytest.approx(pc.sum(rows["sst"]).as_py(), rel=1e-12)
    assert pc.min(shuffled["sse"]).as_py() > pc.sum(rows["sse.history_1"]).as_py()


def test_every_check_passes_on_sound_data(linked) -> None:
    """The four checks are there, by name, and passed."""
    assert [(c.name, c.passed) for c in linked.checks] == [
        ("penalty_interior", True),
        ("subjects_apart", True),
        ("baseline_support", True),
        ("gram_rounding", True),
    ]


def test_a_grid_that_ends_too_early_fails_its_check() -> None:
    """A penalty at the lower end, with much gained by the last step, fails the check; the fit is named."""
    settings = KERNELS.model_copy(update={"penalties": (1.0, 2.0, 3.0)})
    check = kernels.measure(LINKED, settings, Workers(), twin=True).checks[0]

    assert (check.name, check.passed) == ("penalty_interior", False)
    assert "history_1 at update 2: 1 gained" in check.detail


def test_a_grid_that_never_shrinks_enough_fails_its_check() -> None:
    """The largest finite penalty, chosen because infinity is worse, fails the check too."""
    weak = planted.world(0.6 * planted.rotations(1, same=False), noise=1.0, seed=3)
    settings = KERNELS.model_copy(update={"penalties": (1e-6, 1e-5, 1e-4)})
    check = kernels.measure(weak, settings, Workers(), twin=True).checks[0]

    assert (check.name, check.passed) == ("penalty_interior", False)
    assert ": 0.0001 gained" in check.detail


def test_thin_strata_fail_their_check() -> None:
    """A stratum with fewer training prompts than demanded fails `baseline_support`."""
    settings = KERNELS.model_copy(update={"min_stratum_prompts": 17})
    evidence = kernels.measure(LINKED, settings, Workers(), twin=True)

    assert [c.passed for c in evidence.checks if c.name == "baseline_support"] == [False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"orders": ()}, "empty list"),
        ({"orders": (2, 1)}, "ascending"),
        ({"penalties": (1.0, 1.0, 2.0)}, "ascending"),
        ({"penalties": (0.0, 1.0, 2.0)}, "greater than 0"),
        ({"penalties": (1.0, float("inf"))}, "finite"),
        ({"penalties": (1.0, 2.0)}, "at least three"),
        ({"history_weights": (0.0,)}, "above 0"),
        ({"history_weights": (-1.0, 1.0)}, "greater than or equal to 0"),
        ({"folds": 1}, "greater than or equal to 2"),
        ({"shuffles": 18}, "greater than or equal to 19"),
        ({"joint_shuffles": 20}, "exceeds"),
        ({"joint_orders": (1, 5)}, "not all in orders"),
        ({"primary_order": 3}, "primary_order"),
        ({"baseline": "global"}, "template"),
        ({"extra": 1}, "Extra inputs"),
    ],
)
def test_settings_that_promise_nothing_sound_are_refused(change, message) -> None:
    """Each rule of the settings refuses its breach."""
    with pytest.raises(ValidationError, match=message):
        KernelSettings(**(KERNELS.model_dump() | change))


def test_every_setting_must_be_named() -> None:
    """There are no defaults: the protocol says it all."""
    for name in KernelSettings.model_fields:
        with pytest.raises(ValidationError, match="Field required"):
            KernelSettings(**{k: v for k, v in KERNELS.model_dump().items() if k != name})


@pytest.mark.parametrize(("name", "message"), [("none", "no update set"), ("early", "begin at 1")])
def test_an_update_set_that_fits_cannot_serve_is_refused(name: str, message: str) -> None:
    """Update 0 has no history, and an unknown name is no set."""
    with pytest.raises(AnalysisError, match=message):
        kernels.measure(LINKED, KERNELS.model_copy(update={"updates": name}), Workers())
