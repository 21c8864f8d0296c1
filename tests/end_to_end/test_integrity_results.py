"""Results, their order and their log under attack, row by row, through the real commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.end_to_end.integrity_project import REPORTS, STUDY, Attacked, Take, taker, words
from tests.synthetic import git


@pytest.fixture
def take(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Take:
    """Copy a project of a kind."""
    return taker(tmp_path, tmp_path_factory)


def test_every_set_of_data_is_counted_and_none_can_be_dropped(take: Take) -> None:
    """Fail, fail, pass: three sets of data stand in the log and beside the verdict; the same bytes cost nothing."""
    project = take("refuted")
    for effect in (0.02, 0.5):
        project.measure(effect)
        project.prereg("verdicts", STUDY, "--cache-dir", "cache")
        project.commit("Measure again")
    assert len(project.attempts()) == 3
    done = project.gates()
    assert (done.code, len(project.attempts())) == (0, 3)
    assert "✓ supported (3 tries)" in done.flat
    assert "3 sets of data were tried; the others gave: refuted, refuted" in done.flat
    assert project.verdicts()["H1"]["attempts"]["data"] == 3
    code, record = project.audit()
    assert [row["data"] for row in record["attempts"] if row["hypothesis"] == "H1"] == [3]
    oldest = next(file for file in project.attempts() if json.loads(file.read_text())["parents"] == [])
    oldest.unlink()
    project.commit("Tidy up")
    cut = project.gates()
    assert cut.code == 1
    assert set(project.cases().values()) == {"skipped"}
    assert "an attempt was removed" in cut.flat
    assert oldest.stem in cut.flat
    code, record = project.audit()
    assert code == 1
    assert oldest.stem[:12] in words(record, "attempts", "violation")


def test_the_newest_attempt_can_not_be_dropped_either(take: Take) -> None:
    """No other attempt names it, but the commit that held it does."""
    project = take("refuted")
    (newest,) = project.attempts()
    newest.unlink()
    project.commit("Tidy up")
    done = project.prereg("verdicts", STUDY, "--cache-dir", "cache")
    assert project.statuses() == {"unverified"}
    assert f"{newest.name} was removed or changed" in done.flat
    code, record = project.audit()
    assert code == 1
    assert newest.stem[:12] in words(record, "attempts", "violation")


def test_an_attempt_edited_by_hand_is_found(take: Take) -> None:
    """Its name is no longer the digest of what it says: nothing is green, and the file is named."""
    project = take("supported")
    (attempt,) = project.attempts()
    attempt.write_text(attempt.read_text("utf-8").replace("supported", "inconclusive"), "utf-8")
    done = project.gates()
    assert done.code == 1
    assert project.statuses() == {"unverified"}
    assert attempt.name in done.flat
    assert project.audit()[0] == 1


def test_two_branches_that_both_answer_lose_no_attempt(take: Take) -> None:
    """Attempts are files of their own: a merge keeps both without a conflict, and the log stays whole."""
    project = take("frozen")
    for branch, effect in (("one", 0.4), ("two", 0.6)):
        project.git("checkout", "--quiet", "-b", branch, "main")
        project.measure(effect)
        project.prereg("verdicts", STUDY, "--cache-dir", "cache")
        project.commit(f"Measure on {branch}")
    project.git("merge", "--quiet", "--strategy-option", "ours", "--message", "Merge", "one")
    assert len(project.attempts()) == 2
    assert project.prereg("verdicts", STUDY, "--cache-dir", "cache").code == 0
    project.commit("Answer")
    code, record = project.audit()
    assert code == 2, "one measurement that gave two tables is no violation, and not verified either"
    assert "the same measurement gave 2 different tables" in words(record, "evidence", "unverified")
    assert "the log's 2 entries hold together" in words(record, "attempts", "verified")


@pytest.mark.parametrize("name", ["verdicts.json", "verdicts.csv", "contrasts.csv"])
def test_an_edited_table_is_recomputed(take: Take, name: str) -> None:
    """The audit names the file, the field, and both values; a run writes the truth again."""
    project = take("refuted")
    old, new = ("0.04", "0.34") if name == "contrasts.csv" else ("refuted", "supported")
    true = project.read(f"{REPORTS}/{name}")
    project.edit(f"{REPORTS}/{name}", old, new)
    project.commit("Improve")
    code, record = project.audit()
    said = words(record, "verdicts", "violation")
    assert code == 1
    assert name in said
    assert f'recorded \\"{new}' in said or f"recorded {new}" in said
    assert project.prereg("verdicts", STUDY, "--cache-dir", "cache").code == 1
    assert project.read(f"{REPORTS}/{name}") == true


@pytest.mark.parametrize("how", ["flipped", "cut", "swapped", "gone", "record"])
def test_evidence_is_bound_to_its_record(take: Take, how: str) -> None:
    """A byte, a missing table, another arm's table or an edited record is an error before use, and named."""
    project = take("supported")
    table = project.path(f"{REPORTS}/evidence/kernels.model.parquet")
    raw = table.read_bytes()
    if how == "flipped":
        table.write_bytes(raw[:99] + bytes([raw[99] ^ 1]) + raw[100:])
    elif how == "cut":
        table.write_bytes(raw[:-50])
    elif how == "swapped":
        shutil.copy(table.with_name("kernels.twin-3.parquet"), table)
    elif how == "gone":
        table.unlink()
    else:
        project.edit(f"{REPORTS}/evidence/kernels.model.json", '"n_subjects": 40', '"n_subjects": 80')
    done = project.gates()
    assert done.code == 1
    assert "passed" not in project.cases().values()
    assert how == "gone" or "kernels.model" in done.flat
    code, record = project.audit()
    assert code == 1
    assert "kernels.model" in words(record, "evidence", "violation")


def test_evidence_of_another_model_answers_nothing(take: Take) -> None:
    """Reports that were copied to another model's folder are not that model's."""
    project = take("supported")
    shutil.copytree(project.path(REPORTS), project.path("reports/sample/smollm2-135m"))
    done = project.prereg("verdicts", STUDY, "--model", "smollm2-135m", "--cache-dir", "cache")
    assert done.code == 2
    project.commit("One more model")
    code, record = project.audit()
    assert code == 1
    assert "its model is pythia-tiny, where smollm2-135m belongs" in words(record, "evidence", "violation")


@pytest.mark.parametrize("root", [None, "f" * 64])
def test_evidence_from_outside_the_registration_does_not_answer_it(take: Take, root: str | None) -> None:
    """Measured before the freeze or under another one: not used, and both digests are named."""
    from tests import synthetic

    project = take("supported")
    fits = {"history_1": 0.9, "history_2": 0.9, "null": -0.01}
    synthetic.write(project.root, "model", fits, registration=root)
    done = project.prereg("verdicts", STUDY, "--cache-dir", "cache")
    registered = json.loads(project.read(f"{STUDY}/registration.json"))["root"]
    assert done.code == 2
    assert registered[:12] in done.flat
    assert (root or "no registration")[:12] in done.flat or "before" in done.flat, done.text
    code, record = project.audit()
    assert code == 2
    said = words(record, "evidence", "unverified")
    assert registered[:12] in said
    assert (root or "none")[:12] in said


def test_results_that_were_there_before_the_freeze_can_not_be_denied(take: Take) -> None:
    """`--known none` is refused, naming the model; what was known is shown wherever the verdict is."""
    from tests import synthetic

    project = take("frozen")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    for arm in ("model", "twin-3"):
        synthetic.write(project.root, arm, {"history_1": 0.5, "history_2": 0.5, "null": -0.01})
    project.commit("Measure first")
    refused = project.prereg("freeze", STUDY)
    assert refused.code == 2
    assert "on record already, on pythia-tiny" in refused.flat
    assert not project.path(f"{STUDY}/registration.json").exists()
    told = project.prereg(
        "freeze", STUDY, "--known", "full", "--statement", "H1 was seen to hold on pythia-tiny."
    )
    assert told.code == 0
    project.commit("Register")
    stale = project.prereg("verdicts", STUDY, "--cache-dir", "cache")
    assert stale.code == 2, "evidence from before the freeze answers nothing"
    project.measure(0.5)
    shown = project.gates()
    assert shown.code == 0
    assert "full data were known" in shown.flat
    assert "no predictions" in shown.flat
    assert {v["registration"]["known"] for v in project.verdicts().values()} == {"full"}
    project.commit("Measure")
    _, record = project.audit()
    assert "verdicts on them are not predictions" in words(record, "order", "note")


def test_a_squash_hides_the_order(take: Take) -> None:
    """Registration and results in one commit: nothing shows which came first, and nothing is green."""
    project = take("supported")
    project.git("reset", "--quiet", "--soft", "HEAD~2")
    squashed = project.commit("All at once")
    done = project.gates()
    assert done.code == 1
    assert set(project.cases().values()) == {"skipped"}
    assert "first appear together" in done.flat
    project.git("checkout", "--", ".")
    code, record = project.audit()
    said = words(record, "order", "unverified")
    assert code == 2
    assert squashed[:12] in said
    assert "squash" in said


@pytest.mark.parametrize(
    ("how", "reason", "remedy"),
    [
        ("shallow", "this clone is shallow", "git fetch --unshallow"),
        ("none", "in no git repository", "git init"),
    ],
)
def test_what_can_not_be_seen_is_unverified(take: Take, how: str, reason: str, remedy: str) -> None:
    """A shallow clone and a folder without git: no green on any surface, and the command that settles it."""
    project = take("supported")
    if how == "shallow":
        clone = project.root.parent / "clone"
        git(project.root, "clone", "--quiet", "--depth", "1", f"file://{project.root}", str(clone))
        project = Attacked(clone)
    else:
        shutil.rmtree(project.path(".git"))
    done = project.gates()
    assert done.code == 1
    assert reason in done.flat
    assert set(project.cases().values()) == {"skipped"}
    assert project.statuses() == {"unverified"}
    assert "2 supported" not in done.text
    code, record = project.audit()
    assert code == 2
    assert reason in words(record, "repository", "unverified")
    assert remedy in words(record, "repository", "unverified")
    if how == "shallow":
        project.git("fetch", "--quiet", "--unshallow")
        assert project.prereg("verdicts", STUDY, "--cache-dir", "cache").code == 0
        assert project.audit()[0] == 0
