"""Per-prompt evidence on a page: by hand, capped, and only from files that are whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prereg.evidence import Evidence, Provenance, write_evidence
from prereg.report.page import prompts
from prereg.report.page.prompts import prompt_tables
from tests.report.page.audits import REPORTS


def evidence(folder: Path, columns: dict[str, Any], **more: Any) -> None:
    n = len(columns["prompt"])
    table = pa.table({"relation": ["r"] * n, "template": ["{subject} is"] * n, **columns})
    record = Provenance(
        study="s", analysis="a", arm="model", key="k", model="m", model_source="x", model_revision="x",
        model_digest="x", store_digest="x", protocol_digest="x", facts_sha256="x", settings={}, source_digest="x",
        libraries={}, n_layers=4, d_model=2, n_prompts=1, n_subjects=1, n_training_prompts=1,
        update_sets=more.pop("update_sets", {"all": [1, 2], "one": [2]}),
    )  # fmt: skip
    write_evidence(Evidence(table, provenance=record), folder / "evidence", "a.model")


SAMPLE: dict[str, Any] = {
    "prompt": ["p1", "p1", "p2", "p2"],
    "subject": ["</script>", "</script>", "B", "B"],
    "update": pa.array([1, 2, 1, 2], pa.int16()),
    "sst": [1.0, 3.0, 0.0, 0.0],
    "sse.fit": [0.5, 1.5, 1.0, 1.0],
}


def test_r2_is_taken_over_the_sums(tmp_path: Path) -> None:
    """1 - (0.5 + 1.5) / (1 + 3); where nothing varies there is no R2."""
    evidence(tmp_path, SAMPLE)
    (table,) = prompt_tables(tmp_path, "m", "reports/s/m")
    assert table.columns == ("prompt", "subject", "relation", "R2 fit")
    assert sorted(table.rows, key=str) == [("</script> is", "</script>", "r", 0.5), ("B is", "B", "r", None)]
    assert (table.updates, table.total, table.complete) == ("all (2 updates)", 2, True)
    assert table.file == "reports/s/m/evidence/a.model.parquet"
    assert len(table.digest) == 64


def test_a_value_is_a_mean_over_its_cases(tmp_path: Path) -> None:
    """With cases, over these; without, over all updates of the prompt."""
    columns = {k: v for k, v in SAMPLE.items() if k != "sse.fit"}
    columns |= {
        "value.x": [2.0, 4.0, 0.0, 8.0],
        "value.y": [2.0, 4.0, 0.0, 8.0],
        "cases.y": [1.0, 1.0, 0.0, 1.0],
    }
    evidence(tmp_path, columns)
    (table,) = prompt_tables(tmp_path, "m", "x")
    assert table.columns[3:] == ("x", "y")
    assert {row[3:] for row in table.rows} == {(3.0, 3.0), (4.0, 8.0)}


def test_rows_and_columns_are_capped_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left out is counted; the table is not called complete."""
    evidence(tmp_path, SAMPLE | {"sse.other": SAMPLE["sse.fit"]})
    monkeypatch.setattr(prompts, "MAX_ROWS", 1)
    monkeypatch.setattr(prompts, "MAX_COLUMNS", 1)
    (table,) = prompt_tables(tmp_path, "m", "x")
    assert (len(table.rows), table.total, table.left_out) == (1, 2, ("R2 other",))
    assert not table.complete


def test_embedded_text_can_not_end_its_element(tmp_path: Path) -> None:
    """A subject that closes a script element is text all the same."""
    evidence(tmp_path, SAMPLE | {"subject": ["</script>\u2028", "</script>\u2028", "B\x85", "B\x85"]})
    (table,) = prompt_tables(tmp_path, "m", "x")
    assert not set("<>&\u2028") & set(table.json)
    assert {row[1] for row in json.loads(table.json)["rows"]} == {"</script>\u2028", "B\x85"}


def test_evidence_that_was_changed_is_not_shown(tmp_path: Path) -> None:
    """Bytes that aren't the recorded ones have no place on a page; the audit says why."""
    shutil.copytree(REPORTS / "pythia-tiny" / "evidence", tmp_path / "evidence")
    before = [table.analysis for table in prompt_tables(tmp_path, "m", "x")]
    assert before == ["band_kernels", "kernels"]
    file = tmp_path / "evidence" / "kernels.model.parquet"
    file.write_bytes(file.read_bytes() + b"x")
    assert [table.analysis for table in prompt_tables(tmp_path, "m", "x")] == ["band_kernels"]


def test_no_evidence_is_no_table(tmp_path: Path) -> None:
    """A folder without evidence has nothing to show, and that is no error."""
    assert prompt_tables(tmp_path, "m", "x") == ()
