"""Results in the history: evidence, verdicts and attempts, each by the commit that brought it and the root it carries.

What a file is and which registration it carries is read from its content, so that an old file under a new name, or
one that lay there unchanged, is seen for what it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from prereg.audit.timeline import Arrival, Timeline
from prereg.errors import PreregError
from prereg.registration.records import content_digest

__all__ = ["Result", "digest_or_none", "is_result", "read_results", "roots_in", "verdict_rows_in"]

_ROOT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Result:
    """One file of results at the commit that brought it.

    Parameters
    ----------
    kind
        What it is. ``table`` is a table of evidence or verdicts, which names no registration itself.
    path, blob, at
        As in `Arrival`.
    model
        Folder of the model's reports, or for an attempt the model's alias.
    roots
        Root digests of the registrations that it carries.
    protocol
        Digest of the protocol that it names.
    content
        What it holds; None for a table and for what can't be read.
    """

    kind: Literal["evidence", "verdicts", "attempt", "table"]
    path: str
    blob: str
    at: int
    model: str
    roots: frozenset[str]
    protocol: str | None
    content: Any


def read_results(timeline: Timeline, reports: str | None, attempts: str | None) -> tuple[Result, ...]:
    """Return every result that any commit brought, in the order of the commits.

    Parameters
    ----------
    timeline
        The history.
    reports, attempts
        Folders of the study's reports and of its attempts log, from the repository's root; None for one that
        lies outside.
    """
    arrived: list[tuple[Literal["evidence", "verdicts", "attempt", "table"], str, Arrival]] = []
    for arrival in () if reports is None else timeline.arrivals(reports):
        parts = PurePosixPath(arrival.path.removeprefix(f"{reports}/")).parts
        kind = _kind(parts)
        if kind is not None:
            arrived.append((kind, parts[0], arrival))
    arrived += [
        ("attempt", "", arrival)
        for arrival in (() if attempts is None else timeline.arrivals(attempts))
        if re.fullmatch(r"[0-9a-f]{64}\.json", arrival.path.removeprefix(f"{attempts}/"))
    ]
    timeline.load(a.blob for kind, _, a in arrived if kind != "table")
    found = [_result(timeline, kind, model, arrival) for kind, model, arrival in arrived]
    return tuple(sorted(found, key=lambda r: (r.at, r.path)))


def is_result(path: str) -> bool:
    """Tell whether a path in a study's reports is one of a result: evidence, a table of it, or verdicts."""
    return _kind(PurePosixPath(path).parts) is not None


def roots_in(content: Any) -> frozenset[str]:
    """Return the root digests that a record of evidence, a verdicts.json or an attempt carries."""
    if not isinstance(content, dict):
        return frozenset()
    verdicts = content.get("verdicts")
    holders = [content, *(v for v in (verdicts if isinstance(verdicts, list) else ()) if isinstance(v, dict))]
    found = set()
    for holder in holders:
        registration = holder.get("registration")
        root = registration.get("root") if isinstance(registration, dict) else registration
        if isinstance(root, str) and _ROOT.fullmatch(root):
            found.add(root)
    return frozenset(found)


def verdict_rows_in(content: Any) -> dict[str, dict[str, Any]]:
    """Return the verdicts of a verdicts.json by hypothesis; what is no verdict is left out."""
    rows = content.get("verdicts") if isinstance(content, dict) else None
    return {
        row["hypothesis"]: row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("hypothesis"), str)
    }


def digest_or_none(value: Any) -> str | None:
    """Return the digest of plain data that anyone may have written; None for what has none."""
    try:
        return content_digest(value)
    except (PreregError, ValueError, TypeError, RecursionError):
        return None  # a lone surrogate, or two keys that are one


def _kind(parts: tuple[str, ...]) -> Literal["evidence", "verdicts", "table"] | None:
    if len(parts) < 2:
        return None
    if len(parts) == 2:
        return {"verdicts.json": "verdicts", "verdicts.csv": "table"}.get(parts[1])  # type: ignore[return-value]
    if parts[-1].endswith(".parquet"):
        return "table"
    return "evidence" if parts[-1].endswith(".json") else None


def _result(
    timeline: Timeline,
    kind: Literal["evidence", "verdicts", "attempt", "table"],
    model: str,
    arrival: Arrival,
) -> Result:
    content = None if kind == "table" else timeline.json(arrival.blob)
    named = content if isinstance(content, dict) else {}
    digest = named.get("protocol" if kind == "attempt" else "protocol_digest")
    if kind == "attempt":
        model = str(named.get("model", ""))[:200]
    return Result(
        kind,
        arrival.path,
        arrival.blob,
        arrival.at,
        model,
        roots_in(content),
        digest if isinstance(digest, str) and _ROOT.fullmatch(digest) else None,
        content,
    )
