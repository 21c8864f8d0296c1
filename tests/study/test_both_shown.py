"""Both verdicts, the original and the amended one, stand wherever a reader looks; numbers that can't be are refused."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from prereg.console import to_text
from prereg.errors import EvidenceError
from prereg.report import render_verdicts
from prereg.study import Study
from tests.frozen import added, edit, frozen
from tests.synthetic import commit, measured, options, write

SAID = "The results on pythia-tiny were seen and read."


@pytest.mark.parametrize(
    ("known", "statement", "leads", "beside"),
    [
        ("none", None, "as amended", "as frozen: refuted"),
        ("full", SAID, "as frozen", "as amended: supported"),
    ],
)
def test_the_table_and_the_csv_show_both(
    tmp_path: Path, known: str, statement: str | None, leads: str, beside: str
) -> None:
    """The verdict's cell says which promise it is of; a line below says what the other one gives."""
    frozen(tmp_path)
    edit(tmp_path / "gates" / "sample" / "protocol.toml", "threshold = 0.1\n", "threshold = 0.01\n")
    added(tmp_path, "H1", known=known, statement=statement)
    study = measured(tmp_path, effect=0.05)
    table = render_verdicts([v.as_record() for v in study.verdicts()], hypotheses=study.hypotheses)
    for width in (60, 80, 140):
        text = " ".join(to_text(table, width, False).split())
        assert f"({leads})" in text
        assert beside in text
    with (study.pipeline.report_folder / "verdicts.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert {row["version"], row["other_version"]} == {"original", "amended"}
    assert {row["threshold"], row["other_threshold"]} == {"0.1", "0.01"}


def test_a_negative_sum_of_squares_is_refused(tmp_path: Path) -> None:
    """An R2 above 1 would follow: no measurement gives it."""
    frozen(tmp_path)
    commit(tmp_path, "Ready")
    write(tmp_path, "model", {"history_1": 1.5, "history_2": 1.5, "null": -0.01}, registration=None)
    write(tmp_path, "twin-3", {"history_1": 1.5, "history_2": 1.5, "null": -0.01}, registration=None)
    study = Study.open(tmp_path / "gates" / "sample", model="pythia-tiny", options=options(tmp_path))
    root = study.standing.root
    for arm in ("model", "twin-3"):
        write(tmp_path, arm, {"history_1": 1.5, "history_2": 1.5, "null": -0.01}, registration=root)
    with pytest.raises(EvidenceError, match=r"sse\.history_1.*sum of squares"):
        study.verdict("H1")
