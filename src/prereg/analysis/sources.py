"""All that an analysis of one's own rests on: its source, that of what it imports, and installed distributions."""

from __future__ import annotations

import hashlib
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path

from prereg.analysis.signature import imported_modules
from prereg.errors import StudyError
from prereg.hostile import read_bounded

__all__ = [
    "KNOWN",
    "Sources",
    "installed_folders",
    "is_installed",
    "read_source",
    "sources_of_file",
    "sources_of_package",
]

MAX_SOURCE = 5_000_000
MAX_FILES = 2_000

KNOWN = frozenset(
    {"prereg", "numpy", "scipy", "torch", "transformers", "transformer_lens", "pyarrow", "pydantic"}
)
"""Packages that this package's own analyses rest on too; a registration pins versions of those that compute."""


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """What an analysis rests on.

    Parameters
    ----------
    texts
        Each source by its path, a package's name first.
    folders
        Top-level package or module -> the folder that its paths are in.
    installed
        Installed distribution, with its version -> sha256 of the record of its files.
    """

    texts: Mapping[str, bytes]
    folders: Mapping[str, Path]
    installed: Mapping[str, str]

    @property
    def paths(self) -> frozenset[Path]:
        """Where the texts of packages lie."""
        tops = {path: path.split("/")[0].removesuffix(".py") for path in self.texts}
        return frozenset(
            (self.folders[top] / path).resolve() for path, top in tops.items() if top in self.folders
        )

    @property
    def digests(self) -> dict[str, str]:
        """Everything by name, each with its sha256; sources with LF line ends."""
        return {name: _digest(text) for name, text in self.texts.items()} | dict(self.installed)


def sources_of_file(name: str, source: bytes) -> Sources:
    """Return what a file beside a protocol rests on; errors as `sources_of_package`."""
    return _closure({name: source}, {})


def sources_of_package(top: str) -> Sources:
    """Return what a package rests on; a package that isn't there has no texts.

    Raises
    ------
    StudyError
        If it, or a package that it imports and that is not plainly installed, is spread over folders, has too many
        files, or one that can't be read.
    """
    base, texts = _package(top)
    return _closure(texts, {top: base})


def read_source(file: Path) -> bytes:
    """Return a source file's bytes.

    Raises
    ------
    StudyError
        If it can't be read, or is no plain file of a source's size.
    """
    try:
        return read_bounded(file, MAX_SOURCE, links=True)
    except (OSError, ValueError) as error:
        raise StudyError(f"{file} can't be read: {getattr(error, 'strerror', None) or error}") from error


@cache
def installed_folders() -> tuple[Path, ...]:
    """Return the folders that distributions are installed into."""
    named = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    return tuple(Path(place).resolve() for place in sorted({*named, site.getusersitepackages()}))


def is_installed(path: Path) -> bool:
    """Tell whether a file lies where installers put packages: here, or in an environment that this one builds on."""
    there = path.resolve()
    named = any(part in ("site-packages", "dist-packages") for part in there.parts)
    return named or any(there.is_relative_to(folder) for folder in installed_folders())


def _closure(texts: dict[str, bytes], folders: dict[str, Path]) -> Sources:
    installed: dict[str, str] = {}
    seen = {*KNOWN, *sys.stdlib_module_names, *folders}
    todo = _tops(texts.values()) - seen
    while todo:
        top = todo.pop()
        seen.add(top)
        records = _records(top)
        if records:
            installed |= records
            continue
        base, found = _package(top)
        if not found:
            # An import that is tried and caught: once it is there, the digest is another.
            installed[top] = "absent"
            continue
        texts = texts | found
        folders = folders | {top: base}
        todo |= _tops(found.values()) - seen
    return Sources(texts, folders, installed)


def _tops(texts: Iterable[bytes]) -> set[str]:
    return {name.split(".")[0] for text in texts for name in imported_modules(text)}


def _records(top: str) -> dict[str, str]:
    """Return the records of the distributions that a package was plainly installed from; none where it wasn't."""
    place = _place(top)
    if place is None or not is_installed(place):
        return {}
    found = {}
    for name in packages_distributions().get(top, ()):
        there = distribution(name)
        record = there.read_text("RECORD")
        if record is None or _is_editable(there):
            return {}
        found[f"{there.name} {there.version}"] = hashlib.sha256(record.encode()).hexdigest()
    return found


def _is_editable(there: Distribution) -> bool:
    return '"editable": true' in (there.read_text("direct_url.json") or "")


def _place(top: str) -> Path | None:
    """Return where a top-level package or module lies; nothing is imported."""
    try:
        spec = importlib.util.find_spec(top) if top.isidentifier() else None
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return None
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    if len(folders) > 1:
        raise StudyError(f"the package {top} is spread over {len(folders)} folders: it can't be pinned")
    # By the name that it is imported by, whatever that is a link to.
    return (folders[0] if folders else Path(spec.origin or "")).absolute()


def _package(top: str) -> tuple[Path, dict[str, bytes]]:
    """Return the folder that a package or module lies in, and its sources by path in that; none where it is gone."""
    place = None if top in KNOWN or top in sys.stdlib_module_names else _place(top)
    if place is None:
        return Path(), {}
    if place.is_file():
        return place.parent, {place.name: read_source(place)} if place.suffix == ".py" else {}
    # A linked folder is not gone into: what it holds can't be imported either, since only these texts are served.
    files = sorted(file for file in place.rglob("*.py") if file.is_file())
    if len(files) > MAX_FILES:
        raise StudyError(f"the package {top} has more than {MAX_FILES:,} modules: too many to pin")
    return place.parent, {file.relative_to(place.parent).as_posix(): read_source(file) for file in files}


def _digest(source: bytes) -> str:
    return hashlib.sha256(source.replace(b"\r\n", b"\n")).hexdigest()
