"""From evidence to a verdict: every outcome, and what speaks before the interval does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prereg.errors import EvidenceError, PreregError, StudyError
from prereg.inference import Outcome
from prereg.study import Study, Verdict
from tests.synthetic import make_project, options, write


def ask(root: Path, hypothesis: str, **evidence: float | bool) -> Verdict:
    folder = make_project(root, **evidence)  # type: ignore[arg-type]
    return Study.open(folder, model="pythia-tiny", options=options(root)).verdict(hypothesis)


def test_a_clear_effect_is_supported(tmp_path: Path) -> None:
    """The whole interval lies above the threshold, the estimate is the planted one."""
    verdict = ask(tmp_path, "H1", effect=0.5, null=-0.01)
    assert verdict.outcome is Outcome.SUPPORTED
    assert verdict.supported
    assert verdict.result.estimate == pytest.approx(0.51, abs=1e-9)
    assert verdict.result.low > 0.1
    assert (verdict.n_units, verdict.n_rows) == (40, 80)


def test_a_clear_absence_is_refuted(tmp_path: Path) -> None:
    """The whole interval lies below the threshold."""
    verdict = ask(tmp_path, "H1", effect=0.03)
    assert verdict.outcome is Outcome.REFUTED
    assert not verdict.supported


def test_an_interval_that_covers_the_threshold_is_inconclusive(tmp_path: Path) -> None:
    """Not shown is not refuted."""
    verdict = ask(tmp_path, "H1", effect=0.0, null=-0.1, spread=0.1)
    assert verdict.result.low < 0.1 < verdict.result.high
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_a_failed_control_makes_the_verdict_invalid(tmp_path: Path) -> None:
    """However large the effect: where the null explains something, the measurement leaks."""
    verdict = ask(tmp_path, "H1", effect=0.7, null=0.2)
    assert verdict.outcome is Outcome.INVALID
    assert "control sane does not hold" in verdict.reason
    assert not verdict.supported


def test_a_failed_check_of_the_analysis_makes_the_verdict_invalid(tmp_path: Path) -> None:
    """What an analysis knows to be wrong with itself is not overruled by an interval."""
    verdict = ask(tmp_path, "H1", check=False)
    assert verdict.outcome is Outcome.INVALID
    assert "made_up" in verdict.reason


def test_a_permutation_that_reaches_the_effect_keeps_it_from_being_supported(tmp_path: Path) -> None:
    """An effect that refitted noise reaches as well is not shown."""
    verdict = ask(tmp_path, "H1", effect=0.5, draws=0.5)
    assert verdict.permutations[0].p == 1.0
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "permutation" in verdict.reason


def test_the_smallest_possible_p_is_one_in_twenty(tmp_path: Path) -> None:
    """19 draws, none as extreme: (0 + 1) / (19 + 1)."""
    assert ask(tmp_path, "H1").permutations[0].p == 0.05


def test_a_null_that_is_exactly_nothing_is_no_obstacle(tmp_path: Path) -> None:
    """A null fit that falls back on the mean for everybody explains exactly 0, and its control holds."""
    make_project(tmp_path)
    fits = {"history_1": 0.5, "history_2": 0.5, "null": 0.0}
    write(tmp_path, "model", fits, constant=("null",))
    verdict = Study.open(tmp_path / "gates/sample", model="pythia-tiny", options=options(tmp_path)).verdict(
        "H1"
    )
    assert verdict.controls[0].contrasts[0].degenerate
    assert verdict.controls[0].outcome is Outcome.SUPPORTED
    assert verdict.outcome is Outcome.SUPPORTED


def test_a_constant_null_beyond_the_threshold_still_fails_its_control(tmp_path: Path) -> None:
    """Constancy is no excuse: a null that explains a fifth for everybody leaks."""
    make_project(tmp_path)
    write(tmp_path, "model", {"history_1": 0.5, "history_2": 0.5, "null": 0.2}, constant=("null",))
    verdict = Study.open(tmp_path / "gates/sample", model="pythia-tiny", options=options(tmp_path)).verdict(
        "H1"
    )
    assert verdict.outcome is Outcome.INVALID


def test_no_variation_is_invalid_not_certain(tmp_path: Path) -> None:
    """Data without spread give no interval, so they can't support anything."""
    verdict = ask(tmp_path, "H1", spread=0.0)
    assert verdict.outcome is Outcome.INVALID


def test_fewer_than_ten_subjects_are_no_answer(tmp_path: Path) -> None:
    """However narrow the interval looks: the control can't be shown either, so nothing can."""
    verdict = ask(tmp_path, "H1", n_subjects=9)
    assert verdict.result.outcome is Outcome.INCONCLUSIVE
    assert "9 independent units" in verdict.result.reason
    assert not verdict.supported


@pytest.mark.parametrize(("gain", "outcome"), [(0.0, "supported"), (0.02, "inconclusive"), (0.3, "refuted")])
def test_equivalence_is_judged_by_its_margin(tmp_path: Path, gain: float, outcome: str) -> None:
    """Inside the margin, across its edge, outside."""
    assert ask(tmp_path, "H1-order", gain=gain, spread=0.02).outcome == outcome


def test_arms_must_hold_the_same_prompts(tmp_path: Path) -> None:
    """Unpaired arms are not compared."""
    root = tmp_path
    make_project(root)
    write(root, "twin-3", {"history_1": 0.5, "history_2": 0.5, "null": 0.0}, n_subjects=39)
    study = Study.open(root / "gates" / "sample", model="pythia-tiny", options=options(root))
    with pytest.raises(EvidenceError, match="can't be paired"):
        study.verdict("H1-order")


def test_an_unknown_hypothesis_is_named_with_the_known_ones(tmp_path: Path) -> None:
    """A typo in a gate is an error, not a pass."""
    study = Study.open(make_project(tmp_path), model="pythia-tiny", options=options(tmp_path))
    with pytest.raises(StudyError, match="no hypothesis 'H7'; there are H1, H1-order"):
        study.verdict("H7")


def test_edited_evidence_gives_no_verdict(tmp_path: Path) -> None:
    """One changed byte in the table and there is no answer at all."""
    study = make_project(tmp_path)
    table = tmp_path / "reports" / "sample" / "pythia-tiny" / "evidence" / "kernels.model.parquet"
    raw = bytearray(table.read_bytes())
    raw[200] ^= 1
    table.write_bytes(raw)
    with pytest.raises(PreregError, match="changed after it was measured"):
        Study.open(study, model="pythia-tiny", options=options(tmp_path)).verdict("H1")


def test_a_changed_threshold_keeps_the_evidence_and_changes_the_answer(tmp_path: Path) -> None:
    """A promise is no data: moving it must not trigger a new measurement, only another verdict and digest."""
    folder = make_project(tmp_path, effect=0.5)
    first = Study.open(folder, model="pythia-tiny", options=options(tmp_path))
    before = first.verdict("H1")
    protocol = folder / "protocol.toml"
    protocol.write_text(protocol.read_text().replace("threshold = 0.1\n", "threshold = 0.9\n"))
    second = Study.open(folder, model="pythia-tiny", options=options(tmp_path))
    after = second.verdict("H1")
    assert (before.outcome, after.outcome) == (Outcome.SUPPORTED, Outcome.REFUTED)
    assert before.protocol_digest != after.protocol_digest


def test_a_changed_setting_asks_for_new_evidence(tmp_path: Path) -> None:
    """Evidence measured by other settings is not present, whatever lies in the folder."""
    folder = make_project(tmp_path)
    protocol = folder / "protocol.toml"
    protocol.write_text(protocol.read_text().replace("orders = [1, 2]", "orders = [1, 3]"))
    study = Study.open(folder, model="pythia-tiny", options=options(tmp_path))
    assert not study.is_ready("H1")


def test_the_record_is_plain_finite_json(tmp_path: Path) -> None:
    """verdicts.json can be read by anything."""
    record = ask(tmp_path, "H1").as_record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["contrasts"][0]["updates"] == [1, 2, 3, 4, 5, 6, 7]
    assert set(record["contrasts"][0]["sensitivity"]) == {"studentized", "delta_t"}
    assert set(record["evidence"]) == {"kernels.model.parquet", "kernels.model.draws.parquet"}


def test_explain_names_claim_promise_measure_and_control(tmp_path: Path) -> None:
    """A failed gate tells a reader everything that decided."""
    text = ask(tmp_path, "H1", effect=0.03).explain()
    for part in ("refuted", "promised", "> 0.1 R2", "40 subjects, 80 prompts", "control sane", "published"):
        assert part in text


def test_watchers_hear_each_answer(tmp_path: Path) -> None:
    """The plugin knows which verdicts a gate asked for, also when they are remembered."""
    study = Study.open(make_project(tmp_path), model="pythia-tiny", options=options(tmp_path))
    heard: list[Verdict] = []
    watched = study.watched(heard.append)
    assert watched.verdict("H1") is watched.verdict("H1")
    assert [v.hypothesis for v in heard] == ["H1", "H1"]


def test_evidence_of_another_arm_is_refused(tmp_path: Path) -> None:
    """Files of one arm under another's name are recognised by what they say they are."""
    study = make_project(tmp_path)
    folder = tmp_path / "reports/sample/pythia-tiny/evidence"
    for file in folder.glob("kernels.model*"):
        text = file.read_bytes()
        (folder / file.name.replace("kernels.model", "kernels.twin-3")).write_bytes(text)
    opened = Study.open(study, model="pythia-tiny", options=options(tmp_path))
    assert not opened.pipeline.present("kernels", "twin-3")


def test_a_promise_changed_in_memory_is_not_answered(tmp_path: Path) -> None:
    """A gate that swaps a hypothesis for an easier one gets an error."""
    study = Study.open(make_project(tmp_path, effect=0.03), model="pythia-tiny", options=options(tmp_path))
    easy = study.protocol.hypotheses["H1"].model_copy(update={"threshold": 0.0})
    study.protocol.hypotheses["H1"] = easy
    with pytest.raises(StudyError, match="changed in memory"):
        study.verdict("H1")


def test_an_analysis_nobody_provides_is_named_on_opening(tmp_path: Path) -> None:
    """Not after minutes of measuring the others."""
    folder = make_project(tmp_path)
    protocol = folder / "protocol.toml"
    protocol.write_text(protocol.read_text() + "\n[analyses.astrology]\nsigns = 12\n")
    with pytest.raises(StudyError, match="no analysis is called 'astrology'"):
        Study.open(folder, model="pythia-tiny", options=options(tmp_path))


def test_a_subject_that_carries_much_of_the_variance_is_named_as_a_caution(tmp_path: Path) -> None:
    """Of ten subjects some one carries over a tenth; a reader is told so beside the verdict."""
    verdict = ask(tmp_path, "H1", n_subjects=10)
    assert any("of the variance" in line for line in verdict.result.cautions)
    assert "caution    one unit carries" in verdict.explain()
    assert verdict.as_record()["cautions"] == list(verdict.result.cautions)
