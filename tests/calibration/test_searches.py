"""A search that is moved to a truth, against one of data that are moved there."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.calibration.answering import answer, by_settling
from prereg.calibration.cases import cases_of
from prereg.calibration.populations import PILOT_KINDS, FromPilot, Streams
from prereg.calibration.searches import SomeCandidate
from prereg.calibration.simulate import Trial, simulate
from prereg.inference import BootstrapPlan, Outcome, RatioTable, decide_some, intervals_many
from tests.calibration.worlds import candidates, promised

LABELS = tuple(f"feature {f}" for f in range(5))


@pytest.mark.parametrize("direction", ["greater", "less"])
@pytest.mark.parametrize("kind", PILOT_KINDS)
def test_moving_the_statistics_is_moving_the_data(kind: str, direction: str) -> None:
    """Every outcome is that of `decide_some` on numerators moved by a multiple of their denominators."""
    sign = 1.0 if direction == "greater" else -1.0
    made = promised(labels=LABELS, quantifier="some", direction=direction, threshold=0.1 * sign)
    world = FromPilot(kind, candidates())  # type: ignore[arg-type]
    plan = BootstrapPlan(40, made.replicates, made.seed)
    # Each candidate moved by another number, so that the order of the statistics changes too.
    moves = [
        [made.threshold + first + spread * j - at for j, at in enumerate(world.truth)]
        for first, spread in ((0.0, 0.0), (0.0, 0.1 * sign), (-0.5 * sign, -0.1 * sign))
    ]
    seen: set[Outcome] = set()
    for r in range(12):
        tables = world.tables(Streams(2, r), 40)
        search = SomeCandidate(made, tables, plan)
        for by in moves:
            moved = [
                (RatioTable(t.units, t.numerator + c * t.denominator, t.denominator, t.n_rows), w)
                for (t, w), c in zip(tables, by, strict=True)
            ]
            wanted = decide_some(moved, plan, made.threshold, direction, made.level).outcome
            assert search.outcome(by) is wanted
            seen.add(wanted)
            assert by_settling(made, tables, by) is wanted
    assert {Outcome.SUPPORTED, Outcome.REFUTED} <= seen


def test_what_can_t_be_tested_is_no_candidate_here_either() -> None:
    """The same outcomes where too few units speak of one, or it doesn't vary."""
    made = promised(labels=LABELS[:3], quantifier="some", minimum_units=10)
    units = tuple(f"u{i:02d}" for i in range(30))
    rng = np.random.default_rng(5)
    speaks = np.r_[np.ones(8), np.zeros(22)]
    flat = RatioTable(units, np.full(30, 0.05), np.ones(30), 30)
    seldom = RatioTable(units, rng.standard_normal(30) * speaks, speaks, 30)
    for mean, wanted in ((0.5, Outcome.SUPPORTED), (-0.5, Outcome.INCONCLUSIVE)):
        usual = RatioTable(units, mean + 0.2 * rng.standard_normal(30), np.ones(30), 30)
        plan = BootstrapPlan(30, made.replicates, made.seed)
        for tables in ([usual, seldom], [usual, flat], [flat, seldom]):
            pairs = [(table, np.ones(1)) for table in tables]
            found = SomeCandidate(made, pairs, plan).outcome([0.0, 0.0])
            assert found is decide_some(pairs, plan, 0.1, "greater", made.level).outcome
        assert (
            SomeCandidate(made, [(usual, np.ones(1)), (seldom, np.ones(1))], plan).outcome([0.0, 0.0])
            is wanted
        )


def test_cover_is_that_of_each_candidate_s_own_interval() -> None:
    """Where every unit speaks it is the registered interval's."""
    made = promised(labels=LABELS, quantifier="some")
    world = FromPilot("empirical", candidates(silent=-1.0))
    plan = BootstrapPlan(30, made.replicates, made.seed)
    for r in range(10):
        tables = world.tables(Streams(3, r), 30)
        own = [g[0].interval(made.interval, made.level) for g in intervals_many(tables, plan, made.level)]
        wanted = [at.low <= true <= at.high for at, true in zip(own, world.truth, strict=True)]
        assert answer(made, tables, world.truth, cases_of(made, world.truth))[1] == wanted


def test_silence_stays_silence_and_theta_stays_theta() -> None:
    """A unit without a denominator has no numerator, in every world; and a huge sample has the pilot's thetas."""
    pilot = candidates()
    for kind in PILOT_KINDS:
        world = FromPilot(kind, pilot)
        for (table, _), true, part in zip(
            world.tables(Streams(1, 0), 20_000), world.truth, pilot.parts, strict=True
        ):
            quiet = table.denominator == 0.0
            assert 0.2 < quiet.mean() < 0.6
            assert (table.numerator[quiet] == 0.0).all()
            error = part.standard_error() * np.sqrt(pilot.n_units / 20_000)
            assert abs(float(table.ratios()[0]) - true) < 6.0 * 2.0 * error


def test_a_search_is_simulated_from_end_to_end() -> None:
    """The true best is found often, and nothing where all lie at the threshold; the first set is settled too."""
    made = promised(labels=LABELS, quantifier="some")
    world = FromPilot("empirical", candidates(best=0.5))
    truths = cases_of(made, world.truth)
    found = simulate(Trial(made, world, truths, 60), 1, 0, 20)
    supported = (found["outcomes"] == 0).sum(axis=0)
    assert [case.kind for case in truths] == ["null", "null", "alternative"]
    assert supported[0] <= 3
    assert supported[-1] >= 15
