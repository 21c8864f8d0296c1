"""Modules made of sources that were read and digested before, whatever lies on the disk or in a cache of bytecode."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prereg.analysis.sources import Sources

__all__ = ["forget", "is_served", "served"]


@contextlib.contextmanager
def served(sources: Sources) -> Iterator[None]:
    """Answer imports of these packages from their texts, and give the process its own modules back afterwards.

    What was imported from the same texts before is there again.
    """
    kept = [_kept(top, folder, sources) for top, folder in sources.folders.items()]
    known, outer = [package for package in kept if _ACTIVE.get(package.top) is not package], dict(_ACTIVE)
    if not known:
        yield
        return
    tops = {package.top for package in known}
    others = _taken(tops)
    _ACTIVE.update({package.top: package for package in known})
    for package in known:
        sys.modules.update(package.modules)
    sys.meta_path.insert(0, _FINDER)
    try:
        yield
    finally:
        sys.meta_path.remove(_FINDER)
        ours = _taken(tops)
        for package in known:
            package.modules = {name: m for name, m in ours.items() if name.split(".")[0] == package.top}
        _ACTIVE.clear()
        _ACTIVE.update(outer)
        sys.modules.update(others)


def is_served(module: ModuleType) -> bool:
    """Tell whether a module was made here."""
    return getattr(module.__spec__, "loader", None) is _FINDER


def forget(sources: Sources) -> None:
    """Let what comes from these texts be run anew when it is imported next."""
    for top in sources.folders:
        _KEPT.pop(top, None)


@dataclass(eq=False)
class _Package:
    """A package's texts, and its modules while it isn't in use."""

    top: str
    folder: Path
    texts: Mapping[str, bytes]
    modules: dict[str, ModuleType] = field(default_factory=dict)


_KEPT: dict[str, _Package] = {}
_ACTIVE: dict[str, _Package] = {}


def _kept(top: str, folder: Path, sources: Sources) -> _Package:
    texts = {path: text for path, text in sources.texts.items() if path.split("/")[0] in (top, f"{top}.py")}
    found = _KEPT.get(top)
    if found is None or (found.folder, found.texts) != (folder, texts):
        found = _KEPT[top] = _Package(top, folder, texts)
    return found


def _taken(tops: set[str]) -> dict[str, ModuleType]:
    """Take the modules of some packages out of those that are imported."""
    names = [name for name in sys.modules if name.split(".")[0] in tops]
    return {name: sys.modules.pop(name) for name in names}


class _FromTexts(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads what is served."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a module's spec; None where its package isn't served.

        Raises
        ------
        ModuleNotFoundError
            If the package has no such source: a compiled module, say, which no digest covers.
        """
        del path, target
        package = _ACTIVE.get(name.split(".")[0])
        if package is None:
            return None
        place = name.replace(".", "/")
        for where in (f"{place}/__init__.py", f"{place}.py"):
            if where in package.texts:
                is_package = where.endswith("/__init__.py")
                origin = package.folder / where
                spec = importlib.machinery.ModuleSpec(name, self, origin=str(origin), is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [str(origin.parent)]
                return spec
        raise ModuleNotFoundError(
            f"{name} is no Python source of {package.top}, so nothing would pin it", name=name
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's text."""
        spec, package = module.__spec__, _ACTIVE[module.__name__.split(".")[0]]
        if spec is None or spec.origin is None:
            raise ImportError(f"{module.__name__} has no source", name=module.__name__)
        text = package.texts[Path(spec.origin).relative_to(package.folder).as_posix()]
        code = compile(text, spec.origin, "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 (what the study rests on)
        if module.__name__ == package.top:
            from cloudpickle import register_pickle_by_value

            # Worker processes would import what lies on the disk.
            register_pickle_by_value(module)


_FINDER = _FromTexts()
