"""Worlds from a pilot's evidence and from stated precision, through to a calibration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prereg.calibration import Source, calibrate, plans_from_moments, plans_from_pilot, run_digest
from prereg.calibration.populations import PILOT_KINDS
from prereg.errors import EvidenceError, StudyError
from prereg.evidence import write_evidence
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


def rewritten(file: Path, *changes: tuple[str, str]) -> None:
    text = file.read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, "utf-8")


@pytest.mark.parametrize("unit", ["subject_by_template", "subject_in_relation"])
def test_crossed_and_nested_units_are_simulated(tmp_path: Path, unit: str) -> None:
    """From the pilot's rows: n counts subjects, and a verdict's standard error stands behind the first guess."""
    file = make_project(tmp_path, effect=0.13, spread=0.1, n_subjects=24) / "protocol.toml"
    rewritten(
        file, ('unit = "subject"\nunit_reason', f'unit = "{unit}"\nunit_reason'), ('"studentized", ', "")
    )
    scattered(tmp_path)
    study = Study.open(file.parent, model="pythia-tiny", options=options(tmp_path))
    pipeline, protocol_file = opened(tmp_path)
    plan = plans_from_pilot(pipeline, ["H1"], protocol_file).plans[0]
    contrast = study.verdict("H1").result.contrasts[0]
    assert plan.n_units == 24
    assert plan.populations[0].truth == pytest.approx([contrast.estimate], abs=1e-12)
    assert plan.unit_errors[0] / 24**0.5 == pytest.approx(contrast.se, rel=1e-9)
    found = calibrate(protocol_file, Source((plan,), "pythia-tiny", {}), n_units=(12,), replications=100)
    assert {result.population for result in found.results} == {"empirical", "heavy_tailed", "skewed"}
    assert found.gates[0].design == unit
    assert found.as_record()["gates"][0]["design"] == unit
    with pytest.raises(StudyError, match="how dependent they are"):
        plans_from_moments(["H1"], protocol_file.protocol)


def scattered(root: Path) -> None:
    """Give the project's prompts twelve templates of twelve relations, and measure it anew."""
    for arm in ("model", "twin-3"):
        file = root / "reports" / "sample" / "pythia-tiny" / "evidence" / f"kernels.{arm}.parquet"
        table = pq.read_table(file)
        names = [f"r{(7 * int(p[1:4]) + 5 * int(p[-1])) % 12:02d}" for p in table["prompt"].to_pylist()]
        for column in ("relation", "template"):
            table = table.set_column(table.column_names.index(column), column, pa.array(names))
        evidence = Pipeline(read_protocol(root / "gates" / "sample"), "pythia-tiny", options(root)).evidence(
            "kernels", arm
        )
        write_evidence(replace(evidence, table=table), file.parent, f"kernels.{arm}")


def test_a_search_is_simulated_with_every_candidate(tmp_path: Path) -> None:
    """A pattern's contrasts are those that were measured, and H1 says so in its record."""
    file = make_project(tmp_path, effect=0.13, spread=0.1, n_subjects=20) / "protocol.toml"
    rewritten(
        file,
        ('units = "R2"\ndirection = "greater"', 'units = "R2"\nquantifier = "some"\ndirection = "greater"'),
        ('fit = "history_1" },\n    { weight = -1.0', 'fit = "history_*" },\n    { weight = -1.0'),
    )
    pipeline, protocol_file = opened(tmp_path)
    source = plans_from_pilot(pipeline, ["H1"], protocol_file)
    assert source.plans[0].gate.labels == ("over the null 1", "over the null 2")
    found = calibrate(protocol_file, source, replications=100)
    assert found.gates[0].quantifier == "some"
    assert {result.population for result in found.results} == set(PILOT_KINDS)


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
