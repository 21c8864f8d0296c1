"""Adjusted p-values by closed testing, by monotonicity, and by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from prereg.errors import InferenceError
from prereg.inference import (
    BootstrapPlan,
    RatioTable,
    benjamini_hochberg,
    benjamini_yekutieli,
    hochberg,
    holm,
    replicate,
    step_down_maxt,
)

from ._support import labels

P_VALUES = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=7)
ALL = [holm, hochberg, benjamini_hochberg, benjamini_yekutieli]


@settings(max_examples=60, deadline=None)
@given(p=P_VALUES)
def test_holm_is_closed_bonferroni(p: list[float]) -> None:
    """Each adjusted p-value is the largest Bonferroni p-value of the intersections that hold it."""
    found = holm(p)
    for j in range(len(p)):
        others = [k for k in range(len(p)) if k != j]
        wanted = max(
            min(1.0, (size + 1) * min([p[j], *(p[k] for k in subset)]))
            for size in range(len(p))
            for subset in itertools.combinations(others, size)
        )
        assert found[j] == pytest.approx(wanted, abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(p=P_VALUES)
def test_step_up_procedures_are_scipys(p: list[float]) -> None:
    """Benjamini-Hochberg and -Yekutieli agree with scipy."""
    for ours, method in ((benjamini_hochberg, "bh"), (benjamini_yekutieli, "by")):
        assert ours(p) == pytest.approx(stats.false_discovery_control(p, method=method), abs=1e-14)


@pytest.mark.parametrize("adjust", ALL)
@settings(max_examples=40, deadline=None)
@given(p=P_VALUES, seed=st.integers(0, 1000))
def test_adjusting_keeps_order_and_bounds(adjust, p: list[float], seed: int) -> None:
    """Never below p, never above 1, monotone, and indifferent to the order of the input."""
    values = np.array(p)
    found = adjust(values)
    assert (found >= np.minimum(values, 1) - 1e-15).all()
    assert (found <= 1.0).all()
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= -1e-15).all()
    shuffled = np.random.default_rng(seed).permutation(values.size)
    assert adjust(values[shuffled]).tolist() == found[shuffled].tolist()


@pytest.mark.parametrize("adjust", ALL)
@pytest.mark.parametrize("p", [[], [0.1, float("nan")], [0.1, 1.1], [-0.1], [[0.1, 0.2]]])
def test_what_is_no_p_value_is_refused(adjust, p) -> None:
    """An empty family, nan and numbers outside [0, 1] are errors."""
    with pytest.raises(InferenceError):
        adjust(p)


def test_max_t_by_brute_force() -> None:
    """Step-down adjusted p-values follow the definition, hypothesis by hypothesis."""
    rng = np.random.default_rng(0)
    observed, null = np.array([1.0, 2.5, 0.3, 2.0]), rng.normal(size=(99, 4))
    found = step_down_maxt(observed, null)
    order = [1, 3, 0, 2]
    running = 0.0
    for place, j in enumerate(order):
        left = order[place:]
        extreme = sum(null[b, left].max() >= observed[j] for b in range(99))
        running = max(running, (1 + extreme) / 100)
        assert found[j] == running


def test_max_t_never_ranks_a_weaker_statistic_as_the_stronger_result() -> None:
    """The second hypothesis alone would have p = 1/4; it can't be below the first's 1/2."""
    null = [[9.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert step_down_maxt([3.0, 2.9], null).tolist() == [0.5, 0.5]


def test_max_t_ties_count_as_extreme_and_p_is_never_0() -> None:
    """A replicate equal up to rounding counts; without any, p is 1/(B+1)."""
    assert step_down_maxt([0.1 + 0.2], [[0.3], [0.0], [0.0]]).tolist() == [0.5]
    assert step_down_maxt([5.0], np.zeros((9, 1))).tolist() == [0.1]


def test_max_t_uses_the_dependence_between_tests() -> None:
    """Ten copies of one test cost nothing; Holm would charge tenfold."""
    null = np.repeat(np.random.default_rng(1).normal(size=(999, 1)), 10, axis=1)
    observed = np.full(10, 2.2)
    single = step_down_maxt(observed[:1], null[:, :1])[0]
    assert step_down_maxt(observed, null).tolist() == [single] * 10
    assert holm(np.full(10, single))[0] == pytest.approx(10 * single)


def test_max_t_on_a_shared_plan_finds_the_effect_and_spares_the_nulls() -> None:
    """One true effect of one standard deviation among 20 tests, 60 units."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(60, 20))
    values[:, 4] += 1.0
    table = RatioTable.of_means(labels(60), values)
    draws = replicate(table, np.eye(20), BootstrapPlan(60, 999, 3))
    observed = [d.estimate / d.standard_error for d in draws]
    null = np.column_stack([(d.values - d.estimate) / d.standard_errors for d in draws])
    found = step_down_maxt(observed, null)
    assert found[4] < 0.01
    assert (np.delete(found, 4) > 0.05).all()


@pytest.mark.parametrize(
    ("observed", "null"),
    [
        ([], np.zeros((3, 0))),
        ([1.0, 2.0], np.zeros((3, 1))),
        ([1.0], np.zeros((0, 1))),
        ([float("nan")], np.zeros((3, 1))),
        ([1.0], [[float("inf")]]),
        ([[1.0]], [[1.0]]),
    ],
)
def test_max_t_refuses_what_does_not_fit(observed, null) -> None:
    """Sizes that differ, and nan, are errors."""
    with pytest.raises(InferenceError):
        step_down_maxt(observed, null)
