"""What may be said of a verdict: never more than the audit can show."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from prereg.report.figures.tables import Table, Tables
from prereg.report.page.shown import Shown, as_shown, folder_of, left_out, shown_verdicts
from tests.report.page.audits import ROOT, audit_of, tried


def only(report: Any) -> Shown:
    (shown,) = shown_verdicts(report)
    return shown


@pytest.mark.parametrize("outcome", ["supported", "refuted", "inconclusive", "invalid"])
def test_a_verified_verdict_is_shown_as_it_is(outcome: str) -> None:
    """Recorded, computed again, nothing in doubt: the word stands alone."""
    assert only(audit_of({("m", "H1"): outcome})) == Shown("m", "H1", outcome, "", counts=True)


@pytest.mark.parametrize(("status", "word"), [("unverified", "unverified"), ("violation", "tampered")])
def test_a_doubt_anywhere_takes_the_word_away(status: Any, word: str) -> None:
    """What the interval alone says stands behind it."""
    shown = only(audit_of({("m", "H1"): "supported"}, status=status))
    assert (shown.outcome, shown.answer) == (word, "supported")


def test_without_a_registration_nothing_is_claimed() -> None:
    """Even where no check found fault."""
    shown = only(audit_of({("m", "H1"): "supported"}, root=None))
    assert (shown.outcome, shown.answer) == ("unregistered", "supported")


@pytest.mark.parametrize("again", ["refuted", None])
def test_a_verdict_that_is_not_computed_again_is_unverified(again: str | None) -> None:
    """Another answer, or none, is no confirmation."""
    report = audit_of({("m", "H1"): "supported"}, recomputed={("m", "H1"): again})
    assert only(report).outcome == "unverified"


@pytest.mark.parametrize("recorded", ["splendid", "verified", "", "unverified"])
def test_an_outcome_that_is_none_is_unverified(recorded: str) -> None:
    """A word that no verdict has is never shown as one."""
    assert only(audit_of({("m", "H1"): recorded})).outcome == "unverified"


def test_silence_is_not_tested() -> None:
    """A hypothesis without a verdict on a model that has evidence is told as not tested."""
    report = audit_of({("m", "H1"): "supported", ("n", "H1"): None})
    assert [(s.model, s.outcome) for s in shown_verdicts(report)] == [("m", "supported"), ("n", "not_tested")]


def test_what_was_added_after_the_freeze_is_exploratory_and_does_not_count() -> None:
    """Its interval is told, its word claims nothing."""
    shown = only(audit_of({("m", "H1"): "supported"}, H1={"state": "added"}))
    assert shown == Shown("m", "H1", "exploratory", "supported", counts=False)


@pytest.mark.parametrize(("recorded", "word"), [("refuted", "refuted"), (None, "not_tested")])
def test_what_was_withdrawn_after_the_freeze_counts(recorded: str | None, word: str) -> None:
    """Else an answer that nobody liked could be taken back; without a verdict it was not tested."""
    shown = only(audit_of({("m", "H1"): recorded}, H1={"state": "withdrawn"}))
    assert (shown.outcome, shown.counts) == (word, True)


def test_models_that_the_audit_did_not_look_at_are_named() -> None:
    """By the attempts, which are those on all models, and by the reports that are there; a pilot is no answer."""
    report = dataclasses.replace(
        audit_of({("a", "H1"): "supported"}), attempts=(*tried("a", "org/b"), *tried("pilot", registered=0))
    )
    assert left_out(report) == (folder_of("org/b"),)
    assert left_out(report, ["a", "z", folder_of("org/b")]) == (folder_of("org/b"), "z")


def test_a_verdict_on_no_promise_is_unverified() -> None:
    """A hypothesis that nothing promises can't have been supported."""
    report = dataclasses.replace(audit_of({("m", "H1"): "supported"}), thresholds=())
    assert only(report).outcome == "unverified"


def test_a_model_s_folder_is_that_of_the_registry() -> None:
    """An alias is its folder; another name gets the digits that `ModelEntry.slug` gives it."""
    from prereg.activations.models import load_registry, resolve

    for name in ("smollm2-135m", "org/name"):
        assert folder_of(name) == resolve(name, registry=load_registry(), root=ROOT).slug


def test_tables_are_reworded_for_a_page() -> None:
    """What the audit doesn't know of is unverified; nothing else of a table changes."""
    row = {"hypothesis": "H1", "outcome": "supported", "answer": "supported", "registration": "registered"}
    other = row | {"hypothesis": "H9"}
    table = Table(ROOT, tuple(row), (row, other))
    tables = Tables("s", {}, {"m": {"verdicts.csv": table, "x.csv": table}})
    found = as_shown(tables, [Shown("m", "H1", "tampered", "supported", counts=True)]).models["m"]
    assert [r["outcome"] for r in found["verdicts.csv"].rows] == ["tampered", "unverified"]
    assert found["x.csv"] is table
