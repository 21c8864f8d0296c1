"""Fail, fail, pass: what other data answered stands beside the verdict wherever one is read."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from prereg.console import to_text
from prereg.report import render_verdicts
from tests.synthetic import commit, frozen_project, measured


def test_the_count_of_data_stands_beside_the_verdict(tmp_path: Path) -> None:
    """Refuted on the first data and supported on the second is never shown as a bare supported."""
    frozen_project(tmp_path)
    measured(tmp_path, effect=0.03)
    commit(tmp_path, "Measure")
    study = measured(tmp_path, effect=0.5)
    commit(tmp_path, "Measure again")
    verdict = study.verdict("H1")
    assert (verdict.claimed, verdict.attempts, verdict.earlier) == ("supported", 2, ("refuted",))
    assert "2 sets of data were tried; the others gave: refuted" in verdict.explain()
    table = render_verdicts([verdict.as_record()], hypotheses=["H1"])
    for width in (60, 80, 140):
        text = to_text(table, width, False)
        assert "(2 tries)" in text
        assert "the others gave: refuted" in " ".join(text.split())
    document = json.loads((study.pipeline.report_folder / "verdicts.json").read_text("utf-8"))
    assert document["verdicts"][0]["attempts"] == {
        "data": 2,
        "earlier": ["refuted"],
        "look": None,
        "alpha": None,
    }
    with (study.pipeline.report_folder / "verdicts.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["sets_of_data"] == "2"


def test_the_same_data_are_one_try(tmp_path: Path) -> None:
    """A rerun adds no try, and says nothing of tries."""
    frozen_project(tmp_path)
    measured(tmp_path)
    study = measured(tmp_path)
    assert (study.verdict("H1").attempts, study.verdict("H1").earlier) == (1, ())
    assert "tries" not in to_text(
        render_verdicts([study.verdict("H1").as_record()], hypotheses=["H1"]), 80, False
    )
