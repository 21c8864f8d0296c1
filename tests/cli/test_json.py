"""Every command speaks JSON: one document on standard output, whatever was found and whatever went wrong."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prereg.cli import app
from tests.cli.conftest import Run
from tests.cli.walking import COMMANDS, name_of, options_of

VERDICTS = "reports/sample/pythia-tiny/verdicts.json"

CHEAP: dict[tuple[str, ...], list[tuple[tuple[str, ...], int]]] = {
    ("new",): [(("9",), 2)],
    ("models",): [((), 0), (("--fetch", "nobody's"), 2)],
    ("capture",): [(("--arm", "nobody"), 2)],
    ("measure",): [((), 0), (("--analysis", "none"), 2)],
    ("verdicts",): [((), 0), (("--hypothesis", "H9"), 2)],
    ("report",): [(("--only", "badge", "--out", "out"), 0), (("nowhere",), 2)],
    ("summary",): [((), 0), (("--github",), 2)],
    ("schema",): [((), 0), (("--check", VERDICTS), 0), (("--check", "none.json"), 2)],
    ("calibrate",): [(("--pilot", "nobody's"), 2)],
    ("power",): [(("--pilot", "nobody's"), 2)],
    ("freeze",): [((), 2)],
    ("amend",): [(("sample", "H1", "--known", "none", "--reason", "None."), 2)],
    ("audit",): [((), 0), (("nowhere",), 2)],
    ("diff",): [(("HEAD", "HEAD"), 0), (("HEAD", "nowhere"), 2)],
    ("doctor",): [(("--offline",), 0), (("nowhere",), 2)],
    ("cache",): [((), 0)],
    ("cache", "list"): [((), 0)],
    ("cache", "verify"): [((), 0), (("zz",), 2)],
    ("cache", "remove"): [(("zz",), 2)],
    ("cache", "prune"): [((), 0)],
}
"""Something quick to ask of each command, and the exit code that it ends with."""

ASKED = [
    pytest.param((*path, *words), code, id=" ".join((*path, *words)))
    for path, cases in CHEAP.items()
    for words, code in cases
]


@pytest.mark.parametrize("path", COMMANDS, ids=name_of)
def test_every_command_has_the_option(path: tuple[str, ...]) -> None:
    """Also one that is added tomorrow."""
    assert options_of(COMMANDS[path])["--json"].is_flag


def test_every_command_is_asked_below() -> None:
    """A new command needs a line in the table of this file."""
    assert set(CHEAP) == set(COMMANDS)


@pytest.mark.parametrize(("words", "code"), ASKED)
def test_it_prints_one_document(
    words: tuple[str, ...], code: int, project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer without "error", or an error with its message and remedy; nothing else is on standard output."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    found = run(*words, "--json")
    assert found.exit_code == code, found.output
    document = json.loads(found.stdout)
    assert ("error" in document) is (code == 2)
    if code == 2:
        assert set(document["error"]) == {"kind", "message", "remedy"}
        assert found.stderr.startswith(f"error: {document['error']['message']}")


@pytest.mark.parametrize("path", COMMANDS, ids=name_of)
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_typo_is_json_too(path: tuple[str, ...], order: str, run: Run) -> None:
    """An option that there isn't: a person reads usage on standard error, a machine a document."""
    wrong = ("--json", "--no-such-option") if order == "before" else ("--no-such-option", "--json")
    found = run(*path, *wrong)
    assert found.exit_code == 2
    error = json.loads(found.stdout)["error"]
    assert error["kind"] == "UsageError"
    assert "--no-such-option" in error["message"]
    assert error["remedy"].endswith(f"{' '.join(path)} --help")
    assert "Usage:" in found.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diff", "HEAD", "--json"), "REF2"),
        (("amend", "sample", "H1", "--json"), "--reason"),
        (("verdicts", "--jobs", "many", "--json"), "--jobs"),
        (("verdicts", "--gate-exit", "never", "--json"), "--gate-exit"),
        (("verdict", "--json"), "verdict"),
        (("cache", "lst", "--json"), "lst"),
        (("cache", "remove", "--json"), "key"),
    ],
)
def test_what_is_missing_or_unknown_is_named(words: tuple[str, ...], said: str, run: Run) -> None:
    """A missing argument, a missing option, a bad value, a command that there isn't."""
    found = run(*words)
    assert found.exit_code == 2
    assert said.lower() in json.loads(found.stdout)["error"]["message"].lower()


@pytest.mark.parametrize("words", [("diff", "HEAD"), ("diff", "HEAD", "--", "--json", "a", "b")])
def test_without_the_option_standard_output_stays_empty(words: tuple[str, ...], run: Run) -> None:
    """Usage is for people; what stands after -- is no option."""
    found = run(*words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "Usage:" in found.stderr


def test_ctrl_c_is_a_document(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """130, and no half of an answer."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("prereg.cli.stages.study_folder", interrupted)
    found = run("measure", "--json")
    assert found.exit_code == 130
    assert json.loads(found.stdout)["error"]["kind"] == "Interrupted"


@pytest.mark.parametrize("as_json", [True, False])
def test_a_bug_ends_with_3_and_its_traceback(as_json: bool) -> None:
    """Python's own 1 would say that something is not supported."""
    code = (
        "import sys\nfrom prereg.cli import main, verdicts\n"
        "def broken(_): raise ZeroDivisionError('nobody foresaw it')\n"
        "sys.modules['prereg.cli.verdicts'].study_folder = broken\n"
        f"sys.argv = ['prereg', 'verdicts'{', ' + repr('--json') if as_json else ''}]\nmain()"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 3
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: nobody foresaw it" in done.stderr
    if as_json:
        assert json.loads(done.stdout)["error"]["kind"] == "ZeroDivisionError"
    else:
        assert done.stdout == ""


def test_a_summary_as_json_has_the_markdown(
    project: Path, run: Run, tmp_path: Path, monkeypatch: Any
) -> None:
    """The same text, and the audit's result as a word; with --github also the file that it went to."""
    plain = run("summary").stdout
    document = json.loads(run("summary", "--json").stdout)
    assert document == {"study": "sample", "result": "verified", "markdown": plain, "file": None}
    file = tmp_path / "cache" / "page.md"
    file.parent.mkdir(exist_ok=True)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    assert json.loads(run("summary", "--github", "--json").stdout)["file"] == str(file)
    assert file.read_text("utf-8") == plain


def test_checked_files_as_json(project: Path, run: Run) -> None:
    """What was counted; the schema itself is the same document with and without the option."""
    (checked,) = json.loads(run("schema", "--check", VERDICTS, "--json").stdout)["checked"]
    assert checked == {
        "file": VERDICTS, "study": "sample", "model": "pythia-tiny", "hypotheses_total": 2, "tested": 2
    }  # fmt: skip
    assert run("schema", "--json").stdout == run("schema").stdout


def test_a_document_is_written_in_ascii(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that has no ✓ gets the same document, escaped."""
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", pipe)
    with pytest.raises(SystemExit) as end:
        app(["summary", "--json"])
    assert not end.value.code
    pipe.seek(0)
    assert "✓ supported" in json.loads(pipe.read())["markdown"]
