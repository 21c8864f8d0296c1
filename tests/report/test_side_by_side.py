"""Several models in one table: a column each, every qualifier in sight, and never greener than one by one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prereg.report import render_verdicts, to_svg, to_text
from prereg.report.replication import CAVEAT
from prereg.report.rows import blocks
from prereg.report.together import agreement
from tests.report.test_replication import on

IDS = ("H1", "H1-order", "H2-decisive")
A, B, C, D = "pythia-tiny", "smollm2-135m", "gemma3-270m", "pythia-410m"


def text(records: list[dict[str, Any]], width: int = 80, *, color: bool = False, **more: Any) -> str:
    return to_text(render_verdicts(records, hypotheses=more.pop("hypotheses", IDS), **more), width, color)


def family(model: str, **changes: Any) -> list[dict[str, Any]]:
    return [
        on(model, **changes),
        on(model, hypothesis="H1-order", outcome="inconclusive", estimate=0.0201, low=0.012, high=0.028,
           direction="equivalence", threshold=0.02),
        on(model, hypothesis="H2-decisive", outcome="refuted", estimate=-0.4, low=-0.6, high=-0.2,
           direction="less", threshold=0.0, family="secondary"),
    ]  # fmt: skip


def flat(found: str) -> str:
    return " ".join(found.split())


def head(found: str) -> str:
    return next(line for line in found.splitlines() if line.startswith("hypothesis"))


def cells(found: str, name: str, column: int) -> str:
    """Return what stands in one column of a hypothesis' row, from the first table that has it."""
    lines = found.splitlines()
    starts = [m.start() for m in re.finditer(r"\S+(?: \S+)*", head(found))] + [None]
    at = next(i for i, line in enumerate(lines) if re.match(rf"{re.escape(name)}\*? ", line) and i > 3)
    own = [lines[at]]
    for line in lines[at + 1 :]:
        if line[:1].strip() or not line.strip():
            break
        own.append(line)
    return " ".join(line[starts[column] : starts[column + 1]].strip() for line in own).strip()


def test_two_models_stand_side_by_side_in_one_table_at_80_columns() -> None:
    """One head with both names; each cell has the word, the estimate and the interval."""
    found = text([*family(A), *family(B)])
    assert max(map(len, found.splitlines())) <= 80
    assert found.count("promised ") == 1
    assert head(found).split() == ["hypothesis", "promised", A, B]
    for column in (2, 3):
        assert cells(found, "H1", column) == "✓ supported +0.610 [+0.580, +0.640]"
        assert cells(found, "H2-decisive", column) == "✗ refuted -0.400 [-0.600, -0.200]"


def test_two_unverified_models_still_fit_80_columns() -> None:
    """A longer word goes below, not out of sight."""
    changes = {"outcome": "unverified", "answer": "supported",
               "registration": {"status": "unverified", "reasons": ["the code differs"]}}  # fmt: skip
    found = text([*family(A, **changes), *family(B, **changes)])
    assert head(found).split() == ["hypothesis", "promised", A, B]
    for column in (2, 3):
        assert cells(found, "H1", column) == "~ unverified (supported) +0.610 [+0.580, +0.640]"
    assert f"H1 on {A}, {B}: unverified: the code differs" in flat(found)


def test_the_paper_has_a_column_where_there_is_room() -> None:
    """What was published stands beside the models at 100 columns."""
    assert head(text([*family(A), *family(B)], 100)).split()[-1] == "published"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("models", [(A, B), (A, B, C), (A, B, C, D)])
def test_no_line_is_wider_than_asked_and_every_number_is_whole(width: int, models: tuple[str, ...]) -> None:
    """More models than fit are stacked; where not one fits, it is a list."""
    found = text([r for m in models for r in family(m)], width)
    assert max(map(len, found.splitlines())) <= width
    assert "…" not in found
    for part in ("+0.610 [+0.580, +0.640]", "+0.0201 [+0.012, +0.028]", "-0.400 [-0.600, -0.200]"):
        assert found.count(part) == len(models)


def test_four_models_are_stacked_at_80_columns() -> None:
    """Two tables of two, each with its own head."""
    found = text([r for m in (A, B, C, D) for r in family(m)])
    heads = [line.split()[2:] for line in found.splitlines() if line.startswith("hypothesis     promised")]
    assert heads == [[A, B], [C, D]]


def test_each_model_keeps_its_own_sample_and_count() -> None:
    """Subjects, prompts and how many were tested are those of the model."""
    found = text([*family(A, n_subjects=64, n_prompts=90)[:1], *family(B)])
    assert re.search(rf"{A} +1 of 3 tested: 1 supported; 64 subjects, 90 prompts", found)
    assert re.search(
        rf"{B} +3 of 3 tested: 1 supported, 1 refuted, 1 inconclusive; 112 subjects", flat(found)
    )
    assert cells(found, "H1-order", 2) == "- not tested"


def test_samples_that_differ_within_a_model_stand_in_its_cells() -> None:
    """Where hypotheses of one model rest on different prompts, each cell gives its own."""
    records = [*family(A), *family(B)]
    records[1] |= {"n_subjects": 99, "n_prompts": 200}
    found = text(records)
    assert cells(found, "H1-order", 2).endswith("n 99/200")
    assert "n " not in cells(found, "H1-order", 3)


def test_a_model_that_answered_nothing_has_its_column() -> None:
    """Two of three that answered are never shown as two of two."""
    found = text([*family(A), *family(B)], 100, models=(A, B, C))
    assert "0 of 3 tested" in found
    assert "supported on 2 of 3, not tested on 1" in flat(found)
    assert f"H1: pooled without {C} (not tested)" in found


@pytest.mark.parametrize("status", ["unregistered", "unverified", "tampered"])
def test_a_standing_that_is_not_registered_stays_with_its_model(status: str) -> None:
    """The word stands in that model's cell, the answer in brackets behind it, and the other model keeps its own."""
    changes = {
        "outcome": "unverified",
        "answer": "supported",
        "registration": {"status": status, "reasons": ["so"]},
    }
    found = text([*family(A, **changes), *family(B)], 100)
    assert status in cells(found, "H1", 2)
    assert "(supported)" in cells(found, "H1", 2)
    assert cells(found, "H1", 3).startswith("✓ supported")
    assert "supported on 2 of 2" not in flat(found)
    assert f"{status} on 1" in flat(found)


def test_an_exploratory_hypothesis_is_called_that() -> None:
    """Added after the freeze: the word stands on every model and in the summary."""
    changes = {"outcome": "exploratory", "answer": "supported"}
    found = text([*family(A, **changes), *family(B, **changes)], 120)
    assert cells(found, "H1", 2).startswith("~ exploratory")
    assert "exploratory on 2 of 2 (intervals alone: supported on 2 of 2)" in flat(found)


def test_a_record_that_contradicts_itself_is_no_kinder_beside_others() -> None:
    """Supported under a registration that is not verified reads as unverified."""
    found = text([*family(A, registration={"status": "unverified", "reasons": []}), *family(B)])
    assert cells(found, "H1", 2).startswith("~ unverified")
    assert "supported on 1 of 2, unverified on 1" in flat(found)


def test_tampering_on_one_model_takes_the_mean_away() -> None:
    """Nothing is pooled, and the summary says on which model."""
    changes = {
        "outcome": "unverified",
        "answer": "supported",
        "registration": {"status": "tampered", "reasons": ["so"]},
    }
    found = text([*family(A, **changes), *family(B)], 100)
    assert f"H1: not pooled: tampered with on {A}" in found


@pytest.mark.parametrize(
    ("outcomes", "green"),
    [(("supported", "supported"), 3), (("supported", "refuted"), 1), (("refuted",) * 2, 0)],
)
def test_green_is_each_supported_cell_and_a_summary_of_nothing_else(
    outcomes: tuple[str, str], green: int
) -> None:
    """The summary is green only where every model is."""
    records = [on(m, outcome=o) for m, o in zip((A, B), outcomes, strict=True)]
    found = text(records, color=True, hypotheses=("H1",))
    assert len(re.findall(r"\x1b\[32m", found)) == green


def test_promises_that_differ_are_shown_where_they_do() -> None:
    """A model that was promised something else says so in its own cell, and nothing is pooled."""
    found = text([*family(A), *family(B, threshold=0.3)], 100)
    assert cells(found, "H1", 3).endswith("promised > 0.3 R2")
    assert "promised" not in cells(found, "H1", 2)
    assert "H1: not pooled: the models were not promised the same" in found


def test_other_versions_and_earlier_tries_name_their_model() -> None:
    """What is true of one model is not said of both."""
    changes = {
        "version": "original",
        "other": {"version": "amended", "answer": "refuted", "threshold": 0.9, "direction": "greater",
                  "estimate": 0.61, "low": 0.58, "high": 0.64},
        "attempts": {"data": 2, "earlier": ["refuted"], "look": None, "alpha": None},
    }  # fmt: skip
    found = text([*family(A, **changes), *family(B)], 100)
    assert "(2 tries)" in cells(found, "H1", 2)
    assert "(as frozen)" in cells(found, "H1", 2)
    assert "tries" not in cells(found, "H1", 3)
    assert f"H1 on {A}: as amended: refuted, > 0.9 R2" in flat(found)
    assert f"H1 on {A}: 2 sets of data were tried; the others gave: refuted" in flat(found)


def test_invalid_says_why_and_on_which_model() -> None:
    """What is no answer needs its reason."""
    found = text([*family(A, outcome="invalid", reason="control sane does not hold"), *family(B)])
    assert f"H1 on {A}: control sane does not hold" in flat(found)
    assert f"H1: not pooled: only one model to pool ({A}: invalid)" in flat(found)


def test_the_mean_names_its_contrast_and_its_caveats() -> None:
    """A reader learns what is pooled, that two models say little, and that they are not independent."""
    found = text([*family(A), *family(B)])
    assert "Replication over 2 models" in found
    assert CAVEAT in flat(found)
    assert "Two models: the interval has one degree of freedom" in found
    assert "inconclusive on 2 of 2" in found
    assert "next: " not in flat(found)
    assert "next [" in text([*family(A), *family(B), *family(C)])


def test_notes_come_last_and_claims_once() -> None:
    """What is below the table of one model is below that of several."""
    found = text([*family(A), *family(B)], notes=("registered",))
    assert found.rstrip().endswith("registered")
    assert flat(found).count("A kernel fit on one depth band predicts") == 3


def test_one_model_has_the_table_of_one() -> None:
    """Nothing of this concerns a single model."""
    assert "Replication" not in text(family(A))


def test_the_picture_is_the_same_each_time() -> None:
    """The same records give the same bytes."""
    table = render_verdicts([*family(A), *family(B)], hypotheses=IDS)
    assert to_svg(table) == to_svg(table)


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (("supported", "supported", "supported"), "supported on 3 of 3"),
        (("refuted", "supported", "supported"), "supported on 2 of 3, refuted on 1"),
        (("inconclusive", "supported"), "supported on 1 of 2, inconclusive on 1"),
        (
            ("confirmed", "supported"),
            "supported on 1 of 2, unknown: confirmed on 1 (intervals alone: confirmed on 1 of 1)",
        ),
    ],
)
def test_agreement_in_words(outcomes: tuple[str, ...], words: str) -> None:
    """How many of how many came to which word, the kinder word never hiding the others."""
    records = [on(f"m{i}", outcome=outcome) for i, outcome in enumerate(outcomes)]
    rows = [block.rows[0] for block in blocks(records, ("H1",))]
    assert agreement(rows) == words
