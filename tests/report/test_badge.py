"""The badge: one line, never kinder than the audit, and green for one thing only."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from prereg.report.badge import BLUE, GREEN, GREY, ORANGE, RED, Badge, badge_of
from prereg.report.figures import ReportError
from tests.report.page.audits import audit_of, tried


def badge(*outcomes: str | None, **more: Any) -> Badge:
    return badge_of(audit_of({("m", f"H{i}"): outcome for i, outcome in enumerate(outcomes)}, **more))


def test_all_supported_is_green() -> None:
    """Everything that was asked is shown, and verified."""
    assert badge("supported", "supported") == Badge("hypotheses", "2 supported", GREEN)


def test_all_answered_is_blue() -> None:
    """Refuted is an answer; the counts say which."""
    found = badge("refuted", "supported", "inconclusive", "supported")
    assert found == Badge("hypotheses", "2 supported · 1 refuted · 1 inconclusive", BLUE)
    assert badge("refuted").color == BLUE


def test_what_was_not_asked_comes_first() -> None:
    """3 supported of 9 are 3 of 9 tested, in grey."""
    assert badge("supported", "supported", None) == Badge("hypotheses", "2 of 3 tested", GREY)
    assert badge() == Badge("hypotheses", "0 of 0 tested", GREY)


@pytest.mark.parametrize(
    ("status", "message", "color"), [("unverified", "unverified", GREY), ("violation", "violation", RED)]
)
def test_the_audit_has_the_first_word(status: Any, message: str, color: str) -> None:
    """No verdict is told where the audit doesn't stand."""
    assert badge("supported", "supported", status=status) == Badge("hypotheses", message, color)


def test_without_a_registration_it_says_so() -> None:
    """A study that nobody registered has no verdicts to show."""
    assert badge("supported", root=None).message == "unregistered"


def test_invalid_is_told_and_no_answer() -> None:
    """A failed control is neither green nor blue."""
    assert badge("supported", "invalid") == Badge("hypotheses", "1 supported · 1 invalid", ORANGE)


def test_models_that_disagree_are_mixed() -> None:
    """A hypothesis counts once: under the word on which all models agree, else as mixed."""
    verdicts = {
        ("a", "H1"): "supported",
        ("b", "H1"): "supported",
        ("a", "H2"): "supported",
        ("b", "H2"): "refuted",
    }
    assert badge_of(audit_of(verdicts)) == Badge("hypotheses, 2 models", "1 supported · 1 mixed", BLUE)
    assert badge_of(audit_of({**verdicts, ("b", "H2"): None})).message == "1 of 2 tested"


def test_a_hypothesis_added_later_does_not_make_it_green() -> None:
    """What was added after the freeze counts in no family, neither for nor against."""
    report = audit_of({("m", "H1"): "refuted", ("m", "H2"): "supported"}, H2={"state": "added"})
    assert badge_of(report) == Badge("hypotheses", "1 refuted", BLUE)


def test_withdrawing_what_was_refuted_does_not_make_it_green() -> None:
    """It counts with its verdict, and without one as not tested."""
    answers: dict[tuple[str, str], str | None] = {("m", "H1"): "supported", ("m", "H2"): "refuted"}
    gone = {"state": "withdrawn"}
    assert badge_of(audit_of(answers, H2=gone)) == Badge("hypotheses", "1 supported · 1 refuted", BLUE)
    answers["m", "H2"] = None
    assert badge_of(audit_of(answers, H2=gone)) == Badge("hypotheses", "1 of 2 tested", GREY)


@pytest.mark.parametrize("outcome", ["supported", "refuted", "invalid", None])
@pytest.mark.parametrize("status", ["verified", "unverified", "violation"])
@pytest.mark.parametrize("by", ["attempts", "reports"])
def test_a_choice_of_models_is_told_and_never_green(outcome: str | None, status: Any, by: str) -> None:
    """Whoever shows one of two models shows that there are two, and no colour of a whole answer."""
    report = audit_of({("a", "H1"): outcome}, status=status)
    whole = badge_of(report)
    if by == "attempts":
        found = badge_of(dataclasses.replace(report, attempts=tried("a", "b")))
    else:
        found = badge_of(report, ["a", "b"])
    assert (found.label, found.message) == ("hypotheses, 1 of 2 models", whole.message)
    assert found.color == (GREY if whole.color in (GREEN, BLUE) else whole.color)


def test_green_needs_every_verdict_and_the_audit() -> None:
    """Over all outcomes, statuses and registrations of two hypotheses, one combination is green."""
    outcomes = ("supported", "refuted", "inconclusive", "invalid", "unverified", "tampered", "odd", None)
    cases = itertools.product(outcomes, outcomes, ("verified", "unverified", "violation"), ("a" * 64, None))
    green = [case for case in cases if badge(case[0], case[1], status=case[2], root=case[3]).color == GREEN]
    assert green == [("supported", "supported", "verified", "a" * 64)]


def test_the_svg_is_the_same_each_time_and_reads_aloud() -> None:
    """No counter in it; title and label say what it shows; what it quotes is escaped."""
    one = Badge("a & b", "1 <supported>", BLUE)
    assert one.svg() == one.svg()
    root = ElementTree.fromstring(one.svg())  # noqa: S314 (made here)
    assert root.attrib["aria-label"] == "a & b: 1 <supported>"
    assert root[0].text == "a & b: 1 <supported>"
    assert BLUE in one.svg().decode()


def test_the_endpoint_is_the_one_that_shields_reads() -> None:
    """Schema version 1: label, message, colour without its hash."""
    assert Badge("hypotheses", "2 supported", GREEN).endpoint == {
        "schemaVersion": 1, "label": "hypotheses", "message": "2 supported", "color": "1a7f37",
    }  # fmt: skip


@pytest.mark.parametrize("color", [GREEN, BLUE, GREY, ORANGE, RED])
def test_white_letters_can_be_read(color: str) -> None:
    """Contrast of at least 4.5, by WCAG's relative luminance."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5


def test_without_anybadge_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is told with the command that installs it."""
    monkeypatch.setitem(sys.modules, "anybadge", None)
    with pytest.raises(ReportError) as found:
        Badge("a", "b", BLUE).svg()
    assert found.value.remedy == "pip install 'prereg-gates[report]'"
