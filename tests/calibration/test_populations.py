"""Worlds hold the truth that they say they hold."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.calibration.populations import MOMENT_KINDS, PILOT_KINDS, FromMoments, FromPilot, Streams
from prereg.calibration.sums import Sums
from prereg.errors import InferenceError
from prereg.inference import RatioTable
from tests.calibration.worlds import sums


@pytest.mark.parametrize("kind", PILOT_KINDS)
def test_theta_of_a_world_is_the_pilots(kind: str) -> None:
    """A huge sample's estimate is the pilot's within six standard errors, for each contrast."""
    pilot = sums()
    world = FromPilot(kind, pilot)  # type: ignore[arg-type]
    n = 60_000
    for (table, weights), true, part in zip(
        world.tables(Streams(1, 0), n), world.truth, pilot.parts, strict=True
    ):
        error = part.standard_error() * np.sqrt(pilot.n_units / n)
        assert abs(float(weights @ table.ratios()) - true) < 6.0 * 2.0 * error


def test_heavy_tails_keep_the_pilots_covariance() -> None:
    """Median-robust: the middle of the residuals is narrower than the normal's, their correlation the pilot's."""
    pilot = sums()
    (first, _), (second, _) = FromPilot("heavy_tailed", pilot).tables(Streams(2, 0), 40_000)
    left = first.numerator[:, 0] - pilot.parts[0].ratios[0] * first.denominator[:, 0]
    right = second.numerator[:, 0] - pilot.parts[1].ratios[0] * second.denominator[:, 0]
    expected = np.corrcoef(pilot.parts[0].residual[:, 0], pilot.parts[1].residual[:, 0])[0, 1]
    signs = np.mean(np.sign(left) * np.sign(right))
    assert np.sin(np.pi / 2.0 * signs) == pytest.approx(expected, abs=0.03)
    sd = np.sqrt((pilot.parts[0].residual[:, 0] ** 2).mean())
    # The quartile of t on 3 degrees of freedom, scaled to unit variance: 0.7649 / sqrt(3).
    assert np.quantile(np.abs(left), 0.5) / sd == pytest.approx(0.4416, abs=0.02)


@pytest.mark.parametrize("kind", PILOT_KINDS)
def test_a_larger_sample_begins_with_the_smaller_one(kind: str) -> None:
    """Common random numbers: what differs between two numbers of units is the units added."""
    world = FromPilot(kind, sums())  # type: ignore[arg-type]
    small, large = world.tables(Streams(3, 7), 20)[0][0], world.tables(Streams(3, 7), 50)[0][0]
    np.testing.assert_allclose(large.numerator[:20], small.numerator, rtol=1e-12)
    np.testing.assert_array_equal(large.denominator[:20], small.denominator)


@pytest.mark.parametrize("kind", MOMENT_KINDS)
def test_stated_moments_are_met(kind: str) -> None:
    """Mean 0 and the stated standard deviation (loosely: the fourth moment of t on 3 degrees is infinite)."""
    (table, _), *_ = FromMoments(kind, 0.5, 1).tables(Streams(4, 0), 200_000)  # type: ignore[arg-type]
    values = table.numerator[:, 0]
    assert abs(values.mean()) < 0.01
    assert values.std() == pytest.approx(0.5, rel=0.1)


def test_a_pilot_without_variation_is_refused() -> None:
    """There is nothing to draw from."""
    flat = RatioTable.of_means([f"s{i}" for i in range(9)], np.full(9, 0.2))
    with pytest.raises(InferenceError, match="doesn't vary"):
        Sums.of([(flat, np.ones(1))], np.ones(9))


def test_contrasts_over_other_units_are_refused() -> None:
    """Their dependence would be lost."""
    values = np.arange(9.0)
    one = RatioTable.of_means([f"s{i}" for i in range(9)], values)
    two = RatioTable.of_means([f"t{i}" for i in range(9)], values)
    with pytest.raises(InferenceError, match="different units"):
        Sums.of([(one, np.ones(1)), (two, np.ones(1))], np.ones(9))
