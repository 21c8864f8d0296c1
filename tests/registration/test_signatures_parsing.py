"""What is read from git, gpg and ssh-keygen, without any of them."""

from __future__ import annotations

import base64
import hashlib

import pytest

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.gpg import read_status
from prereg.registration.signed_objects import split_commit, split_tag
from prereg.registration.signers import _principals, parse_ssh_signature
from tests.registration.keys import (
    WHEN,
)

SSH_COMMIT = """\
tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904
author A <a@b> 1772366400 +0000
committer A <a@b> 1772366400 +0000
gpgsig -----BEGIN SSH SIGNATURE-----
 abc
{blank}
 def
 -----END SSH SIGNATURE-----
encoding latin-1

message
gpgsig stays here
""".replace("{blank}", " ")


def test_a_commit_taken_apart() -> None:
    """The signature header and its continuation go, everything else stays, also a line like it in the message."""
    found = split_commit(SSH_COMMIT.encode(), "a" * 40)
    assert found is not None
    assert found.signature == b"-----BEGIN SSH SIGNATURE-----\nabc\n\ndef\n-----END SSH SIGNATURE-----\n"
    head, _, rest = SSH_COMMIT.partition("gpgsig")
    assert found.payload.decode() == head + rest[rest.index("encoding") :]
    assert (found.format, found.when) == ("ssh", WHEN)


def test_a_sha1_commit_is_not_signed_by_its_other_header() -> None:
    """The header of the other hash's signature is neither the signature nor part of what was signed."""
    text = SSH_COMMIT.replace("gpgsig -", "gpgsig-sha256 -").encode()
    assert split_commit(text, "a" * 40) is None
    assert split_commit(text, "a" * 64) is not None


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"gpgsig", b"gpgsig \n x", b" \n", b"tag \xff\n\n-----BEGIN PGP MESSAGE-----"]
)
def test_objects_of_any_bytes_are_taken_apart(data: bytes) -> None:
    """No bytes make the parsers raise."""
    split_commit(data, "a" * 40)
    split_tag(data, "a" * 40)


def test_an_unsigned_tag_is_none() -> None:
    """A tag without armor has no signature."""
    assert split_tag(b"object a\ntype commit\ntag t\n\nmessage\n", "a" * 40) is None


@pytest.mark.parametrize("seconds", ["99999999999999", "-1", "x"])
def test_a_date_that_is_none(seconds: str) -> None:
    """A date out of range leaves the time open."""
    found = split_commit(SSH_COMMIT.replace("1772366400", seconds).encode(), "a" * 40)
    assert found is not None
    assert found.when is None


KEY = "C6ECE7EAE3010CB7B8DBCAF03BD01B1504182883"
VALID = f"[GNUPG:] VALIDSIG {KEY} 2026-03-01 1772366400 0 4 0 22 8 00 {KEY}"
GOOD = "[GNUPG:] GOODSIG 3BD01B1504182883 Ada <ada@example.org>"


@pytest.mark.parametrize(
    ("lines", "state", "words"),
    [
        ([GOOD, VALID, "[GNUPG:] TRUST_ULTIMATE 0 pgp"], "good", "trust: ultimate"),
        ([GOOD, VALID], "good", "trust: undefined"),
        ([GOOD, VALID, "[GNUPG:] TRUST_NEVER"], "unknown", "never trusts"),
        ([GOOD], "unknown", "did not confirm"),
        ([GOOD, GOOD, VALID], "unknown", "2 signatures"),
        ([GOOD, VALID, GOOD.replace("GOODSIG", "BADSIG")], "bad", "of other bytes"),
        ([GOOD.replace("GOODSIG", "REVKEYSIG"), VALID], "unknown", "revoked"),
        ([GOOD.replace("GOODSIG", "EXPKEYSIG"), VALID], "unknown", "expired"),
        ([GOOD.replace("GOODSIG", "EXPSIG"), VALID], "unknown", "expired"),
        (["[GNUPG:] ERRSIG 3BD01B1504182883 99 8 00 1772366400 4 -"], "unknown", "method"),
        (["[GNUPG:] ERRSIG $(reboot) 22 8 00 1772366400 9 $(reboot)"], "unknown", "GPG key ?"),
        (["[GNUPG:] NODATA 4"], "unknown", "no signature"),
        ([GOOD.removeprefix("[GNUPG:] "), VALID.removeprefix("[GNUPG:] ")], "unknown", "no signature"),
        ([], "unknown", "no signature"),
    ],
)
def test_gpgs_status_lines(lines: list[str], state: str, words: str) -> None:
    """Good demands one signature, good and valid, by a key not distrusted; anything else says why."""
    found = read_status("\n".join(["[GNUPG:] NEWSIG", *lines, ""]).encode())
    assert found.state == state
    assert words in found.detail
    assert "$" not in str(found.remedy)


@pytest.mark.parametrize("time", ["1772366400", "20260301T120000"])
def test_gpgs_two_forms_of_time(time: str) -> None:
    """A time from gpg is in seconds or in ISO form."""
    assert read_status(f"{GOOD}\n{VALID.replace('1772366400', time)}\n".encode()).when == WHEN


def test_principals_of_older_and_newer_openssh() -> None:
    """OpenSSH prints a line's principals one a line, and printed them as one list; what is excluded isn't asked."""
    assert _principals(b"a@x\n!b@x\n") == ["a@x"]
    assert _principals(b"a@x,!b@x,c\n") == ["a@x,!b@x,c", "a@x", "c"]
    assert _principals(b"\x1b[31m\n\n") == []


def armored(*fields: bytes, version: int = 1) -> bytes:
    """Return an armored SSH signature of these fields."""
    blob = b"SSHSIG" + version.to_bytes(4, "big") + b"".join(len(f).to_bytes(4, "big") + f for f in fields)
    return b"-----BEGIN SSH SIGNATURE-----\n%s-----END SSH SIGNATURE-----\n" % base64.encodebytes(blob)


def test_what_an_ssh_signature_says_of_itself() -> None:
    """Namespace, type and fingerprint are read without any program."""
    key = b"\0\0\0\x0bssh-ed25519\0\0\0\x01k"
    found = parse_ssh_signature(armored(key, b"prereg", b"", b"sha512", b"s"))
    assert (found.namespace, found.key_type) == ("prereg", "ssh-ed25519")
    assert found.fingerprint == "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip(
        "="
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"-----BEGIN SSH SIGNATURE-----",
        b"-----BEGIN SSH SIGNATURE-----\n\xff\n-----END SSH SIGNATURE-----",
        armored(),
        armored(b"k", b"prereg", b"", b"sha512"),
        armored(b"k", b"prereg", b"", b"sha512", b"s", b"more"),
        armored(b"k", b"prereg", b"", b"sha512", b"s", version=2),
    ],
    ids=["empty", "cut", "base64", "bare", "short", "long", "version"],
)
def test_what_is_no_ssh_signature(data: bytes) -> None:
    """Bytes that aren't one, or not of the version that is known, are refused."""
    with pytest.raises(RegistrationError, match="no SSH signature"):
        parse_ssh_signature(data)


def test_foreign_text_is_made_printable() -> None:
    """Escapes, line breaks and length can't reach a terminal."""
    assert printable(b"a\x1b[31m\nb\xff") == "a?[31m b\ufffd"
    assert len(printable("x" * 10_000)) == 200
