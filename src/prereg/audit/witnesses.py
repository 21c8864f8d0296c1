"""What others say: signatures of the commit, of tags and of the file, and receipts. No signature is no error."""

from __future__ import annotations

from collections.abc import Iterator

from prereg.audit.case import Case
from prereg.audit.findings import Finding, Status
from prereg.errors import RegistrationError
from prereg.registration.receipts import receipt_witnesses
from prereg.registration.records import REGISTRATION
from prereg.registration.signatures import commit_witness, ssh_witness, tag_witnesses
from prereg.registration.witness import Witness

__all__ = ["check_witnesses", "witnesses"]

_STATUS: dict[str, Status] = {"good": "verified", "bad": "violation", "unknown": "note"}


def check_witnesses(case: Case) -> Iterator[Finding]:
    """Show who signed, and what outside of the repository vouches for a time.

    Integrity: "git/SSH signatures are verified where present", "external anchors are verified offline where that is
    possible".
    """
    if case.chain is None:
        return
    try:
        found = witnesses(case)
    except RegistrationError as error:
        yield Finding("witnesses", "unverified", error.message, remedy=error.remedy)
        return
    for witness in found:
        when = "" if witness.when is None else f", {witness.when:%Y-%m-%d %H:%M} UTC"
        by = f" by {witness.by}" if witness.by else ""
        yield Finding(
            "witnesses",
            _STATUS[witness.state],
            f"{witness.kind} signature or receipt{by}{when}: {witness.state}. {witness.detail}",
            remedy=witness.remedy,
        )
    if not found:
        yield Finding(
            "witnesses", "note", "no signature and no receipt: the order rests on this history alone"
        )


def witnesses(case: Case) -> tuple[Witness, ...]:
    """Return everything that speaks for the registration; read once.

    Raises
    ------
    RegistrationError
        If registration.json can't be read.
    """
    if case.witnesses is None:
        case.witnesses = tuple(_ask(case))
    return case.witnesses


def _ask(case: Case) -> Iterator[Witness]:
    signers = case.folder / "allowed_signers"
    allowed = signers if signers.is_file() and not signers.is_symlink() else None
    timeline, origin = case.timeline, case.origin
    if timeline is not None and origin is not None and origin.first is not None:
        root, commit = timeline.repository.root, timeline.commit(origin.first).id
        found = commit_witness(root, commit, allowed)
        if found is not None:
            yield found
        yield from tag_witnesses(root, commit, allowed)
    file = case.folder / REGISTRATION
    if file.is_file() and not file.is_symlink():
        signed = ssh_witness(file, file.with_name(f"{file.name}.sig"), allowed)
        if signed is not None:
            yield signed
        yield from receipt_witnesses(file)
