"""`prereg report`: what it writes, what it says, and how it ends."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from prereg.cli.report import report
from prereg.report.badge import GREEN
from tests.synthetic import commit


def run(*arguments: str) -> Result:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(report)
    return CliRunner().invoke(app, list(arguments))


def test_a_study_that_stands_has_a_page_a_badge_and_figures(project: Path) -> None:
    """Written beside the tables; verified, so 0; and the audit of what was written is verified once committed."""
    done = run("gates/sample")
    assert done.exit_code == 0, done.stdout
    reports = project / "reports" / "sample"
    for name in (
        "report.html",
        "badge.svg",
        "badge.json",
        "gates.svg",
        "gates.png",
        "pythia-tiny/figures/null_draws.svg",
    ):
        assert (reports / name).is_file(), name
    assert "badge: hypotheses | 2 supported" in done.stdout
    assert "v-supported" in (reports / "report.html").read_text("utf-8")
    commit(project, "Report")
    assert run("gates/sample", "--only", "badge").exit_code == 0


def test_its_own_files_are_named_where_they_are_all_that_is_not_committed(project: Path) -> None:
    """A second run finds the first one's files uncommitted: unverified, with the step that helps."""
    run("gates/sample")
    done = run("gates/sample")
    assert done.exit_code == 2
    assert "commit them and run this again" in " ".join(done.stdout.split())
    assert "unverified" in (project / "reports" / "sample" / "badge.json").read_text("utf-8")
    (project / "gates" / "sample" / "notes.txt").write_text("x")
    assert "prereg audit gates/sample" in run("gates/sample").stdout


def test_a_violation_is_told_by_page_badge_and_exit_code(project: Path) -> None:
    """No verdict of a study that was bent keeps its word."""
    file = project / "gates" / "sample" / "protocol.toml"
    file.write_text(file.read_text("utf-8").replace("threshold = 0.1", "threshold = 0.05"), "utf-8")
    done = run("gates/sample", "--out", "out", "--json")
    assert done.exit_code == 1
    record = json.loads(done.stdout)
    assert (record["result"], record["badge"]["message"]) == ("violation", "violation")
    page = Path("out/report.html").read_text("utf-8")
    assert set(re.findall(r'class="verdict (v-[a-z_]+)"', page)) == {"v-tampered"}
    # The page's own figure of the gates is worded like the page.
    gates = base64.b64decode(re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)[0]).decode()
    assert "tampered (supported)" in gates


def test_a_forged_table_is_not_drawn(project: Path) -> None:
    """Figures beside a page or a badge are worded by their audit, on disk as on the page."""
    table = project / "reports" / "sample" / "pythia-tiny" / "verdicts.csv"
    lines = table.read_text("utf-8").splitlines()
    lines[1] = lines[1].replace("supported", "refuted")
    table.write_text("\n".join(lines) + "\n", "utf-8")
    commit(project, "Another answer")
    for number, parts in enumerate((["figures", "page"], ["figures", "badge"], ["figures", "page", "badge"])):
        out = f"out{number}"
        done = run("gates/sample", "--out", out, *(word for part in parts for word in ("--only", part)))
        assert done.exit_code == 1, done.stdout
        gates = Path(out, "gates.svg").read_text("utf-8")
        assert "tampered" in gates
        assert not re.findall(r"[✓✗] (?:supported|refuted)", gates)
        assert "not audited" not in gates


def test_figures_of_a_verified_study_say_what_its_tables_say(project: Path) -> None:
    """The audit's words are the recorded ones; without an audit the figure says that there was none."""
    run("gates/sample", "--out", "audited")
    done = run("gates/sample", "--only", "figures", "--out", "raw")
    assert "not audited" in done.stderr
    audited, raw = (Path(name, "gates.svg").read_text("utf-8") for name in ("audited", "raw"))
    for text in (audited, raw):
        assert "✓ supported" in text
    assert "Verdicts as recorded, not audited." in raw
    assert "not audited" not in audited


def test_a_choice_of_models_is_told_by_page_and_badge(project: Path) -> None:
    """Reports on another model are there: what shows one of two says so, and isn't green."""
    reports = project / "reports" / "sample"
    shutil.copytree(reports / "pythia-tiny", reports / "gpt2-small")
    commit(project, "Another model")
    run("gates/sample", "--model", "pythia-tiny", "--out", "out")
    badge = json.loads(Path("out/badge.json").read_text("utf-8"))
    assert badge["label"] == "hypotheses, 1 of 2 models"
    assert badge["color"] != GREEN.removeprefix("#")
    assert "leaves out: gpt2-small." in Path("out/report.html").read_text("utf-8")


def test_figures_need_no_audit_and_nothing_but_tables(project: Path) -> None:
    """Evidence, records and registration may be gone: figures follow from the CSV files."""
    for file in sorted((project / "reports" / "sample" / "pythia-tiny").rglob("*")):
        if file.is_file() and file.suffix != ".csv":
            file.unlink()
    done = run("gates/sample", "--only", "figures", "--out", "figures", "--json")
    assert done.exit_code == 0, done.stdout
    record = json.loads(done.stdout)
    assert (record["result"], record["badge"]) == (None, None)
    assert {Path(name).suffix for name in record["files"]} == {".svg", ".png"}


def test_a_model_without_reports_is_an_error(project: Path) -> None:
    """Neither a mistyped model nor one that wasn't asked has a page."""
    assert (
        json.loads(run("gates/sample", "--model", "nobody", "--json").stdout)["error"]["kind"] == "ModelError"
    )
    found = json.loads(run("gates/sample", "--model", "smollm2-135m", "--json").stdout)["error"]
    assert found["kind"] == "ReportError"
    assert found["remedy"] == "prereg verdicts --measure --model smollm2-135m"


def test_a_missing_library_is_an_error_with_the_command_that_helps(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("gates/sample", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["remedy"] == "pip install 'prereg-gates[report]'"
    assert not (project / "reports" / "sample" / "report.html").exists()


@pytest.mark.parametrize(
    "part", ["Exit codes", "Examples:", "--only", "--out", "report.html", "prereg-gates[report]"]
)
def test_help_teaches(part: str) -> None:
    """What is written, what it rests on, and the exit codes are explained."""
    assert part in run("--help").stdout
