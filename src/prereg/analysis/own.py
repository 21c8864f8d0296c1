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

The digest of the source is a part of each measurement's key: an edited analysis is measured again, and a registration
pins it. Of a package every module counts, whichever it imports.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from prereg.analysis.catalogue import ANALYSES, AnalysisSpec
from prereg.analysis.signature import GROUP, read_signature, refuse_siblings
from prereg.errors import StudyError
from prereg.hostile import read_bounded

__all__ = [
    "GROUP",
    "OwnAnalysis",
    "find_analysis",
    "installed_analyses",
    "looks_like_tests",
    "package_digests",
]

MAX_SOURCE = 5_000_000
MAX_FILES = 2_000


@dataclass(frozen=True, slots=True)
class OwnAnalysis(AnalysisSpec):
    """An analysis that isn't of this package.

    Parameters
    ----------
    file
        The source that has `measure`.
    texts
        What it rests on, as it was read once: ``<name>.py`` beside a protocol, or each module of its package.
    is_beside
        Whether it lies beside a protocol.
    """

    file: Path = field(kw_only=True)
    texts: Mapping[str, bytes] = field(kw_only=True, repr=False)
    is_beside: bool = field(kw_only=True)

    @property
    def digests(self) -> Mapping[str, str]:
        """The sha256 of each of `texts`, with LF line ends."""
        return {name: _digest(text) for name, text in self.texts.items()}

    def load(self) -> ModuleType:
        """Return its module, run now if it wasn't yet; of a file beside a protocol, the bytes that were read run.

        Raises
        ------
        Exception
            Whatever its own top level raises.
        """
        if not self.is_beside:
            return importlib.import_module(self.module)
        if self.module not in sys.modules:
            module = ModuleType(self.module)
            module.__file__ = str(self.file)
            # pydantic and cloudpickle look a class' module up by its name.
            sys.modules[self.module] = module
            try:
                exec(compile(self.texts[self.file.name], str(self.file), "exec"), vars(module))  # noqa: S102 (the study's own code)
                _send_by_value(module)
            except BaseException:
                del sys.modules[self.module]
                raise
        return sys.modules[self.module]


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


def looks_like_tests(name: str) -> bool:
    """Tell whether pytest would take ``<name>.py`` for tests or their configuration."""
    return name == "conftest" or name.startswith("test_") or name.endswith("_test")


def package_digests(top: str) -> dict[str, str]:
    """Return the sha256 of each Python file of an installed top-level package or module; none where it is gone.

    Parameters
    ----------
    top
        Its name.

    Returns
    -------
    dict
        Path, the package's name first, to digest.

    Raises
    ------
    StudyError
        If it is no plain folder, has too many files, or one can't be read.
    """
    return {name: _digest(text) for name, text in _texts_of(top).items()}


def _beside(name: str, file: Path) -> OwnAnalysis:
    if looks_like_tests(name):
        raise StudyError(
            f"{file}: pytest would take an analysis of this name for tests",
            remedy="give the analysis another name",
        )
    if file.is_symlink() or not file.is_file():
        raise StudyError(
            f"{file} is no regular file; what it leads to would not be registered",
            remedy="put the source itself there",
        )
    source = _read(file)
    refuse_siblings(source, file)
    safe = "".join(c if c.isalnum() else "_" for c in name)
    # Its content is a part of its name: two studies in one process may each have an analysis called the same.
    module = f"prereg_analysis_{safe}_{_digest(source)[:16]}"
    return _analysis(file, module, file.name, {file.name: source}, is_beside=True)


def _installed(name: str, point: EntryPoint) -> OwnAnalysis:
    remedy = (
        f'write {name} = "package.module" under [project.entry-points."{GROUP}"] of {_distribution(point)}'
    )
    if point.attr or not all(part.isidentifier() for part in point.module.split(".")):
        raise StudyError(f"the entry point {name} = {point.value!r} doesn't name a module", remedy=remedy)
    top = point.module.split(".")[0]
    base, _ = _files_of(top)
    texts = _texts_of(top)
    path = point.module.replace(".", "/")
    where = next((w for w in (f"{path}/__init__.py", f"{path}.py") if w in texts), None)
    if where is None:
        raise StudyError(
            f"there is no module {point.module}, which the entry point {name} names", remedy=remedy
        )
    return _analysis(base / where, point.module, where, texts, is_beside=False)


def _analysis(
    file: Path, module: str, where: str, texts: Mapping[str, bytes], *, is_beside: bool
) -> OwnAnalysis:
    found = read_signature(texts[where], file)
    return OwnAnalysis(
        module,
        found.settings,
        lean_twin="twin" in found.keywords,
        uses_dictionaries="dictionaries" in found.keywords,
        uses_model="model" in found.keywords,
        every_update=False,
        every_prompt=False,
        file=file,
        texts=texts,
        is_beside=is_beside,
    )


def _texts_of(top: str) -> dict[str, bytes]:
    base, files = _files_of(top)
    return {file.relative_to(base).as_posix(): _read(file) for file in sorted(files)}


def _files_of(top: str) -> tuple[Path, frozenset[Path]]:
    """Return the folder that a top-level package or module lies in, and all its Python files; nothing is imported."""
    try:
        spec = importlib.util.find_spec(top) if top.isidentifier() and top != "prereg" else None
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return Path(), frozenset()
    if spec.submodule_search_locations is None:
        file = Path(spec.origin or "")
        return file.parent, frozenset({file} if file.suffix == ".py" and file.is_file() else ())
    folders = [Path(place) for place in spec.submodule_search_locations]
    if len(folders) != 1:
        raise StudyError(f"the package {top} is spread over {len(folders)} folders: it can't be pinned")
    files = frozenset(file for file in folders[0].rglob("*.py") if file.is_file())
    if len(files) > MAX_FILES:
        raise StudyError(f"the package {top} has more than {MAX_FILES:,} modules: too many to pin")
    return folders[0].parent, files


def _read(file: Path) -> bytes:
    try:
        return read_bounded(file, MAX_SOURCE, links=True)
    except (OSError, ValueError) as error:
        raise StudyError(f"{file} can't be read: {getattr(error, 'strerror', None) or error}") from error


def _digest(source: bytes) -> str:
    return hashlib.sha256(source.replace(b"\r\n", b"\n")).hexdigest()


def _distribution(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else point.dist.name


def _send_by_value(module: ModuleType) -> None:
    """Let worker processes get its functions themselves: they can't import them by name."""
    from cloudpickle import register_pickle_by_value

    register_pickle_by_value(module)
