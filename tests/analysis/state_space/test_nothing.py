"""Where no path crosses updates, none is found."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from prereg.analysis import state_space
from prereg.workers import Workers
from tests.analysis.state_space import planted

WORLDS = 40
SETTINGS = planted.SETTINGS.model_copy(
    update={"penalties": (0.01, 0.1, 1.0, 10.0), "state_weights": (0.0, 0.1, 1.0, 10.0), "horizon": 2}
)


def interval(evidence, fit: str, readout: str, seed: int) -> tuple[float, float, float]:
    """Return the gain in mean R2, and its percentile interval over subjects."""
    table = evidence.table
    names, who = np.unique(table["subject"].to_numpy(zero_copy_only=False), return_inverse=True)
    updates, when = np.unique(table["update"].to_numpy(), return_inverse=True)
    sums = np.zeros((2, len(names), len(updates)))
    np.add.at(sums[0], (who, when), table[f"sse.{readout}"].to_numpy() - table[f"sse.{fit}"].to_numpy())
    np.add.at(sums[1], (who, when), table["sst"].to_numpy())
    counts = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), 1000)
    drawn = np.mean((counts @ sums[0]) / (counts @ sums[1]), axis=1)
    gain = float(np.mean(sums[0].sum(axis=0) / sums[1].sum(axis=0)))
    return gain, *(float(q) for q in np.quantile(drawn, [0.025, 0.975]))


@pytest.mark.parametrize("common", [0.0, 0.5])
def test_without_a_path_the_gains_intervals_cover_zero(common: float) -> None:
    """Over many worlds they lie above it no more often than a nominal 95% allows, and gains average to nothing.

    The cost of a state that is not worth having is small but real, so an interval below zero is no miss, and only
    those above it are counted. Correlated codes let a state stand in for what a low-rank D must leave out, so the
    rank-matched gain is asked about only where they are independent. That is why the full-D gain is always reported.
    """
    pairs = [("ssm_full", "readout_full"), *([("ssm", "readout_rank")] if common == 0.0 else [])]
    gains: dict[str, list[float]] = {fit: [] for fit, _ in pairs}
    above, below = dict.fromkeys(gains, 0), dict.fromkeys(gains, 0)
    for seed in range(WORLDS):
        system = planted.System.draw(100 + seed, path=0.0)
        activations, library = planted.world(system, n_subjects=48, seed=seed, common=common)
        evidence = state_space.measure(activations, SETTINGS, Workers(), dictionaries=library, twin=True)
        for fit, readout in pairs:
            gain, low, high = interval(evidence, fit, readout, seed)
            gains[fit].append(gain)
            above[fit] += low > 0.0
            below[fit] += high < 0.0
    allowed = scipy.stats.binom.ppf(0.999, WORLDS, 0.025)
    for fit in gains:
        assert above[fit] <= allowed
        assert abs(np.mean(gains[fit])) < 0.003
        assert len(set(gains[fit])) > 1, "all gains are exactly zero: nothing was tried"


def test_with_a_path_the_same_intervals_lie_above_zero() -> None:
    """The procedure that finds nothing where there is nothing finds a path where there is one."""
    activations, library = planted.world(planted.System.draw(100), n_subjects=48)
    evidence = state_space.measure(activations, SETTINGS, Workers(), dictionaries=library, twin=True)
    for fit, readout in (("ssm_full", "readout_full"), ("ssm", "readout_rank")):
        assert interval(evidence, fit, readout, 1)[1] > 0.1
