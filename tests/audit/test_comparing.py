"""Differences between a report as it lies and as it must be."""

from __future__ import annotations

from prereg.audit.comparing import csv_differences, json_differences, standing_of_record

WANTED = b"hypothesis,outcome,low\nH1,supported,0.2\nH2,refuted,0.1\n"


def differences(recorded: bytes, *, same_standing: bool = True) -> list[str]:
    return csv_differences(recorded, WANTED, same_standing=same_standing)


def test_the_same_rows_in_another_order_are_the_same_table() -> None:
    """Rows are found by what they are about."""
    assert differences(b"hypothesis,outcome,low\nH2,refuted,0.1\nH1,supported,0.2\n") == []


def test_a_field_is_named_by_row_and_column() -> None:
    """A reader finds the field at once."""
    found = differences(WANTED.replace(b"0.1", b"0.3"))
    assert found == ['H2, low: recorded "0.3", recomputed "0.1"']


def test_an_outcome_is_passed_over_only_where_the_study_stood_otherwise() -> None:
    """What depends on the standing isn't compared across standings; a number is."""
    other = WANTED.replace(b"supported", b"unverified")
    assert differences(other, same_standing=False) == []
    assert differences(other) == ['H1, outcome: recorded "unverified", recomputed "supported"']
    assert differences(other.replace(b"0.2", b"0.4"), same_standing=False)


def test_rows_columns_and_spelling_count() -> None:
    """A table with a row or column more, or the same fields in quotes, isn't the table."""
    assert differences(WANTED + b"H3,refuted,0.1\n") == ["rows: recorded 3, recomputed 2"]
    assert differences(b"hypothesis,low\nH1,0.2\nH2,0.1\n") == ["columns: recorded 2, recomputed 3"]
    assert differences(WANTED.replace(b"H1", b'"H1"')) == ["the same fields, written otherwise"]
    assert differences(b"\xff")
    assert differences(b"")


def test_a_verdict_that_was_left_out_does_not_shift_the_others() -> None:
    """Verdicts are matched by hypothesis."""
    one, two = {"hypothesis": "H1", "low": 0.1}, {"hypothesis": "H2", "low": 0.2}
    found = json_differences({"verdicts": [two]}, {"verdicts": [one, two]}, same_standing=True, only=None)
    assert len(found) == 1
    assert found[0].startswith("verdicts.H1: recorded nothing")


def test_a_verdict_given_twice_is_one_too_many() -> None:
    """A second row of a hypothesis can't hide behind the first."""
    row = {"hypothesis": "H1", "low": 0.1}
    found = json_differences({"verdicts": [row, row]}, {"verdicts": [row]}, same_standing=True, only=None)
    assert found[0].startswith("verdicts.[1]")


def test_one_and_true_are_not_the_same() -> None:
    """JSON's kinds are compared as well as its values."""
    assert json_differences({"a": 1}, {"a": True}, same_standing=True, only=None)


def test_the_standing_of_anything_is_read_without_trust() -> None:
    """A document of an odd shape stands nowhere."""
    assert standing_of_record([]) == standing_of_record({"registration": 3}) == (None, None)
    assert standing_of_record({"registration": {"status": "registered", "root": []}}) == ("registered", None)
