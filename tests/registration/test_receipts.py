"""RFC 3161 and OpenTimestamps receipts: what they prove offline, what they only claim, and what contradicts them."""

from __future__ import annotations

import hashlib
import os
import random
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from opentimestamps.core.notary import (
    BitcoinBlockHeaderAttestation,
    LitecoinBlockHeaderAttestation,
    PendingAttestation,
    TimeAttestation,
    UnknownAttestation,
)
from opentimestamps.core.op import CryptOp, Op, OpAppend, OpReverse, OpSHA1, OpSHA256
from opentimestamps.core.serialize import BytesSerializationContext
from opentimestamps.core.timestamp import DetachedTimestampFile, Timestamp

from prereg.errors import RegistrationError
from prereg.registration import ots, rfc3161
from prereg.registration.receipts import kind_of_receipt, receipt_witnesses
from prereg.registration.witness import Witness
from tests.registration.authority import Authority, needs_openssl

TEXT = b'{\n  "root": "abc"\n}\n'
CALENDAR = PendingAttestation("https://calendar.example.org")
BLOCK = BitcoinBlockHeaderAttestation(812345)


def ots_of(
    data: bytes, *claims: TimeAttestation, method: CryptOp | None = None, last: Op | None = None
) -> bytes:
    """Return an OpenTimestamps receipt of these bytes, as a calendar would make it: a nonce, a hash, claims."""
    method = OpSHA256() if method is None else method  # an operation without argument is an empty tuple
    stamp = Timestamp(hashlib.new(method.HASHLIB_NAME, data).digest())
    end = stamp.ops.add(OpAppend(b"nonce")).ops.add(OpSHA256() if last is None else last)
    end.attestations.update(claims)
    context = BytesSerializationContext()
    DetachedTimestampFile(method, stamp).serialize(context)
    return bytes(context.getbytes())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A registration in a study's folder."""
    made = tmp_path / "study" / "registration.json"
    made.parent.mkdir()
    made.write_bytes(TEXT)
    return made


@pytest.fixture(scope="module", params=["ec", "rsa"])
def authority(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Authority]:
    """An authority that signs with ECDSA, and one that signs with RSA."""
    return Authority(tmp_path_factory.mktemp("a") / "authority", request.param)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another authority, whose root has the same name."""
    return Authority(tmp_path_factory.mktemp("s") / "authority")


def put(file: Path, suffix: str, data: bytes, roots: bytes | None = None) -> Witness:
    """Lay a receipt beside the file; return what is said of it."""
    file.with_name(file.name + suffix).write_bytes(data)
    if roots is not None:
        file.with_name("tsa_roots.pem").write_bytes(roots)
    (witness,) = receipt_witnesses(file)
    return witness


def test_no_receipt_is_no_witness(tmp_path: Path) -> None:
    """Without receipts there is nothing to say, not even that the file is missing."""
    assert receipt_witnesses(tmp_path / "registration.json") == ()


# RFC 3161


@needs_openssl
@pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
def test_a_receipt_by_a_root_that_the_study_names_is_good(
    authority: Authority, file: Path, digest: str
) -> None:
    """Good gives the authority, the root that vouches for it, and the time; the time is aware."""
    found = put(file, ".tsr", authority.stamp(TEXT, digest), authority.roots)
    assert (found.kind, found.state, found.by) == ("rfc3161", "good", "Test TSA")
    assert found.when is not None
    assert abs(found.when - datetime.now(UTC)) < timedelta(minutes=5)
    assert "its root is Test Root, sha256 " in found.detail


@needs_openssl
def test_a_receipt_without_roots_only_claims(authority: Authority, file: Path) -> None:
    """Without tsa_roots.pem the name and the time are what the receipt claims."""
    found = put(file, ".tsr", authority.stamp(TEXT))
    assert (found.state, found.by) == ("unknown", "Test TSA")
    assert found.when is not None
    assert "claims" in found.detail


@needs_openssl
def test_a_root_that_does_not_vouch_is_unknown(authority: Authority, stranger: Authority, file: Path) -> None:
    """A receipt by an authority that the study doesn't name is not known, though the root's name is the same."""
    found = put(file, ".tsr", authority.stamp(TEXT), stranger.roots)
    assert found.state == "unknown"
    assert "no root in tsa_roots.pem vouches for it" in found.detail


@needs_openssl
def test_one_of_several_roots_is_enough(authority: Authority, stranger: Authority, file: Path) -> None:
    """Roots are tried one by one, and the one that vouches is named."""
    found = put(file, ".tsr", authority.stamp(TEXT), stranger.roots + authority.roots)
    assert found.state == "good"


@needs_openssl
def test_a_receipt_of_another_file_is_bad(authority: Authority, file: Path) -> None:
    """The digest that was stamped must be the file's, whoever stamped it."""
    found = put(file, ".tsr", authority.stamp(b"other"), authority.roots)
    assert found.state == "bad"
    assert "another file" in found.detail


@needs_openssl
@pytest.mark.parametrize("named", [True, False])
def test_a_receipt_with_another_time_is_bad(
    authority: Authority, stranger: Authority, file: Path, named: bool
) -> None:
    """The time is signed: a year changed is a contradiction, also where the root isn't known."""
    data = authority.stamp(TEXT)
    at = re.search(rb"\x18.(\d{14})", data)
    assert at is not None
    # One day off keeps the certificates valid: only the signature can tell.
    day = b"%014d" % (int(at[1]) + (1 if at[1].endswith(b"0") else -1))
    found = put(file, ".tsr", data.replace(at[1], day), authority.roots if named else stranger.roots)
    assert found.state == "bad"
    assert "of other bytes" in found.detail


@needs_openssl
def test_a_broken_signature_is_bad_without_any_root(authority: Authority, file: Path) -> None:
    """A signature that isn't of its own bytes is bad though nobody's root is known."""
    data = bytearray(authority.stamp(TEXT))
    data[-5] ^= 1
    assert put(file, ".tsr", bytes(data)).state == "bad"


@needs_openssl
def test_a_refusal_is_no_receipt(authority: Authority, file: Path) -> None:
    """An authority's answer that it won't stamp proves nothing."""
    found = put(file, ".tsr", authority.stamp(TEXT, "md5"), authority.roots)
    assert found.state == "bad"
    assert "refused" in found.detail


@needs_openssl
def test_a_weak_digest_is_not_enough(authority: Authority, file: Path) -> None:
    """A receipt of a SHA-1 digest is not decided."""
    assert put(file, ".tsr", authority.stamp(TEXT, "sha1"), authority.roots).state == "unknown"


@needs_openssl
def test_a_receipt_without_certificates_is_unknown(authority: Authority, file: Path) -> None:
    """A receipt that was asked for without -cert can't be checked, and the remedy says how to ask."""
    found = put(file, ".tsr", authority.stamp(TEXT, certificate=False), authority.roots)
    assert found.state == "unknown"
    assert found.remedy is not None
    assert "-cert" in found.remedy


@needs_openssl
@pytest.mark.parametrize(
    "roots", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_roots_that_are_none_are_unknown(authority: Authority, file: Path, roots: bytes) -> None:
    """A broken tsa_roots.pem neither proves nor disproves the receipt."""
    found = put(file, ".tsr", authority.stamp(TEXT), roots)
    assert found.state == "unknown"
    assert "tsa_roots.pem can't be read" in found.detail


@needs_openssl
def test_damaged_roots_never_make_a_receipt_bad(authority: Authority, file: Path) -> None:
    """Whatever tsa_roots.pem holds, it can't contradict a receipt that is right."""
    whole = authority.stamp(TEXT)
    states = {put(file, ".tsr", whole, roots).state for roots in mutations(authority.roots, 200)}
    assert states == {"good", "unknown"}


@needs_openssl
def test_roots_behind_a_link_are_not_read(authority: Authority, file: Path) -> None:
    """tsa_roots.pem is part of the study: a link is not followed."""
    file.with_name("tsa_roots.pem").symlink_to(authority.folder / "root.pem")
    found = put(file, ".tsr", authority.stamp(TEXT))
    assert found.state == "unknown"
    assert "link" in found.detail


@needs_openssl
def test_a_certificate_for_another_purpose_is_bad(authority: Authority, file: Path) -> None:
    """Whoever holds any certificate by a named root is not an authority on time."""
    found = put(file, ".tsr", authority.stamp_with_another_certificate(TEXT), authority.roots)
    assert found.state == "bad"
    assert "not one for time stamping" in found.detail


@needs_openssl
def test_an_rfc3161_receipt_of_the_lf_form(authority: Authority, file: Path) -> None:
    """In a checkout with CRLF the receipt is good, and the detail says of which form."""
    file.write_bytes(TEXT.replace(b"\n", b"\r\n"))
    found = put(file, ".tsr", authority.stamp(TEXT), authority.roots)
    assert found.state == "good"
    assert "LF line ends" in found.detail
    assert "LF" not in put(file, ".tsr", authority.stamp(file.read_bytes()), authority.roots).detail


@needs_openssl
def test_a_damaged_rfc3161_receipt_never_says_another_time(authority: Authority, file: Path) -> None:
    """Some hundred mutations: none raises; one that stays good (in bytes not signed) says the same."""
    whole = authority.stamp(TEXT)
    good = put(file, ".tsr", whole, authority.roots)
    states = []
    for data in mutations(whole, 300):
        found = put(file, ".tsr", data)
        states.append(found.state)
        if found.state == "good":
            assert (found.when, found.by) == (good.when, good.by)
    assert states.count("good") < 20
    assert "bad" in states


# OpenTimestamps


def test_a_pending_receipt_is_unknown(file: Path) -> None:
    """A calendar's promise is settled by `ots upgrade`."""
    found = put(file, ".ots", ots_of(TEXT, CALENDAR))
    assert (found.kind, found.state, found.when) == ("opentimestamps", "unknown", None)
    assert found.by == "https://calendar.example.org"
    assert found.remedy == "ots upgrade registration.json.ots"


def test_a_bitcoin_receipt_names_block_and_merkle_root(file: Path) -> None:
    """A block can't be looked up offline: unknown, with what to compare and the command that does; lowest first."""
    found = put(file, ".ots", ots_of(TEXT, CALENDAR, BLOCK, BitcoinBlockHeaderAttestation(812999)))
    root = hashlib.sha256(hashlib.sha256(TEXT).digest() + b"nonce").digest()[::-1].hex()
    assert (found.state, found.by) == ("unknown", "Bitcoin block 812345")
    assert root in found.detail
    assert found.remedy == "ots verify registration.json.ots"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ots_of(b"other", BLOCK), "another file"),
        (ots_of(TEXT, BLOCK, method=OpSHA1()), "another file: sha1"),
        (ots_of(TEXT, BLOCK).replace(b"\x01\x08", b"\x01\x67", 1), "another file: keccak256"),
        (ots_of(TEXT, BLOCK)[:-3], "no OpenTimestamps receipt"),
        (ots_of(TEXT, BLOCK) + b"x", "no OpenTimestamps receipt"),
        (b"", "no OpenTimestamps receipt"),
        (ots_of(TEXT, BitcoinBlockHeaderAttestation(2**60)), "can't be"),
        (ots_of(TEXT, BLOCK, last=OpAppend(b"long")), "can't be"),
        (ots_of(TEXT, BLOCK)[:31] + b"\x81" * 20_000, "no OpenTimestamps receipt"),
    ],
    ids=["file", "digest", "method", "short", "long", "empty", "height", "root", "number"],
)
def test_what_contradicts_an_opentimestamps_receipt(file: Path, data: bytes, words: str) -> None:
    """A receipt of another file or digest, cut short, too long, or with a block that can't be, is bad."""
    found = put(file, ".ots", data)
    assert found.state == "bad"
    assert words in found.detail


@pytest.mark.parametrize("claim", [LitecoinBlockHeaderAttestation(5), UnknownAttestation(b"12345678", b"x")])
def test_other_attestations_are_unknown(file: Path, claim: TimeAttestation) -> None:
    """What isn't understood is named and left open."""
    found = put(file, ".ots", ots_of(TEXT, claim))
    assert found.state == "unknown"
    assert found.remedy == "ots info registration.json.ots"


def test_a_newer_format_is_unknown(file: Path) -> None:
    """A receipt of a version to come is no forgery."""
    data = bytearray(ots_of(TEXT, BLOCK))
    assert data[31] == 1
    data[31] = 2
    assert put(file, ".ots", bytes(data)).state == "unknown"


def test_a_deprecated_operation_is_no_warning(file: Path) -> None:
    """The library warns of one operation; a reader isn't told, and nothing fails."""
    with pytest.warns(PendingDeprecationWarning):
        data = ots_of(TEXT, CALENDAR, last=OpReverse())
    assert put(file, ".ots", data).state == "unknown"


def test_an_opentimestamps_receipt_of_the_lf_form(file: Path) -> None:
    """In a checkout with CRLF the receipt speaks of the LF form."""
    file.write_bytes(TEXT.replace(b"\n", b"\r\n"))
    found = put(file, ".ots", ots_of(TEXT, BLOCK))
    assert found.state == "unknown"
    assert "LF line ends" in found.detail


def test_a_damaged_opentimestamps_receipt_is_never_good(file: Path) -> None:
    """Some hundred mutations: none raises, none is good."""
    whole = ots_of(TEXT, CALENDAR, BLOCK)
    for data in mutations(whole, 300):
        assert put(file, ".ots", data).state in {"bad", "unknown"}


def test_a_nesting_bomb_is_bad(file: Path) -> None:
    """Operations nested beyond what the library allows are refused, not a crash."""
    start = ots_of(TEXT, BLOCK)[:65]
    assert put(file, ".ots", start + b"\x08" * 20_000).state == "bad"


# Both


@pytest.mark.parametrize(("suffix", "limit"), [(".ots", ots.MAX_RECEIPT), (".tsr", rfc3161.MAX_RECEIPT)])
def test_a_huge_receipt_is_not_read(file: Path, suffix: str, limit: int) -> None:
    """More bytes than any receipt has are not read."""
    found = put(file, suffix, b"0" * (limit + 1))
    assert found.state == "unknown"
    assert "too large" in found.detail


@pytest.mark.parametrize("suffix", [".ots", ".tsr"])
@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX")
def test_neither_links_nor_pipes_are_opened(file: Path, tmp_path: Path, suffix: str) -> None:
    """A receipt that is a link, also to nothing, or a pipe is not read, and nothing waits for it."""
    place = file.with_name(file.name + suffix)
    place.symlink_to(tmp_path / "elsewhere")
    (found,) = receipt_witnesses(file)
    assert found.state == "unknown"
    place.unlink()
    os.mkfifo(place)
    (found,) = receipt_witnesses(file)
    assert found.state == "unknown"


@pytest.mark.parametrize(
    ("suffix", "module"), [(".ots", "opentimestamps.core.timestamp"), (".tsr", "rfc3161_client")]
)
def test_without_the_libraries_it_is_unknown(
    file: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, module: str
) -> None:
    """What reads receipts is an extra; the remedy installs it."""
    monkeypatch.setitem(sys.modules, module, None)
    found = put(file, suffix, b"0")
    assert (found.state, found.remedy) == ("unknown", "pip install 'prereg-gates[receipts]'")


def test_a_receipt_of_a_file_that_is_gone(tmp_path: Path) -> None:
    """A receipt alone speaks of nothing."""
    (tmp_path / "registration.json.ots").write_bytes(ots_of(TEXT, BLOCK))
    with pytest.raises(RegistrationError, match=r"registration\.json can't be read"):
        receipt_witnesses(tmp_path / "registration.json")


@needs_openssl
def test_receipts_are_told_apart_by_their_bytes(authority: Authority) -> None:
    """The name of a receipt doesn't matter for what it is."""
    assert kind_of_receipt(authority.stamp(TEXT)) == "rfc3161"
    assert kind_of_receipt(ots_of(TEXT, BLOCK)) == "opentimestamps"
    assert kind_of_receipt(b"-----BEGIN SSH SIGNATURE-----\n") == "ssh"
    assert {kind_of_receipt(data) for data in (b"", b"0", b"{}", b"-----BEGIN")} == {None}


def mutations(whole: bytes, count: int) -> Iterator[bytes]:
    """Yield damaged copies: bits, bytes, cuts, insertions, truncations."""
    rng = random.Random(1)
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 1, 3))):
            at, damage = rng.randrange(len(data)), rng.randrange(5)
            if damage == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif damage == 1:
                data[at] = rng.randrange(256)
            elif damage == 2:
                del data[at : at + rng.randrange(1, 9)]
            elif damage == 3:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 5)))
            else:
                del data[max(1, at) :]
            data = data or bytearray(b"0")
        if bytes(data) != whole:
            yield bytes(data)
