"""What a module's file defines, read from its compiled code without running it."""

from __future__ import annotations

import opcode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType

from prereg.errors import StudyError

__all__ = ["Defined", "defined_by"]

_IMPORT_NAME, _IMPORT_FROM = opcode.opmap["IMPORT_NAME"], opcode.opmap["IMPORT_FROM"]
_STORE_NAME, _STORE_GLOBAL = opcode.opmap["STORE_NAME"], opcode.opmap["STORE_GLOBAL"]
_LOAD_CONST, _POP_TOP = opcode.opmap["LOAD_CONST"], opcode.opmap["POP_TOP"]
_EXTENDED_ARG = opcode.EXTENDED_ARG
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Defined:
    """One scope, a module's or a class body's.

    Parameters
    ----------
    functions
        Name -> the codes of its ``def`` statements; several for a property and its setter.
    classes
        Name -> the class body.
    imports
        Name -> (module, attribute); the attribute is None for a plain ``import``.
    constants
        Name -> the number or text that it is bound to, where it is bound once.
    names
        Every name that is bound at all.
    """

    functions: dict[str, list[CodeType]] = field(default_factory=dict)
    classes: dict[str, Defined] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)
    names: frozenset[str] = frozenset()


def defined_by(name: str, file: Path) -> Defined:
    """Return what the file of module `name` defines.

    Python's own cache of compiled files is used where it is up to date.

    Raises
    ------
    StudyError
        If the file can't be read or compiled.
    """
    try:
        code = SourceFileLoader(name, str(file)).get_code(name)
    except (OSError, SyntaxError, ValueError) as error:
        raise StudyError(f"{file}: prereg's own source can't be read: {error}") from error
    if code is None:  # pragma: no cover - a source loader always has code
        raise StudyError(f"{file}: prereg's own source can't be read")
    return _scope(code)


def _scope(code: CodeType) -> Defined:
    functions: dict[str, list[CodeType]] = {}
    classes: dict[str, Defined] = {}
    for inner in code.co_consts:
        if not isinstance(inner, CodeType) or inner.co_name.startswith("<"):
            continue
        if inner.co_flags & CO_NEWLOCALS:
            functions.setdefault(inner.co_name, []).append(inner)
        else:
            classes[inner.co_name] = _scope(inner)
    imports: dict[str, tuple[str, str | None]] = {}
    constants: dict[str, object] = {}
    bound: Counter[str] = Counter()
    for name, origin, constant in _bindings(code):
        bound[name] += 1
        if origin is not None:
            imports[name] = origin
        elif constant:
            constants[name] = constant[0]
    once = {name for name, times in bound.items() if times == 1}
    return Defined(
        functions,
        classes,
        {name: origin for name, origin in imports.items() if name in once},
        {name: value for name, value in constants.items() if name in once and isinstance(value, _SIMPLE)},
        frozenset(bound),
    )


def _bindings(code: CodeType) -> Iterator[tuple[str, tuple[str, str | None] | None, tuple[object, ...]]]:
    """Yield (name, where it is imported from, the constant it is bound to) for each binding of a scope."""
    module: str | None = None
    attribute: str | None = None
    renamed = False  # import a.b as c
    constant: tuple[object, ...] = ()
    for operation, argument in _operations(code.co_code):
        if operation == _IMPORT_NAME:
            module, attribute, renamed = code.co_names[argument], None, False
        elif operation == _IMPORT_FROM:
            attribute = code.co_names[argument]
        elif operation == _POP_TOP:
            renamed = attribute is not None
            module = module if renamed else None
        elif operation in (_STORE_NAME, _STORE_GLOBAL):
            yield code.co_names[argument], None if module is None else (module, attribute), constant
            if attribute is None or renamed:
                module = None
            attribute = None
        if operation != 0:  # not one of the interpreter's own caches
            constant = (code.co_consts[argument],) if operation == _LOAD_CONST else ()


def _operations(code: bytes) -> Iterator[tuple[int, int]]:
    extended = 0
    for at in range(0, len(code), 2):
        operation, argument = code[at], code[at + 1] | extended
        if operation == _EXTENDED_ARG:
            extended = argument << 8
            continue
        extended = 0
        yield operation, argument
