"""The verdict table: readable at 80 columns without colour, complete, and never kinder than the record."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prereg.report import render_verdicts, to_svg, to_text
from tests.report.records import record

IDS = ("H1", "H1-order", "H1-beyond", "H2-decisive")


def text(records: list[dict[str, Any]], *, width: int = 80, color: bool = False, **more: Any) -> str:
    return to_text(render_verdicts(records, hypotheses=more.pop("hypotheses", IDS), **more), width, color)


def line(found: str, name: str) -> str:
    return next(row for row in found.splitlines() if row.startswith(name + " "))


def several() -> list[dict[str, Any]]:
    return [
        record("H1"),
        record("H1-order", outcome="inconclusive", estimate=0.0201, low=0.012, high=0.028,
               direction="equivalence", threshold=0.02),
        record("H2-decisive", outcome="refuted", estimate=-0.4, low=-0.6, high=-0.2, direction="less",
               threshold=0.0, family="secondary"),
    ]  # fmt: skip


def test_a_row_says_what_was_promised_found_and_published() -> None:
    """Estimate, interval, threshold with its direction and units, verdict, and the paper's verdict."""
    row = line(text(several()), "H1")
    for part in ("✓ supported", "+0.610", "[+0.580, +0.640]", "> 0.05 R2"):
        assert part in row
    assert row.endswith("supported")


@pytest.mark.parametrize("width", [40, 60, 76, 80, 100, 120, 160])
def test_no_line_is_wider_than_asked_and_nothing_is_cut_off(width: int) -> None:
    """At any width every number is whole: a table that doesn't fit becomes a list."""
    found = text(several(), width=width)
    assert max(map(len, found.splitlines())) <= width
    assert "…" not in found
    for part in ("inconclusive", "+0.0201", "[+0.012, +0.028]", "±0.02 R2", "[-0.600, -0.200]", "< 0 R2"):
        assert part in found


def test_long_names_turn_the_table_into_a_list() -> None:
    """A long hypothesis id may not push a bound out of sight."""
    found = text([record("H" * 50)], hypotheses=("H" * 50,))
    assert max(map(len, found.splitlines())) <= 80
    assert "[+0.580, +0.640]" in found


def test_without_colour_there_is_no_escape_and_each_outcome_has_its_word_and_symbol() -> None:
    """A log reads as well as a terminal."""
    outcomes = {
        "supported": "✓ supported", "refuted": "✗ refuted", "inconclusive": "? inconclusive",
        "invalid": "! invalid", "unverified": "~ unverified", "not_tested": "- not tested",
    }  # fmt: skip
    found = text([record(o, outcome=o) for o in outcomes], hypotheses=tuple(outcomes))
    assert "\x1b" not in found
    for name, words in outcomes.items():
        assert words in line(found, name)


def test_with_colour_only_a_supported_verdict_is_green() -> None:
    """Green is the colour of one outcome; no other shares it."""
    for outcome in ("refuted", "inconclusive", "invalid", "unverified", "not_tested"):
        assert "\x1b[32m" not in text([record(outcome=outcome)], color=True)
    assert "\x1b[32m✓ supported" in text([record()], color=True)


def test_what_has_no_record_is_shown_as_not_tested_and_counted() -> None:
    """Silence is not success: the count names what is missing."""
    found = text([record("H1")])
    assert "1 of 4 tested: 1 supported" in found
    assert "not tested" in line(found, "H2-decisive")


def test_nothing_tested_is_a_table_of_not_tested() -> None:
    """An empty list of records claims nothing."""
    found = text([])
    assert "0 of 4 tested" in found
    assert found.count("- not tested") == 4
    assert "supported" not in found


def test_an_unknown_outcome_is_shown_as_it_is() -> None:
    """A record from another version is never shown as an outcome that this one knows."""
    found = text([record(outcome="confirmed")])
    assert "unknown: confirmed" in found
    assert "✓" not in found


def test_samples_that_differ_have_a_column_where_there_is_room() -> None:
    """Where hypotheses rest on different prompts, each row gives its own n."""
    found = text([record("H1"), record("H1-order", n_subjects=99, n_prompts=200)], width=100)
    assert "112/280" in line(found, "H1")
    assert "99/200" in line(found, "H1-order")


def test_the_last_record_of_a_hypothesis_counts() -> None:
    """A hypothesis asked twice has one row."""
    found = text([record("H1"), record("H1", outcome="refuted")])
    assert "refuted" in line(found, "H1")
    assert "1 of 4 tested: 1 refuted" in found


def test_invalid_says_why_and_notes_stand_below() -> None:
    """What is no answer needs its reason; the caller's notes come last."""
    found = text(
        [record(outcome="invalid", reason="control sane does not hold")], notes=("not registered: no freeze",)
    )
    assert "control sane does not hold" in found
    assert found.rstrip().endswith("not registered: no freeze")


def test_claims_stand_below_a_narrow_table_and_inside_a_wide_one() -> None:
    """The claim is never lost."""
    claim = "A kernel fit on one depth band"
    narrow, wide = text([record()], width=80), text([record()], width=160)
    assert claim in narrow.split("\n\n")[1], "the claims are a part of their own"
    assert claim in line(wide, "H1")
    assert "0.65 (pythia-410m)" in wide


def test_a_bound_that_rounds_to_the_threshold_gets_more_digits() -> None:
    """A reader must see on which side of the threshold a bound lies."""
    found = text([record(low=0.05003, estimate=0.06, high=0.07)])
    assert "[+0.05003, +0.070]" in found


def test_a_bound_equal_to_the_threshold_stays_short() -> None:
    """Equality has no digits to show."""
    assert "[+0.050, +0.640]" in text([record(low=0.05)])


def test_a_missing_bound_is_said_to_be_missing() -> None:
    """JSON can't say infinity: such a bound is None, and not shown as a number."""
    assert "[none, +0.640]" in text([record(low=None)])


def test_a_value_that_rounds_to_zero_has_no_minus() -> None:
    """-0.0001 is shown as +0.000, not as -0.000."""
    assert "-0.000" not in text([record(estimate=-0.0001, low=-0.0002, high=0.0001, threshold=0.3)])


def test_an_encoding_without_the_symbols_gets_ascii() -> None:
    """A latin-1 or ASCII stream never gets a character that it lacks, and columns stay aligned."""
    table = render_verdicts(several(), hypotheses=IDS)
    plain, ascii_ = to_text(table, 80, False), to_text(table, 80, False, encoding="ascii")
    ascii_.encode("ascii")
    assert "+ supported" in ascii_
    assert [len(row) for row in plain.splitlines()] == [len(row) for row in ascii_.splitlines()]


def test_markup_in_a_record_is_text() -> None:
    """Square brackets in a claim or a reason are shown, not obeyed."""
    found = text([record(outcome="invalid", reason="[bold]R2[/bold] of [0]", claim="[red]a claim[/red]")])
    assert "[bold]R2[/bold] of [0]" in found
    assert "[red]a claim[/red]" in found


def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller decided about colour and width holds."""
    expected = text(several())
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "40"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    assert text(several()) == expected
    assert "\x1b[32m" in text(several(), color=True)


def test_the_picture_is_the_same_every_time_and_fetches_nothing() -> None:
    """Same table, same bytes; no address in it but the SVG namespace."""
    table = render_verdicts(several(), hypotheses=IDS)
    first, second = to_svg(table), to_svg(table)
    assert first == second
    assert set(re.findall(r"https?://[^\"' )]*", first)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in first
    assert "supported" in first


def test_a_record_without_its_hypothesis_is_refused() -> None:
    """A row that names nothing is an error."""
    broken = record()
    del broken["hypothesis"]
    with pytest.raises(KeyError):
        render_verdicts([broken], hypotheses=IDS)
