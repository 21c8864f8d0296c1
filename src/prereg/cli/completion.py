"""What a shell offers where a value is to be typed: studies, models, hypotheses.

Asked at every press of a key: nothing is imported but what reads TOML, nothing is written, and whatever goes wrong
offers nothing. A shell that waits for words has no place for an error.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import typer

from prereg.hostile import printable, read_bounded

__all__ = ["aliases", "analyses", "hypotheses", "reported", "studies", "subjects", "words"]

Offered = list[tuple[str, str]]
"""Words that may stand here, each with what it means (shown by zsh and fish)."""
Completer = Callable[[typer.Context, str], Offered]

MAX_BYTES = 2_000_000
LONGEST = 60
# A protocol is anyone's file, and zsh evaluates what is offered: a word that would need quotes is not offered at all.
_WORD = re.compile(r"[\w.@+/-]+", re.ASCII)
_HARMLESS = str.maketrans({"[": "(", "]": ")", **dict.fromkeys("\\\"'`$!", "")})
COMPONENTS = ("gates", "code", "facts", "models", "libraries")
NAMED_BY_TWO = ("analyses", "controls", "published", "updates")
"""Tables that an amendment names by their inner ones."""


def _or_nothing(find: Callable[[typer.Context, str], Iterable[tuple[str, str]]]) -> Completer:
    @functools.wraps(find)
    def offered(ctx: typer.Context, incomplete: str) -> Offered:
        try:
            found = dict(find(ctx, incomplete))
        except Exception:
            return []
        return [(word, _plain(meaning)) for word, meaning in found.items() if _WORD.fullmatch(word)]

    return offered


def _plain(meaning: str) -> str:
    """Return foreign text as no shell and no markup could take it for anything else."""
    line = printable(meaning, LONGEST).translate(_HARMLESS)
    return line.encode("ascii", "replace").decode("ascii")


def words(*offered: str) -> Completer:
    """Return a completer that offers these words, whatever was typed before."""

    @_or_nothing
    def these(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
        return ((word, "") for word in offered)

    return these


@_or_nothing
def studies(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Offer each folder under gates/ with a protocol.toml, as a path and by its name."""
    from prereg.cli.options import studies_here

    for folder in studies_here(Path.cwd()):
        meaning = str(_table(_protocol(folder), "study").get("title", ""))
        # A path is what a reader recognises; the name alone is offered to who has begun to type it.
        if not folder.is_absolute():
            yield folder.as_posix(), meaning
        if incomplete or folder.is_absolute():
            yield folder.name, meaning


@_or_nothing
def aliases(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Offer each model that the package's registry names."""
    file = resources.files("prereg") / "activations" / "models" / "registry.toml"
    # Not `load_registry`: checking it takes longer than a key press may.
    for alias, entry in _table(tomllib.loads(file.read_text("utf-8")), "models").items():
        yield alias, str(entry.get("licence", ""))


@_or_nothing
def hypotheses(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Offer each hypothesis of the study that is named, or of every study here where none is."""
    for protocol in _protocols(ctx):
        for name, claim in _table(protocol, "hypotheses").items():
            yield name, str(claim.get("claim", ""))


@_or_nothing
def analyses(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Offer each table of [analyses] of the study that is named, or of every study here where none is."""
    for protocol in _protocols(ctx):
        for name in _table(protocol, "analyses"):
            yield name, ""


@_or_nothing
def subjects(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Offer what an amendment can be about: hypotheses, tables of the protocol, pinned components."""
    yield from hypotheses(ctx, incomplete)
    for protocol in _protocols(ctx):
        for name, table in protocol.items():
            if name in NAMED_BY_TWO and isinstance(table, dict):
                yield from ((f"{name}.{inner}", "") for inner in table)
            elif isinstance(table, dict) and name != "hypotheses":
                yield name, ""
    yield from ((name, "") for name in COMPONENTS)


@_or_nothing
def reported(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Offer each model that has reports of the study that is named, or of any study here where none is."""
    from prereg.cli.options import project_root

    for folder in _named(ctx):
        name = str(_table(_protocol(folder), "study").get("name", folder.name))
        given = ctx.params.get("report_dir")
        reports = Path(given) if given is not None else project_root(folder) / "reports"
        for file in sorted((reports / name).glob("*/verdicts.json")):
            yield file.parent.name, ""


def _protocols(ctx: typer.Context) -> Iterator[dict[str, Any]]:
    return (_protocol(folder) for folder in _named(ctx))


def _named(ctx: typer.Context) -> list[Path]:
    """Return the study on the command line so far; all studies here where there is none."""
    from prereg.cli.options import studies_here, study_folder
    from prereg.errors import PreregError

    # An option that still waits for its value leaves the words before it unread: they lie in `args`.
    for word in (ctx.params.get("study"), *ctx.args):
        if word is None:
            continue
        try:
            return [study_folder(Path(word))]
        except PreregError:
            continue
    here = Path.cwd()
    return [here] if (here / "protocol.toml").is_file() else studies_here(here)


def _protocol(folder: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bounded(folder / "protocol.toml", MAX_BYTES, links=True).decode("utf-8"))
    except (OSError, ValueError):
        # One study that can't be read takes nothing from the others.
        return {}


def _table(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
