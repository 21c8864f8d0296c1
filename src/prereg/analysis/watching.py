"""Somebody's own analysis at work: what it prints, reads, imports and raises.

It may depend on its arguments and on what is pinned, and on nothing else. What can be seen of that is refused: files
that it opens in the project, modules that it imports from where nothing is installed. What it opens elsewhere, the
clock or the network can't be seen; a registration shows its source, and a reader must look.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType

from prereg.analysis.catalogue import AnalysisSpec
from prereg.analysis.own import OwnAnalysis
from prereg.analysis.serving import is_served
from prereg.analysis.sources import installed_folders
from prereg.errors import AnalysisError, EvidenceError, PreregError

__all__ = ["Watch"]


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
        with contextlib.redirect_stdout(sys.stderr), _listening(opened):
            try:
                yield
            except EvidenceError as error:
                raise AnalysisError(
                    f"{_where(error.__traceback__, spec)}: {error.message}", remedy=f"mend {spec.file}"
                ) from error
            except (PreregError, KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                where = _where(error.__traceback__, spec)
                raise AnalysisError(
                    f"{where}: {type(error).__name__}: {error}", remedy=f"mend {spec.file}"
                ) from error
        faults = [
            *(f"it reads {path}" for path in self._foreign(opened, spec)),
            *(f"it imports {name} from {place}" for name, place in _strangers(before)),
        ]
        if faults:
            raise AnalysisError(
                f"{spec.file}: {faults[0]}, which nothing pins: an edit of that would go unnoticed",
                remedy="let its numbers depend on its arguments: write values into the protocol, and code into this "
                "file or a package that it imports by name",
            )

    def _foreign(self, opened: list[str], spec: OwnAnalysis) -> list[str]:
        root = self.root.resolve()
        allowed = [self.cache.resolve(), *_installed(), *_places(spec)]
        found = []
        for name in dict.fromkeys(opened):
            path = Path(os.path.realpath(name))
            if path.is_relative_to(root) and not any(path.is_relative_to(place) for place in allowed):
                found.append(path.relative_to(root).as_posix())
        return found


def _installed() -> tuple[Path, ...]:
    """Return where Python, its packages and this one lie: a virtual environment may be inside the project."""
    package = Path(__file__).resolve().parents[1]
    prefixes = [Path(place).resolve() for place in {sys.prefix, sys.base_prefix}]
    return (*installed_folders(), *(prefix / "lib" for prefix in prefixes), package)


def _places(spec: OwnAnalysis) -> tuple[Path, ...]:
    return (spec.file.resolve(), *(folder.resolve() / top for top, folder in spec.sources.folders.items()))


def _strangers(before: set[str]) -> Iterator[tuple[str, str]]:
    """Yield modules that came from where nothing is installed, and that no text was served for."""
    library = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    known = (*library, *_installed())
    for name in sorted(set(sys.modules) - before):
        module = sys.modules[name]
        file = getattr(module, "__file__", None)
        if (
            name.startswith("prereg_analysis_")
            or not isinstance(module, ModuleType)
            or file is None
            or is_served(module)
        ):
            continue
        place = Path(os.path.realpath(file))
        if not any(place.is_relative_to(folder) for folder in known):
            yield name, file


def _where(trace: TracebackType | None, spec: OwnAnalysis) -> str:
    """Return the last line of the analysis' own that an error came through."""
    places, found = [str(place) for place in _places(spec)], str(spec.file)
    while trace is not None:
        file = os.path.realpath(trace.tb_frame.f_code.co_filename)
        if any(file.startswith(place) for place in places):
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


_EARS: list[list[str]] = []


@contextlib.contextmanager
def _listening(opened: list[str]) -> Iterator[None]:
    """Note which files this process opens to read."""
    _install_hook()
    _EARS.append(opened)
    try:
        yield
    finally:
        _EARS.remove(opened)


def _install_hook() -> None:
    """Install the hook once; a process can't be rid of it, so it does nothing while nobody listens."""
    if not _HOOKED:
        sys.addaudithook(_hook)
        _HOOKED.append(True)


_HOOKED: list[bool] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _EARS or event != "open":
        return
    path, mode, flags = (*arguments, None, None, None)[:3]
    if isinstance(mode, str):
        reads = "r" in mode or "+" in mode
    else:
        reads = not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_CREAT))
    if reads and isinstance(path, str | bytes):
        for opened in _EARS:
            opened.append(os.fsdecode(path))
