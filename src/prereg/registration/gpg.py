"""OpenPGP signatures, checked by the reader's own gpg and keyring, without network.

Source: doc/DETAILS of GnuPG, "Format of the --status-fd output".
"""

from __future__ import annotations

import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.tools import run
from prereg.registration.witness import Finding

__all__ = ["check_gpg", "read_status"]

# gpg's options for a look that changes and fetches nothing.
_OPTIONS = (
    "--batch",
    "--no-tty",
    "--status-fd=1",
    "--no-auto-key-retrieve",
    "--disable-dirmngr",
    "--no-auto-check-trustdb",
)

_ANSWERS = {
    "GOODSIG": "",
    "BADSIG": "",
    "ERRSIG": "",
    "EXPSIG": "the signature has expired",
    "EXPKEYSIG": "the key has expired, and that the signature is older can't be shown",
    "REVKEYSIG": "its owner has revoked the key",
}
"""Of these, gpg gives one to each signature; the words say why one that is right is no witness."""


def check_gpg(payload: bytes, armored: bytes) -> Finding:
    """Check an OpenPGP signature of `payload` by the reader's keyring."""
    try:
        with tempfile.TemporaryDirectory(prefix="prereg-") as folder:
            (Path(folder) / "signature.asc").write_bytes(armored)
            ran = run(["gpg", *_OPTIONS, "--verify", "signature.asc", "-"], cwd=Path(folder), stdin=payload)
    except RegistrationError as error:
        return Finding("unknown", "", f"an OpenPGP signature, not checked: {error.message}", error.remedy)
    return read_status(ran.out)


def read_status(out: bytes) -> Finding:
    """Read gpg's status lines: what it found, and by whose key.

    ``good`` demands exactly one signature, GOODSIG and VALIDSIG together, and that the reader has not said
    never to trust the key.
    """
    lines = [line.split(" ") for line in out.decode("utf-8", "replace").split("\n")]
    status = [(parts[1], parts[2:]) for parts in lines if len(parts) > 1 and parts[0] == "[GNUPG:]"]
    words = dict(status)
    answers = [(name, rest) for name, rest in status if name in _ANSWERS]
    bad = [rest for name, rest in answers if name == "BADSIG"]
    if bad:
        by = printable(" ".join(bad[0][1:])) or "an unnamed key"
        return Finding("bad", by, f"the signature by {by} (GPG key {_id(bad[0])}) is of other bytes")
    if len(answers) != 1:
        found = (
            f"{len(answers)} signatures, where one was wanted"
            if answers
            else "no signature that gpg can read"
        )
        return Finding("unknown", "", found, "gpg --version")
    name, rest = answers[0]
    if name == "ERRSIG":
        return _unknown_key(rest)
    by = printable(" ".join(rest[1:])) or f"GPG key {_id(rest)}"
    valid = words.get("VALIDSIG", [])
    if not valid:
        return Finding("unknown", by, f"gpg did not confirm the signature by {by}", "gpg --version")
    key, when = f"GPG key {_id(valid[-1:])}", _time(valid[2] if len(valid) > 2 else "")
    trust = next((n.removeprefix("TRUST_").lower() for n, _ in status if n.startswith("TRUST_")), "undefined")
    if name != "GOODSIG":
        return Finding("unknown", by, f"rightly signed by {by} with {key}, but {_ANSWERS[name]}", None, when)
    if trust == "never":
        return Finding(
            "unknown", by, f"rightly signed by {by} with {key}, which the reader never trusts", None, when
        )
    return Finding(
        "good", by, f"signed by {by} with {key} of the reader's keyring (trust: {trust})", None, when
    )


def _unknown_key(rest: list[str]) -> Finding:
    """Read ERRSIG: key, algorithms, class, time, reason, fingerprint."""
    key = _id(rest[6:7]) if len(rest) > 6 and rest[6] != "-" else _id(rest)
    when = _time(rest[4] if len(rest) > 4 else "")
    if len(rest) > 5 and rest[5] == "9":
        words = f"signed with GPG key {key}, which the reader's keyring doesn't hold"
        return Finding("unknown", f"GPG key {key}", words, f"gpg --recv-keys {key}", when)
    words = f"signed with GPG key {key}, by a method that this gpg doesn't know"
    return Finding("unknown", f"GPG key {key}", words, "try a newer GnuPG", when)


def _id(parts: list[str]) -> str:
    """Return a key id or fingerprint, which goes into a command: hex or nothing."""
    return parts[0] if parts and re.fullmatch(r"[0-9A-Fa-f]{8,64}", parts[0]) else "?"


def _time(text: str) -> datetime | None:
    """Read seconds since 1970, or ``20261130T120000`` where gpg was built so."""
    try:
        if re.fullmatch(r"\d{8}T\d{6}", text):
            return datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        return datetime.fromtimestamp(int(text), UTC) if re.fullmatch(r"\d{1,12}", text) else None
    except (ValueError, OverflowError, OSError):
        return None
