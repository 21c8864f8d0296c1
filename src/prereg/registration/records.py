"""What a registration and its amendments hold, and how they are read: strict, closed, small, never executed.

A registration's *root digest* is the sha256 of its canonical content: of every component's digest, of the promise
itself, of what was known, and of the date its author gave. An amendment's root covers the root before it, so the
roots are a chain. Our own definition; canonical JSON as in `prereg.protocol.canonical`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from prereg.errors import ProtocolError, RegistrationError
from prereg.hostile import printable
from prereg.protocol import Protocol, digest, plain
from prereg.protocol.base import Closed, Name, Sentence, Sha256, Text
from prereg.registration.jsonfile import MAX_BYTES, content_digest, decode_json, read_json, write_once
from prereg.registration.parts import CalibrationRecord, ChangeRecord, Components, FileChange

__all__ = [
    "AMENDMENTS",
    "REGISTRATION",
    "Amendment",
    "CalibrationRecord",
    "ChangeRecord",
    "Components",
    "FileChange",
    "Known",
    "Registration",
    "content_digest",
    "decode_json",
    "parse",
    "protocol_data",
    "read_amendments",
    "read_json",
    "read_registration",
    "sealed",
    "timestamp",
    "write_record",
]

REGISTRATION = "registration.json"
AMENDMENTS = "amendments"
MAX_AMENDMENTS = 1_000

Known = Literal["none", "pilot", "full"]
"""What was known of the data: nothing, a pilot's, or those that the study is answered by."""

Date = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
_EDITED = "its root is not the digest of what it holds: it was edited"
M = TypeVar("M", bound=Closed)
L = TypeVar("L", bound="_Link")


def _sentence(text: str) -> str:
    if len(text.split()) < 3:
        raise ValueError("say it in a sentence, of three words at least")
    return text


Said = Annotated[Sentence, AfterValidator(_sentence)]


class _Link(Closed):
    """What a registration and an amendment share."""

    format: Annotated[int, Field(ge=1, le=1)]
    study: Name
    date: Date
    """The author's clock: a claim, not a proof."""
    known: Known
    statement: Said | None = None
    """Which data were known, in the author's words."""
    seen: tuple[Text, ...] = ()
    """Models of which results were on record, as the command found them."""
    components: Components
    protocol: dict[str, Any]
    """The promise itself, in canonical form: `Components.protocol` is its digest."""
    root: Sha256

    @field_validator("date")
    @classmethod
    def _is_a_time(cls, date: str) -> str:
        datetime.fromisoformat(date)
        return date

    @model_validator(mode="after")
    def _holds_together(self, info: ValidationInfo) -> _Link:
        if self.known != "none" and self.statement is None:
            raise ValueError("data were known, but there is no statement of which")
        if not (info.context or {}).get("sealing") and self.root != content_digest(self.content()):
            raise ValueError(_EDITED)
        if digest(self.promise) != self.components.protocol:
            raise ValueError("the promise it holds is not the one whose digest it names")
        if self.promise.study.name != self.study:
            raise ValueError(f"it is of {self.study!r}, its promise of {self.promise.study.name!r}")
        return self

    def content(self) -> dict[str, Any]:
        """Return what the root is the digest of: every field that says something, the root apart."""
        return self.model_dump(mode="json", exclude={"root"}, exclude_defaults=True)

    @cached_property
    def promise(self) -> Protocol:
        """The promise as a protocol."""
        return Protocol.model_validate_json(json.dumps(self.protocol), strict=True)


class Registration(_Link):
    """``registration.json``: written once by `prereg freeze`."""

    calibration: CalibrationRecord | None = None
    """None where no gate was simulated before the freeze."""


class Amendment(_Link):
    """``amendments/<number>-<root>.json``: one change, why, and what was known at the time."""

    number: Annotated[int, Field(ge=1, le=MAX_AMENDMENTS)]
    previous: Sha256
    """Root of the registration or amendment that this one follows."""
    subjects: tuple[Text, ...] = Field(min_length=1)
    reason: Said
    changes: tuple[ChangeRecord, ...] = ()
    files: tuple[FileChange, ...] = ()

    @field_validator("files")
    @classmethod
    def _distinct(cls, files: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
        if len({(f.component, f.name) for f in files}) != len(files):
            raise ValueError("a file is named twice")
        return files

    @model_validator(mode="after")
    def _changes_something(self) -> Amendment:
        if not self.changes and not self.files:
            raise ValueError("it changes nothing")
        return self

    @property
    def file_name(self) -> str:
        """The name it is kept under."""
        return f"{self.number:04d}-{self.root[:8]}.json"


def sealed(model: type[L], content: Mapping[str, Any]) -> L:
    """Return a record of this content with its root digest.

    Raises
    ------
    RegistrationError
        If the content breaks a rule of the record: a reason of two words, say.
    """
    try:
        draft = model.model_validate_json(
            json.dumps({**content, "root": "0" * 64}), strict=True, context={"sealing": True}
        )
    except ValidationError as error:
        raise RegistrationError(f"this can't be registered: {_said(error)}") from error
    whole = {**draft.content(), "root": content_digest(draft.content())}
    return model.model_validate_json(json.dumps(whole), strict=True)


def write_record(file: Path, record: _Link) -> None:
    """Write a record where there is none yet, in one step.

    Raises
    ------
    RegistrationError
        If something lies there already, or the record would be too large to be read again.
    StorageError
        If the disk refuses.
    """
    data = {**record.content(), "root": record.root}
    text = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    if len(text.encode("utf-8")) > MAX_BYTES:
        raise RegistrationError(
            f"{file}: it would be larger than {MAX_BYTES:,} bytes, the most that is read again"
        )
    write_once(file, text.encode("utf-8"), record.root)


def timestamp(now: datetime | None = None) -> str:
    """Return a time as records hold it: UTC, whole seconds; the clock's where none is given."""
    return (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def protocol_data(protocol: Protocol) -> dict[str, Any]:
    """Return a promise as canonical plain data: what its digest is of."""
    data: dict[str, Any] = plain(protocol.model_dump(mode="json", exclude_none=True))
    return data


def read_registration(folder: Path) -> Registration | None:
    """Return the registration of the study in `folder`, or None where there is none.

    Raises
    ------
    RegistrationError
        If it can't be read, or doesn't hold together.
    """
    file = folder / REGISTRATION
    if not file.is_symlink() and not file.exists():
        return None
    return parse(Registration, read_json(file), file)


def read_amendments(folder: Path) -> tuple[Amendment, ...]:
    """Return the amendments of the study in `folder`, by number.

    That each follows the one before is for `prereg.registration.chain` to see.

    Raises
    ------
    RegistrationError
        If one can't be read, doesn't hold together, or lies under another name than its own.
    """
    place = folder / AMENDMENTS
    found: list[Amendment] = []
    for file in _files_of(place):
        if file.name.startswith("."):
            continue  # a file that was being written when its writer was killed
        if len(found) == MAX_AMENDMENTS:
            raise RegistrationError(f"{place}: more than {MAX_AMENDMENTS:,} amendments")
        amendment = parse(Amendment, read_json(file), file)
        if file.name != amendment.file_name:
            raise RegistrationError(
                f"{file}: this is the amendment {amendment.file_name}: it was renamed",
                remedy=f"git checkout -- {place}",
            )
        found.append(amendment)
    return tuple(sorted(found, key=lambda a: (a.number, a.root)))


def _files_of(place: Path) -> list[Path]:
    """List a folder of the study's own; none where it isn't there."""
    try:
        if not place.is_symlink() and place.is_dir():
            return sorted(place.iterdir())
        place.lstat()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RegistrationError(f"{place}: can't be read: {error.strerror}") from error
    raise RegistrationError(
        f"{place}: not a folder of the study's own; a link is not followed",
        remedy=f"git checkout -- {place}, or git log --stat -- {place} to see what happened to it",
    )


def parse(model: type[M], value: Any, where: Path | str) -> M:
    """Validate decoded JSON against a record's model.

    Raises
    ------
    RegistrationError
        Naming the file, the key and what is wrong with it.
    """
    try:
        record = model.model_validate_json(json.dumps(value), strict=True)
        _require_as_written(record, value)
    except (ValidationError, ProtocolError, ValueError, RecursionError) as error:
        raise RegistrationError(
            f"{where}: {_said(error)}",
            remedy="restore it: git checkout -- on this file, or git log -p to see what happened to it",
        ) from error
    return record


def _require_as_written(record: Closed, value: Any) -> None:
    """Refuse what a model reads as the same though it isn't: it strips blanks, and takes `true` for 1."""
    if not isinstance(record, _Link):
        return
    if content_digest({key: item for key, item in value.items() if key != "root"}) != record.root:
        raise ValueError(_EDITED)


def _said(error: Exception) -> str:
    """Say what is wrong, in words that a terminal can't be fooled by: keys and values are anyone's."""
    if not isinstance(error, ValidationError):
        return printable(str(error), 400)
    first = error.errors(include_url=False, include_input=False)[0]
    at = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return printable(f"{at}: {message}" if at else message, 400)
