"""H2's measurement, on streams whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest
from pydantic import ValidationError

from prereg.analysis import band_kernels
from prereg.analysis.band_kernels import BandKernelSettings
from prereg.analysis.folds import subject_folds
from prereg.analysis.frame import Frame, centre
from prereg.analysis.primal import fit_primal
from prereg.errors import AnalysisError
from prereg.workers import Workers
from tests.analysis import planted
from tests.analysis.planted import BANDS

STATIONARY = planted.world(planted.rotations(1, same=True), noise=0.3)
TURNING = planted.world(
    np.stack([(1 if layer < 4 else -1) * k for layer, k in enumerate(planted.rotations(1, same=True))]),
    noise=0.3,
)


def cross(evidence, column: str = "r2") -> np.ndarray:
    """Return the 2 x 2 table of R2, by band fit on and band evaluated on."""
    return evidence.side["cross_band"][column].to_numpy().reshape(2, 2)


@pytest.fixture(scope="module")
def stationary():
    """Evidence where one kernel rules all depths."""
    return band_kernels.measure(STATIONARY, BANDS, Workers())


@pytest.mark.parametrize("column", ["r2", "r2_raw"])
def test_a_stationary_kernel_predicts_every_band_alike(stationary, column: str) -> None:
    """Where one kernel rules all depths, across bands is as good as within."""
    r2 = cross(stationary, column)

    assert r2.min() > 0.85
    assert np.abs(r2 - np.diag(r2)[None, :]).max() < 0.02


def test_a_kernel_that_turns_with_depth_predicts_worse_than_the_mean_elsewhere() -> None:
    """Where the second band's kernel is the first one's opposite, cross-band R2 is negative."""
    r2 = cross(band_kernels.measure(TURNING, BANDS, Workers()))

    assert np.diag(r2).min() > 0.8
    assert max(r2[0, 1], r2[1, 0]) < -1.0


def test_the_table_gives_the_side_table(stationary) -> None:
    """R2(a -> b) is the mean over b's updates of 1 - SSE / SST."""
    found = []
    for layer in planted.SETS["band_2"]:
        rows = stationary.table.filter(pc.equal(stationary.table["update"], layer))
        found.append(1 - pc.sum(rows["sse.band_1"]).as_py() / pc.sum(rows["sst"]).as_py())

    assert cross(stationary)[0, 1] == pytest.approx(np.mean(found), rel=1e-12)
    assert sorted(set(stationary.table["update"].to_pylist())) == [1, 2, 3, 4, 5, 6, 7]


def test_each_update_of_a_band_has_its_own_means_in_every_fold(stationary) -> None:
    """The score is that of samples pooled by hand, with an intercept for each update and stratum."""
    frame = Frame.of(STATIONARY, "template")
    n, strata = frame.n_train, frame.strata[: frame.n_train]
    deltas = {i: centre(STATIONARY.update(i)[frame.rows], frame.strata, n)[:n] for i in range(4)}
    deltas = {i: d / np.sqrt(np.mean(np.sum(d**2, axis=1))) for i, d in deltas.items()}
    folds = subject_folds(frame, BANDS.folds, BANDS.fold_seed)
    by_hand = fit_primal(
        np.concatenate([deltas[i - 1] for i in (1, 2, 3)]),
        np.concatenate([deltas[i] for i in (1, 2, 3)]),
        np.concatenate([strata, strata + 4, strata + 8]),
        np.tile(folds, 3),
        BANDS.penalties,
    )

    fit = stationary.side["fits"].to_pylist()[0]
    assert fit["penalty"] == by_hand.choice.penalty
    assert fit["cv_r2"] == pytest.approx(by_hand.choice.cv_r2, rel=1e-12)


def test_the_size_of_an_update_does_not_matter() -> None:
    """A stream a thousand times larger gives the same scaled errors."""
    larger = replace(STATIONARY, resid=(STATIONARY.resid * np.float32(1024.0)))
    a = band_kernels.measure(STATIONARY, BANDS, Workers()).table
    b = band_kernels.measure(larger, BANDS, Workers()).table

    for name in ("sst", "sst.global", "sse.band_1"):
        np.testing.assert_allclose(b[name], a[name], rtol=1e-9)
    np.testing.assert_allclose(b["sst.raw"], 1024.0**2 * a["sst.raw"].to_numpy(), rtol=1e-9)


def test_order_of_prompts_and_workers_change_nothing(stationary, tmp_path) -> None:
    """Rows listed in another order, two workers and a resumed run all give the same bits."""
    order = np.random.default_rng(0).permutation(len(STATIONARY.prompts))
    other = band_kernels.measure(planted.reordered(STATIONARY, order), BANDS, Workers())
    keys = [("prompt", "ascending"), ("update", "ascending")]
    assert other.table.sort_by(keys).equals(stationary.table.sort_by(keys))

    two = band_kernels.measure(STATIONARY, BANDS, Workers(jobs=2, checkpoint=tmp_path))
    sorted(tmp_path.iterdir())[0].unlink()
    resumed = band_kernels.measure(STATIONARY, BANDS, Workers(checkpoint=tmp_path))
    assert two.table.equals(stationary.table)
    assert resumed.table.equals(stationary.table)


def test_held_out_targets_choose_nothing(stationary) -> None:
    """With other held-out activations, penalties and CV scores stay what they were."""
    resid = STATIONARY.resid.copy()
    resid[:, STATIONARY.held_out] *= np.random.default_rng(0).standard_normal(planted.D_MODEL)
    altered = band_kernels.measure(replace(STATIONARY, resid=resid), BANDS, Workers())

    assert altered.side["fits"].equals(stationary.side["fits"])
    assert not altered.table["sst"].equals(stationary.table["sst"])


def test_every_check_passes_on_sound_data(stationary) -> None:
    """The four checks are there, by name, and passed."""
    assert [(c.name, c.passed) for c in stationary.checks] == [
        ("penalty_interior", True),
        ("subjects_apart", True),
        ("baseline_support", True),
        ("gram_rounding", True),
    ]


def test_a_band_that_begins_before_its_order_is_refused() -> None:
    """The error names the protocol's key and the first update that would do."""
    with pytest.raises(AnalysisError, match=r"let \[updates.band_1\] begin at 2 or later"):
        band_kernels.measure(STATIONARY, BANDS.model_copy(update={"order": 2}), Workers())


def test_bands_that_share_an_update_are_refused() -> None:
    """Across bands must not mean partly within."""
    with pytest.raises(AnalysisError, match="update 2 is in both"):
        band_kernels.measure(STATIONARY, BANDS.model_copy(update={"bands": ("late", "band_1")}), Workers())


def test_an_update_without_variation_has_no_scale() -> None:
    """An update that is a template's own can't be divided by its RMS."""
    resid = STATIONARY.resid.copy()
    resid[3] = resid[2]

    with pytest.raises(AnalysisError, match="update 2 is the same"):
        band_kernels.measure(replace(STATIONARY, resid=resid), BANDS, Workers())


@pytest.mark.parametrize("bands", [(), ("band_1",), ("band_1", "band_1")])
def test_fewer_than_two_bands_are_refused(bands) -> None:
    """A claim across bands needs two, each named once."""
    with pytest.raises(ValidationError, match="at least two"):
        BandKernelSettings(**(BANDS.model_dump() | {"bands": bands}))
