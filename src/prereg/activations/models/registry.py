"""From the name a user types to the entry it stands for."""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from prereg.activations.models.entries import (
    Alias,
    FolderSource,
    GgufSource,
    HubSource,
    ModelEntry,
)
from prereg.errors import ModelError
from prereg.workers import refused_by_disk

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Registry", "anchor", "load_registry", "pin", "resolve"]

_ALIAS = TypeAdapter(Alias)
_HUB_ID = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>\S+))?")


class Registry(BaseModel):
    """Every model that has an alias, in the order in which the files name them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    entries: Annotated[tuple[ModelEntry, ...], Field(min_length=1)]

    @property
    def aliases(self) -> tuple[str, ...]:
        """All aliases."""
        return tuple(entry.alias for entry in self.entries)

    def find(self, alias: str) -> ModelEntry | None:
        """Find the entry of that alias, if there is one."""
        return next((entry for entry in self.entries if entry.alias == alias), None)


def load_registry(extra: Path | None = None) -> Registry:
    """Read the package's registry, and a project's own beside it.

    Parameters
    ----------
    extra
        A TOML file of the same form. It adds models; it can't replace a pinned one.

    Raises
    ------
    ModelError
        Where a file can't be read, a key is unknown or malformed, or an alias comes twice.
    """
    own = resources.files("prereg.activations.models") / "registry.toml"
    entries = list(_parse(own.read_text(encoding="utf-8"), "registry.toml"))
    if extra is not None:
        try:
            text = extra.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"the model registry {extra} can't be read: {error}") from error
        entries.extend(_parse(text, str(extra)))
    seen: set[str] = set()
    for entry in entries:
        if entry.alias in seen:
            raise ModelError(
                f"{extra}: the alias {entry.alias!r} is taken; an alias names one model",
                remedy=f"rename [models.{entry.alias}] in {extra}",
            )
        seen.add(entry.alias)
    return Registry(entries=tuple(entries))


def _parse(text: str, where: str) -> tuple[ModelEntry, ...]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{where}: not TOML: {error}") from error
    tables = document.get("models")
    if set(document) != {"models"} or not isinstance(tables, dict) or not tables:
        raise ModelError(f"{where}: wanted tables [models.<alias>] and nothing else at the top")
    return tuple(_entry(alias, table, where) for alias, table in tables.items())


def _entry(alias: str, table: Mapping[str, object], where: str) -> ModelEntry:
    if not isinstance(table, dict) or "alias" in table:
        raise ModelError(f"{where}: [models.{alias}] must be a table without a key `alias`")
    try:
        return ModelEntry.model_validate({"alias": _ALIAS.validate_python(alias), **table})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in ("models", alias, *first["loc"]))
        raise ModelError(f"{where}: {key}: {first['msg']}, found {first['input']!r}") from error


def resolve(name: str, *, registry: Registry, root: Path) -> ModelEntry:
    """Find what ``--model`` means.

    Parameters
    ----------
    name
        An alias; a folder or .gguf file (relative to where the user stands, else to `root`); or a
        hub id ``org/name``, with ``@revision`` if wanted. The folder of a registered model is that model;
        any other path gives a model of its own, whatever the folder is called.
    registry
        From `load_registry`.
    root
        The project's folder; a registry's relative paths start there.

    Returns
    -------
    ModelEntry
        With every path resolved.

    Raises
    ------
    ModelError
        Where the name is none of these.
    StorageError
        Where the path may not be looked at.
    """
    known = registry.find(name)
    if known is not None:
        return anchor(known, root)
    here = _on_disk(name, registry, root)
    if here is not None:
        return here
    hub = _HUB_ID.fullmatch(name)
    if hub is not None and not name.endswith(".gguf"):
        return ModelEntry(alias=name, source=HubSource(repo=hub["repo"], revision=hub["revision"]))
    close = difflib.get_close_matches(name, registry.aliases, n=3)
    guess = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ModelError(
        f"no model is called {name!r}: it is no alias, no folder or .gguf file, and no hub id "
        f"(org/name).{guess}",
        remedy="prereg models   # lists every alias",
    )


def _on_disk(name: str, registry: Registry, root: Path) -> ModelEntry | None:
    if not name.strip():
        return None
    for base in (Path.cwd(), root):
        place = _place(base, name)
        try:
            kind = "folder" if place.is_dir() else "gguf" if place.is_file() else None
        except OSError as error:
            raise refused_by_disk(place, error, "can't be read") from error
        if kind == "folder":
            folder = FolderSource(kind="folder", path=name, base=str(base))
            return _registered(place, registry, root) or ModelEntry(alias=_alias(place, root), source=folder)
        if kind == "gguf" and place.suffix == ".gguf":
            gguf = GgufSource(kind="gguf", path=name, base=str(base))
            return ModelEntry(alias=_alias(place, root), source=gguf)
    if name.startswith((".", "/", "~")) or name.endswith(".gguf"):
        raise ModelError(
            f"there is no model at {name!r}: wanted a folder with config.json, *.safetensors and a "
            "tokenizer, or a .gguf file",
            remedy="check the path, or choose an alias: prereg models",
        )
    return None


def _place(base: Path, name: str) -> Path:
    try:
        return base / Path(name).expanduser()
    except RuntimeError as error:
        raise ModelError(f"{name!r}: {error}", remedy="write the path out, without ~") from error


def _registered(place: Path, registry: Registry, root: Path) -> ModelEntry | None:
    """Find the entry whose own folder this is: named by its path, it is the same model."""
    for entry in registry.entries:
        known = anchor(entry, root)
        if isinstance(known.source, FolderSource) and known.source.folder.resolve() == place.resolve():
            return known
    return None


def _alias(place: Path, root: Path) -> str:
    """Name a model by where it lies, so that two of one name differ and none has a registered model's name.

    Inside the project it is the path from there, which can be typed again and is the same on every machine.
    Elsewhere it is the last part with a digest of the whole: a record doesn't tell where things lie here.
    """
    place, root = place.resolve(), root.resolve()
    if place != root and place.is_relative_to(root):
        return f"./{place.relative_to(root).as_posix()}"
    return f"{place.name}@{hashlib.sha256(str(place).encode()).hexdigest()[:8]}"


def anchor(entry: ModelEntry, root: Path) -> ModelEntry:
    """Let a registry's relative path start at the project's folder."""
    source = entry.source
    if not isinstance(source, FolderSource | GgufSource) or source.base is not None:
        return entry
    moved = source.model_copy(update={"base": str(root)})
    return entry.model_copy(update={"source": moved})


def pin(entry: ModelEntry, revision: str) -> ModelEntry:
    """Hold a hub model to the revision that a registration recorded.

    Raises
    ------
    ModelError
        Where the entry is pinned to another revision, or can't be pinned at all.
    """
    source = entry.source
    if not isinstance(source, HubSource):
        raise ModelError(f"{entry.alias} comes from {source}: only a hub model has a commit to pin")
    if source.commit is not None and source.commit != revision:
        raise ModelError(
            f"{entry.alias} is pinned to {source.commit} here, and {revision} was registered",
            remedy=f"--model {source.repo}@{revision}",
        )
    fixed = HubSource(repo=source.repo, revision=revision)
    if fixed.commit is None:
        raise ModelError(f"a revision to pin is a commit of 40 hexadecimal digits: {revision!r}")
    return entry.model_copy(update={"source": fixed})
