"""`prereg calibrate` and `prereg power` on a made-up pilot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import prereg.calibration.simulate as simulation
from prereg.cli.calibrate import calibrate, power
from tests.synthetic import make_project

app = typer.Typer()
app.command()(calibrate)
app.command()(power)


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.fixture
def pilot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project whose pilot lies near its thresholds."""
    make_project(tmp_path, effect=0.13, spread=0.1, n_subjects=20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


def test_a_calibration_is_shown_and_written_twice_alike(pilot: Path) -> None:
    """Table, JSON, CSV and picture; the same bytes again, and no checkpoint is left."""
    first = ask("calibrate", "--pilot", "pythia-tiny", "--replications", "100", "--jobs", "1")
    assert first.exit_code == 0, first.output
    assert "clustered" in first.stdout
    assert "tables and picture" in first.stdout
    assert "…" not in first.stdout
    folder = pilot / "reports" / "sample" / "calibration"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert set(before) == {"calibration.json", "calibration.csv", "calibration.svg"}
    again = ask("calibrate", "--pilot", "pythia-tiny", "--replications", "100", "--jobs", "1", "--json")
    document = json.loads(again.stdout)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert document["faults"] == []
    assert {r["hypothesis"] for r in document["results"]} == {"H1", "H1-order"}
    assert not list((pilot / "cache" / "calibration").iterdir())


def test_a_gate_that_errs_too_often_exits_with_one(pilot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that supports everything is told by name."""
    monkeypatch.setattr(simulation, "_decide", lambda *_: simulation.OUTCOMES[0])
    found = ask(
        "calibrate", "--pilot", "pythia-tiny", "--hypothesis", "H1", "--replications", "100", "--jobs", "1"
    )
    assert found.exit_code == 1
    assert "✗ H1, empirical, 20 units" in " ".join(found.stdout.split())
    assert "files are left as they were" in found.stdout
    assert not (pilot / "reports" / "sample" / "calibration").exists()


def test_without_a_pilot_the_error_names_the_option(pilot: Path) -> None:
    """Neither hypothesis states its precision."""
    found = ask("calibrate")
    assert found.exit_code == 2
    assert "next: add --pilot MODEL" in found.stderr


@pytest.mark.parametrize("command", ["calibrate", "power"])
def test_an_unknown_hypothesis_is_an_error(pilot: Path, command: str) -> None:
    """With those that there are."""
    found = ask(command, "--pilot", "pythia-tiny", "--hypothesis", "H9")
    assert found.exit_code == 2
    assert "no hypothesis 'H9'; there are H1, H1-order" in found.stderr


def test_power_gives_a_number_of_units_for_each_gate(pilot: Path) -> None:
    """As a document and as a table."""
    options = ("--pilot", "pythia-tiny", "--hypothesis", "H1", "--replications", "100", "--jobs", "1")
    document = json.loads(ask("power", *options, "--json").stdout)
    needed = document["power"][0]["n_units"]
    assert document["power"][0]["power"]["share"] >= 0.8
    assert needed >= 10
    shown = ask("power", *options)
    assert shown.exit_code == 0
    assert str(needed) in shown.stdout


def test_a_power_that_is_none_is_an_error(pilot: Path) -> None:
    """It must lie between alpha and 1."""
    found = ask("power", "--pilot", "pythia-tiny", "--power", "1.5")
    assert found.exit_code == 2
    assert "a power of 1.5" in found.stderr
