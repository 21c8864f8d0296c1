"""The tracked tables: complete, the same bytes every time, and nothing that evidence doesn't say."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from unittest.mock import ANY

import pytest

from prereg.errors import EvidenceError, StorageError, StudyError
from prereg.report import write_report
from prereg.study import Study
from tests.synthetic import make_project, options, write


def opened(root: Path, **evidence: float) -> Study:
    folder = make_project(root, **evidence)  # type: ignore[arg-type]
    return Study.open(folder, model="pythia-tiny", options=options(root))


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text("utf-8"))))


def test_every_hypothesis_has_a_row_and_a_record(tmp_path: Path) -> None:
    """verdicts.csv and verdicts.json say the same of each, in the protocol's order."""
    study = opened(tmp_path)
    written = write_report(study, study.verdicts())
    folder = study.pipeline.report_folder
    assert set(written) == {file for file in folder.iterdir() if file.name != "evidence"}
    document = json.loads((folder / "verdicts.json").read_text("utf-8"))
    table = rows(folder / "verdicts.csv")
    assert [r["hypothesis"] for r in table] == ["H1", "H1-order"]
    for record, row in zip(document["verdicts"], table, strict=True):
        assert row["outcome"] == record["outcome"]
        assert float(row["low"]) == record["low"]
        assert int(row["n_subjects"]) == record["n_subjects"] == 40
    assert (document["hypotheses_total"], document["tested"], document["not_tested"]) == (2, 2, [])
    assert document["model"] == {"alias": "pythia-tiny", "source": "folder", "revision": ANY, "digest": "d"}
    assert document["protocol_digest"] == study.protocol_file.digest
    assert document["registration"]["status"] == "unregistered"
    assert table[0]["published_value"] == "0.5"


def test_a_hypothesis_that_was_not_asked_is_written_down_as_not_tested(tmp_path: Path) -> None:
    """A partial report says what it lacks, with the promise but without numbers."""
    study = opened(tmp_path)
    write_report(study, [study.verdict("H1")])
    folder = study.pipeline.report_folder
    row = rows(folder / "verdicts.csv")[1]
    assert (row["outcome"], row["estimate"], row["threshold"]) == ("not_tested", "", "0.02")
    document = json.loads((folder / "verdicts.json").read_text("utf-8"))
    assert (document["tested"], document["not_tested"]) == (1, ["H1-order"])
    assert document["verdicts"][0]["outcome"] == "unverified"
    assert document["verdicts"][0]["answer"] == "supported"


def test_the_same_evidence_gives_the_same_bytes_and_leaves_files_alone(tmp_path: Path) -> None:
    """A second run rewrites nothing: bytes, times and inodes stay."""
    study = opened(tmp_path)
    files = write_report(study, study.verdicts())
    before = {f: (f.read_bytes(), f.stat().st_mtime_ns, f.stat().st_ino) for f in files}
    again = Study.open(study.folder, model="pythia-tiny", options=options(tmp_path))
    assert write_report(again, again.verdicts()) == files
    assert {f: (f.read_bytes(), f.stat().st_mtime_ns, f.stat().st_ino) for f in files} == before


def test_a_changed_table_is_put_right(tmp_path: Path) -> None:
    """An edited number doesn't survive the next report."""
    study = opened(tmp_path)
    write_report(study, study.verdicts())
    file = study.pipeline.report_folder / "contrasts.csv"
    honest = file.read_bytes()
    file.write_bytes(honest.replace(b"0.5", b"0.9"))
    write_report(study, study.verdicts())
    assert file.read_bytes() == honest


def test_files_have_unix_line_ends_and_a_final_newline(tmp_path: Path) -> None:
    """Every platform writes the same bytes."""
    study = opened(tmp_path)
    for file in write_report(study, study.verdicts()):
        content = file.read_bytes()
        assert b"\r" not in content
        assert content.endswith(b"\n")
        assert not content.endswith(b"\n\n")


def test_contrasts_carry_every_interval_of_claims_and_controls(tmp_path: Path) -> None:
    """Each contrast has the registered bounds, and those of each sensitivity method."""
    study = opened(tmp_path)
    write_report(study, study.verdicts())
    table = rows(study.pipeline.report_folder / "contrasts.csv")
    assert [(r["hypothesis"], r["role"], r["label"]) for r in table] == [
        ("H1", "claim", "over the null"),
        ("H1", "control", "null"),
        ("H1-order", "claim", "gain, trained and twin"),
    ]
    for row in table:
        for method in ("studentized", "delta_t"):
            assert float(row[f"{method}_low"]) < float(row["estimate"]) < float(row[f"{method}_high"])
    assert table[0]["updates"] == "1 2 3 4 5 6 7"


def test_permutation_tests_have_a_table(tmp_path: Path) -> None:
    """The refitted draws behind H1 are reported beside its interval."""
    study = opened(tmp_path)
    write_report(study, study.verdicts())
    (row,) = rows(study.pipeline.report_folder / "permutations.csv")
    assert (row["hypothesis"], row["p"], row["draws"], row["passed"]) == ("H1", "0.05", "19", "true")


def test_figure_tables_are_drawn_from_the_evidence(tmp_path: Path) -> None:
    """R2 by update is the planted one; both arms are there."""
    study = opened(tmp_path, effect=0.5)
    write_report(study, study.verdicts())
    folder = study.pipeline.report_folder
    table = rows(folder / "r2_by_update.csv")
    found = [r for r in table if r["arm"] == "model" and r["fit"] == "history_1"]
    assert [r["update"] for r in found] == [str(u) for u in range(1, 8)]
    assert [float(r["r2"]) for r in found] == pytest.approx([0.5] * 7)
    assert found[0]["depth"] == "0.125"
    assert found[0]["r2_template"] == "", "the evidence has no such baseline, so the table has no number"
    assert {r["arm"] for r in table} == {"model", "twin-3"}
    assert [r["held_out_prompts"] for r in rows(folder / "prompts.csv")] == ["80"]


def test_a_table_without_evidence_is_not_written_and_a_stale_one_is_removed(tmp_path: Path) -> None:
    """Nothing is invented, and a table of another protocol's evidence doesn't stay behind."""
    study = opened(tmp_path)
    folder = study.pipeline.report_folder
    (folder / "cross_band.csv").write_text("fit_on,evaluated_on,r2\n")
    (folder / "notes.txt").write_text("mine")
    written = write_report(study, study.verdicts())
    assert folder / "cross_band.csv" not in written
    assert not (folder / "cross_band.csv").exists()
    assert (folder / "notes.txt").read_text() == "mine", "only our own tables are ours to remove"


def test_nothing_asked_is_nothing_to_report(tmp_path: Path) -> None:
    """An empty report would look like a finished one."""
    with pytest.raises(StudyError, match="no hypothesis was asked"):
        write_report(opened(tmp_path), [])


def test_a_verdict_of_another_protocol_is_refused(tmp_path: Path) -> None:
    """A verdict belongs to the protocol under which it was given."""
    study = opened(tmp_path)
    verdict = study.verdict("H1")
    protocol = study.folder / "protocol.toml"
    protocol.write_text(protocol.read_text("utf-8").replace("threshold = 0.1", "threshold = 0.2"), "utf-8")
    changed = Study.open(study.folder, model="pythia-tiny", options=options(tmp_path))
    with pytest.raises(StudyError, match="is no verdict of"):
        write_report(changed, [verdict])


def test_evidence_changed_on_disk_is_refused(tmp_path: Path) -> None:
    """One flipped byte in a table, and no report is written from it."""
    study = opened(tmp_path)
    found = study.verdicts()
    file = study.pipeline.evidence_folder / "kernels.model.parquet"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    again = Study.open(study.folder, model="pythia-tiny", options=options(tmp_path))
    with pytest.raises(EvidenceError, match="changed after it was measured"):
        write_report(again, found)


def test_a_report_without_the_model_s_evidence_is_refused(tmp_path: Path) -> None:
    """Verdicts can't be reported once the evidence behind them is gone."""
    study = opened(tmp_path)
    found = study.verdicts()
    (study.pipeline.evidence_folder / "kernels.model.json").unlink()
    with pytest.raises(EvidenceError, match="found digests none"):
        write_report(study, found)


def test_a_folder_that_can_t_be_written_is_a_storage_error(tmp_path: Path) -> None:
    """A file in the way is named, with what to do."""
    study = opened(tmp_path)
    (study.pipeline.report_folder / "verdicts.csv").mkdir()
    with pytest.raises(StorageError, match=r"verdicts\.csv") as caught:
        write_report(study, study.verdicts())
    assert "--report-dir" in (caught.value.remedy or "")


def test_more_evidence_adds_to_tables_without_changing_verdicts(tmp_path: Path) -> None:
    """A further arm's evidence shows up in the figures' tables."""
    study = opened(tmp_path)
    write_report(study, study.verdicts())
    verdicts = (study.pipeline.report_folder / "verdicts.csv").read_bytes()
    write(tmp_path, "twin-1", {"history_1": 0.2})
    write_report(study, study.verdicts())
    table = rows(study.pipeline.report_folder / "r2_by_update.csv")
    assert {r["arm"] for r in table} == {"model", "twin-1", "twin-3"}
    assert (study.pipeline.report_folder / "verdicts.csv").read_bytes() == verdicts
