"""Objects read from git's store, each checked against its own name.

An object's id is the digest of its bytes, and a commit names its tree and parents by id. Whoever checks each object
on reading it has followed a chain of digests from HEAD down: a file in the object store that was overwritten in
place doesn't pass for the one that was committed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Literal

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.git import Git

__all__ = ["Algorithm", "Objects", "digest_of", "is_id"]

Algorithm = Literal["sha1", "sha256"]

Kind = Literal["blob", "commit", "tree"]

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_id(text: str) -> bool:
    """Whether this is a full object id, and not an expression that git would look up."""
    return _ID.fullmatch(text) is not None


def digest_of(algorithm: Algorithm, kind: Kind, raw: bytes) -> str:
    """Return the id of an object with these bytes."""
    found = hashlib.new(algorithm, b"%s %d\0" % (kind.encode(), len(raw)), usedforsecurity=False)
    found.update(raw)
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class Objects:
    """A repository's objects.

    Parameters
    ----------
    git
        Git in the repository.
    algorithm
        The digest that names its objects.
    """

    git: Git
    algorithm: Algorithm

    @property
    def width(self) -> int:
        """Bytes of one id."""
        return 20 if self.algorithm == "sha1" else 32

    def stream(self, ids: Iterable[str], kind: Kind, limit: int) -> Iterator[tuple[str, bytes]]:
        """Yield id and bytes of each object, in the order asked; no object is read before its size is known.

        Raises
        ------
        RegistrationError
            If one is missing, of another kind, larger than `limit` bytes, or not what its id says.
        """
        wanted = list(ids)
        strange = next((text for text in wanted if not is_id(text)), None)
        if strange is not None:
            raise RegistrationError(
                f"{printable(strange)!r} is no object id", remedy="give a full id of 40 or 64 hex digits"
            )
        if not wanted:
            return
        with self.git.piped("cat-file", "--batch", "--buffer", lines=wanted) as out:
            for name in wanted:
                raw = _next(out, name, kind, limit)
                if raw is None:
                    break  # git ended early: the block's end says why
                if digest_of(self.algorithm, kind, raw) != name:
                    raise RegistrationError(
                        f"the bytes that git holds for {kind} {name} are not those that were committed",
                        remedy="git fsck --full, then clone the repository again",
                    )
                yield name, raw
            else:
                return
        raise _missing(kind, name)


def _next(out: IO[bytes], name: str, kind: Kind, limit: int) -> bytes | None:
    header = out.readline(1_000)
    if not header:
        return None
    fields = header.split()
    if len(fields) != 3 or fields[0] != name.encode():
        raise _missing(kind, name)
    found, size = fields[1].decode("ascii", "replace"), int(fields[2])
    if found != kind:
        raise RegistrationError(f"object {name} is a {found}, where a {kind} was wanted")
    if size > limit:
        raise RegistrationError(
            f"{kind} {name} has {size:,} bytes; at most {limit:,} are read",
            remedy=f"git cat-file -p {name} shows it",
        )
    raw = out.read(size + 1)
    if len(raw) != size + 1:
        return None
    return raw[:-1]


def _missing(kind: Kind, name: str) -> RegistrationError:
    return RegistrationError(
        f"{kind} {name} belongs to the history, but is not in this repository",
        remedy="git fetch --unshallow where the clone is shallow; else clone it again, without --filter",
    )
