"""What someone else says about a registration: a fact with its strength, never an error and never a verdict.

Whoever reads the facts decides what follows from them. A missing signature is no fact at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from prereg.errors import RegistrationError
from prereg.hostile import read_bounded as bounded

__all__ = ["Finding", "Kind", "State", "Witness", "read_bounded"]

Kind = Literal["commit", "tag", "ssh", "opentimestamps", "rfc3161"]
State = Literal["good", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class Witness:
    """One signature or receipt, and how far it carries.

    Parameters
    ----------
    kind
        A signed commit, a signed tag, a file signature by SSH key, or a receipt of one of two kinds.
    state
        ``good``: cryptographically right, and by a key or root that the reader's keyring, the study's
        ``allowed_signers`` or the study's ``tsa_roots.pem`` names. ``unknown``: can't be decided here (the key
        isn't known, a tool is missing, a receipt is pending or needs the network). ``bad``: the bytes
        contradict the signature, or are none.
    by
        Who: a principal, a user id, a key, an authority, a calendar. Empty where nobody can be named.
    detail
        What was found, in one or two sentences; for ``unknown`` also what would settle it. Printable.
    when
        The time that it speaks of, aware; None where it names none. Of a signature this is what the signer
        claims; of a good RFC 3161 receipt it is what the authority vouches for.
    remedy
        The next command, or None.
    """

    kind: Kind
    state: State
    by: str
    detail: str
    when: datetime | None
    remedy: str | None


class Finding(NamedTuple):
    """A `Witness` before it is known what it is a witness of."""

    state: State
    by: str
    detail: str
    remedy: str | None = None
    when: datetime | None = None

    def of(self, kind: Kind, when: datetime | None = None) -> Witness:
        """Return the finding as a witness of this kind; `when` where the finding has no time of its own."""
        return Witness(kind, self.state, self.by, self.detail, self.when or when, self.remedy)


def read_bounded(file: Path, limit: int) -> bytes:
    """Return the bytes of a small file that anyone may have written.

    Links are not followed, and neither pipes nor devices are opened.

    Raises
    ------
    RegistrationError
        If it isn't there, is no regular file, is larger than `limit` bytes, or can't be read.
    """
    try:
        return bounded(file, limit)
    except ValueError as error:
        raise RegistrationError(
            f"{file.name}: {error}", remedy=f"put the file itself in its place: {file.name}"
        ) from error
    except OSError as error:
        raise RegistrationError(f"{file.name} can't be read: {error.strerror or error}") from error
