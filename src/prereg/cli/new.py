"""`prereg new`: the files of a study, to be made one's own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import string
from collections.abc import Iterator
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prereg.cli.options import DEFAULT_MODEL, Json, project_root
from prereg.cli.told import result, told
from prereg.cli.undecided import UNDECIDED
from prereg.cli.unwrapped import show_unwrapped
from prereg.hostile import printable, read_bounded

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["new"]

SEEDS = ("prompts", "split", "inference", "folds", "shuffles", "random", "twin_1", "twin_2", "twin_3")
LONGEST_NAME = 60
FACTS = ("facts.csv", "SOURCES.md", "licences")
TINY = (
    "config.json",
    "facts.csv",
    "model.safetensors",
    "README.md",
    "tokenizer.json",
    "tokenizer_config.json",
)
PYPROJECT = '[tool.pytest]\ntestpaths = ["gates"]\n'
IGNORED = """\
__pycache__/
.pytest_cache/
.venv/

# An attempt that was being written when its writer was killed.
gates/**/attempts/.*.part
"""


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="what the study is called: letters, digits, - and _")
    ],
    evidence: Annotated[
        Literal["kernels", "band_kernels"],
        typer.Option(
            "--evidence",
            help="the analysis that its claims are about: how well updates predict the next one, or whether one "
            "kernel serves all depths",
        ),
    ] = "kernels",
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="NAME", help="the model that the commands shown at the end ask; as elsewhere"
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
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.activations.models import load_registry, resolve

        root = project_root(Path.cwd())
        study = _study_name(name)
        resolve(model, registry=load_registry(), root=root)
        with _own_remedy(root):
            files = _files(study, evidence, root)
            _refuse_overwriting(study, files, root)
            _write(files, root)
        commands = _next(study, model)
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

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or len(name) > LONGEST_NAME:
        raise StudyError(
            f"{name!r} can't name a study: wanted a letter, then letters, digits, - and _, {LONGEST_NAME} at most",
            remedy="prereg new my-study",
        )
    return name.replace("-", "_").lower()


def _files(study: str, evidence: str, root: Path) -> dict[str, bytes]:
    """Return what has to be written, by its path in the project; shared files that are there already are left out."""
    shared = _shared()
    for path in shared:
        _require_inside(root, path)
    for path in [path for path, content in shared.items() if _is_there(root / path, content)]:
        del shared[path]
    for path, text in (("pyproject.toml", PYPROJECT), (".gitignore", IGNORED)):
        if not (root / path).exists():
            shared[path] = text.encode()
    # The study comes last: a disk that is full before it leaves nothing that would be in the way of a second try.
    files = shared | _study_files(study, evidence)
    for path in files:
        _require_inside(root, path)
    return files


def _study_files(study: str, evidence: str) -> dict[str, bytes]:
    templates = resources.files("prereg.cli") / "scaffold"
    words = {f"seed_{use}": str(_seed(study, use)) for use in SEEDS}
    words["name"] = study
    for key, place in (("facts_sha256", _packaged("facts")), ("world_sha256", _packaged("pythia-tiny"))):
        words[key] = hashlib.sha256((place / "facts.csv").read_bytes()).hexdigest()
    body = templates / evidence
    text = (templates / "head.toml").read_text("utf-8") + (body / "body.toml").read_text("utf-8")
    files = {f"gates/{study}/protocol.toml": string.Template(text).substitute(words).encode()}
    for gate in sorted(body.iterdir(), key=lambda file: file.name):
        if gate.name.endswith(".py.txt"):
            # Named after the study too: two test files of one name can't be collected together.
            hypothesis = gate.name.removesuffix(".py.txt").lower()
            files[f"gates/{study}/test_{study}_{hypothesis}.py"] = gate.read_bytes()
    return files


def _seed(study: str, use: str) -> int:
    """Draw a seed from the study's name: nobody chose it by its result, and no two studies share one by chance."""
    digest = hashlib.sha256(f"prereg new: {study}: {use}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _shared() -> dict[str, bytes]:
    facts, tiny = _packaged("facts"), _packaged("pythia-tiny")
    found = {f"fixtures/pythia-tiny/{name}": (tiny / name).read_bytes() for name in TINY}
    for name in FACTS:
        place = facts / name
        if place.is_dir():
            found |= {f"fixtures/facts/{name}/{file.name}": file.read_bytes() for file in place.iterdir()}
        else:
            found[f"fixtures/facts/{name}"] = place.read_bytes()
    return found


def _packaged(name: str) -> Traversable:
    """Return a folder of data that a wheel carries, and a checkout has under fixtures/.

    Raises
    ------
    StudyError
        If neither is there.
    """
    from prereg.errors import StudyError

    package = resources.files("prereg")
    for place in (package / "fixtures" / name, Path(str(package)).parents[1] / "fixtures" / name):
        if (place / "facts.csv").is_file():
            return place
    raise StudyError(
        f"this installation of prereg has no {name}, which a new study starts from",
        remedy="pip install --force-reinstall prereg-gates",
    )


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


def _next(study: str, model: str) -> list[tuple[str, str]]:
    """Return the commands that follow, each with what it is for."""
    folder, asked = f"gates/{study}", shlex.quote(model)
    return [
        (f"pytest {folder} --model {DEFAULT_MODEL}", "try it: a pilot on the embedded model"),
        (f"grep -n '\"{UNDECIDED}' {folder}/protocol.toml", "decide: thresholds, margins and their reasons"),
        (f"prereg calibrate {folder} --pilot {DEFAULT_MODEL}", "simulate: how often each gate errs"),
        (
            f"git add {folder} fixtures reports pyproject.toml .gitignore && git commit -m 'Write {study}'",
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
    own = [file for file in files if file.startswith("gates/")]
    rest = sorted({"/".join(file.split("/")[:2]) for file in files if file not in own})
    lines = [f"wrote {file}" for file in own]
    lines += [f"copied {name}" if name.startswith("fixtures") else f"wrote {name}" for name in rest]
    lines.append("next:" if root == Path.cwd() else f"next, in {printable(str(root), 4096)}:")
    for line, why in commands:
        lines += [f"  # {why}", f"  {line}"]
    return lines
