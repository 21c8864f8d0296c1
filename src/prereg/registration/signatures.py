"""Signatures of a registration: of the commit that carries it, of tags on that commit, of the file itself.

What is signed is taken from the repository's bytes and handed to gpg and ssh-keygen directly, not through
``git verify-commit``: a repository's configuration then has no say in which program runs, which list of
signers counts or whether a key is fetched. The answers agree with git's, as the tests show.
"""

from __future__ import annotations

from pathlib import Path

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.gpg import check_gpg
from prereg.registration.signed_objects import SignedObject, read_commit, read_tag, require_id, tags_of
from prereg.registration.signers import (
    MAX_SIGNATURE,
    NAMESPACE,
    Signers,
    check_ssh,
    known_signers,
)
from prereg.registration.witness import Finding, Kind, State, Witness, read_bounded

__all__ = ["Kind", "State", "Witness", "commit_witness", "ssh_witness", "tag_witnesses"]

MAX_FILE = 4_000_000


def commit_witness(root: Path, commit: str, allowed_signers: Path | None) -> Witness | None:
    """Say who signed a commit.

    Parameters
    ----------
    root
        The repository's top folder.
    commit
        Its full id, 40 or 64 hex characters.
    allowed_signers
        The study's list of signers, where it has one; the reader's own is asked as well.

    Returns
    -------
    Witness or None
        None where the commit isn't signed.

    Raises
    ------
    RegistrationError
        If `commit` is no full id.
    """
    require_id(commit)
    try:
        signed = read_commit(root, commit)
    except RegistrationError as error:
        return Finding("unknown", "", error.message, error.remedy).of("commit")
    if signed is None:
        return None
    return _check(signed, known_signers(allowed_signers), f"git verify-commit {commit}").of(
        "commit", signed.when
    )


def tag_witnesses(root: Path, commit: str, allowed_signers: Path | None) -> tuple[Witness, ...]:
    """Say who signed the tags that point at a commit; parameters and errors as `commit_witness`.

    Empty where no tag of it is signed. Tags come in the order of their names.
    """
    require_id(commit)
    try:
        tags = tags_of(root, commit)
    except RegistrationError as error:
        return (Finding("unknown", "", error.message, error.remedy).of("tag"),)
    signers = known_signers(allowed_signers) if tags else Signers(())
    found = (_tag_witness(root, ref, tag, commit, signers) for ref, tag in tags)
    return tuple(witness for witness in found if witness is not None)


def ssh_witness(file: Path, signature: Path, allowed_signers: Path | None) -> Witness | None:
    """Say who signed a file with ``ssh-keygen -Y sign -n prereg``.

    Where the file has CRLF line ends and only its LF form was signed, the detail says so.

    Returns
    -------
    Witness or None
        None where there is no signature file.

    Raises
    ------
    RegistrationError
        If `file` itself can't be read.
    """
    if not (signature.is_symlink() or signature.exists()):
        return None
    data = read_bounded(file, MAX_FILE)
    try:
        armored = read_bounded(signature, MAX_SIGNATURE)
    except RegistrationError as error:
        return Finding("unknown", "", error.message, error.remedy).of("ssh")
    signers = known_signers(allowed_signers)
    finding = check_ssh(data, armored, namespace=NAMESPACE, signers=signers)
    if finding.state == "bad" and b"\r\n" in data:
        unix = check_ssh(data.replace(b"\r\n", b"\n"), armored, namespace=NAMESPACE, signers=signers)
        if unix.state != "bad":
            finding = unix._replace(
                detail=f"{unix.detail}; it is of the file with LF line ends, here they are CRLF"
            )
    return finding.of("ssh")


def _tag_witness(root: Path, ref: str, tag: str, commit: str, signers: Signers) -> Witness | None:
    name = printable(ref, 80)
    try:
        signed = read_tag(root, tag, commit)
    except RegistrationError as error:
        return Finding("unknown", "", f"tag {name}: {error.message}", error.remedy).of("tag")
    if signed is None:
        return None
    finding = _check(signed, signers, f"git verify-tag {tag}")
    words = f"tag {name}: {finding.detail}"
    if signed.name != ref:
        words += f"; it calls itself {printable(signed.name or '', 80)!r}: the tag was renamed"
    return finding._replace(detail=words).of("tag", signed.when)


def _check(signed: SignedObject, signers: Signers, command: str) -> Finding:
    if signed.format == "openpgp":
        return check_gpg(signed.payload, signed.signature)
    if signed.format == "ssh":
        return check_ssh(signed.payload, signed.signature, namespace="git", signers=signers, at=signed.when)
    if signed.format == "x509":
        return Finding("unknown", "", "an X.509 signature, which prereg doesn't check", command)
    return Finding("unknown", "", "a signature of no kind that git knows", command)
