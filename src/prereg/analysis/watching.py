"""Somebody's own analysis at work: what it prints, reads, imports and raises.

It may depend on its arguments and on what is pinned, and on nothing else. What can be seen of that is refused: files
that Python opens in the project, modules that are imported from where nothing is installed. What it opens elsewhere or
through a library's own code, the clock or the network can't be seen; a registration shows its source, and a reader
must look.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from prereg.analysis.catalogue import AnalysisSpec
from prereg.analysis.own import OwnAnalysis
from prereg.analysis.serving import is_served, served
from prereg.analysis.sources import is_installed
from prereg.errors import AnalysisError, EvidenceError, PreregError

__all__ = ["Watch"]

CACHED = ("checkpoints", "dictionaries", "hashes", "locks", "models", "stores", "wheels")
"""Folders of a cache that may be read: all of it might hold the project."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Where an analysis may read.

    Parameters
    ----------
    root
        The project's, whose files only the pipeline reads.
    cache
        Models, stores and checkpoints, which may lie inside.
    """

    root: Path
    cache: Path

    @contextlib.contextmanager
    def over(self, spec: AnalysisSpec) -> Iterator[None]:
        """Watch what `spec` does; of this package's own analyses, nothing.

        Raises
        ------
        AnalysisError
            If it reads or imports what nothing pins, or raises what isn't this package's: with file and line.
        """
        if not isinstance(spec, OwnAnalysis):
            yield
            return
        before = set(sys.modules)
        opened: list[str] = []
        with contextlib.redirect_stdout(sys.stderr), served(spec.sources), _listening(opened):
            try:
                yield
            except EvidenceError as error:
                raise AnalysisError(f"{_where(error, spec)}: {error.message}", remedy=_mend(spec)) from error
            except (PreregError, KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                words = f"{_where(error, spec)}: {type(error).__name__}: {error}"
                raise AnalysisError(words, remedy=_mend(spec, error)) from error
            came = sorted(set(sys.modules) - before)
        faults = [
            *(f"it reads {path}" for path in self._foreign(opened, spec)),
            *(f"it imports {name} from {place}" for name, place in _strangers(came)),
        ]
        if faults:
            raise AnalysisError(
                f"{spec.file}: {faults[0]}, which nothing pins: an edit of that would go unnoticed",
                remedy="let its numbers depend on its arguments: write values into the protocol, and code into this "
                "file or a package that it imports by name",
            )

    def _foreign(self, opened: list[str], spec: OwnAnalysis) -> list[str]:
        root, pinned = self.root.resolve(), _pinned(spec)
        allowed = (*(self.cache.resolve() / name for name in CACHED), *_installed())
        found = []
        for name in dict.fromkeys(opened):
            path = Path(os.path.realpath(name))
            is_allowed = path in pinned or is_installed(path) or any(path.is_relative_to(a) for a in allowed)
            if path.is_relative_to(root) and not is_allowed:
                found.append(path.relative_to(root).as_posix())
        return found


def _installed() -> tuple[Path, ...]:
    """Return where Python and this package lie: a virtual environment may be inside the project."""
    package = Path(__file__).resolve().parents[1]
    return (*(Path(prefix).resolve() / "lib" for prefix in {sys.prefix, sys.base_prefix}), package)


def _pinned(spec: OwnAnalysis) -> frozenset[Path]:
    return spec.sources.paths | {spec.file.resolve()}


def _strangers(came: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield modules that came from where nothing is installed, and that no text was served for."""
    library = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    for name in came:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is None or not isinstance(module, ModuleType) or name.startswith("prereg_analysis_"):
            continue
        place = Path(os.path.realpath(file))
        known = is_installed(place) or any(
            place.is_relative_to(folder) for folder in (*library, *_installed())
        )
        if not known and not is_served(module):
            yield name, file


def _where(error: BaseException, spec: OwnAnalysis) -> str:
    """Return the last line of the analysis' own that an error came through."""
    pinned, found, trace = _pinned(spec), str(spec.file), error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(os.path.realpath(file)) in pinned:
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _mend(spec: OwnAnalysis, error: BaseException | None = None) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "install what it imports (pip install -e ... for code of your own): no command sees pytest's pythonpath"
    return f"mend {spec.file}"


_EARS: list[tuple[int, list[str]]] = []
_HOOKED: list[bool] = []


@contextlib.contextmanager
def _listening(opened: list[str]) -> Iterator[None]:
    """Note which files this thread opens to read."""
    if not _HOOKED:
        # A process can't be rid of it, so it does nothing while nobody listens.
        sys.addaudithook(_hook)
        _HOOKED.append(True)
    _EARS.append((threading.get_ident(), opened))
    try:
        yield
    finally:
        _EARS.pop()


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _EARS or event != "open":
        return
    path, mode, flags = (*arguments, None, None, None)[:3]
    if isinstance(mode, str):
        reads = "r" in mode or "+" in mode
    else:
        reads = not (isinstance(flags, int) and flags & os.O_WRONLY)
    if reads and isinstance(path, str | bytes):
        for thread, opened in _EARS:
            if thread == threading.get_ident():
                opened.append(os.fsdecode(path))
