"""Resampling designs: what is drawn, how often, and the same bits everywhere."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from arch.bootstrap import optimal_block_length as archs_block_length

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    WeightPlan,
    automatic_blocks,
    blocks,
    clusters,
    crossed,
    custom_statistic,
    iid,
    mean,
    nested,
    optimal_block_length,
    slope,
    unit_influence,
)
from prereg.inference.plan import count_blocks

# 6 subjects x 5 templates, one cell empty, one cell twice.
ROWS = [f"s{i}" for i in range(6) for _ in range(5)]
COLUMNS = [f"t{j}" for _ in range(6) for j in range(5)]
ROWS, COLUMNS = [*ROWS[:-1], "s0"], [*COLUMNS[:-1], "t0"]

DESIGNS = {
    "iid": iid(30),
    "clusters": clusters(ROWS),
    "crossed": crossed(ROWS, COLUMNS),
    "nested": nested(ROWS, COLUMNS),
    "stationary": blocks(np.arange(30)[::-1], 3.5),
    "circular": blocks(np.arange(30)[::-1], 4, circular=True),
}
NAMES = list(DESIGNS)

# blake2b of 200 replicates of every design, and of the replicates and intervals of eight statistics. A new numpy that
# draws otherwise, or a change in the arithmetic, must show here.
GOLDEN_WEIGHTS = "134ecd19edcbaaab62c2573549f3dc2b"
GOLDEN_RESULTS = "a765ab0d862bbf9b00e51ffcb158b6cd"

SCRIPT = """
import hashlib, struct, sys
import numpy as np
from prereg.inference import *
n, chunk = 153, int(sys.argv[1])
# Exact decimal fractions: no library's sine or generator stands between the input and the digest.
x, y, z = (np.array([((i * a + 17) % 1009 - 500) / 97 for i in range(n)]) for a in (7919, 104729, 611953))
x[::7] = 1.0
hit = np.arange(n) % 3 == 0
wide = np.array([[((i * 31 + d * 57) % 211) / 13 for d in range(4)] for i in range(n)])
statistics = [mean(x), mean_of_ratios(np.column_stack([x, y]), np.column_stack([z**2, x**2 + 1])),
              auroc_gap(x, y, hit), spearman_gap(x, z, y), kendall(x, y), slope(x, y), depth_spearman(range(4), wide),
              custom_statistic(lambda w: (w * x * x).sum(axis=1) / w.sum(axis=1), n)]
subject, template = [f"s{i % 17:02d}" for i in range(n)], [f"t{i // 17}" for i in range(n)]
designs = [iid(n), clusters(subject), crossed(subject, template), nested(subject, template), blocks(range(n), 6.5),
           blocks(range(n), 6, circular=True)]
digest = hashlib.blake2b(digest_size=16)
for design in designs:
    plan = WeightPlan(design, 130, 20240229, family=3, chunk_rows=chunk)
    for statistic in statistics:
        for weights in plan.weights():
            digest.update(statistic.evaluate(weights).tobytes())
    for statistic in statistics:
        methods = [m for m, why in available_methods(statistic, design).items() if why is None]
        found = weighted_intervals(statistic, plan, methods=methods, also_levels=(0.9,))
        for number in (found.estimate, found.standard_error, found.largest_influence,
                       *(b for i in found.intervals for b in (i.low, i.high))):
            digest.update(struct.pack("<d", number))
print(digest.hexdigest())
"""


def draws(name: str, n_replicates: int = 200, **options: int) -> np.ndarray:
    return np.vstack(list(WeightPlan(DESIGNS[name], n_replicates, 20240229, **options).weights()))


def test_the_weights_are_the_golden_ones() -> None:
    """The first 200 replicates of each design are the registered bits."""
    digest = hashlib.blake2b(b"".join(draws(name).tobytes() for name in NAMES), digest_size=16)
    assert digest.hexdigest() == GOLDEN_WEIGHTS


@pytest.mark.parametrize(
    ("chunk", "environment"),
    [
        ("64", {}),
        ("7", {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}),
        ("1", {"OPENBLAS_CORETYPE": "Nehalem"}),
        ("31", {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}),
        ("64", {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"}),
    ],
    ids=["as is", "chunks of 7, 2 threads", "one by one, nehalem", "chunks of 31, haswell", "no avx2"],
)
def test_results_are_the_same_bits_everywhere(chunk: str, environment: dict[str, str]) -> None:
    """Chunks, threads, BLAS kernels and vector units change no bit of replicates, errors or bounds."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, chunk],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == GOLDEN_RESULTS


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_a_prefix_of_a_longer_one_in_any_chunks(name: str) -> None:
    """Cutting and lengthening redraw nothing; weights are whole, read-only float64."""
    whole = draws(name, 150)
    assert np.array_equal(whole, draws(name, 150, chunk_rows=7))
    assert np.array_equal(whole, draws(name, 300)[:150])
    assert not np.array_equal(whole, draws(name, 150, family=1))
    assert (whole >= 0).all()
    assert (whole == np.rint(whole)).all()
    chunk = next(WeightPlan(DESIGNS[name], 3, 0).weights())
    assert (chunk.dtype, chunk.shape, chunk.flags.writeable) == (np.float64, (3, 30), False)


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_a_mean_weight_of_one(name: str) -> None:
    """Over 4,000 replicates, within five standard errors."""
    weights = draws(name, 4000)
    error = weights.std(axis=0) / math.sqrt(4000)
    assert (np.abs(weights.mean(axis=0) - 1.0) < 5 * error).all()


def test_iid_draws_are_those_of_the_bootstrap_plan() -> None:
    """One seed and family, one set of draws, whichever engine asks."""
    old = np.vstack(list(count_blocks(BootstrapPlan(30, 200, 20240229))))
    assert np.array_equal(draws("iid"), old)


def test_rows_of_one_cluster_have_one_weight() -> None:
    """A cluster is drawn whole, and clusters as a set are drawn as often as there are."""
    weights = draws("clusters")
    codes = np.array([int(label[1]) for label in ROWS])
    by_cluster = np.stack([weights[:, codes == k] for k in range(1, 5)])
    assert (by_cluster == by_cluster[:, :, :1]).all()
    first = [int(np.flatnonzero(codes == k)[0]) for k in range(6)]
    assert (weights[:, first].sum(axis=1) == 6).all()


@pytest.mark.parametrize("name", ["clusters", "crossed", "nested"])
def test_a_draw_belongs_to_a_label_not_to_a_place(name: str) -> None:
    """Rows in another order have their weights in that order."""
    order = np.random.default_rng(0).permutation(30)
    rows, columns = [ROWS[i] for i in order], [COLUMNS[i] for i in order]
    design = {
        "clusters": lambda: clusters(rows),
        "crossed": lambda: crossed(rows, columns),
        "nested": lambda: nested(rows, columns),
    }[name]()
    moved = np.vstack(list(WeightPlan(design, 200, 20240229).weights()))
    assert np.array_equal(moved, draws(name)[:, order])


def test_blocks_follow_the_order_not_the_rows() -> None:
    """Cases in another order of rows have their weights in that order."""
    order = np.random.default_rng(0).permutation(30)
    moved = WeightPlan(blocks(np.arange(30)[::-1][order], 3.5), 200, 20240229)
    assert np.array_equal(np.vstack(list(moved.weights())), draws("stationary")[:, order])


def test_a_crossed_weight_is_a_product_of_counts() -> None:
    """Each replicate of a full table is an outer product of two counts that add up to the sides."""
    design = crossed(
        [f"r{i}" for i in range(4) for _ in range(3)], [f"c{j}" for _ in range(4) for j in range(3)]
    )
    for weights in np.vstack(list(WeightPlan(design, 64, 5).weights())).reshape(64, 4, 3):
        rows, columns = weights.sum(axis=1) / 3, weights.sum(axis=0) / 4
        assert np.array_equal(weights, np.outer(rows, columns))
        assert (rows.sum(), columns.sum()) == (4, 3)
    assert design.n_independent == 3


def test_nested_draws_take_as_many_inner_units_as_each_copy_has() -> None:
    """Each outer unit of five cases weighs a multiple of five; the outer ones are drawn six times."""
    weights, codes = draws("nested"), np.array([int(label[1]) for label in ROWS])
    for k in range(1, 5):
        assert (weights[:, codes == k].sum(axis=1) % 5 == 0).all()
    # The two cases of one inner unit go together.
    assert np.array_equal(weights[:, 0], weights[:, 29])
    inner = weights[:, [i for i in range(30) if i != 29]]
    sizes = np.array([5, 5, 5, 5, 5, 4])
    totals = np.stack([inner[:, codes[:29] == k].sum(axis=1) for k in range(6)], axis=1)
    assert ((totals / sizes).sum(axis=1) == 6).all()


def test_circular_blocks_enumerate() -> None:
    """The mean weight products over many draws are those of all 4**2 pairs of blocks of two."""
    design = blocks(range(4), 2, circular=True)
    expected = {}
    for starts in itertools.product(range(4), repeat=2):
        places = [(s + k) % 4 for s in starts for k in range(2)]
        key = tuple(np.bincount(places, minlength=4).tolist())
        expected[key] = expected.get(key, 0) + 1 / 16
    found = np.vstack(list(WeightPlan(design, 8000, 1).weights()))
    keys, counts = np.unique(found, axis=0, return_counts=True)
    seen = {tuple(int(v) for v in key): c / 8000 for key, c in zip(keys, counts, strict=True)}
    assert set(seen) == set(expected)
    for key, p in expected.items():
        assert seen[key] == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 8000))


def test_stationary_blocks_have_the_variance_of_politis_and_romano() -> None:
    """The bootstrap variance of a mean is `sum_k b_k R_k / n`, R the circular autocovariances (lemma 1, 1994)."""
    n, length = 40, 5.0
    rng = np.random.default_rng(2)
    x = np.convolve(rng.normal(size=n + 4), np.ones(5), "valid")
    gap = x - x.mean()
    p = 1 / length
    total = gap @ gap / n
    for k in range(1, n):
        share = (1 - k / n) * (1 - p) ** k + (k / n) * (1 - p) ** (n - k)
        total += share * float(gap @ np.roll(gap, -k)) / n
    weights = np.vstack(list(WeightPlan(blocks(range(n), length), 20_000, 3).weights()))
    values = weights @ x / n
    # A variance from 20,000 draws errs by about 1%.
    assert values.var() == pytest.approx(total / n, rel=0.05)


def test_a_stationary_bootstrap_of_length_one_draws_cases() -> None:
    """Blocks of length 1 are iid draws in distribution: weights have the binomial variance."""
    weights = np.vstack(list(WeightPlan(blocks(range(20), 1), 8000, 3).weights()))
    assert weights.var(axis=0) == pytest.approx(np.full(20, 1 - 1 / 20), rel=0.1)


def test_the_crossed_variance_is_owens() -> None:
    """For a full table the pigeonhole variance of a mean is exact by the moments of two multinomials."""
    rng = np.random.default_rng(4)
    table = rng.normal(size=(5, 4)) + rng.normal(size=(5, 1))
    gap = table - table.mean()
    rows, columns = gap.mean(axis=1), gap.mean(axis=0)
    # Var of sum a_i b_j x_ij / RC, a and b independent multinomial counts.
    row_part, column_part = (rows**2).sum() / 25, (columns**2).sum() / 16
    rest = gap - rows[:, None] - columns
    expected = row_part + column_part + (rest**2).sum() / 400
    labels = [f"r{i}" for i in range(5) for _ in range(4)], [f"c{j}" for _ in range(5) for j in range(4)]
    design = crossed(*labels)
    weights = np.vstack(list(WeightPlan(design, 20_000, 3).weights()))
    assert (weights @ table.ravel() / 20).var() == pytest.approx(expected, rel=0.05)
    psi = unit_influence(mean(table.ravel()), design)
    assert (psi**2).sum() == pytest.approx(row_part + column_part, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "n"),
    [("iid", 30), ("clusters", 6), ("crossed", 5), ("nested", 6), ("stationary", 8), ("circular", 7)],
)
def test_the_number_of_independent_units(name: str, n: int) -> None:
    """Cases, clusters, the smaller side, outer units, whole blocks."""
    assert DESIGNS[name].n_independent == n


def test_units_of_a_series_are_stretches_no_shorter_than_a_block() -> None:
    """30 cases in blocks of 4 are seven stretches of four or five neighbours."""
    codes = DESIGNS["circular"].units[0]
    assert sorted(np.bincount(codes)) == [4, 4, 4, 4, 4, 5, 5]
    assert (np.diff(codes[::-1]) >= 0).all()


@pytest.mark.parametrize("n", [25, 60, 400, 2000])
@pytest.mark.parametrize("rho", [0.0, 0.5, -0.4, 0.95])
def test_the_automatic_block_length_is_archs(n: int, rho: float) -> None:
    """Both lengths equal arch's, but for lengths below 1."""
    rng = np.random.default_rng(n)
    x = np.zeros(n)
    for i, shock in enumerate(rng.normal(size=n)):
        x[i] = rho * x[i - 1] + shock
    expected = archs_block_length(x).iloc[0]
    found = optimal_block_length(x)
    assert found.stationary == pytest.approx(max(1.0, expected["stationary"]), rel=1e-10)
    assert found.circular == pytest.approx(max(1.0, expected["circular"]), rel=1e-10)


@pytest.mark.parametrize("circular", [False, True])
def test_blocks_for_a_statistic_are_those_of_its_influences(circular: bool) -> None:
    """For a mean, arch's length of the values in the order of the series; for others the length is theirs."""
    rng = np.random.default_rng(5)
    x = np.convolve(rng.normal(size=209), np.ones(10), "valid")
    order = rng.permutation(200)
    expected = archs_block_length(x).iloc[0]["circular" if circular else "stationary"]
    found = automatic_blocks(mean(x[order]), order, circular=circular)
    assert found.length == pytest.approx(math.ceil(expected) if circular else expected, rel=1e-8)
    assert np.array_equal(found.sequence, np.argsort(order))
    noise = rng.normal(size=200)
    # The slope of noise on noise is no series with a memory, whatever x is.
    assert automatic_blocks(slope(rng.normal(size=200), noise), order).length < found.length / 2


def test_a_statistic_without_influences_can_not_choose_blocks() -> None:
    """A step function has no series of influences; nor do 30 cases fit 40 places."""
    rough = custom_statistic(lambda w: w[:, 0], 40, smooth=False)
    with pytest.raises(InferenceError, match="no influences"):
        automatic_blocks(rough, range(40))
    with pytest.raises(InferenceError, match="30 cases can't choose blocks for 40 places"):
        automatic_blocks(mean(range(30)), range(40))


UNUSABLE = [
    (lambda: iid(1), "n_rows is 1"),
    (lambda: iid(True), "n_rows is True"),
    (lambda: clusters([]), "no labels"),
    (lambda: clusters("abc"), "no labels"),
    (lambda: clusters(["a", "a"]), "one level only"),
    (lambda: clusters(["a", ""]), "non-empty strings"),
    (lambda: clusters(["a", 1]), "non-empty strings"),
    (lambda: crossed(["a", "b"], ["x"]), "2 row labels, 1 column"),
    (lambda: crossed(["a", "b"], ["x", "x"]), "columns has one level"),
    (lambda: nested(["a", "b"], ["x"]), "2 outer labels, 1 inner"),
    (lambda: nested(["a", "a"], ["x", "y"]), "outer has one level"),
    (lambda: blocks([1, 1, 2, 3], 1), "1 ties"),
    (lambda: blocks([1, math.nan], 1), "nan"),
    (lambda: blocks([[1, 2], [3, 4]], 1), "one number for each case"),
    (lambda: blocks(range(10), 0.5), "length is 0.5"),
    (lambda: blocks(range(10), math.nan), "length is nan"),
    (lambda: blocks(range(10), 2.5, circular=True), "whole number"),
    (lambda: blocks(range(10), 6), "fewer than two blocks"),
    (lambda: optimal_block_length(range(19)), "at least 20"),
    (lambda: optimal_block_length([1.0] * 30), "constant"),
    (lambda: WeightPlan(iid(5), 0, 1), "n_replicates is 0"),
    (lambda: WeightPlan(iid(5), 10, -1), "seed is -1"),
    (lambda: WeightPlan(iid(5), 10, 1, chunk_rows=65), "at most 64"),
]


@pytest.mark.parametrize(("make", "words"), UNUSABLE, ids=range(len(UNUSABLE)))
def test_what_can_not_be_a_design_is_refused(make, words: str) -> None:
    """Each unusable input is an error that says why."""
    with pytest.raises(InferenceError, match=words):
        make()
