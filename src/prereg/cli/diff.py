"""`prereg diff`: what a promise says at one commit and at another, and whether it became easier to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prereg.cli.options import Json, StudyFolder, project_root, study_folder
from prereg.cli.told import result, show, told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from prereg.cli.diff_sides import Side
    from prereg.protocol.changes import Change

__all__ = ["diff"]

CHANGED = 1
_COLORS = {"looser": "bold red", "stricter": "bold green", "other": "bold yellow", "wording": "dim"}
_LONG = 60


@dataclass(frozen=True, slots=True)
class _Found:
    """Two sides and what differs; ``concerns`` is aligned with ``changes``."""

    study: str
    old: Side
    new: Side
    changes: tuple[Change, ...]
    concerns: tuple[frozenset[str], ...]
    gates: tuple[tuple[str, str], ...]
    records: tuple[tuple[str, str], ...]

    @property
    def substantive(self) -> bool:
        from prereg.protocol.changes import substantive

        return bool(self.gates) or any(map(substantive, self.changes))


def diff(
    old: Annotated[
        str,
        typer.Argument(
            metavar="REF1",
            help="a commit, tag or branch; `frozen` for the promise in registration.json; `worktree` for the "
            "files as they lie",
        ),
    ],
    new: Annotated[str, typer.Argument(metavar="REF2", help="another, which it is compared with")],
    study: StudyFolder = None,
    json: Json = False,
) -> None:
    """Say what changed in a promise between two commits, key by key, and whether it became easier to keep.

    Each change is one of four. `looser`: an unchanged result passes more easily (a lower threshold, a control or a
    contrast fewer, one hypothesis more). `stricter`: the opposite. `other`: neither, or not to be told (a seed, a
    claim, a threshold whose direction changed too). `wording`: a rationale, a title, what the paper reports.

    Comments, key order and the spelling of numbers are no change. Contrasts are matched by label. Gate files that
    came, went or changed are listed too, and registrations and amendments. Nothing is checked out or written; a
    branch called `worktree` is reached as refs/heads/worktree.

    \b
    Exit codes:
      0  no change of the promise but of wording, and none of a gate
      1  some change
      2  an error: no such ref, a protocol that can't be read there, ...

    \b
    Examples:
      prereg diff frozen worktree
      prereg diff HEAD~1 HEAD gates/my_study
      prereg diff v1.0 main my_study --json
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.cli.diff_sides import Place, side

        folder = study_folder(study)
        place = Place(folder, project_root(folder))
        found = _compare(place.inside, side(old, place), side(new, place))
        if json:
            result(_record(found))
        else:
            show(_page(found))
            show(_summary(found))
        changed = found.substantive
    if changed:
        raise typer.Exit(CHANGED)


def _compare(study: str, old: Side, new: Side) -> _Found:
    from prereg.protocol.changes import changes, concerned

    found = changes(old.promise, new.promise)
    # A registration says nothing of itself.
    said = old.records is not None and new.records is not None
    return _Found(
        study,
        old,
        new,
        found,
        tuple(concerned(change, old.promise, new.promise) for change in found),
        _files(old.gates, new.gates),
        _files(old.records or {}, new.records or {}) if said else (),
    )


def _files(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return (path, "added", "removed" or "changed") for each file that differs."""
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return tuple(
        (name, "added" if name not in old else "removed" if name not in new else "changed") for name in names
    )


def _record(found: _Found) -> dict[str, Any]:
    return {
        "study": found.study,
        "old": {"ref": found.old.ref, "commit": found.old.commit, "digest": found.old.digest},
        "new": {"ref": found.new.ref, "commit": found.new.commit, "digest": found.new.digest},
        "changes": [
            {**change.as_record(), "concerns": sorted(names)}
            for change, names in zip(found.changes, found.concerns, strict=True)
        ],
        "gates": [{"path": path, "how": how} for path, how in found.gates],
        "records": [{"path": path, "how": how} for path, how in found.records],
        "substantive": found.substantive,
    }


def _page(found: _Found) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from prereg.protocol.wording import printable

    page = Table.grid(padding=(0, 2, 0, 0))
    page.add_column(no_wrap=True)
    page.add_column(overflow="fold")

    def group(title: str, style: str, lines: list[str]) -> None:
        for i, line in enumerate(lines):
            page.add_row(Text("" if i else title, style), Text(line))
        if lines:
            page.add_row()

    page.add_row(Text("study", "dim"), Text(found.study))
    page.add_row(Text("from", "dim"), Text(_called(found.old)))
    group("to", "dim", [_called(found.new)])
    for effect, style in _COLORS.items():
        group(effect, style, [_line(change) for change in found.changes if change.effect == effect])
    group("gates", "bold", [f"{printable(path)}: {how}" for path, how in found.gates])
    group("records", "bold", [f"{printable(path)}: {how}" for path, how in found.records])
    return page


def _called(side: Side) -> str:
    return side.ref if side.commit is None else f"{side.ref} ({side.commit[:12]})"


def _line(change: Change) -> str:
    """Return a change as it is worded; long text in full, before and after."""
    from prereg.protocol.wording import printable

    old, new = change.old, change.new
    if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > _LONG:
        return f"{change.key}\n- {printable(old)}\n+ {printable(new)}"
    return change.words


def _summary(found: _Found) -> RenderableType:
    from rich.text import Text

    from prereg.protocol.changes import substantive

    if not found.changes and not found.gates:
        return Text("the promise and the gates are the same")
    counts = [f"{sum(c.effect == effect for c in found.changes)} {effect}" for effect in _COLORS]
    lines = [f"{', '.join(counts)}; gate files: {len(found.gates)}"]
    pairs = zip(found.changes, found.concerns, strict=True)
    touched = frozenset[str]().union(*(names for change, names in pairs if substantive(change)))
    if touched:
        lines.append(f"concerns {', '.join(sorted(touched))}")
    return Text("\n".join(lines))
