"""A study's folder that was renamed: its registration lay under another name before."""

from __future__ import annotations

from pathlib import PurePosixPath

from prereg.audit.timeline import Timeline
from prereg.registration.records import REGISTRATION

__all__ = ["lay_elsewhere"]


def lay_elsewhere(timeline: Timeline, folder: str, root: str) -> dict[int, str]:
    """Return the commits that brought a registration of this root to another folder beside the study's, and where.

    Parameters
    ----------
    timeline
        The history.
    folder
        The study's, from the repository's root.
    root
        The registration's root digest.
    """
    parent = PurePosixPath(folder).parent.as_posix()
    if folder == ".":
        return {}
    own = PurePosixPath(folder).name
    found: dict[int, str] = {}
    candidates = [
        arrival
        for arrival in timeline.arrivals(parent)
        if PurePosixPath(arrival.path).name == REGISTRATION
        and PurePosixPath(arrival.path).parent.parent.as_posix() == parent
        and PurePosixPath(arrival.path).parent.name != own
    ]
    timeline.load(arrival.blob for arrival in candidates)
    for arrival in candidates:
        content = timeline.json(arrival.blob)
        if isinstance(content, dict) and content.get("root") == root:
            found[arrival.at] = arrival.path
    return found
