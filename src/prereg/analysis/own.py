"""Analyses that somebody else wrote: a file beside a study's gates, or a package that names one.

``[analyses.logit_lens]`` of a protocol is looked for in this order, and may be found in one place only:

1. among the analyses of this package (`prereg.analysis.catalogue`);
2. as ``logit_lens.py`` beside protocol.toml: one file, loaded by its path;
3. as an entry point ``logit_lens`` in the group ``prereg.analyses`` of an installed package, whose value is a module.

What an analysis takes is read from its source; nothing is run before it measures:

- ``measure(activations, settings, workers, *, ...)``, with any of ``model``, ``dictionaries`` and ``twin`` by keyword;
- the settings' annotation names a subclass of `prereg.analysis.settings.Settings` in the same module;
- ``fit_names(settings)``, where there is one, names the fits that will be measured, so that a claim about another is
  refused before anything is; it may take ``twin`` as well.

What it rests on is one digest, which is a part of each measurement's key and of a registration: an edited analysis is
measured again, and shows. It covers the analysis' own source; that of every module of a package that isn't plainly
installed, or that the analysis comes from; the source of what those import in turn; and of plainly installed
distributions the record of their files. What was digested is what runs: modules are compiled from the bytes that were
read, whatever lies there later or in a cache of bytecode. See `prereg.analysis.sources`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from prereg.analysis.catalogue import ANALYSES, AnalysisSpec
from prereg.analysis.serving import served
from prereg.analysis.signature import GROUP, read_signature, refuse_readers, refuse_siblings
from prereg.analysis.sources import Sources, read_source, sources_of_file, sources_of_package
from prereg.errors import StudyError

__all__ = ["GROUP", "OwnAnalysis", "find_analysis", "installed_analyses", "require_name"]


@dataclass(frozen=True, slots=True)
class OwnAnalysis(AnalysisSpec):
    """An analysis that isn't of this package.

    Parameters
    ----------
    file
        The source that has `measure`.
    sources
        All that it rests on, as it was read once.
    is_beside
        Whether it lies beside a protocol.
    """

    file: Path = field(kw_only=True)
    sources: Sources = field(kw_only=True, repr=False)
    is_beside: bool = field(kw_only=True)

    def load(self, *, again: bool = False) -> ModuleType:
        """Return its module, run now if it wasn't yet; what runs is what was digested.

        Parameters
        ----------
        again
            Run it anew, beside what runs already; what it imports too, once `forget` was called.

        Raises
        ------
        Exception
            Whatever its own top level raises.
        """
        with served(self.sources):
            return self._loaded(again)

    def _loaded(self, again: bool) -> ModuleType:
        if not self.is_beside:
            return importlib.import_module(self.module)
        name = f"{self.module}_again" if again else self.module
        if again or name not in sys.modules:
            module = ModuleType(name)
            module.__file__ = str(self.file)
            # pydantic and cloudpickle look a class' module up by its name.
            sys.modules[name] = module
            try:
                text = self.sources.texts[self.file.name]
                code = compile(text, str(self.file), "exec", dont_inherit=True)
                exec(code, vars(module))  # noqa: S102 (the study's own code)
                _send_by_value(module)
            except BaseException:
                del sys.modules[name]
                raise
        return sys.modules[name]


def find_analysis(name: str, folder: Path) -> AnalysisSpec:
    """Return what a protocol means by an analysis' name; nothing of it is run.

    Parameters
    ----------
    name
        As in ``[analyses.<name>]``.
    folder
        The study's.

    Raises
    ------
    StudyError
        If nobody provides it, two do, or its source isn't an analysis.
    """
    beside = folder / f"{name}.py"
    is_beside = beside.is_symlink() or beside.exists()
    installed = () if name in ANALYSES else tuple(entry_points(group=GROUP, name=name))
    found = [f"{name} of prereg"] if name in ANALYSES else []
    found += [str(beside)] if is_beside else []
    found += [f"{point.value} of {_distribution(point)}" for point in installed]
    if len(found) > 1:
        raise StudyError(
            f"[analyses.{name}] could be any of {', '.join(found)}",
            remedy="give one of them another name" + (f": git mv {beside} ..." if is_beside else ""),
        )
    if not found:
        others = sorted({*ANALYSES, *installed_analyses()})
        raise StudyError(
            f"no analysis is called {name!r}; there are {', '.join(others)}",
            remedy=f"name one of these, write {beside}, or install the package that provides it",
        )
    if name in ANALYSES:
        return ANALYSES[name]
    return _beside(name, beside) if is_beside else _installed(name, installed[0])


def installed_analyses() -> dict[str, str]:
    """Return the names of installed packages' analyses, each with the distribution that provides it; sorted."""
    return {
        point.name: _distribution(point) for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)
    }


def require_name(name: str, file: Path) -> None:
    """Refuse a name that a file beside the gates can't have.

    Raises
    ------
    StudyError
        If pytest would take it for tests, or Python, which finds gates' folders first there, for a module of its own.
    """
    if name == "conftest" or name.startswith("test_") or name.endswith("_test"):
        reason = "pytest would take it for tests"
    elif name in sys.stdlib_module_names or name in ("prereg", "numpy", "scipy", "torch"):
        reason = f"whoever imports {name} would get it in place of the module"
    else:
        return
    raise StudyError(f"{file} can't be an analysis: {reason}", remedy="give the analysis another name")


def _beside(name: str, file: Path) -> OwnAnalysis:
    require_name(name, file)
    if file.is_symlink() or not file.is_file():
        raise StudyError(
            f"{file} is no regular file; what it leads to would not be registered",
            remedy="put the source itself there",
        )
    source = read_source(file)
    refuse_siblings(source, file)
    # Its content is a part of its name: two studies in one process may each have an analysis called the same.
    safe = "".join(c if c.isalnum() else "_" for c in name)
    module = f"prereg_analysis_{safe}_{hashlib.sha256(source).hexdigest()[:16]}"
    return _analysis(file, module, file.name, sources_of_file(file.name, source), is_beside=True)


def _installed(name: str, point: EntryPoint) -> OwnAnalysis:
    remedy = (
        f'write {name} = "package.module" under [project.entry-points."{GROUP}"] of {_distribution(point)}'
    )
    if point.attr or not all(part.isidentifier() for part in point.module.split(".")):
        raise StudyError(f"the entry point {name} = {point.value!r} doesn't name a module", remedy=remedy)
    top = point.module.split(".")[0]
    sources = sources_of_package(top)
    path = point.module.replace(".", "/")
    where = next((w for w in (f"{path}/__init__.py", f"{path}.py") if w in sources.texts), None)
    if where is None:
        raise StudyError(
            f"there is no module {point.module}, which the entry point {name} names", remedy=remedy
        )
    return _analysis(sources.folders[top] / where, point.module, where, sources, is_beside=False)


def _analysis(file: Path, module: str, where: str, sources: Sources, *, is_beside: bool) -> OwnAnalysis:
    refuse_readers(sources.texts)
    found = read_signature(sources.texts[where], file)
    content = [where, found.settings, sorted(found.keywords), sources.digests]
    return OwnAnalysis(
        module,
        found.settings,
        lean_twin="twin" in found.keywords,
        uses_dictionaries="dictionaries" in found.keywords,
        uses_model="model" in found.keywords,
        every_update=False,
        every_prompt=False,
        digest=_digest_of(content),
        file=file,
        sources=sources,
        is_beside=is_beside,
    )


def _digest_of(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _distribution(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else point.dist.name


def _send_by_value(module: ModuleType) -> None:
    """Let worker processes get its functions themselves: they can't import them by name."""
    from cloudpickle import register_pickle_by_value

    register_pickle_by_value(module)
