"""Planted worlds whose size is known; the same counts however the work is spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import prereg.calibration.simulate as module
from prereg.calibration import answering
from prereg.calibration.gates import Gate
from prereg.calibration.populations import SERIES_KINDS, FromMoments, FromPilot, Streams
from prereg.calibration.simulate import Answers, Trial, run_trials, simulate
from prereg.calibration.sums import Sums
from prereg.inference import (
    BootstrapPlan,
    Outcome,
    RatioTable,
    bonferroni_level,
    decide_conjunction,
    headline_intervals_many,
)
from prereg.workers import Workers
from tests.calibration.worlds import Clustered, cases, gate, promised, sums


def run(trial: Trial, replications: int, **kwargs: Any) -> Answers:
    return run_trials([trial], replications=replications, seed=1, workers=Workers(**kwargs))[0]


def test_the_size_of_a_normal_mean_is_half_of_alpha() -> None:
    """At n = 1000 a gate at 95% supports a claim on its boundary in 2.5% of samples; counts within 1e-4 tails."""
    made = gate(direction="equivalence", threshold=10.0)
    upper = Gate(
        **{**{f: getattr(made, f) for f in made.__slots__}, "direction": "greater", "threshold": 0.0}
    )
    trial = Trial(upper, FromMoments("normal", 1.0, 1), cases(upper, 0.2), 1_000)
    found = run(trial, 400)
    low, high = binom.ppf([1e-4, 1 - 1e-4], 400, 0.025)
    assert low <= found.counts(0)[Outcome.SUPPORTED] <= high
    assert low <= found.counts(0)[Outcome.REFUTED] <= high
    # 0.2 is six standard errors away.
    assert found.counts(1)[Outcome.SUPPORTED] == 400
    assert binom.ppf(1e-4, 400, 0.95) <= found.covered.sum() <= binom.ppf(1 - 1e-4, 400, 0.95)


def test_moving_the_numerators_is_moving_the_bounds() -> None:
    """One simulation serves every truth: N' = N + c D shifts the interval by c and nothing else."""
    made = gate(labels=("a", "b"))
    world = FromPilot("empirical", sums())
    truths = cases(made, *world.truth)
    trial = Trial(made, world, truths, 30)
    found = simulate(trial, 9, 0, 12)
    plan = BootstrapPlan(30, made.replicates, made.seed)
    for i in range(12):
        for j, case in enumerate(truths):
            moved = [
                (
                    RatioTable(
                        t.units, t.numerator + (value - true) * t.denominator, t.denominator, t.n_rows
                    ),
                    weights,
                )
                for (t, weights), value, true in zip(
                    world.tables(Streams(9, i), 30), case.values, world.truth, strict=True
                )
            ]
            both = bonferroni_level(made.level, 2)
            groups = headline_intervals_many(
                moved, plan, made.level, also_levels=(both,), methods=(made.interval,)
            )
            wanted = decide_conjunction([g[0] for g in groups], 0.1, "greater", made.level).outcome
            assert module.OUTCOMES[found["outcomes"][i, j]] is wanted


def test_an_ideal_interval_needs_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate of one ratio is decided without a resample; where the ideal is not to be had, from the plan."""
    made = gate(direction="equivalence", threshold=0.5)
    trial = Trial(made, FromMoments("skewed", 1.0, 1), cases(made), 40)
    monkeypatch.setattr(answering, "intervals_many", None)
    full = run(trial, 30)
    monkeypatch.undo()
    monkeypatch.setattr(answering, "ideal_result", lambda *_: None)
    planned = run(trial, 30)
    assert (planned.outcomes != full.outcomes).mean() < 0.1


def test_a_verdict_s_own_way_answers_the_same() -> None:
    """Of every world, several contrasts and an equivalence, `settle` on moved data says what the simulation says."""
    for direction, kind in (("greater", "empirical"), ("less", "clustered"), ("equivalence", "skewed")):
        made = promised(labels=("a", "b"), direction=direction, threshold=0.35)
        world = FromPilot(kind, sums())  # type: ignore[arg-type]
        truths = cases(made, *world.truth)
        for r in range(5):
            tables = world.tables(Streams(4, r), 30)
            outcomes, _ = answering.answer(made, tables, world.truth, truths)
            answering.check(made, tables, world.truth, truths, outcomes)


def test_blocks_of_updates_are_drawn_as_a_verdict_draws_them() -> None:
    """A series keeps the pilot's neighbours together, and `settle` on moved data answers the same."""
    rng = np.random.default_rng(6)
    walk = np.convolve(rng.standard_normal(43), np.ones(4) / 4.0, "valid") + 0.5
    table = RatioTable.of_means([f"update {i:03d}" for i in range(40)], walk)
    pilot = Sums.of([(table, np.ones(1))], np.ones(40))
    made = promised(block_length=4.0, replicates=400, threshold=0.3)
    for kind in SERIES_KINDS:
        world = FromPilot(kind, pilot, 4.0)
        truths = cases(made, *world.truth)
        alike = []
        for r in range(40):
            tables = world.tables(Streams(5, r), 40)
            series = tables[0][0].numerator[:, 0] / tables[0][0].denominator[:, 0] - world.truth[0]
            alike.append(float(series[1:] @ series[:-1] / (series @ series)))
            if r < 4:
                outcomes, _ = answering.answer(made, tables, world.truth, truths)
                answering.check(made, tables, world.truth, truths, outcomes)
        # Each by itself they would have none.
        assert np.mean(alike) > 0.3
        estimates = [float(world.tables(Streams(5, r), 40)[0][0].ratios()[0]) for r in range(200)]
        assert abs(np.mean(estimates) - world.truth[0]) < 5.0 * np.std(estimates) / 200**0.5


def test_clusters_analysed_as_rows_support_what_is_false() -> None:
    """Five rows that share their noise: as units of their own they are wrong far too often, as clusters not."""
    made = gate(threshold=0.3)
    wrong = run(Trial(made, Clustered(as_units=True), cases(made, 0.5), 200), 200)
    right = run(Trial(made, Clustered(as_units=False), cases(made, 0.5), 200), 200)
    assert wrong.counts(0)[Outcome.SUPPORTED] > binom.ppf(1 - 1e-6, 200, 0.025)
    assert right.counts(0)[Outcome.SUPPORTED] <= binom.ppf(1 - 1e-4, 200, 0.025)


def test_too_few_units_are_never_an_answer() -> None:
    """Below the registered minimum every outcome is inconclusive."""
    made = gate(minimum_units=20, labels=("a", "b"))
    world = FromPilot("empirical", sums())
    found = run(Trial(made, world, cases(made, *world.truth), 12), 25)
    assert found.counts(0)[Outcome.INCONCLUSIVE] == 25


@pytest.mark.parametrize("jobs", [1, 2])
def test_counts_depend_neither_on_jobs_nor_on_chunks(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every data set has random numbers of its own."""
    made = gate(labels=("a", "b"))
    world = FromPilot("heavy_tailed", sums())
    trial = Trial(made, world, cases(made, *world.truth), 25)
    whole = simulate(trial, 1, 0, 40)
    monkeypatch.setattr(module, "CHUNK", 7)
    found = run(trial, 40, jobs=jobs, engine="threading")
    np.testing.assert_array_equal(found.outcomes, whole["outcomes"])
    np.testing.assert_array_equal(found.covered, whole["covered"])


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished chunks are read, not simulated again, and the counts are those of an unbroken run."""
    made = gate(labels=("a", "b"))
    world = FromPilot("empirical", sums())
    trial = Trial(made, world, cases(made, *world.truth), 25)
    whole = run(trial, 100)
    done: list[int] = []

    def killed(trial: Trial, seed: int, first: int, count: int) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(first)
        return simulate(trial, seed, first, count)

    monkeypatch.setattr(module, "simulate", killed)
    with pytest.raises(KeyboardInterrupt):
        run(trial, 100, checkpoint=tmp_path)
    again: list[int] = []

    def counted(trial: Trial, seed: int, first: int, count: int) -> Any:
        again.append(first)
        return simulate(trial, seed, first, count)

    monkeypatch.setattr(module, "simulate", counted)
    found = run(trial, 100, checkpoint=tmp_path)
    assert done == [0, 25]
    assert again == [50, 75]
    np.testing.assert_array_equal(found.outcomes, whole.outcomes)


def test_more_replications_never_take_up_a_shorter_chunk(tmp_path: Path) -> None:
    """The last chunk of a run of 30 is not the second one of a run of 50."""
    made = gate(labels=("a", "b"))
    world = FromPilot("empirical", sums())
    trial = Trial(made, world, cases(made, *world.truth), 25)
    assert len(run(trial, 30, checkpoint=tmp_path).outcomes) == 30
    assert len(run(trial, 50, checkpoint=tmp_path).outcomes) == 50


def test_a_sample_that_gives_no_ratio_supports_nothing() -> None:
    """Where every drawn unit has a denominator of 0 there is no estimate: invalid, and not covered."""
    bottom = np.r_[np.zeros(39), 1.0]
    table = RatioTable.from_rows([f"s{i:02d}" for i in range(40)], np.linspace(-1.0, 1.0, 40) * 0.1, bottom)
    world = FromPilot("empirical", Sums.of([(table, np.ones(1))], np.ones(40)))
    made = gate()
    found = run(Trial(made, world, cases(made, *world.truth), 10), 25)
    assert found.counts(0)[Outcome.INVALID] > 10
    assert found.counts(0)[Outcome.SUPPORTED] == 0
