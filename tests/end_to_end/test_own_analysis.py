"""A study with an analysis of its own, from `prereg new` to an audit, and what an edit of its source comes to."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.end_to_end.integrity_project import Attacked, Done

STUDY, FILE = "gates/drift", "gates/drift/share.py"
EVIDENCE = "reports/drift/pythia-tiny/evidence"
ALTERED = ('sse.own": _squares(', 'sse.own": 0.999 * _squares(')


class Own(Attacked):
    """A project whose study has an analysis of its own."""

    def gates(self, *arguments: str, **environment: str) -> Done:
        """Run the study's gates; the exit code speaks of the run."""
        options = ("-p", "no:cacheprovider", "--cache-dir", "cache", "--gate-exit=harness")
        return self.run(sys.executable, "-m", "pytest", STUDY, *options, *arguments, **environment)

    def audit(self, *arguments: str, **environment: str) -> tuple[int, dict]:
        """Return exit code and record of the audit."""
        done = self.prereg("audit", STUDY, "--json", *arguments, **environment)
        return done.code, json.loads(done.text)

    def record(self) -> dict:
        """Return the record of the model's evidence."""
        return json.loads(self.read(f"{EVIDENCE}/share.model.json"))

    def commit_all(self, message: str) -> None:
        """Commit everything but the cache."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)


def open_points(record: dict) -> str:
    """Return what an audit leaves open, for a failing assertion."""
    return json.dumps([f for f in record["findings"] if f["status"] not in ("verified", "note")], indent=1)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Own:
    """Write a study by `prereg new`, decide, and freeze it."""
    root = tmp_path_factory.mktemp("own") / "project"
    root.mkdir()
    project = Own(root)
    home = root.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"
    )
    project.git("init", "--quiet")
    project.write(".git/info/exclude", "cache/\n")
    assert project.prereg("new", "drift", "--analysis", "share").code == 0
    project.write(
        f"{STUDY}/protocol.toml", project.read(f"{STUDY}/protocol.toml").replace("TO DECIDE:", "Decided:")
    )
    project.commit_all("Write drift")
    done = project.prereg("freeze", STUDY, "--known", "none")
    assert done.code == 0, done.text
    project.commit_all("Register drift")
    done = project.gates()
    assert "1 of 1 tested: 1 supported" in done.text, done.text
    project.commit_all("Measure drift")
    return project


def test_it_answers_and_its_audit_leaves_nothing_open(frozen: Own) -> None:
    """A file beside the gates is as good as an analysis of this package."""
    code, record = frozen.audit()
    assert (code, record["result"]) == (0, "verified"), open_points(record)
    registration = json.loads(frozen.read(f"{STUDY}/registration.json"))["components"]
    assert FILE in registration["gates"]
    assert {"prereg/analysis/authoring.py", "prereg/analysis/own.py"} <= set(registration["code"])
    assert "analysis:share" in registration["code"]
    assert frozen.run(sys.executable, "-m", "pytest", "tests", "-q").code == 0


def test_its_gates_can_be_simulated(frozen: Own) -> None:
    """As those of any other study; nothing tracked is written."""
    options = ("--pilot", "pythia-tiny", "--replications", "100", "--json", "--cache-dir", "cache")
    shutil.copytree(frozen.path("reports"), frozen.root.parent / "reports")
    done = frozen.prereg("calibrate", STUDY, *options, "--report-dir", str(frozen.root.parent / "reports"))
    assert done.code == 0, done.text


def test_an_edited_analysis_shows_and_is_measured_again_only_under_an_amendment(frozen: Own) -> None:
    """Unverified while it isn't registered; once it is, measured anew, the old evidence kept and still verified."""
    before = frozen.record()
    frozen.edit(FILE, *ALTERED)
    done = frozen.gates("--no-measure")
    assert "supported" not in done.text.replace("(supported)", "")
    code, record = frozen.audit()
    assert code != 0
    assert any(
        FILE in json.dumps(finding) for finding in record["findings"] if finding["status"] == "unverified"
    )

    done = frozen.gates()
    assert "unverified" in done.text
    assert frozen.record()["registration"] is None, (
        "measured by an unregistered source, yet it carries the root"
    )
    frozen.git("checkout", "--quiet", "--", FILE, "reports", f"{STUDY}/attempts")
    frozen.git("clean", "--quiet", "--force", "-d", "reports", STUDY)
    assert frozen.record() == before

    frozen.edit(FILE, *ALTERED)
    done = frozen.prereg(
        "amend",
        STUDY,
        "gates",
        "code",
        "--known",
        "full",
        "--statement",
        "The verdict on pythia-tiny was known.",
        "--reason",
        "The square was too large.",
    )
    assert done.code == 0, done.text
    frozen.commit_all("Amend drift")
    done = frozen.gates()
    assert "1 of 1 tested: 1 supported" in done.text, done.text
    after = frozen.record()
    assert after["key"] != before["key"]
    assert (frozen.root / EVIDENCE / "superseded" / before["key"] / "share.model.json").is_file()
    frozen.commit_all("Measure drift again")
    code, record = frozen.audit()
    assert (code, record["result"]) == (0, "verified"), open_points(record)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def measure(activations", "def gauge(activations", "0 functions are called measure"),
        ("(activations, columns), {}", "(activations, columns).slice(1), {}", "its evidence can't be used"),
        ("class ShareSettings(Settings)", "class ShareSettings", "is no subclass of"),
        ('frozenset({"own", "other"})', 'frozenset({"own"})', "measures no fit 'other'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_told_without_a_traceback(
    frozen: Own, tmp_path: Path, old: str, new: str, words: str
) -> None:
    """By the command that measures, with the next step; nothing is written."""
    frozen.git("worktree", "add", "--quiet", "--force", str(tmp_path / "copy"))
    copy = Own(tmp_path / "copy")
    copy.environment = frozen.environment
    copy.edit(FILE, old, new)
    for file in copy.path(EVIDENCE).glob("*"):
        if file.is_file():
            file.unlink()
    done = copy.prereg("measure", STUDY, "--cache-dir", str(frozen.root / "cache"))
    assert done.code == 2, done.text
    assert words in done.flat
    assert not list(copy.path(EVIDENCE).glob("*.json"))
