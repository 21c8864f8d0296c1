"""Which of the package's own modules a piece of code reaches, read from source: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from prereg.errors import RegistrationError

__all__ = ["PACKAGE", "imported_modules", "module_file", "reached_modules"]

PACKAGE = Path(__file__).parents[1]
"""The folder of the package `prereg`."""

OUTSIDE = ("errors", "hostile", "workers", "console", "registration", "audit", "report", "cli")
"""Parts that show, spread or verify, and decide nothing: a registration doesn't pin its own verifier."""


_TYPES_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def reached_modules(roots: Iterable[str]) -> tuple[str, ...]:
    """Return the modules of `prereg` that `roots` reach by import, themselves included, sorted.

    Imports inside functions count; those only for type checkers don't. Of a module's packages each
    ``__init__`` is reached as well. Parts that can't move a verdict (`OUTSIDE`) are left out, and so is what
    only they reach.

    Raises
    ------
    RegistrationError
        If a root is no module of the package.
    """
    queue, found = list(roots), set[str]()
    for root in queue:
        if module_file(root) is None:
            raise RegistrationError(f"there is no module {root}")
    while queue:
        name = queue.pop()
        if name in found or _is_outside(name) or module_file(name) is None:
            continue
        found.add(name)
        queue += [".".join(name.split(".")[:i]) for i in range(1, name.count(".") + 1)]
        queue += _imports(name)
    return tuple(sorted(found))


def module_file(name: str) -> Path | None:
    """Return the source file of a module of this package, or None."""
    parts = name.split(".")
    if parts[0] != "prereg":
        return None
    base = PACKAGE.joinpath(*parts[1:])
    for file in (base / "__init__.py", base.with_suffix(".py")):
        if file.is_file():
            return file
    return None


def imported_modules(source: bytes) -> tuple[str, ...]:
    """Return the modules of `prereg` that a piece of code names in its imports, sorted.

    Raises
    ------
    SyntaxError
        If it is not Python.
    """
    names = {target for node in _runtime(ast.parse(source)) for target in _targets(node)}
    return tuple(sorted(name for name in names if module_file(name) is not None))


def _is_outside(name: str) -> bool:
    return name.split(".")[1:2] != [] and name.split(".")[1] in OUTSIDE


@cache
def _imports(name: str) -> tuple[str, ...]:
    file = module_file(name)
    if file is None:
        return ()
    tree = ast.parse(file.read_bytes(), str(file))
    return tuple(target for node in _runtime(tree) for target in _targets(node))


def _runtime(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree, leaving out what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in _TYPES_ONLY:
            for other in child.orelse:
                yield other
                yield from _runtime(other)
            continue
        yield child
        yield from _runtime(child)


def _targets(node: ast.AST) -> Iterator[str]:
    # The house has no relative imports, so a name is absolute.
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
