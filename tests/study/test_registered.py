"""Verdicts of a registered study: what may be claimed, which promise leads, and how often it was tried."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from prereg.errors import StudyError
from prereg.protocol import read_protocol
from prereg.registration import binding
from prereg.registration.components import library_versions
from prereg.registration.records import Known
from prereg.report import write_report
from prereg.study import Study, Verdict
from tests.frozen import H9, added, answered, edit, frozen, opened, written
from tests.synthetic import commit, git, register, write

SAID = "All results on pythia-tiny were seen before."
MODEL = "pythia-tiny"


def fits(effect: float = 0.5, gain: float = 0.0) -> dict[str, float]:
    return {"history_1": effect, "history_2": effect + gain, "null": -0.01}


def measure(
    root: Path, *, registration: str | bool | None = True, effect: float = 0.5, **made_up: Any
) -> None:
    """Write evidence, under the root in force unless another is given."""
    carried = opened(root).standing.root if registration is True else registration or None
    for arm in ("model", "twin-3"):
        write(root, arm, fits(effect), registration=carried, **made_up)


def threshold(root: Path, old: str, new: str) -> None:
    edit(root / "gates" / "sample" / "protocol.toml", f"threshold = {old}\n", f"threshold = {new}\n")


def amended(
    root: Path,
    old: str = "0.1",
    new: str = "0.6",
    *,
    known: Known = "none",
    subjects: tuple[str, ...] = ("H1",),
) -> None:
    threshold(root, old, new)
    added(root, *subjects, known=known, statement=None if known == "none" else SAID)


def ask(root: Path, hypothesis: str = "H1") -> Verdict:
    return opened(root).verdict(hypothesis)


def said(verdict: Verdict) -> tuple[str, str, str | None]:
    record = verdict.as_record()
    return record["outcome"], record["answer"], record["version"]


# -- outcome and answer, by standing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "answer"), [(0.5, "supported"), (0.03, "refuted"), (0.09, "inconclusive")]
)
def test_a_registered_answer_may_be_claimed(tmp_path: Path, effect: float, answer: str) -> None:
    """Whatever it is: outcome and answer are one."""
    frozen(tmp_path)
    measure(tmp_path, effect=effect)
    assert said(ask(tmp_path)) == (answer, answer, None)
    assert ask(tmp_path).as_record()["registration"]["status"] == "registered"


@pytest.mark.parametrize("effect", [0.5, 0.03])
def test_an_unregistered_answer_may_not(tmp_path: Path, effect: float) -> None:
    """It is shown as an answer; nothing is claimed by it."""
    written(tmp_path)
    measure(tmp_path, registration=None, effect=effect)
    verdict = ask(tmp_path)
    assert (verdict.claimed, verdict.as_record()["registration"]) == (
        "unverified", {"status": "unregistered", "root": None, "known": None, "reasons": []},
    )  # fmt: skip
    first = verdict.explain().splitlines()[0]
    assert first.startswith(f"H1 on {MODEL}: {'unverified (supported)' if effect > 0.1 else 'refuted'}.")


def test_a_tampered_answer_may_not(tmp_path: Path) -> None:
    """A threshold edited after the freeze, and evidence that would support it."""
    frozen(tmp_path)
    measure(tmp_path, effect=0.2)
    threshold(tmp_path, "0.1", "0.05")
    record = ask(tmp_path).as_record()
    assert (record["outcome"], record["answer"]) == ("unverified", "supported")
    assert record["registration"]["status"] == "tampered"
    assert record["registration"]["reasons"] == ["hypotheses.H1.threshold: 0.1 -> 0.05, looser"]


def test_an_unverified_answer_may_not(tmp_path: Path) -> None:
    """A gate edited, and not amended."""
    folder = frozen(tmp_path)
    measure(tmp_path)
    edit(folder / "test_h1.py", "assert verdict.supported", "assert True")
    assert said(ask(tmp_path)) == ("unverified", "supported", None)


def test_evidence_measured_elsewhere_is_unverified_and_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another torch: the study is registered, this verdict isn't, and says why; the evidence stays."""
    frozen(tmp_path)
    measure(tmp_path, registration=None)
    assert not opened(tmp_path).is_ready("H1")
    versions = library_versions() | {"torch": "9.9.9"}
    monkeypatch.setattr(binding, "library_versions", lambda: versions)
    study = opened(tmp_path)
    assert study.is_ready("H1")
    verdict = study.verdict("H1")
    assert study.standing.status == "registered"
    assert (verdict.claimed, verdict.standing.status) == ("unverified", "unverified")
    assert verdict.standing.reasons == (
        "the evidence kernels.model was measured outside the registration",
        f"torch is 9.9.9, registered is {library_versions()['torch']}",
    )
    assert "9.9.9" in verdict.explain()


def test_one_arm_measured_elsewhere_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H1 rests on the model alone, H1-order on a twin as well."""
    frozen(tmp_path)
    measure(tmp_path)
    write(tmp_path, "twin-3", fits(), registration=None)
    monkeypatch.setattr(binding, "library_versions", lambda: library_versions() | {"torch": "9.9.9"})
    assert [v.claimed for v in opened(tmp_path).verdicts()] == ["supported", "unverified"]


def test_missing_evidence_says_why_what_is_there_does_not_count(tmp_path: Path) -> None:
    """Measured before the freeze: both digests."""
    written(tmp_path)
    measure(tmp_path, registration=None)
    commit(tmp_path, "A pilot")
    register(tmp_path, known="full", statement=SAID)
    commit(tmp_path, "Register")
    root = opened(tmp_path).standing.root
    assert root is not None
    said = f"kernels.model: measured under no registration, in force is {root[:16]}"
    assert opened(tmp_path).missing("H1") == (said,)


# -- amendments -----------------------------------------------------------------------------------------------


def test_amended_in_ignorance_the_amended_promise_leads(tmp_path: Path) -> None:
    """No attempt, no result: nobody could have fitted it; the original stands beside it."""
    frozen(tmp_path)
    amended(tmp_path)
    measure(tmp_path)
    verdict = ask(tmp_path)
    assert said(verdict) == ("refuted", "refuted", "amended")
    other = verdict.as_record()["other"]
    assert (other["version"], other["answer"], other["threshold"]) == ("original", "supported", 0.1)
    assert set(other) == {"version", "answer", "threshold", "direction", "estimate", "low", "high", "reason"}


@pytest.mark.parametrize("known", ["pilot", "full"])
def test_amended_in_knowledge_the_original_promise_leads(tmp_path: Path, known: Known) -> None:
    """The looser one stands beside it, and is claimed by nobody."""
    frozen(tmp_path)
    amended(tmp_path, new="0.01", known=known)
    measure(tmp_path, effect=0.05)
    verdict = ask(tmp_path)
    assert said(verdict) == ("refuted", "refuted", "original")
    assert verdict.other is not None
    assert said(verdict.other) == ("supported", "supported", "amended")
    assert "by the amended one: supported" in verdict.explain()


def test_attempts_under_the_earlier_root_are_knowledge(tmp_path: Path) -> None:
    """Whatever the amendment says: here one made by hand says that nothing was known."""
    from prereg.registration.records import sealed, write_record

    folder = answered(tmp_path)
    threshold(tmp_path, "0.1", "0.6")
    added(tmp_path, "H1", known="full", statement=SAID)
    [file] = (folder / "amendments").iterdir()
    chain = opened(tmp_path).chain
    assert chain is not None
    content = {k: v for k, v in chain.current.content().items() if k != "statement"} | {"known": "none"}
    file.unlink()
    sly = sealed(type(chain.amendments[0]), content)
    write_record(folder / "amendments" / sly.file_name, sly)
    git(tmp_path, "reset", "--quiet", "--soft", "HEAD^")
    commit(tmp_path, "I knew nothing")
    assert opened(tmp_path).standing.status == "registered"
    assert said(ask(tmp_path)) == ("supported", "supported", "original")


def test_an_attempt_while_unverified_is_knowledge(tmp_path: Path) -> None:
    """Looking at the data before committing a stray file is looking at the data."""
    folder = frozen(tmp_path)
    (folder / "notes.txt").write_text("")
    measure(tmp_path)
    assert run(tmp_path)[0].standing.status == "unverified"
    [attempt] = opened(tmp_path).log.read().entries
    assert attempt.registration == opened(tmp_path).standing.root


def test_a_better_wording_gives_one_verdict(tmp_path: Path) -> None:
    """No second promise, no `other`."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", "A tenth is the least worth reporting.", "A tenth is worth a report.")
    added(tmp_path, "H1", known="full", statement=SAID)
    measure(tmp_path)
    verdict = ask(tmp_path)
    assert said(verdict) == ("supported", "supported", None)
    assert verdict.other is None


def test_what_concerns_another_hypothesis_gives_one_verdict(tmp_path: Path) -> None:
    """H1-order's promise is as it was."""
    frozen(tmp_path)
    amended(tmp_path, known="full")
    measure(tmp_path)
    assert said(ask(tmp_path, "H1-order")) == ("supported", "supported", None)


def test_changed_there_and_back_is_one_promise(tmp_path: Path) -> None:
    """What was frozen is in force again."""
    frozen(tmp_path)
    amended(tmp_path)
    amended(tmp_path, old="0.6", new="0.1", known="full")
    measure(tmp_path)
    assert said(ask(tmp_path)) == ("supported", "supported", None)


def test_an_amended_control_gives_two_verdicts_to_those_that_name_it(tmp_path: Path) -> None:
    """A laxer control is a laxer hypothesis."""
    folder = frozen(tmp_path)
    edit(
        folder / "protocol.toml", 'threshold = 0.02\nrationale = "More', 'threshold = 0.2\nrationale = "More'
    )
    added(tmp_path, "controls.sane", known="full", statement=SAID)
    for arm in ("model", "twin-3"):
        write(tmp_path, arm, fits() | {"null": 0.1}, registration=opened(tmp_path).standing.root)
    verdict = ask(tmp_path)
    assert said(verdict) == ("invalid", "invalid", "original")
    assert verdict.other is not None
    assert verdict.other.outcome.value == "supported"
    assert ask(tmp_path, "H1-order").version is None


def test_amended_inference_gives_two_verdicts_to_all(tmp_path: Path) -> None:
    """A lower level is a laxer promise for everybody."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", "level = 0.95", "level = 0.6")
    added(tmp_path, "inference", known="full", statement=SAID)
    measure(tmp_path)
    verdict = ask(tmp_path)
    assert (verdict.version, verdict.level) == ("original", 0.95)
    assert verdict.other is not None
    assert verdict.other.level == 0.6
    assert ask(tmp_path, "H1-order").version == "original"


def test_amended_settings_keep_the_original_evidence(tmp_path: Path) -> None:
    """Set aside under its key, it still answers the original promise."""
    folder = answered(tmp_path)
    edit(folder / "protocol.toml", "orders = [1, 2]", "orders = [1, 2, 3]")
    added(tmp_path, "analyses.kernels", known="full", statement=SAID)
    study = opened(tmp_path)
    assert "kernels.model: measured under key" in study.missing("H1")[0]
    for arm in ("model", "twin-3"):
        study.pipeline.shelf.set_aside(f"kernels.{arm}", study.pipeline.key("kernels", arm))
    measure(tmp_path, effect=0.03)
    again = opened(tmp_path)
    assert again.missing("H1") == ()
    verdict = again.verdict("H1")
    assert said(verdict) == ("supported", "supported", "original")
    assert verdict.other is not None
    assert verdict.other.outcome.value == "refuted"
    assert verdict.evidence != verdict.other.evidence


def test_a_hypothesis_added_later_is_exploratory(tmp_path: Path) -> None:
    """Also when it was added in ignorance; it is told apart in words."""
    folder = frozen(tmp_path)
    file = folder / "protocol.toml"
    file.write_text(file.read_text("utf-8") + H9, "utf-8")
    added(tmp_path, "H9")
    measure(tmp_path)
    verdict = ask(tmp_path, "H9")
    assert said(verdict) == ("exploratory", "supported", None)
    assert verdict.explain().startswith(f"H9 on {MODEL}: exploratory (supported).")
    assert said(ask(tmp_path, "H1")) == ("supported", "supported", None)


def withdraw(root: Path) -> None:
    file = root / "gates" / "sample" / "protocol.toml"
    text = file.read_text("utf-8")
    start, end = text.index("[hypotheses.H1]"), text.index("[hypotheses.H1-order]")
    text = (text[:start] + text[end:]).replace('family = "secondary"', 'family = "primary"')
    file.write_text(text.partition("[published.H1]")[0] + "[hypotheses.H1-order.precision]" + text.partition(
        "[hypotheses.H1-order.precision]")[2], "utf-8")  # fmt: skip


def test_a_withdrawn_hypothesis_is_still_answered(tmp_path: Path) -> None:
    """Last, by the original promise: a failure doesn't vanish with its hypothesis."""
    frozen(tmp_path)
    withdraw(tmp_path)
    added(tmp_path, "H1", "H1-order", "published.H1", known="full", statement=SAID)
    measure(tmp_path, effect=0.03)
    study = opened(tmp_path)
    assert study.hypotheses == ("H1-order", "H1")
    verdict = study.verdict("H1")
    assert said(verdict) == ("refuted", "refuted", "original")
    assert verdict.other is None
    assert study.promises["H1"].threshold == 0.1
    files = write_report(study, study.verdicts())
    assert "H1,pythia-tiny,primary,refuted" in next(f for f in files if f.name == "verdicts.csv").read_text()


def test_withdrawn_without_an_amendment_is_tampered_and_still_answered(tmp_path: Path) -> None:
    """Deleting an inconvenient hypothesis doesn't silence it."""
    frozen(tmp_path)
    measure(tmp_path, effect=0.03)
    withdraw(tmp_path)
    record = ask(tmp_path).as_record()
    assert (record["outcome"], record["answer"], record["registration"]["status"]) == (
        "unverified", "refuted", "tampered",
    )  # fmt: skip


def test_an_unknown_hypothesis_is_an_error(tmp_path: Path) -> None:
    """Registered or not."""
    frozen(tmp_path)
    with pytest.raises(StudyError, match="no hypothesis 'H7'"):
        ask(tmp_path, "H7")


# -- attempts -------------------------------------------------------------------------------------------------


def run(root: Path) -> tuple[Study, dict[str, bytes]]:
    """Answer and write as the commands do; return the report's bytes."""
    study = opened(root)
    verdicts = study.verdicts()
    study.record_attempt(verdicts)
    return study, {f.name: f.read_bytes() for f in write_report(study, verdicts)}


def test_a_rerun_writes_the_same_tables_and_no_attempt(tmp_path: Path) -> None:
    """Same bytes, same verdict, no cost."""
    folder = frozen(tmp_path)
    measure(tmp_path)
    first, tables = run(tmp_path)
    log = sorted(f.name for f in (folder / "attempts").iterdir())
    again, same = run(tmp_path)
    assert tables == same
    assert sorted(f.name for f in (folder / "attempts").iterdir()) == log
    assert [v.attempts for v in (*first.verdicts(), *again.verdicts())] == [1, 1, 1, 1]


def test_each_new_set_of_data_is_counted(tmp_path: Path) -> None:
    """Fail, fail, pass: three sets of data stand beside the verdict, and remain when old ones come back."""
    frozen(tmp_path)
    for count, effect in enumerate((0.03, 0.04, 0.5), start=1):
        measure(tmp_path, effect=effect)
        study, _ = run(tmp_path)
        attempts = study.verdict("H1").as_record()["attempts"]
        assert (attempts["data"], len(attempts["earlier"])) == (count, count - 1)
    assert "3 sets of data were tried" in study.verdict("H1").explain()
    measure(tmp_path, effect=0.03)
    assert run(tmp_path)[0].verdict("H1").attempts == 3


def test_data_tried_before_the_freeze_are_counted(tmp_path: Path) -> None:
    """The count is of all that were tried, registered or not."""
    written(tmp_path)
    measure(tmp_path, registration=None, effect=0.03)
    run(tmp_path)
    commit(tmp_path, "A pilot")
    register(tmp_path, known="full", statement=SAID)
    commit(tmp_path, "Register")
    measure(tmp_path)
    assert ask(tmp_path).attempts == 2
    notes = " ".join(opened(tmp_path).notes())
    assert "were on record when the thresholds were frozen: these verdicts are no predictions" in notes


def test_an_attempt_says_under_what_it_was_made(tmp_path: Path) -> None:
    """Root, protocol, data and answer."""
    frozen(tmp_path)
    measure(tmp_path, effect=0.03)
    study, _ = run(tmp_path)
    [attempt] = opened(tmp_path).log.read().entries
    assert attempt.registration == study.standing.root
    assert attempt.protocol == read_protocol(study.folder).digest
    assert attempt.data == {v.hypothesis: v.data for v in study.verdicts()}
    assert attempt.outcomes == {"H1": "refuted", "H1-order": "supported"}
    assert attempt.looks == {}


# -- the record -----------------------------------------------------------------------------------------------

KEYS = {
    "study", "hypothesis", "model", "outcome", "answer", "reason", "registration", "attempts", "version", "other",
    "claim", "estimand", "family", "direction", "threshold", "units", "quantifier", "unit", "level", "n_subjects",
    "n_prompts", "cautions",
    "estimate", "low", "high", "binds", "contrasts", "controls", "permutations", "published", "protocol_digest",
    "evidence",
}  # fmt: skip


@pytest.mark.parametrize("bend", ["nothing", "unregistered", "tampered", "amended"])
def test_every_record_has_the_same_keys(tmp_path: Path, bend: str) -> None:
    """Plain, finite JSON, whatever the standing."""
    if bend == "unregistered":
        written(tmp_path)
    else:
        frozen(tmp_path)
    if bend == "amended":
        amended(tmp_path)
    measure(tmp_path)
    if bend == "tampered":
        threshold(tmp_path, "0.1", "0.2")
    record = ask(tmp_path).as_record()
    assert set(record) == KEYS
    assert set(record["registration"]) == {"status", "root", "known", "reasons"}
    assert set(record["attempts"]) == {"data", "earlier", "look", "alpha"}
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert str(tmp_path) not in json.dumps(record)


def test_tables_name_no_machine_wherever_the_trouble_lies(tmp_path: Path) -> None:
    """A broken registration's reason stands in verdicts.json without the checkout's path."""
    root = tmp_path / "project"
    folder = frozen(root)
    measure(root)
    (folder / "registration.json").write_text("{")
    _, tables = run(root)
    assert b"tampered" in tables["verdicts.json"]
    assert not [name for name, raw in tables.items() if str(tmp_path).encode() in raw]


def test_explain_says_all(tmp_path: Path) -> None:
    """Standing, version, attempts: a failed gate needs no second command."""
    frozen(tmp_path)
    amended(tmp_path, known="full")
    for effect in (0.5, 0.03):
        measure(tmp_path, effect=effect)
        run(tmp_path)
    text = ask(tmp_path).explain()
    for part in (
        "registered ",
        "full data were known",
        "this is the original promise",
        "2 sets of data",
        "> 0.6",
    ):
        assert part in text


def test_the_header_says_how_the_study_stands(tmp_path: Path) -> None:
    """In one line, before any answer."""
    folder = frozen(tmp_path)
    assert "registered " in opened(tmp_path).header()[1]
    shutil.rmtree(tmp_path / ".git")
    assert "UNVERIFIED" in opened(tmp_path).header()[1]
    (folder / "registration.json").unlink()
    assert "not registered" in opened(tmp_path).header()[1]
