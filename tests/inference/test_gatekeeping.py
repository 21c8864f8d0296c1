"""Secondary claims behind a gate, by brute-force closure and by simulated error."""

from __future__ import annotations

import doctest
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg.errors import InferenceError
from prereg.inference import gatekeep, gatekeeping, holm

P_VALUES = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=3)
GATES = [("all", 0.0), ("each", 0.0), ("any", 0.0), ("any", 0.5)]


def local(first: list[float], second: list[float], every: list[float], gate: str, g: float) -> float:
    """Return the local p-value of the intersection of these primaries and secondaries."""
    a, b, m = len(first), len(second), len(every)
    if a == 0:
        return b * min(second)
    if gate == "all":
        return max(every)
    if gate == "each":
        return a * min(first)
    left = (1 - g) * (1 - a / m)
    parts = [p / (g / a + (1 - g) / m) for p in first]
    if left > 0:
        parts += [p * b / left for p in second]
    return min(parts)


def closure(primary: list[float], secondary: list[float], gate: str, g: float) -> list[float]:
    """Return every adjusted p-value from all intersections, one by one."""
    m, every = len(primary), [*primary, *secondary]
    found = [0.0] * len(every)
    for size in range(1, len(every) + 1):
        for held in itertools.combinations(range(len(every)), size):
            first = [every[j] for j in held if j < m]
            p = min(1.0, local(first, [every[j] for j in held if j >= m], primary, gate, g))
            for j in held:
                found[j] = max(found[j], p)
    return found


@pytest.mark.parametrize(("gate", "truncation"), GATES)
@settings(max_examples=60, deadline=None)
@given(primary=P_VALUES, secondary=P_VALUES)
def test_each_gate_is_its_closed_test(gate, truncation, primary, secondary) -> None:
    """The shortcut's p-values are those of all intersections."""
    found = gatekeep(primary, secondary, gate=gate, truncation=truncation)
    assert [*found.primary, *found.secondary] == pytest.approx(
        closure(primary, secondary, gate, truncation), rel=1e-12
    )


@pytest.mark.parametrize("truncation", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 3), (5, 4)])
def test_the_local_tests_spend_all_of_alpha_and_no_more(truncation, m: int, k: int) -> None:
    """The parallel gate's weights of any intersection add up to 1 at most, so Bonferroni's bound holds."""
    for a in range(m + 1):
        spent = a * gatekeeping._weight(a, m, truncation) if a else 0.0
        whole = spent + (gatekeeping._left(a, m, truncation) if a < m else 0.0)
        assert whole == pytest.approx(1.0)


@pytest.mark.parametrize(("gate", "truncation"), GATES)
def test_the_family_wise_error_is_held_when_the_gate_is_half_true(gate, truncation) -> None:
    """One primary and one secondary false: 5,000 correlated families err alpha of the time at most."""
    rng = np.random.default_rng(3)
    runs, alpha, errors = 5_000, 0.05, 0
    z = (rng.normal(size=(runs, 4)) + rng.normal(size=(runs, 1))) / math.sqrt(2.0) + np.array(
        [0.0, 3.0, 0.0, 3.0]
    )
    p = 0.5 * np.vectorize(math.erfc)(z / math.sqrt(2.0))
    for row in p.tolist():
        found = gatekeep(row[:2], row[2:], gate=gate, truncation=truncation)
        errors += min(found.primary[0], found.secondary[0]) <= alpha
    assert errors / runs <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / runs)


def test_serial_gates_let_no_secondary_pass_before_the_primaries() -> None:
    """The largest primary bounds every secondary from below; behind an open gate they are Holm's."""
    closed = gatekeep([0.01, 0.2], [1e-6, 0.03])
    assert (closed.primary, closed.secondary) == ((0.2, 0.2), (0.2, 0.2))
    opened = gatekeep([1e-9, 1e-8], [0.004, 0.03], gate="each")
    assert opened.secondary == tuple(holm([0.004, 0.03]))
    assert opened.primary == tuple(holm([1e-9, 1e-8]))


def test_a_parallel_gate_hands_on_the_share_of_the_primaries_that_passed() -> None:
    """One of two primaries leaves alpha/2: the secondary's p doubles; a single primary leaves all of it."""
    half = gatekeep([0.01, 0.9], [0.02], gate="any")
    assert half.secondary == (pytest.approx(0.04),)
    whole = gatekeep([0.01], [0.02], gate="any")
    assert whole.secondary == (0.02,)
    assert gatekeep([0.6, 0.9], [1e-9], gate="any").secondary == (1.0,)


def test_truncation_trades_the_secondaries_for_the_primaries() -> None:
    """A larger part of Holm lowers primary and raises secondary p-values."""
    first = [gatekeep([0.01, 0.03], [0.01], gate="any", truncation=g) for g in (0.0, 0.5, 0.9)]
    assert sorted((max(f.primary) for f in first), reverse=True) == [max(f.primary) for f in first]
    late = [gatekeep([0.01, 0.9], [0.01], gate="any", truncation=g).secondary[0] for g in (0.0, 0.5, 0.9)]
    assert late == sorted(late)
    assert late[0] < late[-1]


@pytest.mark.parametrize(
    ("primary", "secondary", "more"),
    [
        ([], [0.1], {}),
        ([0.1], [], {}),
        ([0.1], [math.nan], {}),
        ([1.1], [0.1], {}),
        ([[0.1, 0.2]], [0.1], {}),
        ([0.1], [0.1], {"gate": "some"}),
        ([0.1], [0.1], {"gate": "any", "truncation": 1.0}),
        ([0.1], [0.1], {"gate": "any", "truncation": -0.1}),
        ([0.1], [0.1], {"gate": "any", "truncation": True}),
        ([0.1], [0.1], {"gate": "each", "truncation": 0.5}),
    ],
)
def test_what_is_no_gate_is_refused(primary, secondary, more) -> None:
    """Empty families, numbers that are no p-values, and rules that don't exist."""
    with pytest.raises(InferenceError):
        gatekeep(primary, secondary, **more)


def test_the_examples_in_the_docstring_run() -> None:
    """A serial and a parallel gate."""
    failed, tried = doctest.testmod(gatekeeping)
    assert (failed, tried >= 4) == (0, True)
