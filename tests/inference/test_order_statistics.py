"""The few replicates an interval is made of: the same bits as from all of them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg.errors import InferenceError
from prereg.inference import BootstrapPlan, ExplicitPlan, RatioTable, intervals, intervals_many
from prereg.inference import order_statistics as fast
from prereg.inference.contrasts import prepare
from prereg.inference.order_statistics import order_statistics
from prereg.inference.plan import small_counts
from prereg.inference.replicates import aligned_replicates

from ._support import labels, one_ratio, random_ratio

METHODS = ("expanded_percentile", "percentile", "basic", "delta_t")
N = 120
PLAN = BootstrapPlan(N, 3000, 5)


@pytest.fixture(autouse=True)
def _no_plan_is_too_small(monkeypatch) -> None:
    monkeypatch.setattr(fast, "is_kept", lambda _: False)


def every_replicate(monkeypatch) -> None:
    """Send all contrasts the long way."""
    route = importlib.import_module("prereg.inference.intervals")
    monkeypatch.setattr(route, "order_statistics", lambda contrasts, *_: (None,) * len(contrasts))


def nasty_tables(n: int = N) -> dict[str, tuple[RatioTable, object]]:
    """Build tables on which single precision is nearly useless, or ties are everywhere."""
    rng = np.random.default_rng(3)
    normal, bell = rng.normal(size=n), rng.exponential(size=n)
    ones, heavy = np.ones(n), rng.standard_cauchy(n) ** 3
    half = rng.normal(size=n // 2)
    twice = np.concatenate([half, -half * (1 + 1e-13)])
    few = np.zeros(n)
    few[:3] = 1.0
    rare = np.zeros(n)
    rare[7] = 1.0
    many = RatioTable.from_rows(labels(n), rng.normal(size=(n, 5)), rng.exponential(size=(n, 5)) ** 4)
    mixed = np.column_stack([normal * 1e-9, np.zeros(n), normal * 1e9])
    return {
        "normal": (one_ratio(normal, bell), [1.0]),
        "heavy tails": (one_ratio(heavy, bell), [1.0]),
        "heavy tails below": (one_ratio(normal, np.abs(heavy)), [1.0]),
        "huge range below": (one_ratio(normal, 10.0 ** rng.uniform(-12, 12, n)), [1.0]),
        "cancellation": (one_ratio(twice, ones), [1.0]),
        "cancelling to nothing": (one_ratio(np.concatenate([half, -half]), ones), [1.0]),
        "binary": (one_ratio((normal > 0.3).astype(float), ones), [1.0]),
        "whole numbers": (one_ratio(rng.integers(-3, 4, n).astype(float), ones), [1.0]),
        "outlier of 100": (one_ratio(normal + 100 * rare, ones), [1.0]),
        "outlier of 1e12": (one_ratio(normal + 1e12 * rare, ones), [1.0]),
        "one unit alone": (one_ratio(rare, ones), [1.0]),
        "constant": (one_ratio(np.full(n, 0.1), ones), [1.0]),
        "proportional": (one_ratio(0.3 * bell, bell), [1.0]),
        "nearly constant": (one_ratio(1.0 + 1e-15 * normal, ones), [1.0]),
        "away from zero": (one_ratio(3e11 + normal, ones), [1.0]),
        "far from zero": (one_ratio(1e14 + normal, ones), [1.0]),
        "undefined resamples": (one_ratio(normal, few), [1.0]),
        "tiny": (one_ratio(normal * 1e-250, bell), [1.0]),
        "below the grid": (one_ratio(normal * 1e-310, bell), [1.0]),
        "huge": (one_ratio(normal * 1e95, bell * 1e-40), [1.0]),
        "five ratios": (many, np.eye(5)),
        "mean of ratios": (many, np.full(5, 0.2)),
        "differences": (many, [[1.0, -1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0, -1.0]]),
        "mixed sizes": (RatioTable.from_rows(labels(n), mixed, np.tile(bell, (3, 1)).T), [1.0, 1.0, 1.0]),
        "mixed, own denominators": (
            RatioTable.from_rows(labels(n), mixed, rng.exponential(size=(n, 3))),
            [1.0, 1.0, 1.0],
        ),
    }


# What the short way can't settle: all replicates are ties or rounding, some are undefined, or scaling could overflow.
LONG_WAY = {
    "constant",
    "proportional",
    "nearly constant",
    "undefined resamples",
    "one unit alone",
    "outlier of 1e12",
    "far from zero",
    "tiny",
    "below the grid",
    "huge",
}


@pytest.mark.parametrize("name", nasty_tables())
def test_both_ways_give_the_same_bits(monkeypatch, name: str) -> None:
    """Bounds, flags and shares are those from all replicates, at three levels, on any data."""
    table, weights = nasty_tables()[name]
    run = {"also_levels": (0.6, 0.999), "methods": METHODS}
    short = intervals(table, weights, PLAN, **run)
    every_replicate(monkeypatch)
    assert short == intervals(table, weights, PLAN, **run)


@pytest.mark.parametrize("name", nasty_tables())
def test_the_short_way_is_taken_where_it_can_be(name: str) -> None:
    """The comparison above compares two ways, but for the data that allow only one."""
    table, weights = nasty_tables()[name]
    found = order_statistics(prepare(table, weights), PLAN, [0, 70, 71, 2999])
    assert {one is None for one in found} == {name in LONG_WAY}


@pytest.mark.parametrize("name", sorted(set(nasty_tables()) - LONG_WAY))
def test_each_place_is_that_of_the_sorted_replicates(name: str) -> None:
    """Any place may be asked for, neighbours and ends included."""
    table, weights = nasty_tables()[name]
    contrasts = prepare(table, weights)
    every = np.sort(aligned_replicates(contrasts, PLAN, standard_errors=False)[0], axis=1)
    places = [0, 1, 29, 30, 31, 2970, 2998, 2999]
    for row, found in zip(every, order_statistics(contrasts, PLAN, places), strict=True):
        assert [found[p] for p in places] == row[places].tolist()
        assert found[-1] == row[-1]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    draws=st.integers(1, 80),
    digits=st.integers(0, 6),
    power=st.integers(0, 9),
)
def test_random_tables_and_draws_give_the_same_bits(
    seed: int, n: int, draws: int, digits: int, power: int
) -> None:
    """Rounded to few digits, raised to odd powers, and with fewer or more draws than units."""
    rng = np.random.default_rng(seed)
    table = one_ratio(
        np.round(rng.normal(size=n), digits) ** power, np.round(rng.exponential(size=n), 1) + 0.1
    )
    plan = ExplicitPlan(n, rng.integers(0, n, size=(400, draws)))
    contrasts = prepare(table, [1.0])
    places = sorted(rng.integers(0, 400, size=4).tolist())
    (found,) = order_statistics(contrasts, plan, places)
    every = np.sort(aligned_replicates(contrasts, plan, standard_errors=False)[0][0])
    assert found is None or [found[p] for p in places] == every[places].tolist()


def sums_of(table: RatioTable, plan: BootstrapPlan):
    """Return the search of one plan, its scaled columns and their sums."""
    search = fast._Search(small_counts(plan), plan.n_draws, [0])
    columns = np.hstack([table.numerator, table.denominator]).T
    scaled = np.ldexp(columns, -np.frexp(np.abs(columns).max(axis=1))[1][:, None])
    return search, scaled, *search._sums(scaled.astype(np.float32))


@pytest.mark.parametrize("n", [3, 120, 511, 512, 513, 1300])
def test_sums_err_by_less_than_the_bound(n: int) -> None:
    """Single precision, panel by panel, stays within gamma times the norms, on cancelling and on heavy data."""
    rng = np.random.default_rng(n)
    plan = BootstrapPlan(n, 200, 2)
    for values in (rng.normal(size=n), rng.standard_cauchy(n) ** 3, np.resize([1.0, -1.0 / 3], n)):
        search, scaled, sums, longest = sums_of(one_ratio(values, np.ones(n)), plan)
        exact = scaled.astype(np.longdouble) @ small_counts(plan).T.astype(np.longdouble)
        bound = search._gamma * longest * np.linalg.norm(scaled, axis=1) + search._tiny
        assert (np.abs(sums - exact) <= bound[:, None]).all()


@pytest.mark.parametrize("seed", range(4))
def test_errors_as_large_as_the_bound_change_nothing(monkeypatch, seed: int) -> None:
    """Sums shifted at random by nearly all the error that is allowed for give the same bits."""
    rng = np.random.default_rng(seed)
    tables = [
        nasty_tables()[name][0] for name in ("normal", "heavy tails", "whole numbers", "heavy tails below")
    ]
    requests = [(table, [1.0]) for table in tables]
    whole = intervals_many(requests, PLAN, methods=METHODS)
    real = fast._Search._sums

    def shifted(search, columns):
        sums, longest = real(search, columns)
        allowed = search._gamma * np.where(
            (columns < 0).any(axis=1), longest * np.linalg.norm(columns, axis=1), sums.min(axis=1)
        )
        signs = rng.choice([-1.0, 1.0], size=sums.shape)
        return (sums + 0.9 * signs * allowed[:, None]).astype(np.float32), longest

    monkeypatch.setattr(fast._Search, "_sums", shifted)
    assert None not in order_statistics([prepare(t, [1.0])[0] for t in tables], PLAN, [0, 80])
    assert intervals_many(requests, PLAN, methods=METHODS) == whole


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_worst_errors_within_the_bound_change_nothing(monkeypatch, sign: float) -> None:
    """All replicates shifted one way, those at the wanted places the other way: the window still holds them."""
    # An error of many times the gap between neighbours, or no shift could exchange them.
    monkeypatch.setattr(fast, "_UNIT", 2.0**-15)
    contrasts = prepare(one_ratio(np.random.default_rng(0).normal(size=N), np.ones(N)), [1.0])
    places = [80, 2900]
    every = aligned_replicates(contrasts, PLAN, standard_errors=False)[0][0]
    real = fast._Search._sums

    def shifted(search, columns):
        sums, longest = real(search, columns)
        signs = np.full(3000, -sign)
        signs[np.argsort(every)[places]] = sign
        sums[0] += (0.95 * search._gamma * longest * np.linalg.norm(columns[0]) * signs).astype(np.float32)
        return sums, longest

    monkeypatch.setattr(fast._Search, "_sums", shifted)
    (found,) = order_statistics(contrasts, PLAN, places)
    assert [found[p] for p in places] == np.sort(every)[places].tolist()


def test_a_kernel_that_sums_too_coarsely_is_noticed(monkeypatch) -> None:
    """Sums kept to eight bits, as bfloat16 does, are not trusted: all replicates are computed."""
    real = fast._Search._sums

    def coarse(search, columns):
        sums, longest = real(search, columns)
        mantissa, exponent = np.frexp(sums)
        return np.ldexp(np.rint(mantissa * 256) / 256, exponent).astype(np.float32), longest

    monkeypatch.setattr(fast._Search, "_sums", coarse)
    assert order_statistics(prepare(random_ratio(N), [1.0]), PLAN, [0, 80]) == (None,)


@pytest.mark.parametrize("rows", [1, 7, 64, 5000])
@pytest.mark.parametrize("panel", [5, 10**6])
def test_the_cut_of_rows_units_and_columns_changes_no_bit(monkeypatch, rows: int, panel: int) -> None:
    """However the sums are cut, the bounds are the same."""
    requests = [(random_ratio(N, seed), [1.0]) for seed in range(5)]
    expected = intervals_many(requests, PLAN, methods=METHODS)
    for name, value in (("_ROWS", rows), ("_PANEL", panel), ("_MOST_COLUMNS", 4)):
        monkeypatch.setattr(fast, name, value)
    cut = BootstrapPlan(N, 3000, 5, chunk_rows=min(rows, 64))
    assert intervals_many(requests, cut, methods=METHODS) == expected


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("_MOST_COUNTS", N * 3000 - 1),
        ("_MOST_DRAWS", N - 1),
        ("_MOST_COLUMNS", 1),
        ("_MOST_NUMBERS", 3000),
        ("_MOST_CANDIDATES", 0.0),
        ("_MOST_EXPONENT", -1),
    ],
)
def test_past_each_limit_all_replicates_are_computed(monkeypatch, limit: str, value: float) -> None:
    """Too many counts, draws or columns, too many candidates, numbers too large: nothing is returned."""
    contrasts = prepare(random_ratio(N), [1.0])
    assert order_statistics(contrasts, PLAN, [80])[0] is not None
    monkeypatch.setattr(fast, limit, value)
    assert order_statistics(contrasts, PLAN, [80]) == (None,)


def test_counts_beyond_a_byte_are_not_held() -> None:
    """A unit drawn 256 times in one replicate would be counted as 0."""
    contrasts = prepare(random_ratio(3), [1.0])
    matrix = np.random.default_rng(0).integers(0, 3, size=(50, 256))
    assert small_counts(ExplicitPlan(3, matrix)) is not None
    matrix[20] = 1
    assert small_counts(ExplicitPlan(3, matrix)) is None
    assert order_statistics(contrasts, ExplicitPlan(3, matrix), [0]) == (None,)


def test_small_plans_take_the_long_way(monkeypatch) -> None:
    """Where the counts are kept between uses, nothing is drawn a second time."""
    monkeypatch.undo()
    contrasts = prepare(random_ratio(N), [1.0])
    assert order_statistics(contrasts, PLAN, [0]) == (None,)
    assert order_statistics(contrasts, BootstrapPlan(N, 20_000, 5), [0])[0] is not None


def test_a_place_that_was_not_asked_for_is_an_error() -> None:
    """No other replicate is handed out in its place."""
    (found,) = order_statistics(prepare(random_ratio(N), [1.0]), PLAN, [3, 2999])
    assert (found.size, found[2999]) == (3000, found[-1])
    with pytest.raises(InferenceError, match="place 4 was not computed"):
        found[4]


def test_nothing_to_resample_and_plans_of_another_size_are_errors() -> None:
    """The same refusals as for replicates."""
    with pytest.raises(InferenceError, match="no contrasts"):
        order_statistics([], PLAN, [0])
    with pytest.raises(InferenceError, match="length mismatch"):
        order_statistics(prepare(random_ratio(5), [1.0]), PLAN, [0])


SCRIPT = """
import hashlib
import numpy as np
from prereg.inference import BootstrapPlan, RatioTable, intervals_many
from prereg.inference.contrasts import prepare
from prereg.inference.order_statistics import order_statistics
n = 700
names = tuple(f"u{i:03d}" for i in range(n))
tables = []
for k in range(12):
    # Exact decimal fractions: no generator stands between the input and the digest.
    top = np.array([[((i * 7919 + k * 104729) % 20011 - 10005) / 997] for i in range(n)])
    bottom = np.array([[1 + ((i * 3571 + k * 611953) % 10007) / 641] for i in range(n)])
    tables.append(RatioTable(names, top, bottom, n))
plan = BootstrapPlan(n, 3100, 20240229)
assert None not in order_statistics([prepare(t, [1.0])[0] for t in tables], plan, [0])
found = intervals_many([(t, [1.0]) for t in tables], plan, methods=("percentile", "expanded_percentile"))
bounds = np.array([[i.low, i.high] for (one,) in found for i in one.intervals])
print(hashlib.blake2b(bounds.tobytes(), digest_size=16).hexdigest())
"""

# From all replicates; every kernel and every number of threads must give these bits.
GOLDEN_BOUNDS = "5ca707fd6ecd5d34f7a0d358bf560cad"


@pytest.mark.parametrize(
    "environment",
    [
        {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
        {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4"},
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "2"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"},
    ],
    ids=["1 thread", "2 threads", "4 threads", "haswell", "prescott", "no avx2"],
)
def test_bounds_are_the_same_bits_everywhere(environment: dict[str, str]) -> None:
    """Threads, BLAS kernels and vector units decide which replicates are looked at, and no bit of a bound."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == GOLDEN_BOUNDS


def test_a_hundred_gates_need_less_than_fifty_megabytes() -> None:
    """2,000 units, 10,000 replicates, 100 contrasts, where the counts alone take 20 MB."""
    requests = [(random_ratio(2000, seed), [1.0]) for seed in range(100)]
    plan = BootstrapPlan(2000, 10_000, 1)
    tracemalloc.start()
    try:
        intervals_many(requests, plan, methods=("expanded_percentile",))
        assert tracemalloc.get_traced_memory()[1] <= 50e6
    finally:
        tracemalloc.stop()


def test_an_estimate_that_overflows_is_the_long_way_s_to_refuse() -> None:
    """Denominators of the smallest number there is: whatever is answered, both ways answer it."""
    n = 250
    table = RatioTable(labels(n), np.random.default_rng(0).normal(size=(n, 1)), np.full((n, 1), 5e-324), n)
    with pytest.raises(InferenceError), np.errstate(all="ignore"):
        intervals(table, [1.0], BootstrapPlan(n, 10_000, 1), methods=("expanded_percentile",))
