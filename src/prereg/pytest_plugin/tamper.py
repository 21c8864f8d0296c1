"""Whether prereg, as it is loaded, still is what its files say.

A gate, a fixture or a conftest can put another function in the place of ours, and a verdict that went through it means
nothing. So the loaded modules are compared with what their files define, and afterwards with themselves.

Compared with the files, once for each module: every function's code and globals, every class with its methods, every
imported name, every constant that is a plain number or text, names that were added. Compared with themselves, at each
verdict: that the same objects still lie under the same names, with the same code and defaults. Of numpy, scipy, pyarrow
and whatever else our modules import, the public functions and classes must come from a library's files, or from C.

Not seen: what is written with a debugger's means (frames, memory), mutable module constants, defaults that were
replaced before the first look, a library that was edited where it is installed, a pytest that was patched in itself.
An answer that was bent so is found at the session's end, when each is made again by a study that is opened afresh,
unless it was bent there as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from prereg.errors import PreregError
from prereg.pytest_plugin.defined import Defined, defined_by
from prereg.pytest_plugin.origins import (
    ROOT,
    Namespaces,
    functions_in,
    is_genuine,
    is_ours_or_library,
    told_from,
)

__all__ = ["Integrity"]

_MISSING = object()
_STARTED = time.time()
_NAMESPACES = ("numpy.linalg", "numpy.random", "numpy.fft")
_SHOWN = 3


class Integrity:
    """What the loaded modules of prereg held when they were first compared with their files."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        self._held: list[tuple[str, Mapping[str, Any], str, object]] = []
        self._functions: list[tuple[str, FunctionType, CodeType, object, object]] = []
        self._bodies: list[tuple[str, Mapping[str, Any], frozenset[str]]] = []
        self._members: list[tuple[str, Enum, object]] = []
        self._sizes: dict[str, int] = {}
        self._imported: set[str] = set()
        self._libraries = Namespaces()
        self._faults: list[str] = []
        self._looked = False

    def faults(self, *, libraries: bool = False) -> tuple[str, ...]:
        """Return what differs, in words; empty where nothing does. What was once found stays found.

        Parameters
        ----------
        libraries
            Whether to look through the libraries' names as well, as the first call does.
        """
        found = [*self._libraries.foreign({"builtins"}), *self._changed(), *self._new()]
        if libraries or not self._looked:
            found += self._libraries.foreign({*self._imported, *_NAMESPACES})
        self._looked = True
        self._faults = list(dict.fromkeys([*self._faults, *found]))
        return tuple(self._faults)

    def explain(self) -> str | None:
        """Return the faults so far as one text; None where there are none."""
        if not self._faults:
            return None
        more = len(self._faults) - _SHOWN
        shown = "; ".join(self._faults[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        return f"prereg was altered in memory, so no answer can be trusted: {shown}"

    # -- against the files ----------------------------------------------------------------------------

    def _new(self) -> Iterator[str]:
        for name, module in sorted(sys.modules.items()):
            if name.split(".", 1)[0] != "prereg":
                continue
            known = self._modules.get(name)
            if known is None:
                self._modules[name] = module
                self._sizes[name] = len(vars(module))
                yield from self._module(name, module)
            elif known is not module:
                yield f"module {name} was replaced"
            elif len(vars(module)) != self._sizes[name]:
                yield from self._added(name, module)

    def _module(self, name: str, module: ModuleType) -> Iterator[str]:
        file = _file_of(name)
        if type(module) is not ModuleType or file is None or getattr(module, "__file__", None) is None:
            yield f"module {name} is not one of prereg's"
            return
        if not Path(str(module.__file__)).samefile(file):
            yield f"module {name} was loaded from {module.__file__}"
            return
        try:
            defined = defined_by(name, file)
        except PreregError as error:
            yield str(error)
            return
        if file.stat().st_mtime > _STARTED:
            yield f"{file} was edited after the session began: what runs is not what it says"
            return
        held = vars(module)
        for function, codes in defined.functions.items():
            yield from self._function(f"{name}.{function}", held, function, codes, held)
        for class_, body in defined.classes.items():
            value = held.get(class_, _MISSING)
            if value is not _MISSING:
                self._hold(name, held, class_)
                yield from self._class(f"{name}.{class_}", value, body, held)
        for alias, (origin, attribute) in defined.imports.items():
            yield from self._import(name, held, alias, origin, attribute)
        for constant, wanted in defined.constants.items():
            value = held.get(constant, _MISSING)
            self._hold(name, held, constant)
            if value is not _MISSING and (type(value) is not type(wanted) or value != wanted):
                yield f"{name}.{constant} is {value!r}, its file says {wanted!r}"
        yield from self._added(name, module, defined)

    def _added(self, name: str, module: ModuleType, defined: Defined | None = None) -> Iterator[str]:
        """Find names that the file doesn't bind: one of them may hide a builtin."""
        if defined is None:
            file = _file_of(name)
            defined = Defined() if file is None else defined_by(name, file)
        self._sizes[name] = len(vars(module))
        for added in vars(module).keys() - defined.names:
            value = vars(module)[added]
            is_submodule = type(value) is ModuleType and value.__name__ == f"{name}.{added}"
            if not is_submodule and not added.startswith(("__", "@")):
                yield f"{name}.{added} was added"

    def _function(
        self, where: str, held: Mapping[str, Any], name: str, codes: list[CodeType], scope: Mapping[str, Any]
    ) -> Iterator[str]:
        value = held.get(name, _MISSING)
        if value is _MISSING:
            return
        self._hold(where.rpartition(".")[0], held, name)
        for function in functions_in(value):
            if any(_same(function.__code__, code) for code in codes) and function.__globals__ is scope:
                self._keep(where, function)
                return
            if not is_ours_or_library(function.__code__.co_filename):
                break
        yield f"{where} is not what its file defines{told_from(value)}"

    def _class(self, where: str, value: object, body: Defined, scope: Mapping[str, Any]) -> Iterator[str]:
        if not isinstance(value, type) or value.__module__ != scope["__name__"]:
            yield f"{where} is not the class that its file defines{told_from(value)}"
            return
        held = vars(value)
        for name, codes in body.functions.items():
            yield from self._function(f"{where}.{name}", held, name, codes, scope)
        for name, inner in body.classes.items():
            if name in held:
                yield from self._class(f"{where}.{name}", held[name], inner, scope)
        if issubclass(value, Enum):
            members = [
                (f"{where}.{n}", value.__members__[n], v)
                for n, v in body.constants.items()
                if n in value.__members__
            ]
            self._members += members
            yield from _misnamed(members)
        self._bodies.append((where, held, frozenset(body.functions)))
        for name in held:
            if not name.startswith(("__pydantic", "__annot", "__abstract", "__signature")):
                self._hold(where, held, name)
        yield from self._extras(where, held, frozenset(body.functions))

    def _extras(self, where: str, held: Mapping[str, Any], own: frozenset[str]) -> Iterator[str]:
        """Find attributes of a class that neither its body nor a library's decorator put there."""
        self._sizes[where] = len(held)
        slots = held.get("__slots__", ())
        for name, attribute in held.items():
            if name in own:
                continue
            if name in slots and not isinstance(attribute, MemberDescriptorType):
                yield f"{where}.{name} was replaced{told_from(attribute)}"
            for function in functions_in(attribute):
                if not is_ours_or_library(function.__code__.co_filename):
                    yield f"{where}.{name} was added{told_from(function)}"

    def _import(
        self, name: str, held: Mapping[str, Any], alias: str, origin: str, attribute: str | None
    ) -> Iterator[str]:
        value = held.get(alias, _MISSING)
        if value is _MISSING or origin == "__future__":
            return
        self._hold(name, held, alias)
        if not origin.startswith("prereg"):
            self._imported.update((origin, origin.split(".", 1)[0]))
        wanted = _wanted(origin, attribute)
        if (wanted and not any(value is one for one in wanted)) or not is_genuine(value):
            yield f"{name}.{alias} is not what it imports from {origin}{told_from(value)}"

    # -- against themselves -----------------------------------------------------------------------------

    def _hold(self, where: str, held: Mapping[str, Any], name: str) -> None:
        self._held.append((where, held, name, held.get(name, _MISSING)))

    def _keep(self, where: str, function: FunctionType) -> None:
        self._functions.append((where, function, function.__code__, *_defaults(function)))

    def _changed(self) -> Iterator[str]:
        for where, held, name, value in self._held:
            if held.get(name, _MISSING) is not value:
                yield f"{where}.{name} was replaced{told_from(held.get(name))}"
        for where, held, own in self._bodies:
            if len(held) != self._sizes[where]:
                yield from self._extras(where, held, own)
        yield from _misnamed(self._members)
        for where, function, code, *defaults in self._functions:
            if function.__code__ is not code or list(_defaults(function)) != defaults:
                yield f"{where} was changed{told_from(function)}"


def _misnamed(members: list[tuple[str, Enum, object]]) -> Iterator[str]:
    """Find members of an enumeration whose value is not the one in its file."""
    for where, member, wanted in members:
        if member._value_ != wanted:
            yield f"{where} is {member._value_!r}, its file says {wanted!r}"


def _defaults(function: FunctionType) -> tuple[object, object]:
    """Return identities of a function's defaults: comparing the values could run somebody's code."""
    keywords = function.__kwdefaults__
    if not (keywords or function.__defaults__):
        return ((), ())
    return (
        tuple(map(id, function.__defaults__ or ())),
        tuple((name, id(value)) for name, value in (keywords or {}).items()),
    )


def _file_of(name: str) -> Path | None:
    base = ROOT.joinpath(*name.split(".")[1:])
    return next((f for f in (base / "__init__.py", base.with_suffix(".py")) if f.is_file()), None)


def _same(one: CodeType, other: CodeType) -> bool:
    """Tell whether two codes do the same; not by `==`, which looks at the interpreter's caches in some versions."""
    return (
        one.co_code == other.co_code
        and one.co_names == other.co_names
        and one.co_varnames == other.co_varnames
        and one.co_freevars == other.co_freevars
        and one.co_cellvars == other.co_cellvars
        and one.co_flags == other.co_flags
        and (one.co_argcount, one.co_posonlyargcount, one.co_kwonlyargcount)
        == (other.co_argcount, other.co_posonlyargcount, other.co_kwonlyargcount)
        and len(one.co_consts) == len(other.co_consts)
        and all(_same_constant(a, b) for a, b in zip(one.co_consts, other.co_consts, strict=True))
    )


def _same_constant(one: object, other: object) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, CodeType) and isinstance(other, CodeType):
        return _same(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_same_constant(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, frozenset) and isinstance(
        other, frozenset
    ):  # two equal sets may list their members differently
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return repr(one) == repr(other)  # not ==, for which 0.0 is -0.0 and nan is not nan


def _wanted(origin: str, attribute: str | None) -> list[object]:
    """Return the objects that an import may have bound; none where that can't be told any more."""
    module = sys.modules.get(origin)
    if attribute is None:
        return [m for m in (sys.modules.get(origin.split(".", 1)[0]), module) if m is not None]
    found = [] if module is None else [vars(module).get(attribute, _MISSING)]
    found.append(sys.modules.get(f"{origin}.{attribute}", _MISSING))
    if origin.endswith(f".{attribute}"):
        found.append(module if module is not None else _MISSING)
    return [one for one in found if one is not _MISSING]
