"""`prereg verdicts` and `measure` on made-up evidence: the answer, its files and its exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.synthetic import make_project, registered_project


@pytest.fixture
def refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project whose H1 is refuted."""
    root = tmp_path / "refuted"
    root.mkdir()
    registered_project(root, effect=0.03)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PREREG_CACHE", str(root / "cache"))
    return root


def test_all_supported_is_zero_with_a_table_and_files(project: Path, run: Run) -> None:
    """The table says it in words, the report is written, the exit code agrees."""
    found = run("verdicts")
    assert found.exit_code == 0, found.output
    assert "2 of 2 tested: 2 supported" in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert "\x1b" not in found.stdout
    assert (project / "reports" / "sample" / "pythia-tiny" / "verdicts.json").is_file()


def test_not_all_supported_is_one(refuted: Path, run: Run) -> None:
    """A refuted claim is an answer, and not a success of the claims."""
    found = run("verdicts")
    assert found.exit_code == 1
    assert "✗ refuted" in found.stdout


def test_the_harness_succeeds_by_answering(refuted: Path, run: Run) -> None:
    """With --gate-exit harness a refuted claim is a success: it was answered."""
    assert run("verdicts", "--gate-exit", "harness").exit_code == 0


def test_an_invalid_verdict_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Where a control failed, even the harness has not succeeded."""
    make_project(tmp_path, null=0.2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    found = run("verdicts", "--gate-exit", "harness")
    assert found.exit_code == 1
    assert "(invalid)" in found.stdout
    assert "control sane does not hold" in " ".join(found.stdout.split())


def test_json_is_one_document_with_every_verdict(project: Path, run: Run) -> None:
    """Standard output is pure JSON, and says what verdicts.json says."""
    found = run("verdicts", "--json")
    document = json.loads(found.stdout)
    assert [v["hypothesis"] for v in document["verdicts"]] == ["H1", "H1-order"]
    file = project / "reports" / "sample" / "pythia-tiny" / "verdicts.json"
    assert json.loads(file.read_text("utf-8"))["verdicts"] == document["verdicts"]
    assert str(file) in document["files"]


def test_only_some_hypotheses_leave_tables_as_they_were(project: Path, run: Run) -> None:
    """A part of the answer never overwrites the whole."""
    file = project / "reports" / "sample" / "pythia-tiny" / "verdicts.json"
    file.write_text("as it was", "utf-8")
    found = run("verdicts", "--hypothesis", "H1-order")
    assert found.exit_code == 0
    assert "1 of 2 tested" in found.stdout
    assert "tables are left as they were" in found.stdout
    assert file.read_text("utf-8") == "as it was"


def test_missing_evidence_is_an_error_that_names_the_next_command(project: Path, run: Run) -> None:
    """Nothing is measured unless it is asked for."""
    shutil.rmtree(project / "reports")
    found = run("verdicts", "gates/sample")
    assert found.exit_code == 2
    assert "no evidence for H1, H1-order" in found.stderr
    assert "next: prereg measure gates/sample --model pythia-tiny" in found.stderr
    assert found.stdout == ""


def test_evidence_of_another_protocol_is_missing_evidence(project: Path, run: Run) -> None:
    """A change of what is measured makes the old evidence no answer."""
    protocol = project / "gates" / "sample" / "protocol.toml"
    protocol.write_text(protocol.read_text("utf-8").replace("held_out = 0.5", "held_out = 0.4"), "utf-8")
    found = run("verdicts", "--json")
    assert found.exit_code == 2
    assert json.loads(found.stdout)["error"]["kind"] == "EvidenceError"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["verdicts", "--hypothesis", "H9"], "no hypothesis 'H9'; there are H1, H1-order"),
        (["measure", "--analysis", "nope"], "no table [analyses.nope]; there are kernels"),
        (["capture", "--arm", "twin-9"], "no arm 'twin-9'; it has model, twin-1"),
        (["verdicts", "--model", "pythia-tinny"], "pythia-tiny"),
        (["verdicts", "elsewhere"], "no protocol.toml in this folder"),
    ],
)
def test_a_name_that_is_not_there_is_answered_by_those_that_are(
    project: Path, run: Run, arguments: list[str], says: str
) -> None:
    """Every wrong name exits with 2 and lists the right ones."""
    found = run(*arguments)
    assert found.exit_code == 2
    assert says in found.stderr


def test_a_broken_protocol_names_file_line_and_key(project: Path, run: Run) -> None:
    """The protocol's own error comes through."""
    protocol = project / "gates" / "sample" / "protocol.toml"
    protocol.write_text(protocol.read_text("utf-8").replace("level = 0.95", "level = 1.5"), "utf-8")
    found = run("verdicts")
    assert found.exit_code == 2
    assert "protocol.toml:" in found.stderr
    assert "inference.level" in found.stderr


def test_measure_leaves_evidence_that_is_there(project: Path, run: Run) -> None:
    """The model and the twin that a claim names are looked up, not measured again."""
    before = {f: f.stat().st_mtime_ns for f in (project / "reports").rglob("*") if f.is_file()}
    found = json.loads(run("measure", "--json").stdout)
    assert [(m["analysis"], m["arm"], m["state"]) for m in found["measured"]] == [
        ("kernels", "model", "present"),
        ("kernels", "twin-3", "present"),
    ]
    assert {f: f.stat().st_mtime_ns for f in (project / "reports").rglob("*") if f.is_file()} == before


def test_measure_tells_of_a_failed_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Evidence that knows itself to be wrong says so before any verdict does."""
    make_project(tmp_path, check=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    assert "check failed: made_up" in run("measure").stdout


def test_report_dir_moves_evidence_and_report(project: Path, run: Run) -> None:
    """Evidence is looked for, and the report written, where the option says."""
    (project / "reports").rename(project / "elsewhere")
    assert run("verdicts").exit_code == 2
    assert run("verdicts", "--report-dir", "elsewhere").exit_code == 0
    assert (project / "elsewhere" / "sample" / "pythia-tiny" / "verdicts.csv").is_file()
    assert not (project / "reports").exists()


def test_the_table_can_be_drawn(project: Path, run: Run) -> None:
    """A picture for a README: words of the table, and nothing fetched from elsewhere."""
    found = run("verdicts", "--svg", "out/table.svg")
    assert found.exit_code == 0, found.output
    picture = (project / "out" / "table.svg").read_text("utf-8")
    assert picture.startswith("<svg")
    assert "supported" in picture
    assert "@font-face" not in picture
