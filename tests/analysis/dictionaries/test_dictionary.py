"""A dictionary takes and gives raw units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prereg.analysis.dictionaries import Dictionary
from prereg.errors import AnalysisError
from tests.analysis.dictionaries import worlds


def made(kind="topk", scale: float = 7.0) -> Dictionary:
    """Return a dictionary of the true directions, read off by themselves."""
    D = worlds.directions()
    rng = np.random.default_rng(1)
    return Dictionary(kind, 3, D.copy(), 0.1 * rng.standard_normal(len(D)), D, rng.standard_normal(24), scale)


DELTA = 7.0 * np.random.default_rng(2).standard_normal((50, 24))


def test_topk_keeps_the_k_largest_and_l1_every_positive_one() -> None:
    """The codes of TopK are L1's largest three, the rest zero."""
    kept, every = made("topk").codes(DELTA), made("l1").codes(DELTA)
    assert np.all((kept > 0).sum(axis=1) == 3)
    assert np.all(kept >= 0)
    for few, many in zip(kept, every, strict=True):
        assert np.allclose(np.sort(many)[-3:], np.sort(few)[-3:])
    assert (every > 0).sum() > 2 * (kept > 0).sum()


def test_an_ablation_in_raw_units_removes_what_decoding_put_in() -> None:
    """Decode - contribution of a feature = decode without it: the scale is undone in both."""
    dictionary = made()
    codes = dictionary.codes(DELTA)
    without = codes.copy()
    without[:, [4, 9]] = 0
    left = dictionary.decode(codes) - dictionary.contribution(codes, [4, 9])
    assert np.allclose(left, dictionary.decode(without))
    # The careless ablation subtracts z_f d_f as it stands, and leaves most of the feature in place.
    careless = dictionary.decode(codes) - codes[:, [4, 9]] @ dictionary.directions[[4, 9]]
    assert not np.allclose(careless, left, atol=0.5)


def test_larger_updates_under_a_larger_scale_have_the_same_codes() -> None:
    """Codes are in scaled units, reconstructions in raw ones."""
    small, large = made(scale=1.0), made(scale=1000.0)
    codes = small.codes(DELTA / 7)
    assert np.allclose(large.codes(DELTA / 7 * 1000), codes)
    assert np.allclose(large.decode(codes), 1000 * small.decode(codes))


def test_all_features_together_are_the_reconstruction_less_its_bias() -> None:
    """Contributions add up."""
    dictionary = made()
    codes = dictionary.codes(DELTA)
    whole = dictionary.contribution(codes, range(dictionary.n_features))
    assert np.allclose(dictionary.decode(codes) - whole, dictionary.bias * dictionary.scale)


def test_no_rows_have_no_codes() -> None:
    """Empty in, empty out, of the right shape."""
    assert made().codes(np.empty((0, 24))).shape == (0, worlds.FEATURES)


@pytest.mark.parametrize("delta", [np.zeros((3, 23)), np.zeros(24), np.full((2, 24), np.nan)])
def test_updates_that_do_not_fit_are_refused(delta: np.ndarray) -> None:
    """Another width, one row without its axis, or NaN."""
    with pytest.raises(AnalysisError, match="wanted finite updates"):
        made().codes(delta)


def test_codes_that_do_not_fit_are_refused() -> None:
    """Another dictionary's codes mean nothing here."""
    with pytest.raises(AnalysisError, match="wanted codes"):
        made().decode(np.zeros((2, 5)))


@pytest.mark.parametrize(
    "change",
    [
        {"decoder": 2 * worlds.directions()},
        {"scale": 0.0},
        {"bias": np.full(24, np.inf)},
        {"encoder": np.zeros((5, 24))},
        {"k": 32},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_dictionary_that_is_none_is_refused(change) -> None:
    """Long directions, no scale, infinite values, other shapes, a k that keeps all."""
    with pytest.raises(AnalysisError):
        replace(made(), **change)
