"""The command line as a whole: light to start, helpful to read, of one mind with the pytest plugin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from prereg import pytest_plugin
from prereg.cli import options
from tests.cli.conftest import Run
from tests.cli.walking import COMMANDS, options_of

HEAVY = ("torch", "transformers", "transformer_lens", "numpy", "scipy", "pyarrow", "pandas", "arch", "joblib")


@pytest.mark.parametrize("arguments", [["--help"], ["verdicts", "--help"], ["cache", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Help is there at once: neither torch nor numpy nor pyarrow is imported for it."""
    code = (
        "import sys; from prereg.cli import app\n"
        f"try: app({arguments!r})\nexcept SystemExit as end: assert not end.code, end.code\n"
        f"print(*(m for m in {HEAVY!r} if m in sys.modules), sep=',', file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stderr.strip() == ""
    assert "Usage:" in done.stdout


@pytest.mark.parametrize("command", [path[0] for path in COMMANDS if len(path) == 1])
def test_every_command_s_help_teaches_by_example(run: Run, command: str) -> None:
    """Each command shows commands to copy, on lines of their own."""
    found = run(command, "--help")
    assert found.exit_code == 0
    assert "Examples:" in found.stdout
    assert any(line.startswith(f"    prereg {command}") for line in found.stdout.splitlines())


def test_the_root_help_names_every_command(run: Run) -> None:
    """In the list at its end, each with what it does."""
    listed = run("--help").stdout.partition("Commands:\n")[2]
    found = dict(re.findall(r"^  (\w+) +(\S.*)$", listed, re.MULTILINE))
    assert list(found) == [path[0] for path in COMMANDS if len(path) == 1]
    assert all(words.endswith(".") for words in found.values())


def test_capture_s_help_says_that_it_resumes(run: Run) -> None:
    """There is no --resume to look for."""
    text = " ".join(run("capture", "--help").stdout.split())
    assert "resumes by itself" in text
    assert "--resume" not in text


def test_options_shared_with_pytest_read_the_same() -> None:
    """An option has one name, one meaning and one default, wherever it is given."""
    theirs: dict[str, dict[str, Any]] = {}

    class Group:
        def addoption(self, *names: str, **settings: Any) -> None:
            theirs.update(dict.fromkeys(names, settings))

    class Parser:
        def getgroup(self, *_: str) -> Group:
            return Group()

    pytest_plugin.pytest_addoption(Parser())  # type: ignore[arg-type]
    ours = options_of(COMMANDS["verdicts",])
    shared = set(ours) & set(theirs)
    assert shared >= {
        "--model", "--cache-dir", "--report-dir", "--offline", "--engine", "--jobs", "--device", "--dtype",
        "--gate-exit",
    }  # fmt: skip
    for name in shared - {"--gate-exit"}:
        assert ours[name].help.split(" [default")[0] == theirs[name]["help"].split(" [default")[0], name
    for name in ("--engine", "--device", "--dtype", "--gate-exit"):
        assert ours[name].default == theirs[name]["default"]
    assert options.DEFAULT_MODEL == pytest_plugin.DEFAULT_MODEL


def test_no_command_takes_a_threshold() -> None:
    """No option of any command can change a promise."""
    for command in COMMANDS.values():
        assert not [flag for flag in options_of(command) if "threshold" in flag or "update" in flag]


def test_an_unknown_option_is_an_error_of_usage(run: Run) -> None:
    """A typo exits with 2 and runs nothing."""
    assert run("verdicts", "--mesure").exit_code == 2


def test_it_runs_as_a_module_too() -> None:
    """Where the script's folder is not on the path."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "prereg", "schema", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert '"$schema"' in done.stdout
