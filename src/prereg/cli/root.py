"""The group of all commands: what it says to a machine about a command line that it can't read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup

from prereg.cli.told import ERROR, tell_machine, whole_or_error
from prereg.console import write

__all__ = ["Root", "asks_for_json"]

# Typer carries its own click, or takes the installed one, as its version has it; this one way leads to both.
UsageError = cast("type[Exception]", typer.BadParameter.__bases__[0])

_JSON = "prereg.json"
_BY_HAND = "next: _PREREG_COMPLETE=source_bash prereg   # prints the script; or source_zsh, source_fish\n"


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Tell whether a command line asks for JSON, whatever else is wrong with it."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


class Root(TyperGroup):
    """A group whose errors of usage are JSON too, where JSON was asked for."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the command line as far as the command's name."""
        as_json = asks_for_json(args)
        with whole_or_error(), _told_to_machines(as_json), _no_shell_is_an_error():
            context = super().make_context(info_name, args, parent, **extra)
            context.meta[_JSON] = as_json
            return context
        raise typer.Exit  # Whoever read the help has read enough.

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        with whole_or_error(), _told_to_machines(ctx.meta[_JSON]):
            return super().invoke(ctx)
        raise typer.Exit


@contextlib.contextmanager
def _told_to_machines(as_json: bool) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if as_json:
            usage: Any = error
            path = "prereg" if usage.ctx is None else usage.ctx.command_path
            tell_machine("UsageError", usage.format_message(), f"{path} --help")
        raise


@contextlib.contextmanager
def _no_shell_is_an_error() -> Iterator[None]:
    try:
        yield
    except typer.Exit as end:
        # Before a command has begun, only completion for a shell that can't be told ends with anything but 0.
        if end.exit_code == 0:
            raise
        write(_BY_HAND, sys.stderr)
        raise typer.Exit(ERROR) from end
