"""`prereg verdicts --model A --model B`: one table, the tables over both, and no kinder exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.synthetic import commit, measured, registered_project

OTHER = "smollm2-135m"
BOTH = ("--model", "pythia-tiny", "--model", OTHER)
TABLES = ("replication.csv", "replication.json")


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a registered project that was measured on two models: the second refutes H1."""
    registered_project(tmp_path)
    measured(tmp_path, model=OTHER, effect=0.03)
    commit(tmp_path, "Measure the second model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    return tmp_path


def reports(root: Path) -> Path:
    return root / "reports" / "sample"


def test_two_models_are_one_table_and_a_summary(both: Path, run: Run) -> None:
    """A column each, how many agree, and both tracked tables; one refuted claim is exit code 1."""
    found = run("verdicts", *BOTH)
    assert found.exit_code == 1, found.output
    assert f"pythia-tiny               {OTHER}" in found.stdout
    assert "supported on 1 of 2, refuted on 1" in found.stdout
    assert "supported on 2 of 2" in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= 80
    for name in TABLES:
        assert (reports(both) / name).is_file()


def test_one_model_writes_none_of_it(both: Path, run: Run) -> None:
    """A model alone replicates nothing, also if it is named twice."""
    run("verdicts", "--model", "pythia-tiny")
    run("verdicts", "--model", "pythia-tiny", "--model", "pythia-tiny")
    assert not any((reports(both) / name).exists() for name in TABLES)


def test_some_hypotheses_write_none_of_it(both: Path, run: Run) -> None:
    """A part of the answer is not pooled into a table."""
    found = run("verdicts", *BOTH, "--hypothesis", "H1")
    assert "Replication over 2 models" in found.stdout
    assert not any((reports(both) / name).exists() for name in TABLES)


def test_json_names_the_files(both: Path, run: Run) -> None:
    """A machine learns where the tables are."""
    document = json.loads(run("verdicts", *BOTH, "--json").stdout)
    for name in TABLES:
        assert str(reports(both) / name) in document["files"]


def test_the_order_of_the_models_changes_no_byte(both: Path, run: Run) -> None:
    """Tracked tables don't depend on the command line."""
    run("verdicts", *BOTH)
    before = [(reports(both) / name).read_bytes() for name in TABLES]
    run("verdicts", *BOTH[2:], *BOTH[:2])
    assert [(reports(both) / name).read_bytes() for name in TABLES] == before


def test_tampering_leaves_the_tables_as_they_were(both: Path, run: Run) -> None:
    """Nothing is pooled under a threshold that was edited after the freeze."""
    run("verdicts", *BOTH)
    before = [(reports(both) / name).read_bytes() for name in TABLES]
    protocol = both / "gates" / "sample" / "protocol.toml"
    protocol.write_text(
        protocol.read_text("utf-8").replace("threshold = 0.1\n", "threshold = 0.01\n"), "utf-8"
    )
    commit(both, "Tidy up")
    found = run("verdicts", *BOTH, "--gate-exit", "harness")
    assert found.exit_code == 1
    assert "not pooled: tampered with on pythia-tiny" in " ".join(found.stdout.split())
    assert [(reports(both) / name).read_bytes() for name in TABLES] == before


def test_the_audit_command_checks_the_tables(both: Path, run: Run) -> None:
    """What was written is verified; what was edited is a violation."""
    run("verdicts", *BOTH)
    commit(both, "Replicate")
    found = run("audit", "gates/sample")
    assert found.exit_code == 0, found.stdout
    assert "both tables follow" in " ".join(found.stdout.split())
    table = reports(both) / "replication.csv"
    table.write_text(table.read_text("utf-8").replace("refuted", "supported"), "utf-8")
    commit(both, "Improve")
    found = run("audit", "gates/sample")
    assert found.exit_code == 1
    assert "replication.csv is not what the evidence shows" in " ".join(found.stdout.split())
