"""Worlds of subjects crossed with templates, or within relations, and gates over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import prereg.calibration.answering as module
from prereg.calibration.answering import answer, by_settling
from prereg.calibration.cases import cases_of
from prereg.calibration.crossing import DESIGN_KINDS, FromDesign, Pilot, Rows
from prereg.calibration.effects import variance_components
from prereg.calibration.gates import Design
from prereg.calibration.populations import Streams
from prereg.calibration.simulate import OUTCOMES, Trial, simulate
from prereg.errors import InferenceError, StudyError
from prereg.inference import Outcome
from tests.calibration.worlds import promised, two_factors

DESIGNS: tuple[Design, ...] = ("subject_by_template", "subject_in_relation")


def test_variances_are_taken_apart() -> None:
    """Unbalanced subjects, templates and rows: each variance within a quarter of what was planted."""
    rng = np.random.default_rng(1)
    subject = np.repeat(np.arange(600), rng.integers(1, 7, 600))
    template = rng.integers(0, 150, subject.size)
    values = 0.5 * rng.standard_normal(600)[subject] + 0.3 * rng.standard_normal(150)[template]
    found = variance_components(values + 0.4 * rng.standard_normal(subject.size), [subject, template])
    assert found == pytest.approx([0.25, 0.09, 0.16], rel=0.25)


def test_a_factor_that_does_nothing_has_next_to_no_variance() -> None:
    """The mean of a level's rows would have a good part of the rows' own."""
    rng = np.random.default_rng(2)
    subject = np.repeat(np.arange(300), 3)
    found = variance_components(rng.standard_normal(900), [subject])
    assert found[0] < 0.1
    assert found[1] == pytest.approx(1.0, rel=0.15)


@pytest.mark.parametrize("kind", DESIGN_KINDS)
@pytest.mark.parametrize("design", DESIGNS)
def test_theta_of_a_world_is_the_pilot_s(kind: str, design: Design) -> None:
    """The mean of many samples' estimates is the pilot's, within five of its standard errors."""
    world = FromDesign(kind, two_factors(design))  # type: ignore[arg-type]
    estimates = []
    for r in range(400):
        (top, bottom, weights), *_ = world.sample(Streams(1, r), 30).parts
        estimates.append(float(weights @ (top.sum(axis=0) / bottom.sum(axis=0))))
    error = np.std(estimates) / 20.0
    assert abs(np.mean(estimates) - world.truth[0]) < 5.0 * error


def test_estimates_vary_as_the_planted_effects_make_them() -> None:
    """Subjects, templates and rows each add their share; the templates' stays however many subjects there are."""
    world = FromDesign("empirical", two_factors("subject_by_template", n_subjects=200, n_groups=20))
    spread = []
    for n in (30, 200):
        estimates = []
        for r in range(300):
            (top, bottom, weights), *_ = world.sample(Streams(1, r), n).parts
            estimates.append(float(weights @ (top.sum(axis=0) / bottom.sum(axis=0))))
        spread.append(float(np.std(estimates)))
    # Of the influence: a row's is its residual over the number of rows.
    variances = [v * len(world.pilot.subject) ** 2 for v in world.pilot.effects[0].variances]
    rows = np.bincount(world.pilot.subject)
    repeats = float((rows.astype(float) ** 2).sum() / rows.sum() ** 2) * len(rows)
    for n, found in zip((30, 200), spread, strict=True):
        wanted = repeats * variances[0] / n + 1.1 * variances[1] / 20 + sum(variances[2:]) / (n * rows.mean())
        assert found == pytest.approx(np.sqrt(wanted), rel=0.2)
    assert spread[1] > 0.5 * spread[0]


@pytest.mark.parametrize("design", DESIGNS)
def test_a_sample_has_the_pilot_s_structure(design: Design) -> None:
    """A drawn subject has the groups and denominators that it had, and a larger sample begins with the smaller one."""
    pilot = two_factors(design)
    world = FromDesign("heavy_tailed", pilot)
    small, large = world.sample(Streams(3, 7), 12), world.sample(Streams(3, 7), 30)
    n = len(small.subjects)
    assert large.subjects[:n] == small.subjects
    assert large.groups[:n] == small.groups
    np.testing.assert_allclose(large.parts[0][0][:n], small.parts[0][0], rtol=1e-12)
    profiles = {}
    for rows in (pilot.rows, large):
        for who, group in zip(rows.subjects, rows.groups, strict=True):
            profiles.setdefault((rows is large, who), []).append(group)
    known = {tuple(groups) for (drawn, _), groups in profiles.items() if not drawn}
    assert {tuple(groups) for (drawn, _), groups in profiles.items() if drawn} <= known


@pytest.mark.parametrize("design", DESIGNS)
def test_moving_the_bounds_is_moving_the_rows(design: Design) -> None:
    """Every outcome is the one that a verdict would have on data moved to that truth."""
    made = promised(design=design, replicates=400)
    world = FromDesign("empirical", two_factors(design, mean=0.35))
    truths = cases_of(made, world.truth)
    seen = set()
    for r in range(5):
        rows = world.sample(Streams(2, r), 30)
        outcomes, _ = answer(made, rows, world.truth, truths)
        for case, outcome in zip(truths, outcomes, strict=True):
            assert outcome is by_settling(made, rows, [case.values[0] - world.truth[0]])
            seen.add(outcome)
    assert len(seen) > 1


def test_a_ratio_no_row_speaks_of_stays_silent() -> None:
    """Rows without a denominator have no numerator in any world."""
    pilot = two_factors("subject_by_template")
    top, bottom, weights = pilot.rows.parts[0]
    heard = (np.arange(len(top)) % 3 > 0)[:, None].astype(float)
    rows = replace(pilot.rows, parts=((top * heard, bottom * heard, weights),))
    world = FromDesign("empirical", Pilot.of("subject_by_template", rows))
    (above, below, _), *_ = world.sample(Streams(1, 0), 30).parts
    assert (below == 0.0).any()
    assert (above[below == 0.0] == 0.0).all()


def test_one_template_is_no_design() -> None:
    """There is nothing to draw from."""
    part = (np.arange(4.0)[:, None], np.ones((4, 1)), np.ones(1))
    with pytest.raises(InferenceError, match="one subject, template or relation"):
        Pilot.of("subject_by_template", Rows((part,), ("a", "b", "c", "d"), ("t",) * 4))


def test_fewer_templates_than_the_minimum_never_decide() -> None:
    """A crossed gate counts its smaller side, as a verdict does."""
    made = promised(design="subject_by_template", replicates=100)
    world = FromDesign("empirical", two_factors("subject_by_template", n_groups=6))
    found = simulate(Trial(made, world, cases_of(made, world.truth), 40), 1, 0, 4)
    assert {OUTCOMES[i] for i in found["outcomes"].ravel()} == {Outcome.INCONCLUSIVE}


def test_a_gate_that_is_not_the_registered_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first data set is answered by the verdict's own way too."""
    made = promised(design="subject_in_relation", replicates=100)
    world = FromDesign("empirical", two_factors("subject_in_relation"))
    trial = Trial(made, world, cases_of(made, world.truth), 30)
    monkeypatch.setattr(module, "_decide", lambda *_: Outcome.INVALID)
    simulate(trial, 1, 1, 1)
    with pytest.raises(StudyError, match="a verdict would be"):
        simulate(trial, 1, 0, 1)
