"""Who may sign: the study's allowed_signers and the reader's own, and signatures checked against them by ssh-keygen.

Source: PROTOCOL.sshsig of OpenSSH, and ssh-keygen(1), ALLOWED SIGNERS.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.git import Git
from prereg.registration.tools import Ran, run
from prereg.registration.witness import Finding, read_bounded

__all__ = ["NAMESPACE", "Signers", "SshSignature", "check_ssh", "known_signers", "parse_ssh_signature"]

NAMESPACE = "prereg"
"""What a file signature must have been made for: `ssh-keygen -Y sign -n prereg`."""

MAX_SIGNERS = 256_000
MAX_SIGNATURE = 64_000
MAX_PRINCIPALS = 20

# What ssh-keygen says of a signature whose own bytes are wrong, and not of a kind that it merely doesn't know.
_CONTRADICTED = (b"incorrect signature", b"error in libcrypto", b"incomplete message")
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"


@dataclass(frozen=True, slots=True)
class SshSignature:
    """What an armored SSH signature says of itself.

    Parameters
    ----------
    namespace
        What it was made for.
    key_type
        For example ``ssh-ed25519``.
    fingerprint
        ``SHA256:...`` of the key, as ssh-keygen -l prints it.
    """

    namespace: str
    key_type: str
    fingerprint: str

    @property
    def key(self) -> str:
        """The key as words."""
        return f"{self.key_type} key {self.fingerprint}"


@dataclass(frozen=True, slots=True)
class Signers:
    """Lists of allowed signers, each with the name by which a reader knows it, and what kept others from being read."""

    lists: tuple[tuple[str, bytes], ...]
    faults: tuple[str, ...] = ()


def known_signers(allowed_signers: Path | None) -> Signers:
    """Return the study's list, where there is one, and the list that the reader's own git names, where it does.

    The reader's is ``gpg.ssh.allowedSignersFile`` of the *global* git configuration; what a repository's
    own configuration says is not the reader's word.
    """
    places = [("the study's allowed_signers", allowed_signers), ("the reader's allowed signers", _readers())]
    lists: list[tuple[str, bytes]] = []
    faults: list[str] = []
    for label, place in places:
        if place is None or not (place.is_symlink() or place.exists()):
            continue
        try:
            # The reader may keep theirs behind a link; a study's is part of the study.
            file = place if place == allowed_signers else place.resolve()
            lists.append((label, read_bounded(file, MAX_SIGNERS).replace(b"\r\n", b"\n")))
        except RegistrationError as error:
            faults.append(f"{label}: {error.message}")
    return Signers(tuple(lists), tuple(faults))


def parse_ssh_signature(armored: bytes) -> SshSignature:
    """Read an armored SSH signature without checking it.

    Raises
    ------
    RegistrationError
        If it is none, or is cut short.
    """
    text = armored.replace(b"\r\n", b"\n").strip()
    if not (text.startswith(_BEGIN) and text.endswith(_END)):
        raise RegistrationError("no SSH signature: its first or last line is missing")
    try:
        blob = base64.b64decode(b"".join(text[len(_BEGIN) : -len(_END)].split()), validate=True)
    except binascii.Error as error:
        raise RegistrationError(f"no SSH signature: {error}") from error
    if blob[:6] != b"SSHSIG" or blob[6:10] != b"\0\0\0\1":
        raise RegistrationError("no SSH signature of version 1")
    fields = list(_strings(blob[10:]))
    if len(fields) != 5:
        raise RegistrationError("no SSH signature: it is cut short or holds too much")
    key, namespace = fields[0], fields[1]
    key_type = next(_strings(key), b"")
    fingerprint = base64.b64encode(hashlib.sha256(key).digest()).rstrip(b"=").decode()
    return SshSignature(printable(namespace, 60), printable(key_type, 60), f"SHA256:{fingerprint}")


def check_ssh(
    payload: bytes, armored: bytes, *, namespace: str, signers: Signers, at: datetime | None = None
) -> Finding:
    """Check an SSH signature of `payload` against the lists of `signers`.

    Parameters
    ----------
    at
        The time for which a key must have been valid, where its line bounds it; now where None.
    """
    try:
        said = parse_ssh_signature(armored)
    except RegistrationError as error:
        return Finding("bad", "", error.message)
    if said.namespace != namespace:
        words = f"it was made for the namespace {said.namespace!r}, not for {namespace!r}"
        return Finding("bad", said.key, words, f"ssh-keygen -Y sign -n {namespace} -f KEY FILE")
    try:
        with tempfile.TemporaryDirectory(prefix="prereg-") as folder:
            return _check(_Check(Path(folder), payload, armored, namespace, at), said, signers)
    except RegistrationError as error:
        return Finding(
            "unknown", said.key, f"made with {said.key}; not checked: {error.message}", error.remedy
        )


@dataclass(frozen=True, slots=True)
class _Check:
    folder: Path
    payload: bytes
    armored: bytes
    namespace: str
    at: datetime | None

    def run(self, action: str, *arguments: str, stdin: bytes = b"") -> Ran:
        options = [] if self.at is None else [f"-Overify-time={self.at:%Y%m%d%H%M%S}"]
        command = ["ssh-keygen", "-Y", action, "-s", "signature", *arguments, *options]
        return run(command, cwd=self.folder, stdin=stdin)

    def by_list(self, text: bytes) -> tuple[str, str] | str:
        """Return (principal, key) that the list vouches for, or why it vouches for none."""
        (self.folder / "signers").write_bytes(text)
        found = self.run("find-principals", "-f", "signers")
        why = found.said
        for principal in _principals(found.out) if found.code == 0 else ():
            ran = self.run(
                "verify", "-f", "signers", "-I", principal, "-n", self.namespace, stdin=self.payload
            )
            if ran.code == 0:
                return printable(principal), _key(ran.out)
            why = ran.said
        return why

    def unvalidated(self) -> Ran:
        """Check the signature by the key that it carries, whoever's that is."""
        return self.run("check-novalidate", "-n", self.namespace, stdin=self.payload)


def _check(check: _Check, said: SshSignature, signers: Signers) -> Finding:
    (check.folder / "signature").write_bytes(check.armored.replace(b"\r\n", b"\n").strip() + b"\n")
    raw = check.unvalidated()
    if raw.code != 0:
        if any(words in raw.err for words in _CONTRADICTED):
            return Finding("bad", said.key, f"the signature by {said.key} is of other bytes")
        words = f"made with {said.key}; ssh-keygen can't check it: {raw.said}"
        return Finding("unknown", said.key, words, "try a newer OpenSSH")
    refused: list[str] = []
    for label, text in signers.lists:
        answer = check.by_list(text)
        if isinstance(answer, tuple):
            principal, key = answer
            return Finding("good", principal, f"signed by {principal} with {key}, named by {label}")
        refused.append(f"{label} does not vouch for it: {answer}")
    why = "; ".join([*refused, *signers.faults]) or "no allowed_signers names a key"
    return Finding(
        "unknown",
        said.key,
        f"rightly signed with {_key(raw.out) or said.key}, whose owner can't be told here: {why}",
        "compare the key's fingerprint with its owner's, then name the key in allowed_signers",
    )


def _principals(out: bytes) -> list[str]:
    """Return names to ask for: a line may hold several patterns, and `verify` wants one name that fits."""
    names: list[str] = []
    for line in out.decode("utf-8", "replace").splitlines():
        for pattern in [line, *line.split(",")]:
            name = pattern.strip()
            if name and name.isprintable() and not name.startswith("!") and name not in names:
                names.append(name)
    return names[:MAX_PRINCIPALS]


def _key(out: bytes) -> str:
    found = re.search(rb"with (\S+ key SHA256:\S+)", out)
    return printable(found[1]) if found else ""


def _strings(data: bytes) -> Iterator[bytes]:
    """Split SSH strings (four bytes of length, then the bytes) up to the first that is cut short."""
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            return
        yield data[at + 4 : end]
        at = end


def _readers() -> Path | None:
    try:
        wanted = ("config", "--global", "--includes", "--type=path", "--get", "gpg.ssh.allowedSignersFile")
        code, out, _ = Git(Path.home()).attempt(*wanted)
    except (RegistrationError, RuntimeError):
        return None
    name = out.decode("utf-8", "replace").strip()
    return Path(name) if code == 0 and name else None
