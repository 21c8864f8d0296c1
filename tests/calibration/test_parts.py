"""Finished gates of a calibration that is not whole."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from prereg.calibration import Parts, Run, calibrate, code_digest, gate_record, joined, plans_from_pilot
from prereg.calibration.records import Calibration, read_calibration
from prereg.calibration.sources import Source
from prereg.errors import EvidenceError
from prereg.protocol import ProtocolFile
from prereg.tabular import json_bytes, put
from prereg.workers import Workers
from tests.calibration.test_sources import opened
from tests.synthetic import make_project


@pytest.fixture
def source(tmp_path: Path) -> tuple[ProtocolFile, Source]:
    """Return a small pilot's gates."""
    make_project(tmp_path, effect=0.13, spread=0.1, n_subjects=15)
    pipeline, protocol_file = opened(tmp_path)
    return protocol_file, plans_from_pilot(pipeline, ["H1", "H1-order"], protocol_file)


def run_of(protocol_file: ProtocolFile, **changes: object) -> Run:
    given = {"study": "sample", "protocol_digest": protocol_file.digest, "pilot": "pythia-tiny", "seed": 1}
    return Run(**{**given, "replications": 100, "code": code_digest(), **changes})  # type: ignore[arg-type]


def only(source: Source, which: int) -> Source:
    return Source((source.plans[which],), source.pilot, source.plans[which].evidence)


def test_a_part_comes_back_only_to_its_own_run(source: tuple[ProtocolFile, Source], tmp_path: Path) -> None:
    """Another protocol, pilot, seed, code or evidence is told by name, and so is a file that is none."""
    protocol_file, pilot = source
    parts = Parts(tmp_path / "parts", run_of(protocol_file))
    found = calibrate(protocol_file, only(pilot, 0), replications=100, seed=1, parts=parts)
    record, evidence = gate_record(pilot.plans[0]), dict(pilot.plans[0].evidence)
    assert parts.find(record, evidence) == found
    assert parts.stranger(record, evidence) is None
    for name, value in {
        "protocol_digest": "e",
        "pilot": "x",
        "seed": 2,
        "replications": 3,
        "code": "c",
    }.items():
        other = Parts(parts.folder, run_of(protocol_file, **{name: value}))
        assert other.find(record, evidence) is None
        assert other.stranger(record, evidence) == f"of another {name.removesuffix('_digest')}"
    assert parts.stranger(record, {}) == "of another evidence"
    assert parts.stranger(record.model_copy(update={"threshold": 0.2}), evidence) == "of another gate"
    parts.file("H1").write_text("{}")
    assert parts.find(record, evidence) is None
    assert parts.stranger(record, evidence) == "can't be read"
    assert parts.names() == ()


def test_a_part_is_no_calibration(source: tuple[ProtocolFile, Source], tmp_path: Path) -> None:
    """Put in the place of one it is refused, and a calibration in the place of a part is none of its run."""
    protocol_file, pilot = source
    parts = Parts(tmp_path / "parts", run_of(protocol_file))
    found = calibrate(protocol_file, only(pilot, 1), replications=100, seed=1, parts=parts)
    file = tmp_path / "calibration.json"
    file.write_bytes(parts.file("H1-order").read_bytes())
    with pytest.raises(EvidenceError, match="no calibration"):
        read_calibration(file)
    put(parts.file("H1-order"), json_bytes(found.as_record()))
    assert parts.find(gate_record(pilot.plans[1]), dict(pilot.plans[1].evidence)) is None


def test_numbers_of_units_add_up(source: tuple[ProtocolFile, Source], tmp_path: Path) -> None:
    """A gate's part holds what was simulated of it, sorted; what is asked again is taken from it."""
    protocol_file, pilot = source
    parts = Parts(tmp_path / "parts", run_of(protocol_file))
    said: list[str] = []
    for n in (20, 12, 20):
        found = calibrate(
            protocol_file,
            only(pilot, 1),
            n_units=(n,),
            replications=100,
            seed=1,
            parts=parts,
            say=said.append,
        )
        assert {result.n_units for result in found.results} == {n}
    whole = parts.find(gate_record(pilot.plans[1]), dict(pilot.plans[1].evidence))
    assert whole is not None
    assert [result.n_units for result in whole.results] == [12] * 12 + [20] * 12
    assert len(said) == 1
    assert said[0].startswith("H1-order: taken from")
    parts.drop(found)
    assert parts.names() == ("H1-order",)
    parts.drop(whole)
    assert not parts.folder.exists()


def test_gates_of_different_runs_are_not_joined(source: tuple[ProtocolFile, Source]) -> None:
    """Nor two that rest on different bytes of one table."""
    protocol_file, pilot = source
    one = calibrate(protocol_file, only(pilot, 0), replications=100, seed=1)
    for changed in ({"seed": 2}, {"evidence": dict.fromkeys(one.evidence, "0")}):
        with pytest.raises(EvidenceError, match="different runs"):
            joined(("H1",), (one, one.model_copy(update=changed)))
    assert joined(("H1",), (one, one)) == one


def test_two_runs_at_once_do_not_meet(source: tuple[ProtocolFile, Source], tmp_path: Path) -> None:
    """Both have the same numbers, whoever was first, and neither loses its checkpoints to the other."""
    protocol_file, pilot = source
    parts = Parts(tmp_path / "parts", run_of(protocol_file))
    found: dict[int, Calibration] = {}

    def one(which: int) -> None:
        workers = Workers(checkpoint=tmp_path / "cache" / "calibration")
        found[which] = calibrate(protocol_file, pilot, replications=100, seed=1, workers=workers, parts=parts)

    threads = [threading.Thread(target=one, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == calibrate(protocol_file, pilot, replications=100, seed=1)
    assert parts.names() == ("H1", "H1-order")
