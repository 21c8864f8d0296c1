"""`prereg audit`: exit codes, the page, the JSON document and the help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from prereg.cli.audit import audit


def run(*arguments: str) -> Result:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(audit)
    return CliRunner().invoke(app, list(arguments))


def test_a_study_that_stands_ends_with_0(project: Path) -> None:
    """The page ends with one word."""
    done = run("gates/sample")
    assert done.exit_code == 0, done.stdout
    assert done.stdout.rstrip().endswith("VERIFIED")


def test_a_violation_ends_with_1(project: Path) -> None:
    """An edited threshold is told and counted."""
    file = project / "gates" / "sample" / "protocol.toml"
    file.write_text(file.read_text("utf-8").replace("threshold = 0.1", "threshold = 0.05"), "utf-8")
    done = run()
    assert done.exit_code == 1
    assert "0.1 -> 0.05" in done.stdout


def test_what_cannot_be_shown_ends_with_2(project: Path) -> None:
    """An uncommitted file is no violation, and nothing that was verified."""
    (project / "gates" / "sample" / "notes.txt").write_text("x")
    assert run("gates/sample").exit_code == 2


def test_json_is_one_document(project: Path) -> None:
    """A machine reads the same result from format 1."""
    done = run("gates/sample", "--json")
    record = json.loads(done.stdout)
    assert (record["format"], record["result"], record["exit_code"]) == (1, "verified", 0)
    assert done.exit_code == 0


def test_a_model_that_is_none_is_an_error(project: Path) -> None:
    """A mistyped name isn't an audit of nothing."""
    done = run("gates/sample", "--model", "nobody", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["kind"] == "ModelError"


def test_a_folder_without_a_study_is_an_error(project: Path) -> None:
    """A path that holds no protocol is told so."""
    assert run("gates/nothing").exit_code == 2


@pytest.mark.parametrize(
    "part", ["Exit codes:", "Examples:", "VIOLATION", "windows", "--json", "--report-dir"]
)
def test_help_teaches(part: str) -> None:
    """The checks, what a finding means and the exit codes are explained."""
    assert part in run("--help").stdout
