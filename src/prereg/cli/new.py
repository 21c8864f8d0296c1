"""`prereg new`: the files of a study, to be made one's own."""

from __future__ import annotations

import contextlib
import keyword
import os
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from prereg.cli.completion import aliases
from prereg.cli.options import DEFAULT_MODEL, Json, project_root
from prereg.cli.scaffolding import project_files, shared_files, study_files
from prereg.cli.told import result, told
from prereg.cli.undecided import UNDECIDED
from prereg.cli.unwrapped import show_unwrapped
from prereg.hostile import printable, read_bounded

__all__ = ["new"]

LONGEST = 60


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="what the study is called: letters, digits, - and _")
    ],
    evidence: Annotated[
        Literal["kernels", "band_kernels"] | None,
        typer.Option(
            "--evidence",
            help="the analysis that its claims are about: how well updates predict the next one, or whether one "
            "kernel serves all depths [default: kernels]",
        ),
    ] = None,
    analysis: Annotated[
        str | None,
        typer.Option(
            "--analysis",
            metavar="NAME",
            help="in its place, an analysis of your own: a stub that runs, and a test of it, to be rewritten",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="the model that the commands shown at the end ask; as elsewhere",
            autocompletion=aliases,
        ),
    ] = DEFAULT_MODEL,
    json: Json = False,
) -> None:
    """Write a study to start from: gates/NAME with a protocol that explains itself, and one gate a hypothesis.

    The study runs at once, on the embedded model. What only its author can say is marked TO DECIDE: thresholds, margins
    and their reasons. Seeds are drawn from the name. Facts and the embedded model are copied to fixtures/ where they
    aren't yet, as are a pyproject.toml and a .gitignore: the project holds all that a reader needs to check it.
    Nothing that is there is overwritten, and nothing is written outside the project, which ends where its git
    repository does.

    \b
    Exit codes: 0 written; 2 refused, and why.

    \b
    Examples:
      prereg new my-study
      prereg new my-study --evidence band_kernels --model smollm2-135m
      prereg new my-study --analysis my_analysis
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.activations.models import load_registry, resolve

        root = project_root(Path.cwd())
        study = _study_name(name)
        _require_own(analysis, evidence)
        resolve(model, registry=load_registry(), root=root)
        with _own_remedy(root):
            files = _files(study, evidence or "kernels", analysis, root)
            _refuse_overwriting(study, files, root)
            _write(files, root)
        commands = _next(study, analysis, model)
        if json:
            result({"study": study, "files": list(files), "next": [line for line, _ in commands]})
        else:
            show_unwrapped(_told_lines(list(files), commands, root))


def _study_name(name: str) -> str:
    """Return the name that folder, reports and test files share.

    Raises
    ------
    StudyError
        If it could not be a part of a test file's name.
    """
    from prereg.errors import StudyError

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or len(name) > LONGEST:
        raise StudyError(
            f"{name!r} can't name a study: wanted a letter, then letters, digits, - and _, {LONGEST} at most",
            remedy="prereg new my-study",
        )
    return name.replace("-", "_").lower()


def _require_own(analysis: str | None, evidence: str | None) -> None:
    """Refuse a name that no file beside the gates can have, or that means another analysis.

    Raises
    ------
    StudyError
        With what is wrong with it.
    """
    from prereg.analysis.catalogue import ANALYSES
    from prereg.analysis.own import require_name
    from prereg.errors import StudyError

    if analysis is None:
        return
    if evidence is not None:
        raise StudyError(
            "--evidence names an analysis that is there, --analysis one to be written: give one of them"
        )
    is_name = re.fullmatch(r"[a-z][a-z0-9_]*", analysis) and not keyword.iskeyword(analysis)
    if not is_name or len(analysis) > LONGEST:
        wanted = f"wanted a small letter, then small letters, digits and _, {LONGEST} at most"
        raise StudyError(f"{analysis!r} can't name an analysis: {wanted}", remedy="--analysis my_analysis")
    if analysis in ANALYSES:
        raise StudyError(
            f"{analysis} is an analysis of prereg's own", remedy=f"--evidence {analysis}, or another name"
        )
    require_name(analysis, Path(f"{analysis}.py"))


def _files(study: str, evidence: str, analysis: str | None, root: Path) -> dict[str, bytes]:
    """Return what has to be written, by its path in the project; shared files that are there already are left out."""
    shared = shared_files()
    for path in shared:
        _require_inside(root, path)
    for path in [path for path, content in shared.items() if _is_there(root / path, content)]:
        del shared[path]
    once = project_files(tests=analysis is not None)
    shared |= {path: content for path, content in once.items() if not (root / path).exists()}
    # The study comes last: a disk that is full before it leaves nothing that would be in the way of a second try.
    files = shared | study_files(study, evidence, analysis)
    for path in files:
        _require_inside(root, path)
    return files


def _is_there(file: Path, content: bytes) -> bool:
    """Tell whether a shared file is in the project already, as it would be written."""
    try:
        return read_bounded(file, len(content)) == content
    except (FileNotFoundError, ValueError):
        # Not there, or longer, a link, a pipe: no file of ours, and refused below where something is there.
        return False


@contextlib.contextmanager
def _own_remedy(root: Path) -> Iterator[None]:
    """Let trouble with the disk advise what helps here: no option of this command leads to another folder.

    Raises
    ------
    StorageError
        In place of one, or of an OSError.
    """
    from prereg.errors import StorageError

    remedy = f"see to {root}: its permissions, and the room on its disk; or run this in another folder"
    try:
        yield
    except StorageError as error:
        raise StorageError(error.message, remedy=remedy) from error
    except OSError as error:
        words = f"{error.filename or root} can't be used: {error.strerror or error}"
        raise StorageError(words, remedy=remedy) from error


def _require_inside(root: Path, path: str) -> None:
    """Demand that each folder on the way to a file is one, or can be made, and lies in the project.

    Raises
    ------
    StudyError
        If something else has its place, or a link leads out of the project.
    """
    from prereg.errors import StudyError

    for above in reversed(Path(path).parents[:-1]):
        place, moved = root / above, f"move it elsewhere: mv {shlex.quote(str(above))} ..."
        if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(root)):
            raise StudyError(
                f"{place} leads out of the project, and nothing is written there or relied on", remedy=moved
            )
        if (place.is_symlink() or place.exists()) and not place.is_dir():
            raise StudyError(f"{place} is no folder, and a new study needs one there", remedy=moved)


def _refuse_overwriting(study: str, files: dict[str, bytes], root: Path) -> None:
    from prereg.errors import StudyError

    folder = root / "gates" / study
    if folder.is_symlink() or folder.exists():
        raise StudyError(
            f"{folder}: there is a study of this name already, and nothing is overwritten",
            remedy="choose another name, or remove the folder",
        )
    for path in files:
        # Nearly all are data that the protocol's digests speak of: another file there is somebody's own.
        if (root / path).is_symlink() or (root / path).exists():
            raise StudyError(
                f"{root / path} is not the file that a new study rests on, and nothing is overwritten",
                remedy=f"move it elsewhere: git mv {shlex.quote(path)} ...",
            )


def _write(files: dict[str, bytes], root: Path) -> None:
    from prereg.workers import write_atomically

    for path, content in files.items():
        write_atomically(root / path, partial(Path.write_bytes, data=content))


def _next(study: str, analysis: str | None, model: str) -> list[tuple[str, str]]:
    """Return the commands that follow, each with what it is for."""
    folder, asked = f"gates/{study}", shlex.quote(model)
    own = "" if analysis is None else f" tests/test_{study}_{analysis}.py"
    written = (
        []
        if analysis is None
        else [(f"pytest{own}", f"write {folder}/{analysis}.py, and test it on data whose truth is known")]
    )
    return [
        *written,
        (f"pytest {folder} --model {DEFAULT_MODEL}", "try it: a pilot on the embedded model"),
        (f"grep -n '\"{UNDECIDED}' {folder}/protocol.toml", "decide: thresholds, margins and their reasons"),
        (f"prereg calibrate {folder} --pilot {DEFAULT_MODEL}", "simulate: how often each gate errs"),
        (
            f"git add {folder}{own} fixtures reports pyproject.toml .gitignore && git commit -m 'Write {study}'",
            "only what is committed can be registered",
        ),
        (
            f"prereg freeze {folder} --known pilot --statement 'A pilot on {DEFAULT_MODEL}: ...'",
            "register it, before the data; then commit as it says",
        ),
        (f"pytest {folder} --model {asked}", "measure and answer"),
        (f"prereg audit {folder}", "what a reviewer would check"),
    ]


def _told_lines(files: list[str], commands: list[tuple[str, str]], root: Path) -> list[str]:
    own = [file for file in files if file.startswith(("gates/", "tests/"))]
    rest = sorted({"/".join(file.split("/")[:2]) for file in files if file not in own})
    lines = [f"wrote {file}" for file in own]
    lines += [f"copied {name}" if name.startswith("fixtures") else f"wrote {name}" for name in rest]
    lines.append("next:" if root == Path.cwd() else f"next, in {printable(str(root), 4096)}:")
    for line, why in commands:
        lines += [f"  # {why}", f"  {line}"]
    return lines
