"""Completion in bash, zsh and fish: what is offered, what it costs, and that nothing can go wrong at a key press."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from prereg.activations.models import load_registry
from prereg.cli import completion
from tests.cli.walking import COMMANDS, ROOT
from tests.synthetic import REPOSITORY

HEAVY = ("torch", "transformers", "scipy", "pandas", "numpy", "pyarrow", "joblib", "matplotlib")
PROGRAM = (
    "import sys\nsys.argv = ['prereg', *sys.argv[1:]]\nfrom prereg.cli import main\n"
    "try: main()\n"
    f"finally: print(*(m for m in {HEAVY!r} if m in sys.modules), sep='', end='', file=sys.stderr)"
)


def started(variables: dict[str, str], place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `prereg` with variables, in a home of its own; its standard error names heavy modules."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("_TYPER", "COMP_", "PREREG"))
    }
    env = {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": str(home), **variables}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True, text=True, check=False, env=env, cwd=place, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def bash(place: Path, *words: str, **variables: str) -> list[str]:
    """Return what bash is offered for the last word; nothing may be said on standard error, nothing heavy imported."""
    asked = {"COMP_WORDS": "\n".join(("prereg", *words)), "COMP_CWORD": str(len(words))}
    done = started({"_PREREG_COMPLETE": "complete_bash", **asked, **variables}, place)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def asked_of(
    path: tuple[str, ...], flag: str, words: tuple[str, ...] = (), incomplete: str = ""
) -> list[str]:
    """Return what is offered for one option or argument, in this process."""
    command = COMMANDS[path]
    context = command.make_context(path[-1], list(words), resilient_parsing=True)
    parameter = next(p for p in command.params if flag in (*p.opts, p.name))
    return [item.value for item in parameter.shell_complete(context, incomplete)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project with two studies, one of them with reports."""
    for name in ("delta_stream", "delta_stream_sources"):
        folder = tmp_path / "gates" / name
        folder.mkdir(parents=True)
        shutil.copy(REPOSITORY / "gates" / name / "protocol.toml", folder)
    report = tmp_path / "reports" / "delta_stream" / "gemma3-270m"
    report.mkdir(parents=True)
    (report / "verdicts.json").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- as the shells ask ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("ca",), ["capture", "calibrate", "cache"]),
        (("verdicts", ""), ["gates/delta_stream", "gates/delta_stream_sources"]),
        (("verdicts", "delta_stream_"), ["delta_stream_sources"]),
        (("verdicts", "--model", "smol"), ["smollm2-135m"]),
        (("verdicts", "gates/delta_stream", "--hypothesis", "H2"), ["H2", "H2-decisive"]),
        (("verdicts", "gates/delta_stream", "--gate-exit", "h"), ["harness"]),
    ],
)
def test_bash_is_offered_what_fits(place: Path, words: tuple[str, ...], wanted: list[str]) -> None:
    """Commands, studies, aliases, the named study's hypotheses, choices: without torch, scipy or pandas."""
    assert bash(place, *words) == wanted


def test_zsh_and_fish_get_the_meaning_too(place: Path) -> None:
    """The same words, each with what it stands for."""
    words = "prereg verdicts gates/delta_stream --hypothesis H2-"
    zsh = started({"_PREREG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}, place)
    fish = started(
        {
            "_PREREG_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        place,
    )
    assert (zsh.returncode, zsh.stderr, fish.returncode, fish.stderr) == (0, "", 0, "")
    assert '"H2-decisive":"A kernel fit on one depth band' in zsh.stdout
    assert fish.stdout.startswith("H2-decisive\tA kernel fit on one depth band")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_can_be_had_without_being_in_the_shell(place: Path, shell: str) -> None:
    """As the help of --show-completion's failure says."""
    done = started({"_PREREG_COMPLETE": f"source_{shell}"}, place)
    assert done.returncode == 0
    assert f"_PREREG_COMPLETE=complete_{shell}" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_itself_completes_with_the_script(place: Path) -> None:
    """The script is read, its function called as readline would, and COMPREPLY read."""
    script = started({"_PREREG_COMPLETE": "source_bash"}, place).stdout
    tool = place / "bin" / "prereg"
    tool.parent.mkdir()
    tool.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "from prereg.cli import main\nmain()\n"
    )
    tool.chmod(0o755)
    asked = "COMP_WORDS=(prereg verdicts gates/delta_stream_s); COMP_CWORD=2; _prereg_completion prereg"
    env = {**os.environ, "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(place)}
    done = subprocess.run(
        ["bash", "--norc", "-c", f'{script}\n{asked}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True, text=True, check=True, env=env, cwd=place,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("gates/delta_stream_sources\n", "")


def test_installing_writes_where_bash_looks(place: Path) -> None:
    """The home's start file sources the script; a second time changes nothing."""
    variables = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    for _ in range(2):
        done = started(variables, place, "--install-completion", "bash")
        assert done.returncode == 0, done.stderr
    home = place / "home"
    assert (home / ".bashrc").read_text("utf-8").count(".bash_completions/prereg.sh") == 1
    assert "complete_bash" in (home / ".bash_completions" / "prereg.sh").read_text("utf-8")


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_a_shell_that_can_t_be_told_is_an_error_with_a_next_step(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 as for any error, and how to get the script by hand."""
    for module in [module for name, module in sys.modules.items() if name.startswith("typer.")]:
        if hasattr(module, "_get_shell_name"):
            monkeypatch.setattr(module, "_get_shell_name", lambda: None)
    with pytest.raises(SystemExit) as end:
        ROOT.main([option], prog_name="prereg")
    assert end.value.code == 2
    assert "next: _PREREG_COMPLETE=source_bash prereg" in capsys.readouterr().err


# -- what is offered --------------------------------------------------------------------------------------------


def test_aliases_are_the_registry_s() -> None:
    """Read without the registry's own reader, and still all that it reads."""
    assert tuple(asked_of(("models",), "--fetch")) == load_registry().aliases


@pytest.mark.parametrize(
    ("path", "flag"),
    [
        (path, flag)
        for path, command in COMMANDS.items()
        for flag in ("study", "--model", "--hypothesis", "--analysis", "--fetch")
        if any(flag in (*p.opts, p.name) for p in command.params)
        # `new --analysis` names what is still to be written.
        and (path, flag) != (("new",), "--analysis")
    ],
)
def test_each_value_that_can_be_told_is_offered(path: tuple[str, ...], flag: str, place: Path) -> None:
    """A command that takes a study, a model, a hypothesis or an analysis completes it."""
    assert place.is_dir()
    assert asked_of(path, flag)


def test_hypotheses_are_those_of_the_study_that_is_named(place: Path) -> None:
    """Before or after the option, by path or by name; of all studies where none is named; standing in one, its own."""
    path, flag = ("verdicts",), "--hypothesis"
    for words in (("delta_stream",), ("gates/delta_stream", "--hypothesis"), ("--json", "delta_stream")):
        assert asked_of(path, flag, words)[:2] == ["H1", "H1-order"]
        assert "H3-full" not in asked_of(path, flag, words)
    everywhere = asked_of(path, flag)
    assert {"H1", "H3-full"} <= set(everywhere)
    assert len(set(everywhere)) == len(everywhere)
    os.chdir(place / "gates" / "delta_stream_sources")
    assert "H1" not in asked_of(path, flag)
    assert "H3-full" in asked_of(path, flag)


def test_models_to_show_are_those_with_reports(place: Path) -> None:
    """Not the registry's: there is nothing to show of a model that was not asked."""
    assert asked_of(("audit",), "--model") == ["gemma3-270m"]
    assert asked_of(("report",), "--model", ("delta_stream_sources",)) == []


def test_an_amendment_s_subjects_are_those_that_it_accepts(place: Path) -> None:
    """Hypotheses, tables, the inner tables of some, and pinned components."""
    offered = asked_of(("amend",), "subject", ("delta_stream",))
    assert {"H1", "inference", "controls.shuffled_history_is_null", "code", "libraries"} <= set(offered)
    assert "controls" not in offered
    assert "hypotheses" not in offered


# -- what can go wrong ------------------------------------------------------------------------------------------


def test_nothing_is_written(place: Path) -> None:
    """Neither in the project nor in the home nor in the cache."""
    before = sorted(place.rglob("*"))
    assert bash(
        place, "verdicts", "gates/delta_stream", "--hypothesis", "", PREREG_CACHE=str(place / "cache")
    )
    assert [path for path in sorted(place.rglob("*")) if path not in before] == [place / "home"]
    assert list((place / "home").iterdir()) == []


HOSTILE = """
[study]
title = "[/bold] `touch it` $(touch it) ' \\" \\u001b[31m é"
[hypotheses."$(touch it)"]
claim = "x"
[hypotheses."a b"]
claim = "x"
[hypotheses.H1]
claim = "[/bold] `touch it` $(touch it) ' \\" \\u001b[31m é ✓"
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_stranger_s_protocol_can_do_no_harm(place: Path, shell: str) -> None:
    """Words that would need quotes are not offered; meanings have nothing in them that a shell or a markup reads."""
    file = place / "gates" / "delta_stream" / "protocol.toml"
    file.write_text(HOSTILE, "utf-8")
    words = ("prereg", "verdicts", "delta_stream", "--hypothesis", "")
    variables = {
        "_PREREG_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": "4",
        "_TYPER_COMPLETE_ARGS": " ".join(words),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "PYTHONIOENCODING": "ascii",
    }
    done = started(variables, place)
    assert (done.returncode, done.stderr) == (0, "")
    assert "H1" in done.stdout
    assert not [mark for mark in ("$", "`", "\x1b", "a b") if mark in done.stdout]


@pytest.mark.parametrize("trouble", ["broken", "no table", "a folder", "not utf-8"])
def test_a_study_that_can_t_be_read_takes_nothing_from_the_other(place: Path, trouble: str) -> None:
    """No error at a key press: it offers nothing, the other study offers its own."""
    file = place / "gates" / "delta_stream" / "protocol.toml"
    if trouble == "a folder":
        file.unlink()
        file.mkdir()
    else:
        content = {"broken": b"[", "no table": b"hypotheses = 1", "not utf-8": b"\xff\xfe"}
        file.write_bytes(content[trouble])
    found = asked_of(("verdicts",), "--hypothesis")
    assert "H3-full" in found
    assert "H1" not in found


def test_a_folder_that_is_gone_offers_nothing(tmp_path: Path) -> None:
    """Whatever else goes wrong: a completer that raises would print a traceback over the command line."""

    def broken(ctx: typer.Context, incomplete: str) -> Any:
        raise FileNotFoundError("the working directory is gone")

    offered = completion._or_nothing(broken)
    command = COMMANDS["verdicts",]
    assert offered(command.make_context("verdicts", [], resilient_parsing=True), "") == []
