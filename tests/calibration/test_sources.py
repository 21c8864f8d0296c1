"""Worlds from a pilot's evidence and from stated precision, through to a calibration."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.calibration import calibrate, plans_from_moments, plans_from_pilot, run_digest
from prereg.errors import EvidenceError, StudyError
from prereg.pipeline import Pipeline
from prereg.protocol import ProtocolFile, read_protocol
from prereg.study import Study
from tests.synthetic import PRECISION, frozen_project, make_project, measured, options


def opened(root: Path) -> tuple[Pipeline, ProtocolFile]:
    protocol_file = read_protocol(root / "gates" / "sample")
    return Pipeline(protocol_file, "pythia-tiny", options(root)), protocol_file


def test_the_pilot_s_estimates_are_the_verdict_s(tmp_path: Path) -> None:
    """The same contrasts, arms, update sets and units as a verdict uses, and the same standard errors."""
    study = Study.open(make_project(tmp_path), model="pythia-tiny", options=options(tmp_path))
    pipeline, protocol_file = opened(tmp_path)
    source = plans_from_pilot(pipeline, ["H1", "H1-order"], protocol_file)
    for plan in source.plans:
        contrasts = study.verdict(plan.gate.name).result.contrasts
        found = plan.populations[0].truth
        assert found == pytest.approx([c.estimate for c in contrasts], abs=1e-12)
        errors = [error / plan.n_units**0.5 for error in plan.unit_errors]
        assert errors == pytest.approx([c.se for c in contrasts], rel=1e-9)
        assert plan.n_units == contrasts[0].n_units == 40
    assert source.pilot == "pythia-tiny"
    assert "kernels.model.parquet" in source.evidence


def test_a_pilot_before_the_registration_is_a_pilot(tmp_path: Path) -> None:
    """Registering a study does not take its pilot away."""
    frozen_project(tmp_path)
    measured(tmp_path)
    pipeline, protocol_file = opened(tmp_path)
    assert plans_from_pilot(pipeline, ["H1"], protocol_file).plans[0].n_units == 40


def test_missing_evidence_names_the_command_that_makes_it(tmp_path: Path) -> None:
    """Nothing is measured on the way."""
    frozen_project(tmp_path)
    pipeline, protocol_file = opened(tmp_path)
    with pytest.raises(EvidenceError, match="no evidence") as raised:
        plans_from_pilot(pipeline, ["H1"], protocol_file)
    assert "prereg measure" in (raised.value.remedy or "")


def test_a_pilot_that_failed_its_own_check_is_refused(tmp_path: Path) -> None:
    """What is known to be wrong is no model of the truth."""
    make_project(tmp_path, check=False)
    pipeline, protocol_file = opened(tmp_path)
    with pytest.raises(EvidenceError, match="failed a check of its own: made_up"):
        plans_from_pilot(pipeline, ["H1"], protocol_file)


def test_stated_moments_serve_where_they_are_stated(tmp_path: Path) -> None:
    """H1-order states its precision; H1 does not, and the error says how to go on."""
    file = make_project(tmp_path) / "protocol.toml"
    file.write_text(file.read_text() + PRECISION)
    protocol = read_protocol(file.parent).protocol
    plan = plans_from_moments(["H1-order"], protocol).plans[0]
    assert plan.n_units == 40
    assert plan.unit_errors[0] / 40**0.5 == pytest.approx(0.001)
    assert [world.name for world in plan.populations] == ["normal", "heavy_tailed", "skewed"]
    with pytest.raises(StudyError, match="H1: no \\[hypotheses") as raised:
        plans_from_moments(["H1", "H1-order"], protocol)
    assert "--pilot MODEL" in (raised.value.remedy or "")
    assert "--hypothesis" in (raised.value.remedy or "")


def test_a_calibration_has_every_gate_world_and_truth(tmp_path: Path) -> None:
    """And is the same record when it is made again."""
    make_project(tmp_path, effect=0.13, spread=0.1)
    pipeline, protocol_file = opened(tmp_path)
    source = plans_from_pilot(pipeline, ["H1", "H1-order"], protocol_file)
    found = calibrate(protocol_file, source, n_units=(20,), replications=100)
    assert found == calibrate(protocol_file, source, n_units=(20,), replications=100)
    assert len(found.results) == 4 * sum(len(plan.cases) for plan in source.plans)
    for one in found.results:
        counts = [one.supported.count, one.refuted.count, one.inconclusive.count, one.invalid.count]
        assert sum(counts) == 100
        assert one.n_units == 20
    nulls = [r for r in found.results if r.kind == "null"]
    assert nulls
    assert not any(r.holds for r in nulls)


def test_too_little_to_tell_anything_is_refused(tmp_path: Path) -> None:
    """Ten replications are no calibration, nor is a sample of one."""
    make_project(tmp_path)
    pipeline, protocol_file = opened(tmp_path)
    source = plans_from_pilot(pipeline, ["H1"], protocol_file)
    with pytest.raises(StudyError, match="at least 100"):
        calibrate(protocol_file, source, replications=10)
    with pytest.raises(StudyError, match="1 units"):
        calibrate(protocol_file, source, n_units=(1,), replications=100)


def test_a_run_s_name_depends_on_all_that_its_numbers_depend_on(tmp_path: Path) -> None:
    """A checkpoint of another seed, number of units or threshold is never taken up."""
    file = make_project(tmp_path) / "protocol.toml"
    pipeline, protocol_file = opened(tmp_path)
    source = plans_from_pilot(pipeline, ["H1"], protocol_file)
    names = {run_digest(protocol_file, source, seed=seed, n=n) for seed in (1, 2) for n in ((), (20,))}
    file.write_text(file.read_text().replace("threshold = 0.1\n", "threshold = 0.2\n"))
    pipeline, changed = opened(tmp_path)
    names.add(run_digest(changed, plans_from_pilot(pipeline, ["H1"], changed), seed=1, n=()))
    assert len(names) == 5
