"""Receipts of a registration: that someone else saw these bytes, and when.

They lie beside the file that they speak of: ``registration.json.ots`` (OpenTimestamps), ``registration.json.tsr``
(RFC 3161), ``registration.json.sig`` (an SSH signature, see `prereg.registration.signatures`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from prereg.errors import RegistrationError
from prereg.registration import ots, rfc3161
from prereg.registration.signatures import MAX_FILE, Kind, State, Witness, ssh_witness
from prereg.registration.witness import Finding, read_bounded

__all__ = ["Kind", "State", "Witness", "attach", "kind_of_receipt", "receipt_witnesses"]

_REGISTRATION = "registration.json"
_SUFFIXES = {"ssh": ".sig", "opentimestamps": ".ots", "rfc3161": ".tsr"}
_LIMITS = {"ssh": 64_000, "opentimestamps": ots.MAX_RECEIPT, "rfc3161": rfc3161.MAX_RECEIPT}
_MAX_ROOTS = 256_000


def receipt_witnesses(file: Path) -> tuple[Witness, ...]:
    """Say what the receipts beside a file prove of it.

    An RFC 3161 receipt is checked against ``tsa_roots.pem`` in the same folder. Where the file has CRLF line
    ends and a receipt is of its LF form, the detail says so.

    Returns
    -------
    tuple of Witness
        At most one of each kind; empty where there is no receipt.

    Raises
    ------
    RegistrationError
        If there is a receipt, but the file itself can't be read.
    """
    places: list[tuple[Kind, Path]] = [
        ("opentimestamps", file.with_name(f"{file.name}.ots")),
        ("rfc3161", file.with_name(f"{file.name}.tsr")),
    ]
    return tuple(
        _witness(file, kind, place, place.name)
        for kind, place in places
        if place.is_symlink() or place.exists()
    )


def attach(study_folder: Path, receipt: Path) -> Path:
    """Copy a receipt or an SSH signature beside a study's registration.json, once it is seen to speak of it.

    A receipt that can't be decided here (pending, root not known) is attached; one that contradicts the
    registration or can't be read is not. What is already attached is replaced only by an OpenTimestamps
    receipt that has a Bitcoin block where the old one was still pending.

    Returns
    -------
    Path
        Where it now lies.

    Raises
    ------
    RegistrationError
        If there is no registration, the receipt is of no known kind or isn't of this registration, what would
        check it isn't installed, or another one is attached.
    StorageError
        If the folder can't be written.
    """
    from prereg.workers import write_atomically

    registration = study_folder / _REGISTRATION
    if not registration.is_file():
        raise RegistrationError(
            f"{study_folder} has no {_REGISTRATION}", remedy=f"prereg freeze {study_folder}"
        )
    data = read_bounded(receipt, max(_LIMITS.values()))
    kind = kind_of_receipt(data)
    if kind is None:
        raise RegistrationError(
            f"{receipt.name} is neither an OpenTimestamps receipt, nor an RFC 3161 response, nor an SSH signature",
            remedy=f"ssh-keygen -Y sign -n prereg -f KEY {registration}, or ots stamp {registration}",
        )
    place = registration.with_name(_REGISTRATION + _SUFFIXES[kind])
    new = _require_fit(registration, kind, receipt, place.name)
    if place.is_symlink() or place.exists():
        if not place.is_symlink() and read_bounded(place, max(_LIMITS.values())) == data:
            return place
        _require_better(_witness(registration, kind, place, place.name), new, place)
    write_atomically(place, lambda part: part.write_bytes(data))
    return place


def kind_of_receipt(data: bytes) -> Kind | None:
    """Say by its first bytes what a receipt is; None for none."""
    if data.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        return "ssh"
    if data.startswith(ots.MAGIC):
        return "opentimestamps"
    if data[:1] == b"\x30" and len(data) > 1 and data[1] >= 0x80:  # a DER sequence of more than 127 bytes
        return "rfc3161"
    return None


def _witness(file: Path, kind: Kind, place: Path, name: str) -> Witness:
    """Check the receipt at `place` against a file; `name` is what its commands call it."""
    if kind == "ssh":
        found = ssh_witness(file, place, file.with_name("allowed_signers"))
        return found or Finding("unknown", "", f"{place.name} is gone").of(kind)
    contents = _forms(read_bounded(file, MAX_FILE))
    check = _check_ots if kind == "opentimestamps" else _check_tsr
    try:
        data = read_bounded(place, _LIMITS[kind])
    except RegistrationError as error:
        return Finding("unknown", "", error.message, error.remedy).of(kind)
    finding = check(data, contents[:1], file, name)
    if finding.state == "bad" and len(contents) > 1:
        unix = check(data, contents[1:], file, name)
        if unix.state != "bad":
            finding = unix._replace(
                detail=f"{unix.detail}; it is of the file with LF line ends, here they are CRLF"
            )
    return finding.of(kind)


def _check_ots(data: bytes, contents: list[bytes], file: Path, name: str) -> Finding:  # noqa: ARG001
    return ots.check_ots(data, [hashlib.sha256(content).hexdigest() for content in contents], name)


def _check_tsr(data: bytes, contents: list[bytes], file: Path, name: str) -> Finding:
    place = file.with_name(rfc3161.ROOTS)
    if not (place.is_symlink() or place.exists()):
        return rfc3161.check_tsr(data, contents, None, name)
    try:
        roots = read_bounded(place, _MAX_ROOTS)
    except RegistrationError as error:
        finding = rfc3161.check_tsr(data, contents, None, name)
        return finding._replace(detail=f"{finding.detail} ({error.message})")
    return rfc3161.check_tsr(data, contents, roots, name)


def _forms(data: bytes) -> list[bytes]:
    """Return the file's bytes, and with LF line ends where it has others."""
    return [data, data.replace(b"\r\n", b"\n")] if b"\r\n" in data else [data]


def _require_fit(registration: Path, kind: Kind, receipt: Path, name: str) -> Witness:
    found = _witness(registration, kind, receipt, name)
    if found.state == "bad":
        raise RegistrationError(
            f"{receipt.name} is not attached: {found.detail}",
            remedy=f"have {registration} itself signed or stamped",
        )
    if found.remedy is not None and found.remedy.startswith(("pip install", "install ")):
        raise RegistrationError(f"{receipt.name} can't be checked: {found.detail}", remedy=found.remedy)
    return found


def _require_better(old: Witness, new: Witness, place: Path) -> None:
    block = "Bitcoin block "
    if new.by.startswith(block) and not old.by.startswith(block):
        return
    raise RegistrationError(
        f"{place.name} is already there and holds another receipt ({old.detail})",
        remedy=f"git rm {place}, if the new one is to take its place",
    )
