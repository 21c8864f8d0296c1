"""Text for people where there is no terminal, no colour, no room and no Unicode."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest
from rich.cells import cell_len

from prereg.cli import app
from prereg.cli.told import show, show_as_it_is
from tests.cli.conftest import Run
from tests.cli.walking import COMMANDS, ROOT, name_of

HELP = {(): ROOT, **COMMANDS}
ESCAPE = "\x1b"

ANSWERS = (
    "verdicts",
    "audit",
    "doctor --offline",
    "models",
    "measure",
    "cache",
    "cache verify",
    "cache prune",
    "summary",
    "schema",
    "diff HEAD HEAD",
    "report --only badge --out out",
)
"""What prints text about the sample project, quickly."""


def said(words: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command whose standard output is a pipe of that encoding; return what was written to it."""
    pipe = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as end:
            app(words)
    assert not end.value.code
    pipe.flush()
    pipe.buffer.seek(0)
    return pipe.buffer.read().decode(encoding)


# -- width ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", HELP, ids=name_of)
def test_a_help_fits_into_80_columns(path: tuple[str, ...], run: Run) -> None:
    """Examples and tables of exit codes too, which nothing wraps; and no escape is in it."""
    text = run(*path, "--help").stdout
    assert max(map(cell_len, text.splitlines())) <= 80
    assert ESCAPE not in text


@pytest.mark.parametrize("words", [words for words in ANSWERS if words not in ("summary", "schema")])
def test_an_answer_fits_into_80_columns(words: str, project: Path, run: Run) -> None:
    """Markdown and schemas are not for reading there; a line that is to be copied is never broken."""
    found = run(*words.split())
    assert found.exit_code == 0, found.output
    copied = re.compile(r"next: |tables: ")
    long = [line for line in found.stdout.splitlines() if cell_len(line) > 80 and not copied.search(line)]
    assert long == []
    assert ESCAPE not in found.stdout


@pytest.mark.parametrize("columns", ["40", "1", "0", "-3", "many"])
def test_any_width_is_survived(
    columns: str, project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrow terminal, and a COLUMNS that is none."""
    monkeypatch.setenv("COLUMNS", columns)
    for words in ("verdicts", "models", "--help"):
        assert run(*words.split()).exit_code == 0


# -- encoding ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", HELP, ids=name_of)
def test_a_help_is_ascii(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read before anybody could have set a locale."""
    assert "Usage:" in said([*path, "--help"], "ascii", monkeypatch)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("words", ANSWERS)
def test_an_answer_can_be_written_in_any_encoding(
    words: str, encoding: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs that the encoding lacks are replaced; the words are the same."""
    assert said(words.split(), encoding, monkeypatch).strip()


def test_the_signs_of_a_table_have_ascii_ones(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick is a plus, the lines are hyphens."""
    text = said(["verdicts"], "ascii", monkeypatch)
    assert "+ supported" in text
    assert "\\u" not in text


def test_markdown_in_ascii_is_markdown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Character references, that show the same."""
    text = said(["summary"], "ascii", monkeypatch)
    assert "&#10003; supported" in text
    assert "within &#177;0.02" in text
    assert "✓ supported" in said(["summary"], "utf-8", monkeypatch)


def test_a_letter_that_no_table_replaces_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path or a claim in another script; also one that no encoding can carry, and an encoding that isn't."""
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", pipe)
    show("gates/δ: ✓")
    show_as_it_is("\udcff\n")

    class Nameless(io.StringIO):
        encoding = "no-such-encoding"

    pipe.seek(0)
    assert pipe.read() == "gates/\\u03b4: +\n\\udcff\n"
    nameless = Nameless()
    monkeypatch.setattr(sys, "stdout", nameless)
    show_as_it_is("δ\n")
    assert nameless.getvalue() == "\\u03b4\n"


def test_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder may be called [/bold], and is shown as it is called."""
    show("[bold]gates[/bold]/[/red]: :warning:")
    assert capsys.readouterr().out == "[bold]gates[/bold]/[/red]: :warning:\n"


# -- colour -----------------------------------------------------------------------------------------------------


def on_a_terminal(words: list[str], project: Path, **variables: str) -> str:
    """Run a command in a terminal of 80 columns; return what it got to see."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR", "TERM")}
    env = {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TERM": "xterm-256color",
        **variables,
    }
    code = "import sys; sys.argv[0] = 'prereg'; from prereg.cli import main; main()"
    running = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=project, env=env
    )
    os.close(theirs)
    seen = b""
    try:
        # The last reader of a terminal whose program has ended is told so by an error.
        while select.select([ours], [], [], 60.0)[0] and (some := os.read(ours, 65536)):
            seen += some
    except OSError:
        pass
    finally:
        os.close(ours)
    assert running.wait() == 0
    return seen.decode("utf-8")


def test_a_terminal_gets_colour(project: Path) -> None:
    """The other tests would pass without any colour anywhere."""
    assert ESCAPE in on_a_terminal(["verdicts"], project)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted_or_understood(variables: dict[str, str], project: Path) -> None:
    """NO_COLOR as of no-color.org, and a terminal that knows no escapes: not one is written."""
    text = on_a_terminal(["verdicts"], project, **variables)
    assert "supported" in text
    assert ESCAPE not in text
    assert max(map(cell_len, text.splitlines())) <= 80


def test_a_pipe_has_no_escapes_whatever_is_forced(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FORCE_COLOR is for programs that follow it; a table in a file is a table."""
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS"):
        monkeypatch.setenv(name, "1")
    for words in ("verdicts", "models", "--help"):
        assert ESCAPE not in run(*words.split()).stdout
