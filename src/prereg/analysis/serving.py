"""Modules made of sources that were read and digested before, whatever lies on the disk or in a cache of bytecode."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prereg.analysis.sources import Sources

__all__ = ["is_served", "serve"]


def serve(sources: Sources, *, again: bool = False) -> None:
    """Let imports of these packages be answered from their texts from now on.

    Modules of theirs that were imported from elsewhere are forgotten, and run anew when they are imported next.

    Parameters
    ----------
    sources
        What to serve; a text that belongs to no folder is somebody else's to run.
    again
        Forget also what came from these very texts.
    """
    for top, folder in sources.folders.items():
        texts = {
            path: text for path, text in sources.texts.items() if path.split("/")[0] in (top, f"{top}.py")
        }
        if again or _SERVED.get(top) != (folder, texts):
            for name in [name for name in sys.modules if name.split(".")[0] == top]:
                del sys.modules[name]
        _SERVED[top] = (folder, texts)
    if sources.folders and _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def is_served(module: ModuleType) -> bool:
    """Tell whether a module was made here."""
    return getattr(module.__spec__, "loader", None) is _FINDER


_SERVED: dict[str, tuple[Path, Mapping[str, bytes]]] = {}


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
        top = name.split(".")[0]
        if top not in _SERVED:
            return None
        folder, texts = _SERVED[top]
        place = name.replace(".", "/")
        for where in (f"{place}/__init__.py", f"{place}.py"):
            if where in texts:
                is_package = where.endswith("/__init__.py")
                origin = folder / where
                spec = importlib.machinery.ModuleSpec(name, self, origin=str(origin), is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [str(origin.parent)]
                return spec
        raise ModuleNotFoundError(f"{name} is no Python source of {top}, so nothing would pin it", name=name)

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's text."""
        spec = module.__spec__
        if spec is None or spec.origin is None:
            raise ImportError(f"{module.__name__} has no source", name=module.__name__)
        top = module.__name__.split(".")[0]
        folder, texts = _SERVED[top]
        text = texts[Path(spec.origin).relative_to(folder).as_posix()]
        exec(compile(text, spec.origin, "exec"), vars(module))  # noqa: S102 (what the study rests on)
        if module.__name__ == top:
            from cloudpickle import register_pickle_by_value

            # Worker processes would import what lies on the disk.
            register_pickle_by_value(module)


_FINDER = _FromTexts()
