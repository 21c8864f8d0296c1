"""What may not be claimed is never shown as if it were: in the table, in its tally, and in the tracked files."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from prereg.report import render_verdicts, to_svg, to_text, write_report
from prereg.report.rows import MARKS, blocks, tally
from prereg.study import Study
from tests.frozen import answered, edit, frozen, opened, written
from tests.report.records import record
from tests.synthetic import write

WIDTHS = (60, 80, 140)
STANDINGS = ("unregistered", "unverified", "tampered", "exploratory")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def stands(status: str, **changes: Any) -> dict[str, Any]:
    """Return a supported answer's record under one standing; nothing else in it says "supported"."""
    exploratory = status == "exploratory"
    return record(
        **{
            "outcome": "exploratory" if exploratory else "unverified",
            "answer": "supported",
            "reason": "the whole interval lies above the threshold",
            "published": None,
            "registration": {
                "status": "registered" if exploratory else status,
                "root": None,
                "known": None,
                "reasons": ["the evidence kernels.model was measured outside the registration"],
            },
            **changes,
        }
    )


def drawn(records: list[dict[str, Any]], width: int = 80, *, color: bool = False) -> str:
    names = tuple(r["hypothesis"] for r in records)
    return to_text(render_verdicts(records, hypotheses=names), width, color)


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("status", STANDINGS)
def test_no_bare_supported(status: str, width: int, color: bool) -> None:
    """At any width, with and without colour: the status comes first, the answer stands in brackets behind it."""
    text = drawn([stands(status)], width, color=color)
    plain = ESCAPE.sub("", text)
    assert plain.count("supported") == plain.count("(supported)") == 1
    assert plain.index(status) < plain.index("(supported)")
    assert "✓" not in plain
    assert "\x1b[32m" not in text
    assert max(map(len, plain.splitlines())) <= width


@pytest.mark.parametrize("status", STANDINGS)
def test_the_tally_counts_the_status(status: str) -> None:
    """One tested: one of that status, and none supported."""
    [block] = blocks([stands(status)], ["H1"])
    assert tally(block.rows) == f"1 of 1 tested: 1 {status}"


def test_the_tally_keeps_kinds_apart() -> None:
    """Registered answers first; what is not tested is in none of them."""
    rows = [record("A"), stands("unregistered", hypothesis="B"), stands("exploratory", hypothesis="C")]
    [block] = blocks(rows, ["A", "B", "C", "D"])
    assert tally(block.rows) == "3 of 4 tested: 1 supported, 1 exploratory, 1 unregistered"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "status", ["supported", "registered!", "expired", "refuted", "not_tested", "[red]x[/red]"]
)
def test_a_status_of_the_future_is_shown_as_unknown(status: str, width: int) -> None:
    """Or of a hand that wrote "supported" where the status belongs."""
    text = drawn([stands(status)], width)
    assert f"unknown: {status}" in text
    assert "✓" not in text
    [block] = blocks([stands(status)], ["H1"])
    assert "supported" not in tally(block.rows)


@pytest.mark.parametrize("outcome", ["confirmed", "registered", "passed", ""])
def test_an_outcome_of_the_future_is_shown_as_unknown(outcome: str) -> None:
    """Whatever the standing: nothing is guessed."""
    for status in ("registered", "tampered"):
        text = drawn([stands(status, outcome=outcome)])
        assert "! unknown:" in text
        assert text.count("supported") == text.count("(supported)")


@pytest.mark.parametrize("outcome", ["supported", "refuted", "inconclusive"])
@pytest.mark.parametrize("status", ["unregistered", "unverified", "tampered"])
def test_a_record_that_contradicts_itself_is_not_believed(status: str, outcome: str) -> None:
    """A verdicts.json in which only the outcome was edited."""
    found = stands(status, outcome=outcome, answer=outcome)
    [block] = blocks([found], ["H1"])
    assert (block.rows[0].outcome, block.rows[0].answer) == (status, outcome)
    assert f"({outcome})" in drawn([found])


@pytest.mark.parametrize("registration", [None, {}, {"status": None}, [], "registered", 1])
def test_a_malformed_registration_raises_nothing(registration: Any) -> None:
    """A table is drawn of whatever a file holds."""
    text = drawn([stands("unverified", registration=registration)])
    assert "~ unverified" in text


def test_a_refuted_answer_is_bracketed_too() -> None:
    """An unregistered refutation is no finding either."""
    assert "(refuted)" in drawn([stands("unregistered", answer="refuted")])


@pytest.mark.parametrize("width", WIDTHS)
def test_why_a_verdict_is_unverified_is_said_once(width: int) -> None:
    """With the hypotheses that it is said of; the study's own standing is for the notes."""
    text = " ".join(drawn([stands("unverified"), stands("unverified", hypothesis="H2")], width).split())
    assert text.count("unverified: H1, H2: the evidence kernels.model was measured outside") == 1
    assert "measured outside" not in drawn(
        [stands("unregistered"), stands("tampered", hypothesis="H2")], width
    )


def test_every_standing_has_its_mark() -> None:
    """A symbol and a word, and green only for supported."""
    assert set(STANDINGS) <= set(MARKS)
    assert [name for name, (_, _, colour) in MARKS.items() if colour == "green"] == ["supported"]


def test_the_picture_has_no_bare_supported() -> None:
    """The badge's bigger sister."""
    picture = to_svg(render_verdicts([stands(s, hypothesis=s) for s in STANDINGS], hypotheses=STANDINGS))
    words = re.sub(r"<style>.*?</style>", "", picture, flags=re.DOTALL)
    assert "✓" not in words
    assert words.count("supported") == words.count("(supported)") == len(STANDINGS)


# -- tracked files --------------------------------------------------------------------------------------------


def tables(study: Study) -> tuple[dict[str, Any], list[dict[str, str]]]:
    write_report(study, study.verdicts())
    folder = study.pipeline.report_folder
    rows = list(csv.DictReader(io.StringIO((folder / "verdicts.csv").read_text("utf-8"))))
    return json.loads((folder / "verdicts.json").read_text("utf-8")), rows


def measure(root: Path, registration: str | None) -> Study:
    for arm in ("model", "twin-3"):
        write(root, arm, {"history_1": 0.5, "history_2": 0.5, "null": -0.01}, registration=registration)
    return opened(root)


@pytest.mark.parametrize("status", ["registered", "unregistered", "unverified", "tampered"])
def test_the_files_say_how_the_study_stood(tmp_path: Path, status: str) -> None:
    """verdicts.json as a whole and for each verdict; verdicts.csv in each row."""
    folder = written(tmp_path) if status == "unregistered" else frozen(tmp_path)
    study = measure(tmp_path, opened(tmp_path).standing.root)
    if status == "unverified":
        (folder / "notes.txt").write_text("")
    elif status == "tampered":
        edit(folder / "protocol.toml", "threshold = 0.1\n", "threshold = 0.05\n")
    study = opened(tmp_path)
    document, rows = tables(study)
    claimed = "supported" if status == "registered" else "unverified"
    assert document["registration"] == study.standing.as_record()
    assert {v["registration"]["status"] for v in document["verdicts"]} == {status}
    assert {(v["outcome"], v["answer"]) for v in document["verdicts"]} == {(claimed, "supported")}
    assert {(r["outcome"], r["answer"], r["registration"]) for r in rows} == {(claimed, "supported", status)}


def test_the_files_hold_no_clock_and_no_commit(tmp_path: Path) -> None:
    """Amending a commit, or another checkout, changes no byte."""
    from tests.synthetic import git

    answered(tmp_path / "one")
    before, _ = tables(opened(tmp_path / "one"))
    git(tmp_path / "one", "commit", "--quiet", "--amend", "--message", "Measure, said otherwise")
    git(tmp_path, "clone", "--quiet", "--no-local", str(tmp_path / "one"), str(tmp_path / "two"))
    after, _ = tables(opened(tmp_path / "two"))
    assert before == after
