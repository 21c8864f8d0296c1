"""Commits and tags taken apart into what was signed and the signature: git's own rules, without git's configuration.

Source: git's ``commit.c`` (`parse_signed_commit`) and ``gpg-interface.c`` (`parse_signature`). A commit's
signature is its ``gpgsig`` header (``gpgsig-sha256`` in a SHA-256 repository); what is signed is the commit
without such headers. A tag's signature is the end of its text.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from prereg.errors import RegistrationError
from prereg.registration.history.git import Git

__all__ = ["SignedObject", "read_commit", "read_tag", "split_commit", "split_tag", "tags_of"]

Format = Literal["openpgp", "ssh", "x509"]

MAX_OBJECT = 4_000_000
MAX_TAGS = 50

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEADERS = (b"gpgsig", b"gpgsig-sha256")
_ARMOR: dict[bytes, Format] = {
    b"-----BEGIN PGP SIGNATURE-----": "openpgp",
    b"-----BEGIN PGP MESSAGE-----": "openpgp",
    b"-----BEGIN SSH SIGNATURE-----": "ssh",
    b"-----BEGIN SIGNED MESSAGE-----": "x509",
}


@dataclass(frozen=True, slots=True)
class SignedObject:
    """A commit or tag with a signature.

    Parameters
    ----------
    id
        Its id in the repository, hex.
    payload
        The bytes that were signed.
    signature
        The armored signature.
    format
        Which program made it; None where the armor is none that git knows.
    when
        The committer's or tagger's date: the signer's claim. None where it has none.
    name
        A tag's own name for itself; None for a commit.
    """

    id: str
    payload: bytes
    signature: bytes
    format: Format | None
    when: datetime | None
    name: str | None = None


def read_commit(root: Path, commit: str) -> SignedObject | None:
    """Return a commit with its signature, or None where it has none.

    Raises
    ------
    RegistrationError
        If `commit` is no full id, or the repository doesn't hold its bytes.
    """
    return split_commit(_read(root, commit, "commit"), commit)


def read_tag(root: Path, tag: str, commit: str) -> SignedObject | None:
    """Return the tag object `tag` with its signature, or None where it has none or isn't of this commit.

    Raises
    ------
    RegistrationError
        As `read_commit`.
    """
    data = _read(root, tag, "tag")
    if not data.startswith(b"object %s\ntype commit\n" % commit.encode()):
        return None
    return split_tag(data, tag)


def tags_of(root: Path, commit: str) -> tuple[tuple[str, str], ...]:
    """Return (name of the ref, id of the tag object) of each annotated tag that points at a commit.

    Raises
    ------
    RegistrationError
        If `commit` is no full id, or git can't list the tags, or there are more than `MAX_TAGS` of them.
    """
    require_id(commit)
    form = "--format=%(objecttype) %(objectname) %(refname)"
    out = Git(root).run("for-each-ref", f"--points-at={commit}", form, "refs/tags")
    rows = [line.split(" ", 2) for line in out.decode("utf-8", "replace").split("\n") if line]
    tags = tuple((ref.removeprefix("refs/tags/"), name) for kind, name, ref in rows if kind == "tag")
    if len(tags) > MAX_TAGS:
        raise RegistrationError(f"{len(tags)} tags point at {commit}; at most {MAX_TAGS} are looked at")
    return tags


def split_commit(data: bytes, commit: str) -> SignedObject | None:
    """Take a commit's bytes apart; None where it isn't signed."""
    payload, headers = _without_signatures(data)
    signature = headers.get(b"gpgsig" if len(commit) == 40 else b"gpgsig-sha256")
    if signature is None:
        return None
    return SignedObject(commit, payload, signature, _format(signature), _date(payload, b"committer"))


def split_tag(data: bytes, tag: str) -> SignedObject | None:
    """Take a tag object's bytes apart; None where it isn't signed."""
    start, at = None, 0
    for line in data.split(b"\n"):
        if _format(line) is not None:
            start = at  # the last one counts, as in git: the message may quote another
        at += len(line) + 1
    if start is None:
        return None
    payload, _ = _without_signatures(data[:start])
    signature = data[start:]
    named = re.search(rb"^tag (.*)$", payload.partition(b"\n\n")[0], re.MULTILINE)
    name = named[1].decode("utf-8", "replace") if named else ""
    return SignedObject(tag, payload, signature, _format(signature), _date(payload, b"tagger"), name)


def _read(root: Path, name: str, kind: Literal["commit", "tag"]) -> bytes:
    """Return an object's bytes, having checked that its id is their digest: git doesn't when it reads."""
    require_id(name)
    git = Git(root)
    size = int(git.run("cat-file", "-s", name))
    if size > MAX_OBJECT:
        raise RegistrationError(f"the {kind} {name} has {size:,} bytes; at most {MAX_OBJECT:,} are read")
    data = git.run("cat-file", kind, name)
    whole = b"%s %d\0%s" % (kind.encode(), len(data), data)
    hashed = hashlib.sha1(whole, usedforsecurity=False) if len(name) == 40 else hashlib.sha256(whole)
    if hashed.hexdigest() != name:
        raise RegistrationError(f"the {kind} {name} holds other bytes than its id names", remedy="git fsck")
    return data


def require_id(name: str) -> None:
    if not _ID.fullmatch(name):
        raise RegistrationError(f"{name[:80]!r} is no full commit id", remedy="git rev-parse HEAD")


def _without_signatures(data: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the object without its signature headers, and those headers' values."""
    head, separator, message = data.partition(b"\n\n")
    kept: list[bytes] = []
    found: dict[bytes, bytes] = {}
    inside: bytes | None = None
    for line in (part + b"\n" for part in head.split(b"\n")):
        if inside is not None and line.startswith(b" "):
            found[inside] += line[1:]
            continue
        name, _, value = line.partition(b" ")
        inside = name if name in _HEADERS else None
        if inside is None:
            kept.append(line)
        else:
            found[inside] = found.get(inside, b"") + value
    # The last header's line end is half of the blank line that ends the headers.
    payload = b"".join(kept)
    if not separator:
        return payload[:-1], found
    return payload + separator[1:] + message, found


def _format(signature: bytes) -> Format | None:
    return next((kind for armor, kind in _ARMOR.items() if signature.startswith(armor)), None)


def _date(payload: bytes, who: bytes) -> datetime | None:
    found = re.search(rb"^%s .*> (\d{1,12}) [+-]\d{4}$" % who, payload.partition(b"\n\n")[0], re.MULTILINE)
    if found is None:
        return None
    try:
        return datetime.fromtimestamp(int(found[1]), UTC)
    except (ValueError, OverflowError, OSError):
        return None
