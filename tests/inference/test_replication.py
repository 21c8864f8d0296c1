"""Pooling over models: by hand, against published results, and by simulated coverage."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest

import prereg.inference.replication
from prereg.errors import InferenceError
from prereg.inference import RandomEffects, random_effects

# Colditz et al. 1994, thirteen trials of the BCG vaccine: cases and the others, vaccinated and not.
BCG = (
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761),
    (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232),
    (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825),
)  # fmt: skip


def bcg() -> tuple[list[float], list[float]]:
    """Return the log risk ratios and their standard errors."""
    ratios = [math.log(a / (a + b) * (c + d) / c) for a, b, c, d in BCG]
    errors = [math.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)) for a, b, c, d in BCG]
    return ratios, errors


def test_the_published_estimates_of_the_bcg_trials() -> None:
    """Metafor's documentation gives, at the restricted likelihood's tau2, these figures to four digits."""
    found = random_effects(*bcg(), 0.95, tau2=0.3132)
    assert found.k == 13
    assert found.mu == pytest.approx(-0.7145, abs=5e-5)
    assert found.se == pytest.approx(0.1808, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((-1.1084, -0.3206), abs=1e-4)
    assert found.i2 == pytest.approx(0.9222, abs=5e-5)


def test_paule_and_mandels_variance_of_the_bcg_trials() -> None:
    """Its published value, and the equation that defines it."""
    y, se = bcg()
    found = random_effects(y, se, 0.95)
    assert found.tau2 == pytest.approx(0.3181, abs=5e-5)
    w = [1 / (s * s + found.tau2) for s in se]
    assert sum(a * (b - found.mu) ** 2 for a, b in zip(w, y, strict=True)) == pytest.approx(12.0, abs=1e-9)


def test_two_models_by_hand() -> None:
    """For two, tau2 is half the squared gap less the mean variance; t of one degree is a tangent."""
    found = random_effects([0.2, 0.6], [0.1, 0.2], 0.9)
    tau2 = 0.4**2 / 2 - (0.01 + 0.04) / 2
    w = (1 / (0.01 + tau2), 1 / (0.04 + tau2))
    mu = (0.2 * w[0] + 0.6 * w[1]) / sum(w)
    half = math.tan(math.pi / 2 * 0.9) / math.sqrt(sum(w))
    assert found.tau2 == pytest.approx(tau2, rel=1e-12)
    assert found.mu == pytest.approx(mu, rel=1e-12)
    assert (found.low, found.high) == pytest.approx((mu - half, mu + half), rel=1e-9)
    assert found.prediction_low is None
    assert found.prediction_high is None
    assert "two models" in found.caution


def test_models_that_agree_too_well_are_not_taken_at_their_word() -> None:
    """Equal estimates have no spread at all; the interval then rests on their own errors alone."""
    found = random_effects([0.3, 0.3, 0.3], [0.05, 0.05, 0.05], 0.95)
    t2, t1 = 4.302652729749464, 12.706204736174694
    assert found.tau2 == 0.0
    assert found.i2 == 0.0
    assert found.high - found.mu == pytest.approx(t2 * 0.05 / math.sqrt(3), rel=1e-9)
    assert found.prediction_high is not None
    assert found.prediction_high - found.mu == pytest.approx(t1 * 0.05 / math.sqrt(3), rel=1e-9)
    # Perfectly correlated errors don't average out: the standard error is the average one.
    assert found.dependent_high - found.mu == pytest.approx(t2 * 0.05, rel=1e-9)


def test_the_correction_of_few_estimates_of_unequal_precision() -> None:
    """Without it, two close precise estimates beside a vague one would give an interval of almost no width."""
    y, se = [0.300, 0.301, 0.29], [0.05, 0.06, 0.5]
    found = random_effects(y, se, 0.95)
    w = [s**-2 for s in se]
    assert found.se == pytest.approx(1 / math.sqrt(sum(w)), rel=1e-12)
    q = sum(a * (b - found.mu) ** 2 for a, b in zip(w, y, strict=True)) / 2
    assert q < 0.01


def test_units_and_order_change_nothing() -> None:
    """Percent instead of shares, and models named the other way round, say the same."""
    y, se = [0.2, 0.5, 0.35, 0.1], [0.02, 0.05, 0.03, 0.04]
    one = random_effects(y, se, 0.95)
    other = random_effects([100 * v for v in y[::-1]], [100 * s for s in se[::-1]], 0.95)
    assert other.mu == pytest.approx(100 * one.mu, rel=1e-12)
    assert other.low == pytest.approx(100 * one.low, rel=1e-12)
    assert other.tau2 == pytest.approx(1e4 * one.tau2, rel=1e-12)
    assert other.i2 == pytest.approx(one.i2, rel=1e-12)


def test_the_bound_for_dependent_models_is_never_the_narrower_interval() -> None:
    """Whatever the estimates, it contains the interval that takes them to be independent."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        k = int(rng.integers(2, 8))
        found = random_effects(list(rng.normal(0, 0.1, k)), list(rng.uniform(0.01, 0.3, k)), 0.95)
        assert found.dependent_low <= found.low < found.mu < found.high <= found.dependent_high


@pytest.mark.parametrize(("k", "says"), [(2, "next to nothing"), (3, "3 models"), (5, "")])
def test_few_models_are_said_to_be_few(k: int, says: str) -> None:
    """An interval that means little says so."""
    found = random_effects([0.1 * i for i in range(k)], [0.05] * k, 0.95)
    assert says in found.caution
    assert bool(found.caution) == bool(says)


@pytest.mark.parametrize(
    ("y", "se", "level", "says"),
    [
        ([0.1], [0.1], 0.95, "fewer than 2"),
        ([], [], 0.95, "fewer than 2"),
        ([0.1, 0.2], [0.1], 0.95, "2 estimates and 1 standard errors"),
        ([0.1, math.nan], [0.1, 0.1], 0.95, "finite"),
        ([0.1, math.inf], [0.1, 0.1], 0.95, "finite"),
        ([0.1, 0.2], [0.1, 0.0], 0.95, "above 0"),
        ([0.1, 0.2], [0.1, math.nan], 0.95, "above 0"),
        ([0.1, 0.2], [0.1, 0.1], 0.05, "confidence level"),
        ([0.1, 0.2], [0.1, 0.1], math.nan, "level"),
    ],
)
def test_what_cannot_be_pooled_is_an_error(y: list[float], se: list[float], level: float, says: str) -> None:
    """Too few models, and numbers that are none, give no answer."""
    with pytest.raises(InferenceError, match=says):
        random_effects(y, se, level)


@pytest.mark.parametrize("tau2", [-0.1, math.nan, math.inf])
def test_a_variance_that_is_none_is_an_error(tau2: float) -> None:
    """A held variance must be one."""
    with pytest.raises(InferenceError, match="tau2"):
        random_effects([0.1, 0.2], [0.1, 0.1], 0.95, tau2=tau2)


def covered(k: int, tau: float, correlation: float) -> tuple[float, float, float]:
    """Return how often each interval holds the truth: the mean's, the bound's, and the next model's effect."""
    rng = np.random.default_rng([k, int(100 * tau), int(100 * correlation)])
    runs = 1000
    hits = np.zeros(3)
    for _ in range(runs):
        se = 0.1 * rng.uniform(0.5, 1.5, k)
        shared, own = rng.normal(), rng.normal(size=k)
        errors = se * (math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own)
        found = random_effects(list(rng.normal(0.0, tau, k) + errors), list(se), 0.95)
        following = rng.normal(0.0, tau)
        hits += (
            found.low < 0.0 < found.high,
            found.dependent_low < 0.0 < found.dependent_high,
            predicted(found, following),
        )
    mean, bound, prediction = hits / runs
    return float(mean), float(bound), float(prediction)


def predicted(found: RandomEffects, following: float) -> bool:
    return (
        found.prediction_low is not None
        and found.prediction_high is not None
        and found.prediction_low < following < found.prediction_high
    )


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("tau", [0.0, 0.1, 0.4])
def test_coverage_where_models_are_independent(k: int, tau: float) -> None:
    """The interval holds the mean in at least 93% of samples; the prediction interval falls short where tau is se."""
    mean, bound, prediction = covered(k, tau, 0.0)
    assert mean >= 0.93
    assert bound >= mean
    assert prediction >= 0.86 or k == 2


@pytest.mark.parametrize("k", [6, 12])
def test_coverage_where_models_share_their_errors(k: int) -> None:
    """With errors correlated at 0.9 the plain interval breaks, as it is said to; the bound holds."""
    mean, bound, _ = covered(k, 0.02, 0.9)
    assert mean < 0.85
    assert bound >= 0.96


def test_the_example_in_the_docstring_runs() -> None:
    """What the documentation shows is what the code does."""
    found = doctest.testmod(prereg.inference.replication)
    assert found.attempted >= 5
    assert found.failed == 0
