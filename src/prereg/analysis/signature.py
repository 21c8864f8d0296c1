"""What an analysis of one's own takes, read from its source; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prereg.errors import StudyError

__all__ = ["GROUP", "Signature", "imported_modules", "read_signature", "refuse_readers", "refuse_siblings"]

GROUP = "prereg.analyses"
"""The group of entry points by which packages provide analyses."""

TAKEN = ("model", "dictionaries", "twin")
"""What `measure` may take by keyword."""

READERS = (
    "ctypes",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.feather",
    "pyarrow.fs",
    "pyarrow.orc",
    "pyarrow.parquet",
    "safetensors",
    "socket",
    "sqlite3",
    "subprocess",
    "urllib.request",
)
"""Modules whose reads Python doesn't tell of, or which bring in other programs and machines."""

_SHAPE = (
    "write: def measure(activations: Activations, settings: MySettings, workers: Workers) -> Evidence, "
    f"with any of {', '.join(TAKEN)} after a star"
)


@dataclass(frozen=True, slots=True)
class Signature:
    """What `measure` takes: the name of its settings model, and by keyword any of `TAKEN`."""

    settings: str
    keywords: frozenset[str]


def read_signature(source: bytes, file: Path) -> Signature:
    """Return what the function `measure` of a file takes.

    Raises
    ------
    StudyError
        If the source is no Python, or no analysis; the remedy says how it should read.
    """
    try:
        tree = ast.parse(source, str(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise StudyError(f"{file}: not Python: {error}", remedy=f"mend {file}") from error
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "measure"]
    if len(functions) != 1:
        raise StudyError(
            f"{file}: {len(functions)} functions are called measure at its top level; one is wanted",
            remedy=_SHAPE,
        )
    arguments, line = functions[0].args, functions[0].lineno
    positional = [*arguments.posonlyargs, *arguments.args]
    asked = {argument.arg for argument in arguments.kwonlyargs}
    if len(positional) != 3 or arguments.vararg or arguments.kwarg or not asked <= set(TAKEN):
        raise StudyError(f"{file}:{line}: measure takes ({ast.unparse(arguments)})", remedy=_SHAPE)
    annotation = positional[1].annotation
    named = annotation.id if isinstance(annotation, ast.Name) else None
    if named is None or named not in _bound(tree):
        raise StudyError(
            f"{file}:{line}: the settings' annotation names no class of this file", remedy=_SHAPE
        )
    return Signature(named, frozenset(asked))


def _bound(tree: ast.Module) -> frozenset[str]:
    """Return the names of classes that a module defines, and what it imports from others."""
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return frozenset(classes | imported)


def refuse_siblings(source: bytes, file: Path) -> None:
    """Refuse to import what lies beside the file: pytest would find it there, and the commands would not.

    Raises
    ------
    StudyError
        Names what it imports, and the line.
    """
    beside = {path.stem for path in file.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    for name, line in _imports(source):
        if name.startswith(".") or name.split(".")[0] in beside:
            raise StudyError(
                f"{file}:{line}: it imports {name}, which lies beside it, where only pytest would find it",
                remedy=f"put all of it into this file, or into a package with an entry point in {GROUP}",
            )


def refuse_readers(texts: Mapping[str, bytes]) -> None:
    """Refuse modules that read files or start programs where nobody would see it.

    Raises
    ------
    StudyError
        Names the module, and where it is imported.
    """
    for path, text in texts.items():
        for name, line in _imports(text):
            if any(name == reader or name.startswith(f"{reader}.") for reader in READERS):
                raise StudyError(
                    f"{path}:{line}: it imports {name}, which could bring in what nothing pins",
                    remedy="let its numbers depend on its arguments: write values into the protocol",
                )


def imported_modules(source: bytes) -> frozenset[str]:
    """Return the modules that a text imports by their whole name; none where it isn't Python."""
    return frozenset(name for name, _ in _imports(source) if not name.startswith("."))


def _imports(source: bytes) -> Iterator[tuple[str, int]]:
    """Yield the modules that are imported anywhere in a text, and on which line; relative ones as their dots."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level or node.module or ""
            yield module, node.lineno
            if not node.level:
                yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)
