r"""Writes docs/commands.md from the commands themselves: `python -m tests.cli.reference`.

What is read here are the docstrings and options of `prereg.cli`; the page says nothing that `--help` doesn't.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

from tests.cli.walking import COMMANDS, ROOT, help_of, name_of
from tests.synthetic import REPOSITORY

__all__ = ["PAGE", "exit_codes", "page"]

PAGE = REPOSITORY / "docs" / "commands.md"

INTRODUCTION = """\
# Commands

This page is made from the commands' own help: `prereg --help` and `prereg COMMAND --help` say the same. To make it
again: `python -m tests.cli.reference`.

## What all commands share

- **Results go to standard output, everything else to standard error.** Progress, errors and their remedies never mix
  with a result.
- **`--json`** prints one JSON document on standard output, and nothing else there. What went wrong is a document too, a
  mistyped option included: `{"error": {"kind": ..., "message": ..., "remedy": ...}}`.
- **Plain where it has to be.** Colours are for terminals: a pipe, a file, `NO_COLOR=1` and `TERM=dumb` get none. Tables
  fit into 80 columns, or into `COLUMNS`. Signs that the output's encoding lacks become ASCII ones.
- **An error has a next step.** It is a line `error: ...` and, where something would help, a line `next: ...`.

## Exit codes

"""

COMPLETION = """\

By command, where it says more than that:

{table}

## Completion

```console
$ prereg --install-completion
$ prereg --show-completion
```

The first writes completion for the shell that you are in to its start files, the second prints it. Where the shell
can't be told, as in a container, name it: `_PREREG_COMPLETE=source_bash prereg` prints the script for bash,
`source_zsh` and `source_fish` those for zsh and fish. Commands and options are completed, and values too: studies under
`gates/`, aliases of models, the hypotheses and analyses of the study that is named, models that have reports.
"""


def exit_codes(text: str) -> dict[int, str]:
    """Return the exit codes that a help documents, with their words; none where it has no such section.

    Raises
    ------
    ValueError
        If the section can't be read.
    """
    for paragraph in text.split("\n\n"):
        lines = paragraph.removeprefix("\b\n").splitlines()
        if not lines or not lines[0].startswith("Exit codes"):
            continue
        if len(lines) > 1:
            found = re.findall(r"^ +(\d+) +(.*(?:\n +[^\d\s].*)*)$", "\n".join(lines[1:]), re.MULTILINE)
        else:
            found = re.findall(r"(\d+) ([^;]+)", lines[0].partition(":")[2].rstrip("."))
        if not found:
            raise ValueError(f"no exit code in {paragraph!r}")
        return {int(code): " ".join(words.split()) for code, words in found}
    return {}


def page() -> str:
    """Return the page."""
    codes = {name_of(path): exit_codes(help_of(command)) for path, command in COMMANDS.items()}
    general = _table(("code", "meaning"), [(str(k), v) for k, v in exit_codes(help_of(ROOT)).items()])
    rows = [(f"`{name}`", *(own.get(code, "") for code in (0, 1, 2))) for name, own in codes.items() if own]
    parts = [INTRODUCTION, general, COMPLETION.format(table=_table(("command", "0", "1", "2"), rows))]
    parts += [_section(path, command) for path, command in COMMANDS.items()]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _section(path: tuple[str, ...], command: Any) -> str:
    """Return one command: how it is called, what it does, its arguments and options."""
    lines = ["#" * (len(path) + 1) + f" {name_of(path)}", "", *_usage(path, command)]
    for paragraph in help_of(command).strip().split("\n\n"):
        lines += ["", *_paragraph(paragraph)]
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    for title, kind in (("argument", "argument"), ("option", "option")):
        rows = [_parameter(p) for p in shown if p.param_type_name == kind]
        if rows:
            lines += ["", _table((title, "meaning"), rows)]
    return "\n".join(lines)


def _usage(path: tuple[str, ...], command: Any) -> list[str]:
    words = [name_of(path)]
    words += ["[OPTIONS]"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = _metavar(parameter)
            words.append(name if parameter.required else f"[{name}]")
    if hasattr(command, "commands"):
        words.append("[COMMAND]")
    return ["```text", " ".join(words), "```"]


def _paragraph(text: str) -> list[str]:
    if not text.startswith("\b\n"):
        return [_escaped(" ".join(text.split()))]
    first, *rest = text.removeprefix("\b\n").splitlines()
    if not rest:
        return [_escaped(first)]
    language = "console" if first == "Examples:" else "text"
    if first.startswith(" "):
        return [f"```{language}", *textwrap.dedent("\n".join([first, *rest])).splitlines(), "```"]
    body = textwrap.dedent("\n".join(rest)).splitlines()
    if first == "Examples:":
        # As typed: a prompt at each line that begins a command.
        body = [line if line.startswith(" ") else f"$ {line}" for line in body]
    return [_escaped(first), "", f"```{language}", *body, "```"]


def _parameter(parameter: Any) -> tuple[str, str]:
    choices = _choices(parameter)
    if parameter.param_type_name == "argument":
        name = f"`{_metavar(parameter)}`"
    elif parameter.is_flag or choices:
        name = f"`{', '.join(parameter.opts)}`"
    else:
        name = f"`{', '.join(parameter.opts)} {_metavar(parameter)}`"
    if choices:
        name += ": " + ", ".join(f"`{choice}`" for choice in choices)
    words = _escaped(" ".join((parameter.help or "").split()))
    default = parameter.default
    if parameter.required:
        words += " (required)"
    elif parameter.show_default is not False and default not in (None, False, (), []):
        words += f" [default: {default}]"
    return name, words


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _choices(parameter: Any) -> list[str]:
    # Typer keeps them where its own click has them, or in click's type.
    described = getattr(parameter, "type_descriptor", None) or parameter.type
    return [str(getattr(choice, "value", choice)) for choice in getattr(described, "choices", None) or ()]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _escaped(text: str) -> str:
    """Return text in which only `code` is markup."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"[*_|]", r"\\\g<0>", part.replace("<", "&lt;")) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
