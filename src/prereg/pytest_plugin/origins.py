"""Where a function or a class comes from: a library's files, C, prereg, or somebody's own code."""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

__all__ = [
    "ROOT",
    "Namespaces",
    "functions_in",
    "is_genuine",
    "is_ours_or_library",
    "told_from",
]

ROOT = Path(__file__).parents[1]
"""The package's own folder."""

_MISSING = object()
_GENERATED = ("<frozen ", "<string>", "<__array_function__ internals>")


def functions_in(value: object) -> Iterator[FunctionType]:
    """Yield the Python functions that a name leads to, from the outermost wrapper inwards."""
    if isinstance(value, property):
        for accessor in (value.fget, value.fset, value.fdel):
            yield from functions_in(accessor)
        return
    for _ in range(8):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, functools.cached_property):
            value = value.func
        else:
            if isinstance(value, FunctionType):
                yield value
            held = getattr(value, "__dict__", None)
            inner = held.get("__wrapped__", _MISSING) if isinstance(held, Mapping) else _MISSING
            if inner is _MISSING or isinstance(value, type):
                return
            value = inner


class Namespaces:
    """Names of libraries, looked through once and again only where one of them was bound anew."""

    def __init__(self) -> None:
        # The values are kept, so that an id can't come to mean another object.
        self._seen: dict[str, tuple[list[int], list[object]]] = {}

    def foreign(self, modules: Collection[str]) -> Iterator[str]:
        """Find functions and classes under a library's names that come from no library."""
        for name in sorted(modules):
            module = sys.modules.get(name)
            if not isinstance(module, ModuleType):
                continue
            held = vars(module)
            values = list(held.values())
            now = list(map(id, values))
            if name in self._seen and self._seen[name][0] == now:
                continue
            self._seen[name] = (now, values)
            for attribute, value in list(held.items()):
                if not attribute.startswith("_") and not is_genuine(value):
                    yield f"{name}.{attribute} was replaced{told_from(value)}"


def is_genuine(value: object) -> bool:
    """Tell whether an object comes from a library, from C, or from prereg itself."""
    if isinstance(value, FunctionType):
        for function in functions_in(value):
            file = function.__code__.co_filename
            if file == "<string>" or not is_ours_or_library(file):
                return False
        return True
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, functools.partial):
        return is_genuine(value.func)
    return _is_genuine_module(str(kind.__module__))


@functools.cache
def _is_genuine_module(name: str) -> bool:
    if name.startswith(("unittest.mock", "mock.")):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or is_ours_or_library(file)


@functools.cache
def is_ours_or_library(file: str) -> bool:
    """Tell whether a source file is prereg's, lies where packages are installed, or is the interpreter's own."""
    return file.startswith(f"{ROOT}/") or _is_library(file)


@functools.cache
def _is_library(file: str) -> bool:
    return file.startswith(_GENERATED) or file.startswith(_library_folders())


@functools.cache
def _library_folders() -> tuple[str, ...]:
    """Return where the interpreter and its packages lie, and where numpy and pytest were found."""
    paths = sysconfig.get_paths()
    found = [Path(paths[k]) for k in ("stdlib", "platstdlib", "purelib", "platlib")]
    for name in ("numpy", "pytest", "pydantic", "pyarrow"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            found.append(Path(file).parents[1])
    return tuple(dict.fromkeys(f"{p}/" for folder in found for p in (folder, folder.resolve())))


def told_from(value: object) -> str:
    """Say where an object was defined, where that can be told."""
    function: Callable[..., Any] | None = next(functions_in(value), None)
    if function is None:
        return ""
    code = function.__code__
    return f" ({code.co_filename}:{code.co_firstlineno})"
