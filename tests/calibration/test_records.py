"""Rates, faults, and files that come back as they went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy.stats import beta, binom

from prereg.calibration.files import calibration_csv, write_calibration
from prereg.calibration.picture import picture
from prereg.calibration.records import (
    FALSE_ALARM,
    Calibration,
    CaseResult,
    GateRecord,
    Rate,
    false_refutations,
    read_calibration,
    verdict,
)
from prereg.errors import EvidenceError, InferenceError
from prereg.tabular import json_bytes


def made(*sizes: int, total: int = 1000, holds: bool = False, refuted: int = 0) -> Calibration:
    """Return a calibration of one gate at alpha 0.025, with a null result for each count and one alternative."""

    def result(count: int, kind: Any, holds: bool, world: str) -> CaseResult:
        return CaseResult(
            hypothesis="H<1>", population=world, n_units=50, case="all at the threshold", kind=kind, holds=holds,
            values=(0.1,), supported=Rate.of(count, total), refuted=Rate.of(refuted, total),
            inconclusive=Rate.of(total - count - refuted, total), invalid=Rate.of(0, total),
            coverage=Rate.of(total, total), coverage_of="gap",
        )  # fmt: skip

    results = []
    for i, size in enumerate(sizes):
        results += [result(size, "null", holds, f"w{i}"), result(total // 2, "alternative", True, f"w{i}")]
    gate = GateRecord(
        hypothesis="H<1>", direction="greater", threshold=0.1, units="R2", level=0.95, alpha=0.025,
        interval="expanded_percentile", resamples=1000, labels=("gap",), source="pilot", pilot_units=50,
        expected=(0.3,),
    )  # fmt: skip
    return Calibration(
        study="sample", protocol_digest="d", pilot="tiny", evidence={}, seed=1, replications=total, gates=(gate,),
        results=tuple(results),
    )  # fmt: skip


@pytest.mark.parametrize(("count", "total"), [(0, 10), (10, 10), (3, 200), (25, 1000)])
def test_the_interval_is_clopper_and_pearsons(count: int, total: int) -> None:
    """As beta quantiles; closed at 0 and 1."""
    rate = Rate.of(count, total)
    assert rate.low == pytest.approx(beta.ppf(0.025, count, total - count + 1) if count else 0.0, abs=1e-11)
    assert rate.high == pytest.approx(
        beta.ppf(0.975, count + 1, total - count) if count < total else 1.0, abs=1e-11
    )


@pytest.mark.parametrize(("count", "total"), [(-1, 5), (6, 5), (0, 0)])
def test_a_share_of_nothing_is_refused(count: int, total: int) -> None:
    """No count, no rate."""
    with pytest.raises(InferenceError, match="is no share"):
        Rate.of(count, total)


def test_a_size_beyond_monte_carlo_error_is_a_fault() -> None:
    """The least count with a binomial tail below the bound is one; one less is none."""
    bound = int(binom.isf(FALSE_ALARM, 1000, 0.025)) + 1
    assert verdict(made(bound - 1)) == ()
    fault = verdict(made(bound))[0]
    assert fault.p <= FALSE_ALARM
    assert fault.p == pytest.approx(binom.sf(bound - 1, 1000, 0.025))
    assert "H<1>, w0, 50 units" in fault.words()


def test_many_worlds_don_t_make_a_fault() -> None:
    """The more is tried, the more each has to show."""
    bound = int(binom.isf(FALSE_ALARM, 1000, 0.025)) + 1
    assert verdict(made(bound, *[20] * 19)) == ()


def test_another_alpha_can_be_asked() -> None:
    """A stricter one finds more; one that is no probability is refused."""
    assert verdict(made(25)) == ()
    assert verdict(made(25), 0.005)
    with pytest.raises(InferenceError, match="strictly between"):
        verdict(made(25), 0.0)


def test_a_false_refutation_is_told_apart() -> None:
    """It speaks against believing a refutation, and not against the claims that the gate supports."""
    found = made(20, refuted=90)
    assert verdict(found) == ()
    faults = false_refutations(found)
    assert {fault.answer for fault in faults} == {"refuted"}
    assert "a claim on the edge is refuted in 0.09" in faults[0].words()
    assert false_refutations(made(20, refuted=25)) == ()


def test_without_a_false_claim_there_is_no_verdict() -> None:
    """Nothing tried is not nothing found."""
    with pytest.raises(InferenceError, match="no truth was tried"):
        verdict(made(25, holds=True))


def test_files_have_the_same_bytes_and_come_back(tmp_path: Path) -> None:
    """JSON is read back to the same record; writing again changes nothing."""
    found = made(25, 30)
    files = write_calibration(found, tmp_path / "a")
    write_calibration(found, tmp_path / "b")
    assert [f.name for f in files] == ["calibration.json", "calibration.csv", "calibration.svg"]
    for file in files:
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    assert read_calibration(files[0]) == found
    assert calibration_csv(found).count(b"\n") == 1 + len(found.results)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff"])
def test_what_is_no_calibration_is_refused(tmp_path: Path, content: bytes) -> None:
    """With the command that makes one."""
    file = tmp_path / "calibration.json"
    file.write_bytes(content)
    with pytest.raises(EvidenceError, match="no calibration"):
        read_calibration(file)
    with pytest.raises(EvidenceError, match="no calibration"):
        read_calibration(tmp_path / "elsewhere.json")


def test_a_nan_never_gets_into_a_file() -> None:
    """Nor does a share beyond 1."""
    with pytest.raises(ValueError, match="JSON compliant"):
        json_bytes({"size": float("nan")})
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Rate(count=1, total=1, share=1.5, low=0.0, high=1.0)


def test_the_picture_shows_a_row_each_and_marks_a_fault() -> None:
    """Names are escaped; red only where a gate fails."""
    good, bad = picture(made(25, 25)), picture(made(25, 200))
    assert good.startswith("<svg")
    assert good.count("<circle") == 4
    assert "H&lt;1&gt;" in good
    assert "#cf222e" not in good
    assert bad.count("#cf222e") == 2


def test_a_usual_gate_s_record_has_the_bytes_that_it_always_had() -> None:
    """The registered study's calibration comes back as it is; other units and quantifiers are said."""
    file = Path(__file__).parents[2] / "reports" / "delta_stream" / "calibration" / "calibration.json"
    assert json_bytes(read_calibration(file).as_record()) == file.read_bytes()
    gate = made(1).gates[0]
    assert not {"quantifier", "design", "block_length"} & set(gate.model_dump(mode="json"))
    crossed = gate.model_copy(update={"design": "subject_by_template"})
    assert crossed.model_dump(mode="json")["design"] == "subject_by_template"
