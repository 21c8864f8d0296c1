"""`prereg calibrate` and `prereg power` on a made-up pilot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

import prereg.calibration.simulate as simulation
from prereg.calibration import answering
from prereg.calibration.records import read_calibration
from prereg.cli.calibrate import calibrate, power
from prereg.errors import EvidenceError
from tests.synthetic import make_project

QUICK = ("calibrate", "--pilot", "pythia-tiny", "--replications", "100", "--jobs", "1")

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
    monkeypatch.setattr(answering, "_decide", lambda *_: simulation.OUTCOMES[0])
    monkeypatch.setattr(simulation, "check", lambda *_: None)
    found = ask(*QUICK, "--hypothesis", "H1")
    assert found.exit_code == 1
    assert "✗ H1, empirical, 20 units" in " ".join(found.stdout.split())


def test_a_gate_that_is_not_the_registered_one_is_an_error(
    pilot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a verdict would say is compared; nothing is kept of it."""
    monkeypatch.setattr(answering, "_decide", lambda *_: simulation.OUTCOMES[0])
    found = ask(*QUICK, "--hypothesis", "H1")
    assert found.exit_code == 2
    assert "a verdict would be" in found.stderr
    assert not (pilot / "reports" / "sample" / "calibration").exists()


def test_a_later_run_adds_its_gates(pilot: Path) -> None:
    """One hypothesis leaves a part, which no freeze takes; the other one makes it whole, as one run would have."""
    folder = pilot / "reports" / "sample" / "calibration"
    assert ask(*QUICK).exit_code == 0
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    for file in folder.iterdir():
        file.unlink()
    # In the other order than the protocol's.
    first = ask(*QUICK, "--hypothesis", "H1-order")
    assert first.exit_code == 0
    assert "not whole: H1 still to be simulated" in " ".join(first.stdout.split())
    assert {file.name for file in folder.iterdir()} == {"parts"}
    with pytest.raises(EvidenceError, match="no calibration"):
        read_calibration(folder / "parts" / "H1-order.json")
    second = ask(*QUICK, "--hypothesis", "H1")
    assert "tables and picture" in second.stdout
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole
    # A gate that the whole holds already changes nothing.
    assert "tables and picture" in ask(*QUICK, "--hypothesis", "H1").stdout
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole


def test_a_part_of_another_run_is_left_out_and_replaced(pilot: Path) -> None:
    """Another seed is another run; the message says so, and nothing is mixed."""
    folder = pilot / "reports" / "sample" / "calibration"
    ask(*QUICK, "--hypothesis", "H1-order", "--seed", "1")
    other = ask(*QUICK, "--hypothesis", "H1")
    assert "H1-order.json is left out: of another seed" in other.stderr
    assert not (folder / "calibration.json").exists()
    replaced = ask(*QUICK, "--hypothesis", "H1-order")
    assert "is of another seed: it will be replaced" in replaced.stderr
    assert "tables and picture" in replaced.stdout
    assert not (folder / "parts").exists()


def test_a_killed_run_loses_nothing_that_was_finished(pilot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished gate is taken from its part, finished chunks of the next from the cache; the bytes are the same."""
    folder = pilot / "reports" / "sample" / "calibration"
    ask(*QUICK)
    whole = (folder / "calibration.json").read_bytes()
    for file in folder.iterdir():
        file.unlink()
    done: list[str] = []
    simulate = simulation.simulate

    def killed(trial: simulation.Trial, seed: int, first: int, count: int) -> Any:
        if len(done) == 18:
            raise KeyboardInterrupt
        done.append(trial.key)
        return simulate(trial, seed, first, count)

    monkeypatch.setattr(simulation, "simulate", killed)
    assert ask(*QUICK).exit_code != 0
    assert {file.name for file in folder.iterdir()} == {"parts"}
    assert [file.name for file in (folder / "parts").iterdir()] == ["H1.json"]
    again: list[str] = []

    def counted(trial: simulation.Trial, seed: int, first: int, count: int) -> Any:
        again.append(trial.key)
        return simulate(trial, seed, first, count)

    monkeypatch.setattr(simulation, "simulate", counted)
    resumed = ask(*QUICK)
    assert "H1: taken from" in resumed.stderr
    assert len(done) + len(again) == 32
    assert (folder / "calibration.json").read_bytes() == whole
    assert not list((pilot / "cache" / "calibration").iterdir())


def test_progress_names_gate_and_world(pilot: Path) -> None:
    """And which of how many gates."""
    shown = ask(*QUICK).stderr
    assert "calibrate sample: 0 of 32" in shown
    assert "H1-order (2 of 2), skewed: 0 of 4" in shown


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
