"""`prereg amend`: adds a change to what was registered; nothing that stands is ever overwritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from prereg.errors import RegistrationError
from prereg.protocol.changes import Change
from prereg.registration.attempts_files import clean
from prereg.registration.chain import RANK, Chain, read_chain
from prereg.registration.components import differing
from prereg.registration.freeze import Freeze, components_of, require_margins
from prereg.registration.history import Repository
from prereg.registration.records import (
    AMENDMENTS,
    REGISTRATION,
    Amendment,
    Components,
    Known,
    protocol_data,
    sealed,
    timestamp,
    write_record,
)
from prereg.registration.seen import require_known

__all__ = ["amend", "pending", "subject_of"]

PARTS = ("gates", "code", "facts", "models", "libraries")


def amend(
    study: Freeze,
    subjects: Sequence[str],
    *,
    reason: str,
    known: Known,
    statement: str | None,
    now: datetime | None = None,
) -> Amendment:
    """Register what was changed since the last link of the chain.

    The author edits the files first; this compares them with what is registered, and writes one new file.

    Parameters
    ----------
    study
        The study as it lies in the working tree.
    subjects
        What the amendment is about: ids of hypotheses, tables of the protocol (``inference``,
        ``controls.<name>``, ...), or ``gates``, ``code``, ``facts``, ``models``, ``libraries``. They must name
        everything that changed, and nothing else.
    reason
        Why.
    known
        What is known of the data by now.
    statement
        Which data, in a sentence; needed unless nothing is known.
    now
        The date to claim; None asks the clock.

    Raises
    ------
    RegistrationError
        If the study isn't registered or without git, nothing changed, something changed that no subject names, a
        claim of equivalence could not be told from nothing, or results are on record that `known` denies.
    StorageError
        If the file can't be written.
    """
    chain = _chain(study)
    clean(study.folder / AMENDMENTS)  # what a killed amendment left
    present = components_of(study)
    found = pending(chain, study, present)
    _require_named(found, subjects, study)
    require_margins(study)
    _require_honest(known, chain, study)
    moved = chain.differs(study.protocol)
    content: dict[str, Any] = {
        "format": 1,
        "study": study.protocol.study.name,
        "number": len(chain.amendments) + 1,
        "previous": chain.current.root,
        "subjects": sorted(found),
        "reason": reason,
        "date": timestamp(now),
        "known": known,
        **({} if statement is None else {"statement": statement}),
        "components": present.model_dump(mode="json"),
        "protocol": protocol_data(study.protocol),
        "changes": [{"key": c.key, "old": c.old, "new": c.new, "effect": c.effect} for c in moved],
        "files": _files(chain.current.components, present),
    }
    amendment = sealed(Amendment, content)
    write_record(study.folder / AMENDMENTS / amendment.file_name, amendment)
    return amendment


def pending(chain: Chain, study: Freeze, present: Components) -> Mapping[str, tuple[str, ...]]:
    """Return what differs from the link in force, in words, by the subject that an amendment must name."""
    found: dict[str, tuple[str, ...]] = {}
    for change in chain.differs(study.protocol):
        name = subject_of(change)
        found[name] = (*found.get(name, ()), change.words)
    for part in PARTS:
        names = differing(getattr(chain.current.components, part), getattr(present, part))
        if names:
            found[part] = tuple(f"{name} changed" for name in names)
    return found


def subject_of(change: Change) -> str:
    """Return the subject that a change of the promise belongs to: a hypothesis' id, or a table's name."""
    parts = change.path
    if parts[0] == "hypotheses":
        return parts[1]
    return ".".join(parts[:2]) if parts[0] in ("controls", "updates", "analyses", "published") else parts[0]


def _chain(study: Freeze) -> Chain:
    chain = read_chain(study.folder)
    if chain is None:
        raise RegistrationError(
            f"{study.folder / REGISTRATION}: this study is not registered, so there is nothing to amend",
            remedy=f"prereg freeze {study.folder}",
        )
    if study.protocol.study.name != chain.registration.study:
        raise RegistrationError(
            f"{study.protocol_file.path}: study.name is {study.protocol.study.name!r}, registered is "
            f"{chain.registration.study!r}; a study of another name is another study",
            remedy="give it its name back, or freeze the other study in a folder of its own",
        )
    fault = chain.fault()
    if fault is not None:
        raise RegistrationError(fault, remedy=f"git log -p -- {study.folder / AMENDMENTS}")
    return chain


def _require_named(found: Mapping[str, tuple[str, ...]], subjects: Sequence[str], study: Freeze) -> None:
    if not found:
        raise RegistrationError(
            f"{study.folder}: nothing differs from what is registered",
            remedy="edit the protocol or the gate first, then amend",
        )
    idle = sorted(set(subjects) - set(found))
    if idle:
        raise RegistrationError(
            f"nothing about {', '.join(idle)} changed; what did: {', '.join(sorted(found))}",
            remedy=f"prereg amend {study.folder} {' '.join(sorted(found))} --reason ...",
        )
    silent = sorted(set(found) - set(subjects))
    if silent:
        words = "; ".join(word for name in silent for word in found[name][:3])
        raise RegistrationError(
            f"this also changed, and no subject names it: {words}",
            remedy=f"restore it, or: prereg amend {study.folder} {' '.join(sorted(found))} --reason ...",
        )


def _require_honest(known: Known, chain: Chain, study: Freeze) -> None:
    if RANK[known] < RANK[chain.known]:
        raise RegistrationError(
            f"{chain.known} data were known when this study was registered or amended before; nobody knows less now",
            remedy=f"--known {chain.known}, or more, with --statement",
        )
    require_known(known, study.folder, study.reports, Repository.open(study.folder))


def _files(old: Components, new: Components) -> list[dict[str, Any]]:
    return [
        {"component": part, "name": name, "old": before.get(name), "new": after.get(name)}
        for part in PARTS
        for before, after in ((getattr(old, part), getattr(new, part)),)
        for name in differing(before, after)
    ]
