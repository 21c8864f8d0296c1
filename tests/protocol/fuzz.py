"""Hostile variants of the files a study is read from, and what must hold when they are read.

A reader may refuse with a PreregError, or read what the file says; it may do nothing else, and not for long.
"""

from __future__ import annotations

import functools
import json
import random
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import tomli

from prereg.errors import PreregError
from prereg.protocol import read_protocol
from prereg.protocol.reader import parse_protocol
from tests.protocol.mutators import mutate

__all__ = ["Fault", "Target", "attack", "meaning", "targets"]

TESTS = Path(__file__).parents[1]
SAMPLE = TESTS / "data" / "protocol.toml"
REAL = TESTS.parent / "gates" / "delta_stream" / "protocol.toml"
HERE = Path("protocol.toml")
SLOW = 5.0
"""Seconds of processor time that no file may take. Good ones take a thousandth of it."""

Read = Callable[[bytes], tuple[str, Any]]


@dataclass(frozen=True)
class Target:
    """One file and its reader, which returns (digest, canonical data) or raises a PreregError.

    ``sealed``: the file holds the digest of its own content, so that only its own meaning may be read from it.
    """

    name: str
    raw: bytes
    read: Read
    sealed: bool = False


@dataclass(frozen=True)
class Fault:
    """A file that broke a rule."""

    target: str
    raw: bytes
    what: str


def targets() -> list[Target]:
    """Return every kind of file that a study is read from, each valid."""
    found = [
        Target("sample protocol", SAMPLE.read_bytes(), _read_protocol),
        Target("registered protocol", REAL.read_bytes(), _read_protocol),
    ]
    return found + list(_records())


def attack(target: Target, rnd: random.Random) -> tuple[bytes, bool, Fault | None]:
    """Read one hostile variant of a file; return it, whether it was read, and the rule it broke, if any."""
    raw = mutate(target.raw, rnd, is_toml=target.name.endswith("protocol"))
    start = time.process_time()
    found, what = None, None
    try:
        found = target.read(raw)
    except PreregError as error:
        if not str(error).strip() or "\x1b" in str(error):
            what = f"an error that says nothing or steers a terminal: {str(error)!r}"
    except Exception as error:  # this is what is hunted
        what = f"{type(error).__name__}: {str(error)[:200]}"
    took = time.process_time() - start
    if what is None and took > SLOW:
        what = f"took {took:.1f} s"
    if what is None and found is not None:
        what = _contradiction(target, raw, found)
    return raw, found is not None, None if what is None else Fault(target.name, raw, what)


def meaning(value: Any) -> Any:
    """Return what plain data say, by other means than the canonical form's: hashable, comparable."""
    if isinstance(value, dict):
        return "table", frozenset((meaning(key), meaning(item)) for key, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(meaning, value))
    if isinstance(value, str):
        return "text", unicodedata.normalize("NFC", value.replace("\r\n", "\n"))
    return (
        ("truth", value)
        if isinstance(value, bool)
        else ("number", Fraction(value))
        if value is not None
        else None
    )


def _contradiction(target: Target, raw: bytes, found: tuple[str, Any]) -> str | None:
    digest, data = found
    if not target.sealed and meaning(_analyses(raw)) != meaning(data["analyses"]):
        return "analyses were read otherwise than they were written"
    original, as_written = _unchanged(target)
    alike = meaning(data) == as_written
    if (digest == original) is not alike:
        return f"digest {'the same' if digest == original else 'another'}, meaning {'the same' if alike else 'another'}"
    if target.sealed and not alike:
        return "another meaning was read under a seal that doesn't fit it"
    return None


@functools.cache
def _unchanged(target: Target) -> tuple[str, Any]:
    digest, data = target.read(target.raw)
    return digest, meaning(data)


def _read_protocol(raw: bytes) -> tuple[str, Any]:
    file = parse_protocol(raw, HERE)
    data = file.protocol.model_dump(mode="json", exclude_none=True)
    return file.digest, data


def _analyses(raw: bytes) -> Any:
    """Return what a protocol says of its analyses, by a reader that knows no models."""
    return tomli.loads(raw.removeprefix(b"\xef\xbb\xbf").decode())["analyses"]


def _records() -> Iterator[Target]:
    from prereg.registration.attempts import Attempt, read_attempt
    from prereg.registration.records import Amendment, Registration, decode_json, parse, protocol_data, sealed

    protocol = read_protocol(SAMPLE)
    data = protocol_data(protocol.protocol)
    a, b = "a" * 64, "b" * 64
    components = {
        "protocol": protocol.digest,
        "gates": {"test_h1.py": a, "conftest.py": b},
        "code": {"study/study.py": a},
        "facts": {"facts.csv": b},
        "models": {"some-model": "main"},
        "libraries": {"numpy": "2.1.0"},
    }
    head = {"format": 1, "study": "sample", "date": "2026-11-30T12:00:00Z", "protocol": data}
    registration = sealed(Registration, {**head, "known": "none", "components": components})
    amended = {
        **head,
        "known": "pilot",
        "statement": "A pilot on the café's 20 prompts was seen.",
        "seen": ["some-model"],
        "components": {**components, "gates": {"test_h1.py": b}},
        "number": 1,
        "previous": registration.root,
        "subjects": ["H1"],
        "reason": "The gate imported a module that is gone.",
        "changes": [{"key": "hypotheses.H1.threshold", "old": 0.1, "new": 0.05, "effect": "looser"}],
        "files": [{"component": "gates", "name": "test_h1.py", "old": a, "new": b}],
    }
    for name, record in (("registration", registration), ("amendment", sealed(Amendment, amended))):
        model = type(record)
        raw = json.dumps({**record.content(), "root": record.root}, indent=2, ensure_ascii=False).encode()

        def read(raw: bytes, model: Any = model) -> tuple[str, Any]:
            found = parse(model, decode_json(raw, "record.json"), "record.json")
            return found.root, found.content()

        yield Target(name, raw, read, sealed=True)
    attempt = Attempt(
        format=1, study="sample", model="some-modèle", registration=a, protocol=b, parents=(a, b),
        data={"H1": a, "H1-order": b}, outcomes={"H1": "supported", "H1-order": "refuted"},
        looks={"H1": {"look": 1, "alpha": 0.01}}, at="2026-11-30T12:00:00Z",
    )  # fmt: skip

    def read_named(raw: bytes) -> tuple[str, Any]:
        found = read_attempt(raw, attempt.file_name)
        return found.id, found.model_dump(mode="json")

    yield Target("attempt", attempt.as_bytes(), read_named, sealed=True)
