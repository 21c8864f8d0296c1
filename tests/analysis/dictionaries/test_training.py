"""Training recovers a known sparse dictionary, the same way each time."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from prereg.analysis.dictionaries.rows import scaled_rows, select_rows
from prereg.analysis.dictionaries.training import Trained, train
from prereg.analysis.identifiability import matched_cosines
from prereg.errors import AnalysisError
from tests.analysis.dictionaries import worlds
from tests.analysis.dictionaries.worlds import ACTIVE, BRIEF, SETTINGS


@cache
def trained(
    kind="topk", seed: int = 1, readout_active: int = ACTIVE, target: float = float(ACTIVE), **changes
) -> Trained:
    """Return a dictionary of the planted world's first update."""
    activations = worlds.world(readout_active=readout_active)
    settings = SETTINGS.model_copy(update=changes)
    chosen = select_rows(activations, settings)
    rows = scaled_rows(activations.tokens.stream, chosen.rows, 0, settings.norm_cap)
    return train(rows, chosen.readout, settings, kind=kind, seed=seed, layer=0, target=target)


def l0(found: Trained, readout_active: int, *, readout: bool) -> float:
    """Return the mean L0 of the training rows at the readout position, or of all."""
    activations = worlds.world(readout_active=readout_active)
    chosen = select_rows(activations, SETTINGS)
    stream = activations.tokens.stream.astype(np.float64)
    delta = (stream[1] - stream[0])[chosen.rows]
    codes = found.dictionary.codes(delta[chosen.readout] if readout else delta)
    return float((codes > 0).sum(axis=1).mean())


@pytest.mark.parametrize("kind", ["topk", "l1"])
def test_a_planted_dictionary_is_recovered(kind) -> None:
    """The matched cosine with the truth is above 0.9, where a random dictionary has half of it."""
    found = matched_cosines(trained(kind).dictionary.directions, worlds.directions())
    chance = matched_cosines(worlds.directions(5), worlds.directions())
    assert found.mean() > 0.9
    assert chance.mean() < 0.6


@pytest.mark.parametrize("kind", ["topk", "l1"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(kind) -> None:
    """Every parameter, to the last bit."""
    one, same, other = (trained.__wrapped__(kind, seed=s, steps=60).dictionary for s in (1, 1, 2))
    for name in ("encoder", "encoder_bias", "decoder", "bias"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("kind", ["topk", "l1"])
def test_directions_have_unit_length(kind) -> None:
    """Else codes could shrink at no cost."""
    assert np.allclose(np.linalg.norm(trained(kind).dictionary.directions, axis=1), 1.0, atol=1e-6)


def test_l1_is_matched_at_the_readout_position_not_over_all_tokens() -> None:
    """Where readout rows are denser than others, matching all tokens would miss the target there."""
    found = trained("l1", readout_active=8, target=8.0)
    assert abs(l0(found, 8, readout=True) / 8 - 1) < 0.25
    assert l0(found, 8, readout=False) < 0.7 * 8


def test_the_auxiliary_loss_puts_dead_features_to_use() -> None:
    """Where a high rate kills nearly half of them, it wins back what they could explain."""
    harsh = {"width": 64, "learning_rate": 0.05}
    without = trained(**harsh, auxiliary_weight=0.0).curve[-1]
    with_it = trained(**harsh, auxiliary_weight=1.0).curve[-1]
    assert without[4] > 0.3
    assert with_it[4] < without[4]
    assert with_it[2] > without[2] + 0.01


def test_the_curve_tells_what_happened() -> None:
    """Explained variance rises to most of what there is; L0 is k; steps ascend from the first to the last."""
    curve = trained().curve
    assert curve[0, 0] == 0
    assert curve[-1, 0] == SETTINGS.steps - 1
    assert np.all(np.diff(curve[:, 0]) > 0)
    assert curve[-1, 2] > 0.9 > curve[0, 2]
    assert curve[-1, 3] == pytest.approx(ACTIVE, abs=0.2)


def test_l1_without_a_target_is_refused() -> None:
    """There is no L0 of its own to fall back to."""
    with pytest.raises(AnalysisError, match="matched to TopK"):
        trained.__wrapped__("l1", target=0.0, steps=10)


def test_training_that_diverged_is_refused() -> None:
    """A dictionary of NaN must not reach a file."""
    with pytest.raises(AnalysisError, match="diverged"):
        trained.__wrapped__(learning_rate=1e38, steps=BRIEF.steps)
