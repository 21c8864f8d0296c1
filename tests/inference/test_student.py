"""Student's t without scipy, held to scipy's values."""

from __future__ import annotations

import math

import pytest
from scipy import special

from prereg.inference._special import normal_cdf, normal_quantile
from prereg.inference._student import t_cdf, t_quantile

DEGREES = (1, 2, 3, 5, 9, 29, 79, 80, 81, 157, 500, 5_000, 19_999, 20_000, 100_000)
TAILS = (1e-8, 1e-4, 0.0125, 0.025, 0.05, 0.2, 0.4, 0.45, 0.6, 0.975, 0.9999)


@pytest.mark.parametrize("df", DEGREES)
def test_quantiles_are_scipys(df: int) -> None:
    """Over every size of sample a gate may have, to 1e-12 of the value."""
    for p in TAILS:
        assert t_quantile(p, df) == pytest.approx(special.stdtrit(df, p), rel=2e-12)


@pytest.mark.parametrize("df", DEGREES)
def test_probabilities_are_scipys(df: int) -> None:
    """The distribution function agrees, in the tails relative to the tail."""
    for p in TAILS:
        x = float(special.stdtrit(df, p))
        assert t_cdf(x, df) == pytest.approx(special.stdtr(df, x), rel=1e-11)


def test_the_ends_are_infinite_and_the_middle_is_zero() -> None:
    """No nan at the edges of either scale."""
    assert (t_quantile(0.0, 5), t_quantile(0.5, 5), t_quantile(1.0, 5)) == (-math.inf, 0.0, math.inf)
    assert (t_cdf(-math.inf, 5), t_cdf(0.0, 5), t_cdf(math.inf, 5)) == (0.0, 0.5, 1.0)
    assert (normal_quantile(0.0), normal_quantile(0.5), normal_quantile(1.0)) == (-math.inf, 0.0, math.inf)


def test_the_normal_functions_are_scipys() -> None:
    """The standard library's quantile and error function, far into the tails."""
    for p in (1e-300, 1e-20, 1e-8, 0.02425, 0.3, 0.5, 0.8, 1 - 1e-12):
        assert normal_quantile(p) == pytest.approx(special.ndtri(p), rel=1e-12)
    for x in (-30.0, -8.0, -1.0, 0.0, 0.5, 6.0):
        assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-12)
