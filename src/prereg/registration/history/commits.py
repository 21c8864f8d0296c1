"""Commits, read from their own bytes: what git shows of them may have been mapped, cached or replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.git import Git
from prereg.registration.history.objects import Objects

__all__ = ["Commit", "read_commits"]

LARGEST = 16_000_000
"""Bytes of one commit object: a signature, a message, and some thousand parents."""

SHOWN = 200
"""Characters shown of a subject or a name."""

_ID = rb"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_HEADER = re.compile(
    rb"tree (%s)\n((?:parent %s\n)*)author ([^\n]*)\ncommitter ([^\n]*)\n" % (_ID, _ID),
)
_ENCODING = re.compile(rb"^encoding ([A-Za-z0-9_.:-]{1,40})$", re.MULTILINE)
_TEXT = re.compile(
    r"(?:iso-?8859-?\d+|latin-?1|windows-?125\d|cp-?125\d|koi8-?[ru]|euc-?(?:jp|kr)|gbk|gb18030|big5"
    r"|shift[_-]?jis|iso-2022-jp)",
    re.IGNORECASE,
)
"""Encodings that commits are written in; Python knows others, some of them no encodings at all."""

_WHEN = re.compile(rb" ?(-?\d{1,19}) ([+-])(\d\d)(\d\d)$")


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; its texts are printable, and its dates are its makers' own claims.

    Parameters
    ----------
    id
        Hex.
    parents
        Ids, in the commit's own order.
    author, committer
        ``Name <email>``, as the commit itself has it.
    authored_at, committed_at
        Aware. A date that git can't read either is the one that git shows for it: 1970-01-01 UTC.
    subject
        The message's first paragraph, on one line, of bounded length.
    """

    id: str
    parents: tuple[str, ...]
    author: str
    authored_at: datetime
    committer: str
    committed_at: datetime
    subject: str


def read_commits(git: Git, objects: Objects, head: str) -> tuple[tuple[Commit, ...], tuple[str, ...]]:
    """Return all commits reachable from one, parents before children, and the root tree of each.

    Raises
    ------
    RegistrationError
        If one is missing, or is not what its id says.
    """
    listed = git.run("rev-list", "--topo-order", "--reverse", head).decode("ascii", "replace").split()
    person = cache(_person)
    commits, trees = [], []
    for name, raw in objects.stream(listed, "commit", LARGEST):
        commit, tree = _parse(name, raw, person)
        commits.append(commit)
        trees.append(tree)
    if not commits or commits[-1].id != head:
        raise RegistrationError(f"git listed no history of {head}", remedy="git fsck --full")
    return tuple(commits), tuple(trees)


def _parse(name: str, raw: bytes, person: Callable[[bytes, str], str]) -> tuple[Commit, str]:
    found = _HEADER.match(raw)
    if found is None:
        raise RegistrationError(f"commit {name} is malformed", remedy="git fsck --full")
    tree, parents, author, committer = found.groups()
    # The headers end with the first empty line; a message may quote headers.
    headers, _, message = raw[found.end() - 1 :].partition(b"\n\n")
    encoding = _encoding(headers)
    by, authored = _split(author)
    through, committed = _split(committer)
    commit = Commit(
        id=name,
        parents=tuple(line[7:].decode() for line in parents.splitlines()),
        author=person(by, encoding),
        authored_at=_date(authored),
        committer=person(through, encoding),
        committed_at=_date(committed),
        subject=_subject(message, encoding),
    )
    return commit, tree.decode()


def _encoding(headers: bytes) -> str:
    found = _ENCODING.search(headers) if b"encoding" in headers else None
    name = "utf-8" if found is None else found[1].decode()
    return name if _TEXT.fullmatch(name) else "utf-8"


def _split(line: bytes) -> tuple[bytes, bytes]:
    """Return who and when."""
    who, mark, when = line.rpartition(b">")
    return (who + mark, when) if mark else (line, b"")


def _person(who: bytes, encoding: str) -> str:
    return _shown(who[: 8 * SHOWN].decode(encoding, "replace"))


def _subject(message: bytes, encoding: str) -> str:
    start = message[: 32 * SHOWN].lstrip(b"\r\n \t")
    return _shown(start.split(b"\n\n", 1)[0].decode(encoding, "replace"))


def _shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SHOWN and text.isprintable() else printable(text, SHOWN)


def _date(text: bytes) -> datetime:
    found = _WHEN.fullmatch(text)
    if found is None:
        return _EPOCH
    east = timedelta(hours=int(found[3]), minutes=int(found[4]))
    zone = _zone(-east if found[2] == b"-" else east)
    try:
        return (_EPOCH + timedelta(seconds=int(found[1]))).astimezone(zone)
    except OverflowError:
        return _EPOCH


@cache
def _zone(offset: timedelta) -> timezone:
    # An offset of a day or more is no time zone; the instant doesn't depend on it.
    return timezone(offset) if abs(offset) < timedelta(days=1) else UTC


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
