"""The state path: Markov energies, half-lives, memory, and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from prereg.analysis.state_space.jackknife import centred_square, kept_rows
from prereg.analysis.state_space.path import QUANTITIES, energies, intervals, path_rows, profile, summary
from prereg.errors import AnalysisError

N, D, FIRST, LAST, F = 3, 5, 2, 6, 7
RNG = np.random.default_rng(1)
A = RNG.standard_normal((LAST, N, N))
B = RNG.standard_normal((LAST, N, F))
C = RNG.standard_normal((LAST - FIRST + 1, D, N))
ROOTS = RNG.standard_normal((LAST, F, F))
SIGMA = ROOTS @ ROOTS.transpose(0, 2, 1)


def measured(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the energies of a model in column form."""
    return energies(
        [x.T @ x for x in c], FIRST, [x.T for x in a], [x @ s @ x.T for x, s in zip(b, SIGMA, strict=True)]
    )


def test_energies_are_those_of_the_scaled_markov_parameters() -> None:
    """Each is the squared Frobenius norm of C A ... A B Sigma^(1/2), written out."""
    found = measured(A, B, C)
    for layer in range(FIRST, LAST + 1):
        for j in range(LAST):
            wanted = 0.0
            if j < layer:
                carried = B[j]
                for between in range(j + 1, layer):
                    carried = A[between] @ carried
                wanted = np.sum((C[layer - FIRST] @ carried @ ROOTS[j]) ** 2)
            assert found[layer - FIRST, j] == pytest.approx(wanted, rel=1e-10)


def test_no_change_of_the_states_basis_moves_a_number() -> None:
    """Random invertible T_l, one an update, give the same energies, half-lives and memory."""
    T = [np.eye(N), *(RNG.standard_normal((N, N)) + 3 * np.eye(N) for _ in range(LAST))]
    inverse = [np.linalg.inv(t) for t in T]
    a = np.stack([T[i + 1] @ A[i] @ inverse[i] for i in range(LAST)])
    b = np.stack([T[i + 1] @ B[i] for i in range(LAST)])
    c = np.stack([C[i - FIRST] @ inverse[i] for i in range(FIRST, LAST + 1)])
    found, turned = measured(A, B, C), measured(a, b, c)
    np.testing.assert_allclose(turned, found, rtol=1e-8)
    plain, moved = (summary(profile(e, FIRST, 0, 3)) for e in (found, turned))
    for name in QUANTITIES:
        assert (plain[name] is None) == (moved[name] is None)
        if plain[name] is not None:
            assert moved[name] == pytest.approx(plain[name], rel=1e-8)


def test_a_geometric_decay_has_the_half_life_of_its_ratio() -> None:
    """Energies falling by 1/4 a gap: half-lives 1/2 and 1, both ways; memory by its sum."""
    energy = 3.0 * 0.25 ** np.arange(6)
    found = summary(energy)
    for kind in ("slope", "interpolated"):
        assert found[f"half_life_{kind}_energy"] == pytest.approx(0.5)
        assert found[f"half_life_{kind}_norm"] == pytest.approx(1.0)
    gaps = np.arange(1, 7)
    assert found["memory_energy"] == pytest.approx(float(gaps @ energy / energy.sum()))
    assert found["memory_norm"] == pytest.approx(float(gaps @ np.sqrt(energy) / np.sqrt(energy).sum()))


def test_what_is_not_defined_is_not_invented() -> None:
    """A path that grows, or none at all, has no half-life; an end at zero is reached along a line."""
    grows = summary(np.array([1.0, 2.0, 4.0]))
    assert grows["half_life_slope_energy"] is None
    assert grows["half_life_slope_norm"] is None
    assert grows["half_life_interpolated_energy"] is None
    assert grows["memory_energy"] == pytest.approx(17 / 7)
    assert set(summary(np.zeros(3)).values()) == {None}
    ends = summary(np.array([1.0, 0.0, 0.0]))
    assert ends["half_life_slope_energy"] is None
    assert ends["half_life_interpolated_energy"] == pytest.approx(0.5)
    assert ends["memory_energy"] == 1.0


def test_every_gap_averages_the_same_updates() -> None:
    """Only updates whose largest gap still has a source count, and the earliest source is told."""
    found = np.arange((LAST - FIRST + 1) * LAST, dtype=float).reshape(-1, LAST)
    got = profile(found, FIRST, 1, 3)
    wanted = [np.mean([found[layer - FIRST, layer - g] for layer in (4, 5, 6)]) for g in (1, 2, 3)]
    np.testing.assert_allclose(got, wanted)
    with pytest.raises(AnalysisError, match="no update up to 6 has a source that far back"):
        profile(found, FIRST, 1, 6)


def test_jackknife_intervals_follow_their_formula() -> None:
    """se^2 = (G - 1) / G times the sum of squares about the estimate; t with G - 1 degrees of freedom."""
    values = [1.0, 1.2, 0.7, 1.4]
    estimate = dict.fromkeys(QUANTITIES, 1.1)
    replicates = [dict.fromkeys(QUANTITIES, v) for v in values]
    row = intervals("ssm", estimate, replicates, 0.9)[0]
    se = math.sqrt(3 / 4 * sum((v - 1.1) ** 2 for v in values))
    t = scipy.stats.t.ppf(0.95, 3)
    assert row["se"] == pytest.approx(se)
    assert (row["low"], row["high"]) == pytest.approx((1.1 - t * se, 1.1 + t * se))
    replicates[2] = dict.fromkeys(QUANTITIES)
    assert "se" not in intervals("ssm", estimate, replicates, 0.9)[0]
    assert "se" not in intervals("ssm", estimate, [], 0.9)[0]


def test_a_replicate_drops_strata_that_can_not_be_cross_fitted() -> None:
    """A group's rows go, and so does a stratum that is left in a single fold."""
    strata = np.array([0, 0, 0, 1, 1, 1])
    folds = np.array([0, 1, 0, 0, 1, 1])
    groups = np.array([0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(kept_rows(groups, 0, strata, folds), [1, 2])
    np.testing.assert_array_equal(kept_rows(groups, 1, strata, folds), [3, 5])


def test_a_sub_kernel_is_centred_anew() -> None:
    """It is the kernel of the kept rows' features, less their own stratum means."""
    x = RNG.standard_normal((8, 3))
    strata, rows = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 2, 3, 4, 7])
    kept = x[rows].copy()
    for code in (0, 1):
        kept[strata[rows] == code] -= kept[strata[rows] == code].mean(axis=0)
    np.testing.assert_allclose(centred_square(x @ x.T, rows, strata[rows]), kept @ kept.T, atol=1e-12)


def test_path_rows_name_update_source_and_gap() -> None:
    """One row for each source before an update."""
    rows = path_rows("ssm", measured(A, B, C), FIRST)
    assert len(rows) == sum(range(FIRST, LAST + 1))
    assert all(row["gap"] == row["update"] - row["source"] > 0 for row in rows)
