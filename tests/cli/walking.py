"""Every command that there is, so that a new one can't be forgotten by the tests that hold for all."""

from __future__ import annotations

from typing import Any

import typer

from prereg.cli import app

__all__ = ["COMMANDS", "ROOT", "help_of", "name_of", "options_of"]

ROOT: Any = typer.main.get_command(app)


def _walk(group: Any, path: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    found = {}
    for name, command in group.commands.items():
        found[*path, name] = command
        if hasattr(command, "commands"):
            found |= _walk(command, (*path, name))
    return found


COMMANDS: dict[tuple[str, ...], Any] = _walk(ROOT, ())
"""Each command and subcommand by its path, in the order of `prereg --help`."""


def options_of(command: Any) -> dict[str, Any]:
    """Return a command's options by flag."""
    return {flag: p for p in command.params for flag in p.opts if flag.startswith("-")}


def name_of(path: tuple[str, ...]) -> str:
    """Return a command as it is typed; the test's id."""
    return " ".join(("prereg", *path))


def help_of(command: Any) -> str:
    """Return a command's help as it was written: the dedented docstring, marks of verbatim lines included."""
    return str(command.help)
