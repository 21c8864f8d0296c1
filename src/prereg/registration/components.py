"""The components of a study as they lie in the working tree, each by its digest."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from prereg.analysis.own import OwnAnalysis, find_analysis
from prereg.errors import RegistrationError, StudyError
from prereg.protocol import Protocol, ProtocolFile
from prereg.registration.imports import PACKAGE, imported_modules, module_file, reached_modules

__all__ = [
    "LIBRARIES",
    "OWN",
    "code_digests",
    "code_now",
    "differing",
    "facts_digests",
    "gate_digests",
    "gate_functions",
    "gates_now",
    "library_versions",
    "public_version",
]

LIBRARIES = ("numpy", "scipy", "pyarrow", "torch", "transformers", "transformer-lens")
"""Numerical dependencies whose version a registration pins."""

ROOTS = ("prereg.study", "prereg.pipeline.capturing", "prereg.pytest_plugin")
"""Modules that every study runs through."""

OWN = "analysis:"
"""Begins the name of a component that is an analysis of somebody's own."""

MAX_GATE_FILES = 10_000
MAX_SOURCE = 5_000_000
MAX_FACTS = 500_000_000


def gate_digests(folder: Path, root: Path) -> dict[str, str]:
    """Return the digest of each Python file in the study's folder and of each conftest above it.

    Parameters
    ----------
    folder
        The study's.
    root
        The project's; names are relative to it.

    Raises
    ------
    RegistrationError
        If a file can't be read, is a link, or the study lies outside the project.
    """
    return {
        file.relative_to(root.resolve()).as_posix(): _text_digest(file)
        for file in _gate_files(folder.resolve(), root.resolve())
    }


def gates_now(folder: Path, root: Path) -> dict[str, str | None]:
    """Return what `gate_digests` does; None for a file that it would refuse, so that it can be named.

    Raises
    ------
    RegistrationError
        If there are too many files, or the study lies outside the project.
    """
    folder, root = folder.resolve(), root.resolve()
    return {file.relative_to(root).as_posix(): _digest_if_plain(file) for file in _gate_files(folder, root)}


def gate_functions(folder: Path) -> tuple[str, ...]:
    """Return the names of all test functions in the study's folder that pytest would collect, read from source.

    That is: in files that are called as pytest wants them, at their top or in a class, not inside of another
    function.

    Raises
    ------
    RegistrationError
        If a file is not Python.
    """
    names: list[str] = []
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(_text(file), str(file))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise RegistrationError(f"{file}: not Python: {error}", remedy=f"mend {file}") from error
        if file.name.startswith("test_") or file.stem.endswith("_test"):
            names += (name for name in _functions(tree) if name.startswith("test_"))
    return tuple(names)


def _gate_files(folder: Path, root: Path) -> list[Path]:
    """List Python files of a study and the conftest files above them, and linked folders: they may hold more."""
    if not folder.is_relative_to(root):
        raise RegistrationError(f"{folder} lies outside the project {root}")
    files: list[Path] = []
    for base, folders, names in os.walk(folder):
        files += (Path(base, name) for name in names if name.endswith(".py"))
        files += (
            Path(base, name) for name in folders if Path(base, name).is_symlink() or name.endswith(".py")
        )
        if len(files) > MAX_GATE_FILES:
            raise RegistrationError(f"{folder}: more than {MAX_GATE_FILES:,} Python files")
    above = [p / "conftest.py" for p in folder.parents if p.is_relative_to(root)]
    return [*sorted(files), *(file for file in above if file.is_symlink() or file.exists())]


def _functions(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name
        elif not isinstance(child, ast.Lambda):
            yield from _functions(child)


def code_digests(protocol_file: ProtocolFile) -> dict[str, str]:
    """Return the digest of each module of this package that a measurement or a verdict runs through.

    By path in the package; beside them, as ``analysis:<name>``, that of all that somebody's own analysis rests on.

    Raises
    ------
    StudyError
        If an analysis isn't found.
    """
    roots, own = [*ROOTS], dict[str, str]()
    for name in protocol_file.protocol.analyses:
        spec = find_analysis(name, protocol_file.path.parent)
        if isinstance(spec, OwnAnalysis):
            roots += (module for text in spec.sources.texts.values() for module in imported_modules(text))
            own[f"{OWN}{name}"] = spec.digest
        else:
            roots.append(spec.module)
    files = [module_file(name) for name in reached_modules(roots)]
    return own | {
        f"prereg/{file.relative_to(PACKAGE).as_posix()}": _text_digest(file, links=True)
        for file in files
        if file is not None
    }


def code_now(names: Iterable[str], folder: Path | None = None) -> dict[str, str | None]:
    """Return the present digest of modules that a registration names; None for one that is gone.

    Analyses of somebody's own are looked for as the study in `folder` finds them.

    None as well for one in whose place something else would be imported. A module that is reached only since then
    isn't among them; it can't be without an edit to one that is.
    """
    found: dict[str, str | None] = {}
    beside: dict[Path, frozenset[str]] = {}
    for name in names:
        if name.startswith(OWN):
            found[name] = None if folder is None else _own_now(name.removeprefix(OWN), folder)
            continue
        parts = name.split("/")
        known = parts[0] == "prereg" and ".." not in parts and name.endswith(".py")
        file = PACKAGE.joinpath(*parts[1:])
        if not known or not _is_there(file):
            found[name] = None
            continue
        if file.parent not in beside:
            beside[file.parent] = _first_imported(file.parent)
        found[name] = None if file.stem in beside[file.parent] else _digest_if_plain(file, links=True)
    return found


def _own_now(name: str, folder: Path) -> str | None:
    try:
        # The name comes from a file that anyone may have written.
        spec = find_analysis(name, folder) if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) else None
    except StudyError:
        return None
    return spec.digest if isinstance(spec, OwnAnalysis) else None


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name too long to be one
        return False


def _first_imported(folder: Path) -> frozenset[str]:
    """Return the modules that Python would take from a package or an extension, whatever ``.py`` lies beside."""
    with os.scandir(folder) as found:
        return frozenset(
            item.name.partition(".")[0]
            for item in found
            if item.name.endswith((".so", ".pyd")) or Path(item.path, "__init__.py").is_file()
        )


def facts_digests(protocol: Protocol, root: Path) -> dict[str, str | None]:
    """Return the sha256 of each facts file that the protocol names; None for one that is missing or no such file."""
    worlds = {world.path: world.sha256 for world in protocol.facts.worlds}
    found: dict[str, str | None] = {}
    for path, wanted in {protocol.facts.path: protocol.facts.sha256, **worlds}.items():
        file = root / path
        try:
            inside = file.resolve().is_relative_to(root.resolve())
            # Opening a pipe would wait for its other end.
            plain = inside and file.is_file() and file.stat().st_size <= MAX_FACTS
            found[path] = _facts_digest(file.read_bytes(), wanted) if plain else None
        except (OSError, ValueError, RuntimeError):
            found[path] = None
    return found


def _facts_digest(raw: bytes, wanted: str) -> str:
    """Return the digest of a facts file; of its text with LF line ends where that is the wanted one."""
    found = hashlib.sha256(raw).hexdigest()
    if found != wanted and hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest() == wanted:
        return wanted  # a checkout with CRLF is no edit
    return found


def library_versions() -> dict[str, str]:
    """Return the installed version of each of `LIBRARIES`, without importing any; one that isn't is left out."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = public_version(version(name))
        except PackageNotFoundError:
            continue
    return found


def public_version(text: str) -> str:
    """Return a version without its local part: ``2.13.0+cpu`` is 2.13.0, built for another machine."""
    return text.partition("+")[0]


def differing(frozen: Mapping[str, str], present: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the names that differ, sorted: changed, missing, new, or None because they can't be read."""
    names = sorted({*frozen, *present})
    return tuple(n for n in names if n not in frozen or n not in present or frozen[n] != present[n])


def _digest_if_plain(file: Path, *, links: bool = False) -> str | None:
    try:
        return _text_digest(file, links=links)
    except RegistrationError:
        return None


def _text_digest(file: Path, *, links: bool = False) -> str:
    return hashlib.sha256(_text(file, links=links)).hexdigest()


def _text(file: Path, *, links: bool = False) -> bytes:
    # Installers may link the package's own files; a study's must lie where they are registered.
    try:
        status = file.stat() if links else file.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise RegistrationError(f"{file}: not a regular file; what it links to would not be registered")
        if status.st_size > MAX_SOURCE:
            raise RegistrationError(f"{file}: larger than {MAX_SOURCE:,} bytes, too large for a source file")
        return file.read_bytes().replace(b"\r\n", b"\n")
    except OSError as error:
        raise RegistrationError(f"{file}: can't be read: {error.strerror or error}") from error
