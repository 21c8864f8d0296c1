"""How a study stands, at a glance: what each run asks before it answers. The whole history is `prereg audit`'s."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.protocol import ProtocolFile
from prereg.registration.attempts import ATTEMPTS, AttemptLog, LogState
from prereg.registration.chain import Chain, read_chain
from prereg.registration.components import code_now, differing, facts_digests, gates_now
from prereg.registration.judgement import Judgement, Status, few
from prereg.registration.records import AMENDMENTS, REGISTRATION, Known

__all__ = ["UNREGISTERED", "Standing", "Status", "standing_of"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether what a study says now is what was registered.

    Parameters
    ----------
    status
        ``registered``: the promise, the gates, the code and the facts are those of the registration, and git
        holds it. ``unregistered``: there is none. ``unverified``: there is one, but it can't be shown that it
        covers what is here. ``tampered``: what is here contradicts it.
    root
        Root digest in force, or None.
    reasons
        Why it is not registered; empty where it is.
    remedy
        The next step.
    known
        The most that was known of the data when something was frozen or amended.
    commit
        The first commit that carries the registration, where git could be asked.
    date
        When it was frozen, by its author's clock.
    """

    status: Status
    root: str | None = None
    reasons: tuple[str, ...] = ()
    remedy: str | None = None
    known: Known | None = None
    commit: str | None = None
    date: str | None = None

    @property
    def is_registered(self) -> bool:
        """True only where nothing stands in the way."""
        return self.status == "registered"

    def line(self) -> str:
        """Say it in one line."""
        if self.status == "unregistered":
            return "not registered: no freeze is on record"
        if self.root is None or self.status != "registered":
            name = "" if self.root is None else f" {self.root[:16]}"
            return f"registration{name} {self.status.upper()}: {'; '.join(self.reasons)}"
        at = "" if self.commit is None else f", first in commit {self.commit[:12]}"
        known = "" if self.known == "none" else f"; {self.known} data were known"
        return f"registered {self.root[:16]}, frozen {(self.date or '')[:10]}{at}{known}"

    def as_record(self) -> dict[str, Any]:
        """Return it as plain data; no commit and no reason that depends on where the checkout lies."""
        return {
            "status": self.status,
            "root": self.root,
            "known": self.known,
            "reasons": list(self.reasons),
        }


UNFORK = (
    "undo the merge (git reset --hard ORIG_HEAD), rebase one branch without its amendment, prereg amend again"
)

UNREGISTERED = Standing("unregistered")
"""How a study stands that nobody has frozen."""


def standing_of(folder: Path, protocol_file: ProtocolFile, root: Path) -> tuple[Standing, Chain | None]:
    """Return how the study in `folder` stands, and its chain where it can be read.

    Reads some hundred small files and asks git twice; nothing is raised for what a hostile file may hold.

    Parameters
    ----------
    folder
        The study's.
    protocol_file
        Its protocol, as read.
    root
        The project's root.
    """
    try:
        chain = read_chain(folder)
    except RegistrationError as error:
        # Reasons stand in tracked tables: where a checkout lies is none of their business.
        reason = error.message.replace(f"{folder}{os.sep}", "")
        return Standing("tampered", reasons=(reason,), remedy=error.remedy), None
    if chain is None:
        if (folder / AMENDMENTS).is_symlink() or (folder / AMENDMENTS).exists():
            reason = f"{AMENDMENTS} is there, but {REGISTRATION} is not"
            return Standing("tampered", reasons=(reason,), remedy=f"git checkout -- {folder}"), None
        return Standing("unregistered", remedy=f"prereg freeze {folder}"), None
    status, reasons, remedy, commit = _judge(chain, protocol_file, root)
    standing = Standing(
        status, chain.current.root, reasons, remedy, chain.known, commit, chain.registration.date
    )
    return standing, chain


def _judge(chain: Chain, protocol_file: ProtocolFile, root: Path) -> Judgement:
    fault = chain.fault()
    if fault is not None and chain.is_forked:
        # Nothing contradicts the promise here: two honest branches met.
        return "unverified", (fault,), UNFORK, None
    if fault is not None:
        return "tampered", (fault,), f"git log -p -- {chain.folder / AMENDMENTS}", None
    changed = chain.differs(protocol_file.protocol)
    if changed:
        words = few([change.words for change in changed])
        remedy = f"git checkout -- {protocol_file.path}, or: prereg amend {chain.folder} ... --reason ..."
        return "tampered", words, remedy, None
    from prereg.registration.glance import ask_git

    seen = ask_git(chain, root)
    if seen[0] == "tampered":  # the graver word first
        return seen
    if protocol_file.path.is_symlink():
        reason = f"{protocol_file.path.name} is a link: what it leads to is not what was registered"
        return "unverified", (reason,), f"git checkout -- {protocol_file.path}", None
    moved = moved_components(chain, protocol_file, root)
    if moved:
        words = few([f"{printable(n)} is not the registered one" for names in moved.values() for n in names])
        remedy = f"restore it, or: prereg amend {chain.folder} {' '.join(moved)} --reason ..."
        return "unverified", words, remedy, None
    log = AttemptLog(chain.folder / ATTEMPTS).read()
    if log.faults:
        remedy = f"git checkout -- {chain.folder / ATTEMPTS}, then: prereg audit {chain.folder}"
        return (
            "unverified",
            few([f"the attempts log is damaged: {fault}" for fault in log.faults]),
            remedy,
            None,
        )
    stray = _unknown_roots(chain, log)
    if stray:
        reason = f"the attempts log names a registration that is not here: {', '.join(r[:16] for r in stray)}"
        return "unverified", (reason,), f"prereg audit {chain.folder}", None
    return seen


def _unknown_roots(chain: Chain, log: LogState) -> tuple[str, ...]:
    """Return roots under which something was tried and that no link has: an amendment was taken away, say."""
    named = {attempt.registration for attempt in log.entries}
    return tuple(sorted(root for root in named if root is not None and root not in chain.roots))


def moved_components(chain: Chain, protocol_file: ProtocolFile, root: Path) -> Mapping[str, tuple[str, ...]]:
    """Return gate files, modules and facts that are not the registered ones, by component; none where all are.

    Libraries are not among them: they bear on a measurement, and each piece of evidence names its own.
    """
    frozen = chain.current.components
    try:
        gates = gates_now(chain.folder, root)
    except RegistrationError:
        gates = {}
    found = {
        "gates": differing(frozen.gates, gates),
        "code": differing(frozen.code, code_now(frozen.code, chain.folder)),
        "facts": differing(frozen.facts, facts_digests(protocol_file.protocol, root)),
    }
    return {component: names for component, names in found.items() if names}
