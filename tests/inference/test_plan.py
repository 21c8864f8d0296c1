"""The resampling plan: the same numbers on every machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg.errors import InferenceError
from prereg.inference import BootstrapPlan, ExplicitPlan, intervals, plan_sums, replicate
from prereg.inference.fixed_point import split_limbs
from prereg.inference.plan import count_blocks

from ._support import one_ratio, random_ratio

# blake2b of the draws and of the sums below. A new numpy that draws otherwise, or a change in the
# arithmetic, must show here: every registered verdict rests on these bits.
GOLDEN_DRAWS = "2c4e2d30f51f975221afc976620ae7ca"
GOLDEN_SUMS = "13ff3a2bf57d2d3b6d55ce72ee52c3f1"

SCRIPT = """
import hashlib
import numpy as np
from prereg.inference import BootstrapPlan, RatioTable, plan_sums, replicate
names = [f"u{i:03d}" for i in range(157)]
# Exact decimal fractions: no library's sine or generator stands between the input and the digest.
top = np.array([[((i * 7919 + k * 104729) % 20011 - 10005) / 997 for k in range(9)]
                for i in range(157)])
bottom = np.array([[1 + ((i * 3571 + k * 611953) % 10007) / 641 for k in range(9)]
                   for i in range(157)])
plan = BootstrapPlan(157, 200, 20240229)
table = RatioTable.from_rows(names, top, bottom)
parts = [plan_sums(plan, np.hstack([top, bottom]))]
for weights in (np.eye(9)[0], np.full(9, 1 / 9)):
    draws = replicate(table, weights, plan)[0]
    parts += [draws.values, draws.standard_errors]
print(hashlib.blake2b(b"".join(p.tobytes() for p in parts), digest_size=16).hexdigest())
"""


def digest(*arrays: np.ndarray) -> str:
    return hashlib.blake2b(b"".join(a.tobytes() for a in arrays), digest_size=16).hexdigest()


def run_elsewhere(**environment: str) -> str:
    """Run the script in a fresh interpreter with other numerical settings."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_draws_are_the_golden_ones() -> None:
    """The first 200 replicates of 157 units are the registered bits."""
    draws = np.vstack(list(BootstrapPlan(157, 200, 20240229).indices()))
    assert draws.dtype == np.int64
    assert digest(draws) == GOLDEN_DRAWS


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
        {"OPENBLAS_CORETYPE": "Nehalem"},
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "2"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"},
    ],
    ids=["as is", "1 thread", "2 threads", "nehalem", "haswell", "prescott", "no avx2"],
)
def test_replicates_are_the_same_bits_everywhere(environment: dict[str, str]) -> None:
    """Threads, BLAS kernels and vector units change no bit of sums, replicates or standard errors."""
    assert run_elsewhere(**environment) == GOLDEN_SUMS


@pytest.mark.parametrize("chunk_rows", [1, 7, 31])
def test_the_size_of_a_chunk_changes_no_bit(chunk_rows: int) -> None:
    """Draws and sums are the same however the blocks are cut."""
    columns = np.random.default_rng(0).normal(size=(53, 4))
    whole, cut = BootstrapPlan(53, 150, 9), BootstrapPlan(53, 150, 9, chunk_rows=chunk_rows)
    assert np.array_equal(np.vstack(list(whole.indices())), np.vstack(list(cut.indices())))
    assert plan_sums(whole, columns).tobytes() == plan_sums(cut, columns).tobytes()


def test_a_longer_plan_begins_with_the_shorter_one() -> None:
    """More replicates add to a plan; they don't redraw it."""
    short = np.vstack(list(BootstrapPlan(20, 100, 5).indices()))
    long = np.vstack(list(BootstrapPlan(20, 300, 5).indices()))
    assert np.array_equal(short, long[:100])


def test_seed_and_family_each_give_another_stream() -> None:
    """Two families of one seed, and two seeds, share no block."""
    first = next(BootstrapPlan(50, 64, 1).indices())
    assert not np.array_equal(first, next(BootstrapPlan(50, 64, 2).indices()))
    assert not np.array_equal(first, next(BootstrapPlan(50, 64, 1, family=1).indices()))


def test_every_replicate_draws_as_many_units_as_there_are() -> None:
    """Counts are whole, non-negative and add up to the number of units."""
    counts = np.vstack(list(count_blocks(BootstrapPlan(30, 130, 4))))
    assert counts.shape == (130, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert (counts >= 0).all()
    assert (counts == np.rint(counts)).all()


def test_units_are_drawn_evenly() -> None:
    """Over 64,000 draws of 10 units, each count lies within five standard errors of its share."""
    counts = np.vstack(list(count_blocks(BootstrapPlan(10, 6400, 4)))).sum(axis=0)
    assert np.abs(counts - 6400).max() < 5 * np.sqrt(64000 * 0.1 * 0.9)


@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False), min_size=2, max_size=12),
    seed=st.integers(0, 1000),
)
def test_sums_are_exact_to_the_last_bit_or_two(values: list[float], seed: int) -> None:
    """Against rational arithmetic, a sum errs by rounding of the result alone."""
    counts = np.random.default_rng(seed).multinomial(len(values), np.ones(len(values)) / len(values))
    column = np.array(values)[:, None]
    found = split_limbs(column, len(values)).sums(counts[None, :].astype(float))[0, 0]
    exact = sum((int(c) * Fraction(v) for c, v in zip(counts, values, strict=True)), Fraction(0))
    largest = max(abs(v) for v in values)
    error = abs(Fraction(float(found)) - exact)
    assert error <= Fraction(np.spacing(abs(float(exact)))) + Fraction(largest) * Fraction(2) ** -95


def test_what_is_left_of_a_cancellation_is_exact_too() -> None:
    """Where the coarse limbs cancel, the fine limbs decide; the order of units must not show."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(40, 1))
    column = np.vstack([half, -half * (1 + 1e-13)])
    seen = set()
    for _ in range(50):
        order = rng.permutation(80)
        seen.add(split_limbs(column[order], 80).sums(np.ones((1, 80))).tobytes())
        low = split_limbs(column[order], 80).stacked[:, 1]
        seen.add(float(np.add.accumulate(low)[-1]) == float(np.add.accumulate(low[::-1])[-1]))
    assert len(seen - {True}) == 1
    assert True in seen


def test_tiny_and_huge_columns_stand_side_by_side() -> None:
    """Each column has its own grid: 1e-250 is not lost beside 1e90."""
    columns = np.column_stack([np.full(10, 3e-250), np.full(10, 3e90), np.zeros(10)])
    sums = plan_sums(BootstrapPlan(10, 3, 0), columns)
    assert sums[:, 0] == pytest.approx(3e-249, rel=1e-14)
    assert sums[:, 1] == pytest.approx(3e91, rel=1e-14)
    assert (sums[:, 2] == 0.0).all()


def test_a_plan_is_streamed() -> None:
    """2,000 units and 2,000 replicates need under 20 MB, where the counts alone would be 32 MB."""
    table = random_ratio(2000)
    plan = BootstrapPlan(2000, 2000, 0)
    replicate(table, [1.0], BootstrapPlan(2000, 64, 0))
    tracemalloc.start()
    try:
        intervals(table, [1.0], plan)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_units", 1),
        ("n_units", 2.0),
        ("n_replicates", 0),
        ("seed", -1),
        ("seed", True),
        ("family", -1),
        ("chunk_rows", 0),
        ("chunk_rows", 65),
    ],
)
def test_a_plan_out_of_range_is_refused(field: str, value: object) -> None:
    """Each parameter is checked by name."""
    good = {"n_units": 10, "n_replicates": 10, "seed": 0, "family": 0, "chunk_rows": 64}
    with pytest.raises(InferenceError, match=field):
        BootstrapPlan(**{**good, field: value})


@pytest.mark.parametrize(
    "matrix", [np.zeros((0, 3), int), np.zeros(3, int), np.zeros((2, 2)), [[0, 3]], [[-1, 0]]]
)
def test_draws_that_name_no_unit_are_refused(matrix) -> None:
    """An explicit plan holds unit numbers and nothing else."""
    with pytest.raises(InferenceError):
        ExplicitPlan(3, np.asarray(matrix))


def test_columns_and_plan_must_have_the_same_units() -> None:
    """A mismatch never broadcasts."""
    with pytest.raises(InferenceError, match="length mismatch"):
        plan_sums(BootstrapPlan(5, 5, 0), np.ones((4, 1)))
    with pytest.raises(InferenceError, match="length mismatch"):
        intervals(one_ratio([1.0, 2.0], [1.0, 1.0]), [1.0], BootstrapPlan(5, 5, 0))


@pytest.mark.parametrize("total", [0, 2**40])
def test_a_number_of_draws_beyond_the_exact_range_is_refused(total: int) -> None:
    """The limbs are exact only where the counts leave room."""
    with pytest.raises(InferenceError, match="draws a replicate"):
        split_limbs(np.ones((2, 1)), total)
