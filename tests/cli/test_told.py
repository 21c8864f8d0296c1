"""Trouble in words: an error and its next step, an interruption, and a traceback for what nobody foresaw."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from prereg.cli import main
from prereg.cli.told import result, size, told
from prereg.errors import ModelError, PreregError
from tests.cli.conftest import Run


def test_an_error_and_its_remedy_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Two lines, no traceback, exit code 2."""
    with pytest.raises(typer.Exit) as caught, told(as_json=False):
        raise ModelError("no model is called x", remedy="prereg models")
    assert caught.value.exit_code == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "error: no model is called x\nnext: prereg models\n")


def test_with_json_the_error_is_an_object_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine learns the kind, the message and the remedy; a person still reads stderr."""
    with pytest.raises(typer.Exit), told(as_json=True):
        raise ModelError("no model is called x")
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "error": {"kind": "ModelError", "message": "no model is called x", "remedy": None}
    }
    assert err.startswith("error: ")


def test_what_nobody_foresaw_keeps_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug is not dressed up as an error of the user's."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("prereg.cli.verdicts.study_folder", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        run("verdicts")


def test_ctrl_c_says_how_to_resume(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted in the middle of a command: exit code 130 and what to do."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("prereg.cli.stages.study_folder", interrupted)
    found = run("measure")
    assert found.exit_code == 130
    assert "interrupted; run the same command again to resume" in found.stderr
    assert found.stdout == ""


def test_ctrl_c_outside_of_a_command_says_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The entry point has the last word."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("prereg.cli.commands.app", interrupted)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert "run the same command again" in capsys.readouterr().err


def test_a_result_that_can_t_be_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk behind standard output may not pass for success."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:  # noqa: ARG002
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(PreregError, match="No space left"):
        result({"a": 1})


def test_a_reader_that_left_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`prereg ... | head` ends quietly."""
    handle = (tmp_path / "out").open("w")

    class Left(io.StringIO):
        def write(self, text: str) -> int:  # noqa: ARG002
            raise BrokenPipeError(32, "Broken pipe")

        def fileno(self) -> int:
            return handle.fileno()

    monkeypatch.setattr(sys, "stdout", Left())
    result({"a": 1})
    handle.close()


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 B"), (999, "999 B"), (4_700_000, "4.7 MB"), (1_100_000_000, "1.1 GB")]
)
def test_sizes_read_well(n_bytes: int, text: str) -> None:
    """Decimal units, as disks are sold."""
    assert size(n_bytes) == text


STARTED = f"{sys.executable} -c 'from prereg.cli import main; main()'"


def shell(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line, in which `prereg` is this one, through a shell that redirects."""
    line = f'prereg() {{ {STARTED} "$@"; }}; {command}'
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize(
    "command",
    ["models", "models --json", "cache --json", "verdicts nowhere --json", "--help", "models --help"],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line_and_exit_2(command: str) -> None:
    """Result, error or help: no traceback, and no word of the interpreter's own."""
    found = shell(f"prereg {command} >/dev/full")
    assert found.returncode == 2
    assert found.stderr.startswith("error: ")
    assert "Traceback" not in found.stderr
    assert "Exception ignored" not in found.stderr


@pytest.mark.parametrize(
    "command", ["models", "models --json", "verdicts nowhere --json", "verdicts nowhere"]
)
def test_a_closed_standard_output_is_an_error_in_words(command: str) -> None:
    """There is nobody to tell the result; standard error says so."""
    found = shell(f"prereg {command} >&-")
    assert found.returncode == 2
    assert found.stderr.startswith("error: ")
    assert "Traceback" not in found.stderr


def test_a_closed_standard_error_leaves_standard_output_alone() -> None:
    """The JSON document stays one document."""
    found = shell("prereg verdicts nowhere --json 2>&-")
    assert found.returncode == 2
    assert json.loads(found.stdout)["error"]["kind"] == "StudyError"


@pytest.mark.parametrize("command", ["models", "models --json", "--help"])
def test_a_pipe_whose_reader_left_is_quiet(command: str) -> None:
    """`prereg ... | true`."""
    found = shell(f"prereg {command} | true")
    assert found.stderr == ""


def test_json_is_written_in_any_encoding() -> None:
    """Letters that the stream lacks are escaped, and the document means the same."""
    found = shell("prereg verdicts n\u00f6where --json", PYTHONIOENCODING="ascii")
    assert "n\u00f6where" in json.loads(found.stdout)["error"]["message"]
