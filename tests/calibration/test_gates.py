"""The truths that a gate is tried under."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.calibration.cases import cases_of
from prereg.calibration.gates import gate_of, level_of
from prereg.errors import StudyError
from prereg.protocol import read_protocol
from prereg.study import Study
from tests.calibration.worlds import gate
from tests.synthetic import make_project, options


def test_each_contrast_of_a_conjunction_stands_on_the_boundary() -> None:
    """All at the threshold, and each in turn: an intersection-union test errs most at one of the latter."""
    found = cases_of(gate(labels=("a", "b", "c")), (0.5, 0.2, 0.3))
    assert [case.values for case in found] == [
        (0.1, 0.1, 0.1), (0.1, 0.2, 0.3), (0.5, 0.1, 0.3), (0.5, 0.2, 0.1), (0.5, 0.2, 0.3)
    ]  # fmt: skip
    assert [case.holds for case in found] == [False, False, False, False, True]
    assert [case.kind for case in found] == ["null"] * 4 + ["alternative"]
    assert found[2].name == "b at the threshold, others as in the pilot"


def test_less_is_the_mirror_image() -> None:
    """A pilot that refutes the claim is an alternative under which it is false."""
    found = cases_of(gate(direction="less", labels=("a", "b")), (-0.5, 0.05))
    assert [case.values for case in found] == [(0.1, 0.1), (0.1, 0.05), (-0.5, 0.1), (-0.5, 0.05)]
    assert found[-1].holds
    assert not cases_of(gate(direction="less"), (0.2,))[-1].holds


def test_others_on_the_wrong_side_stay_at_the_threshold() -> None:
    """A point far inside the null would say nothing about the size; one that is there already isn't tried twice."""
    found = cases_of(gate(labels=("a", "b", "c")), (0.5, 0.0, 0.05))
    assert [case.values for case in found] == [(0.1, 0.1, 0.1), (0.5, 0.1, 0.1), (0.5, 0.0, 0.05)]
    assert len(cases_of(gate(labels=("a", "b")), (0.0, 0.05))) == 2


def test_an_equivalence_has_two_margins_and_expects_nothing() -> None:
    """Either margin, and no effect as the alternative; a pilot's sign chooses where the worst one stands."""
    found = cases_of(gate(direction="equivalence"), None)
    assert [case.values for case in found] == [(0.1,), (-0.1,), (0.0,)]
    assert [case.holds for case in found] == [False, False, True]
    two = cases_of(gate(direction="equivalence", labels=("a", "b")), (0.01, -0.05))
    assert [case.values for case in two[2:]] == [(0.1, -0.05), (0.01, -0.1), (0.0, 0.0)]


def test_a_claim_about_some_candidate_is_false_only_where_none_passes() -> None:
    """All at the threshold; the best alone there; and all but the best there, where the best does not pass."""
    some = gate(labels=("a", "b", "c"), quantifier="some")
    found = cases_of(some, (0.0, 0.05, -0.2))
    assert [case.values for case in found] == [
        (0.1, 0.1, 0.1), (0.0, 0.1, -0.2), (0.1, 0.05, 0.1), (0.0, 0.05, -0.2)
    ]  # fmt: skip
    assert found[1].name == "b at the threshold, others as in the pilot"
    assert found[2].name == "all but b at the threshold"
    assert not any(case.holds for case in found)
    shown = cases_of(some, (0.3, 0.05, 0.2))
    assert [case.values for case in shown] == [(0.1, 0.1, 0.1), (0.1, 0.05, 0.1), (0.3, 0.05, 0.2)]
    assert [case.holds for case in shown] == [False, False, True]
    less = cases_of(gate(labels=("a", "b"), quantifier="some", direction="less", threshold=0.0), (0.2, -0.3))
    assert [case.values for case in less] == [(0.0, 0.0), (0.2, 0.0), (0.2, -0.3)]
    assert [case.holds for case in less] == [False, False, True]


def test_every_unit_and_quantifier_has_a_gate(tmp_path: Path) -> None:
    """As `settle` has it: a claim about updates resamples these, whatever the unit of the rest."""
    protocol = read_protocol(make_project(tmp_path)).protocol
    spec = protocol.inference.model_copy(update={"unit": "subject_in_relation"})
    claims = {
        "H1": protocol.hypotheses["H1"].model_copy(update={"unit": "update", "block_length": 2.0}),
        "H1-order": protocol.hypotheses["H1-order"],
    }
    changed = protocol.model_copy(update={"inference": spec, "hypotheses": claims})
    assert (gate_of(changed, "H1").design, gate_of(changed, "H1").block_length) == (None, 2.0)
    assert gate_of(changed, "H1-order").design == "subject_in_relation"
    some = gate_of(protocol, "H1", ["feature 1", "feature 2"])
    assert some.labels == ("feature 1", "feature 2")
    assert some.studentized_replicates == 1000


def test_without_a_pilot_a_one_sided_claim_has_no_alternative() -> None:
    """The error names what would give it one."""
    with pytest.raises(StudyError, match="which effect to expect") as raised:
        cases_of(gate(), None)
    assert "--pilot" in (raised.value.remedy or "")


def test_the_level_is_the_one_that_a_verdict_uses(tmp_path: Path) -> None:
    """For a one-sided claim and for an equivalence."""
    study = Study.open(make_project(tmp_path), model="pythia-tiny", options=options(tmp_path))
    for name in ("H1", "H1-order"):
        found = gate_of(study.protocol, name)
        assert found.level == pytest.approx(study.verdict(name).level, abs=1e-15)
        assert found.alpha == pytest.approx(study.answers.alpha(name) / 2.0, abs=1e-15)


def test_with_looks_the_most_generous_one_counts(tmp_path: Path) -> None:
    """An O'Brien-Fleming design spends most at its last look."""
    folder = make_project(tmp_path)
    file = folder / "protocol.toml"
    looks = '\n[inference.looks]\nplanned = 3\nspending = "obrien_fleming"\nrationale = "Three looks, as an example."\n'
    file.write_text(file.read_text() + looks)
    study = Study.open(folder, model="pythia-tiny", options=options(tmp_path))
    found = level_of(study.protocol, study.protocol.hypotheses["H1"])
    assert 1.0 - found == pytest.approx(max(study.answers.alpha("H1", k) for k in (1, 2, 3)))


def test_an_unknown_hypothesis_is_named_with_the_known_ones(tmp_path: Path) -> None:
    """A typo is an error, not an empty calibration."""
    with pytest.raises(StudyError, match="no hypothesis 'H9'; there are H1, H1-order"):
        gate_of(read_protocol(make_project(tmp_path)).protocol, "H9")
