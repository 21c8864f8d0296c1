"""A freeze and what simulating the gates showed: recorded; a gate that errs too often needs a written reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prereg.calibration.parts import Part
from prereg.calibration.records import Calibration, CaseResult, GateRecord, Rate, read_calibration
from prereg.protocol import read_protocol
from prereg.tabular import json_bytes, put
from tests.cli.conftest import Run
from tests.frozen import written
from tests.synthetic import commit

WHY = "One subject carries the variance; the verdict is read with that in mind."


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project that is written and not frozen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    written(tmp_path)
    return tmp_path


def simulated(root: Path, supported: int, *, protocol_digest: str | None = None) -> None:
    """Write a calibration in which a false claim was supported in so many of 1,000 samples, and commit it."""
    counts = (supported, 0, 1000 - supported, 0, 950)
    rates = [Rate.of(count, 1000) for count in counts]
    calibration = Calibration(
        study="sample",
        protocol_digest=protocol_digest or read_protocol(root / "gates" / "sample").digest,
        pilot="pythia-tiny",
        evidence={},
        seed=1,
        replications=1000,
        gates=(
            GateRecord(
                hypothesis="H1", direction="greater", threshold=0.1, units="R2", level=0.95, alpha=0.025,
                interval="expanded_percentile", resamples=1000, labels=("over the null",), source="pythia-tiny",
                pilot_units=40, expected=(0.5,),
            ),
        ),
        results=(
            CaseResult(
                hypothesis="H1", population="skewed", n_units=40, case="at the threshold", kind="null",
                holds=False, values=(0.1,), supported=rates[0], refuted=rates[1], inconclusive=rates[2],
                invalid=rates[3], coverage=rates[4], coverage_of="over the null",
            ),
        ),
    )  # fmt: skip
    file = root / "reports" / "sample" / "calibration" / "calibration.json"
    put(file, json_bytes(calibration.as_record()))
    commit(root, "Calibrate")


def test_a_gate_that_errs_too_often_needs_a_written_reason(here: Path, run: Run) -> None:
    """Refused with the figure; frozen with the reason, which stands in the registration and on the audit's page."""
    simulated(here, 130)
    refused = run("freeze")
    assert refused.exit_code == 2
    assert "a false claim is supported in 0.13" in refused.stderr
    assert not (here / "gates" / "sample" / "registration.json").exists()
    assert run("freeze", "--despite", WHY).exit_code == 0
    frozen = json.loads((here / "gates" / "sample" / "registration.json").read_text("utf-8"))["calibration"]
    assert (frozen["despite"], len(frozen["faults"]), frozen["replications"]) == (WHY, 1, 1000)
    commit(here, "Register")
    page = " ".join(run("audit").stdout.split())
    assert f"frozen all the same: {WHY}" in page
    assert "calibration: it is the one that the freeze recorded" in page


def test_gates_that_keep_their_alpha_are_recorded(here: Path, run: Run) -> None:
    """No fault, no reason; the digest of what was simulated is part of the root."""
    simulated(here, 20)
    assert run("freeze").exit_code == 0
    frozen = json.loads((here / "gates" / "sample" / "registration.json").read_text("utf-8"))["calibration"]
    assert set(frozen) == {"digest", "pilot", "replications"}


def test_a_calibration_of_another_protocol_is_none(here: Path, run: Run) -> None:
    """What was simulated must be what is frozen."""
    simulated(here, 20, protocol_digest="e" * 64)
    refused = run("freeze")
    assert refused.exit_code == 2
    assert "simulated under protocol eeee" in refused.stderr


def test_a_calibration_that_was_edited_later_is_unverified(here: Path, run: Run) -> None:
    """The audit names both digests."""
    simulated(here, 20)
    assert run("freeze").exit_code == 0
    commit(here, "Register")
    file = here / "reports" / "sample" / "calibration" / "calibration.json"
    file.write_text(file.read_text("utf-8").replace('"count": 20', '"count": 10'), "utf-8")
    commit(here, "Touch up")
    found = run("audit")
    assert found.exit_code == 2
    assert "calibration: registered" in " ".join(found.stdout.split())


def part(root: Path) -> Part:
    """Return a finished gate whose calibration is not whole."""
    simulated(root, 130)
    file = root / "reports" / "sample" / "calibration" / "calibration.json"
    found = Part(code="c", calibration=read_calibration(file))
    file.unlink()
    return found


def test_a_calibration_that_is_not_whole_is_none(here: Path, run: Run) -> None:
    """Finished gates lie where no freeze looks: nothing is recorded, and no fault of theirs either."""
    file = here / "reports" / "sample" / "calibration" / "parts" / "H1.json"
    put(file, json_bytes(part(here).model_dump(mode="json")))
    commit(here, "Leave a part")
    assert run("freeze").exit_code == 0
    frozen = json.loads((here / "gates" / "sample" / "registration.json").read_text("utf-8"))
    assert "calibration" not in frozen
    commit(here, "Register")
    page = " ".join(run("audit").stdout.split())
    assert "calibration: 1 gates alone, which no freeze records: H1" in page
    assert "it was not looked at" not in page, "taken for a model's reports"


def test_a_part_in_the_whole_s_place_is_refused(here: Path, run: Run) -> None:
    """Whoever renames one gets an error, not a calibration of one gate."""
    found = part(here)
    put(
        here / "reports" / "sample" / "calibration" / "calibration.json",
        json_bytes(found.model_dump(mode="json")),
    )
    commit(here, "Rename a part")
    refused = run("freeze")
    assert refused.exit_code == 2
    assert "no calibration" in refused.stderr
    assert not (here / "gates" / "sample" / "registration.json").exists()


def test_a_reason_without_a_calibration_is_refused(here: Path, run: Run) -> None:
    """There is nothing that it could speak of."""
    assert "no calibration that --despite could speak of" in run("freeze", "--despite", WHY).stderr
