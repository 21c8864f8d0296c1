"""Attaching a receipt: under the right name, only if it speaks of the registration, and never over another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from opentimestamps.core.notary import BitcoinBlockHeaderAttestation

from prereg.errors import RegistrationError
from prereg.registration.receipts import attach, receipt_witnesses
from tests.registration.authority import Authority, needs_openssl
from tests.registration.keys import needs_ssh, reader, sign
from tests.registration.test_receipts import BLOCK, CALENDAR, TEXT, ots_of


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study that is registered."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "registration.json").write_bytes(TEXT)
    return folder


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    """Where an author has a receipt, under any name."""
    return tmp_path / "downloaded"


@needs_openssl
def test_a_time_stamp_is_attached(study: Path, receipt: Path, tmp_path: Path) -> None:
    """A response gets the registration's name, and attaching it twice changes nothing."""
    receipt.write_bytes(Authority(tmp_path / "authority").stamp(TEXT))
    assert attach(study, receipt) == study / "registration.json.tsr"
    assert attach(study, receipt) == study / "registration.json.tsr"
    assert (study / "registration.json.tsr").read_bytes() == receipt.read_bytes()
    assert [witness.kind for witness in receipt_witnesses(study / "registration.json")] == ["rfc3161"]
    assert sorted(p.name for p in study.iterdir()) == ["registration.json", "registration.json.tsr"]


@needs_ssh
def test_an_ssh_signature_is_attached(study: Path, receipt: Path, tmp_path: Path) -> None:
    """A signature of the registration is attached; one of another file is refused."""
    with reader() as machine:
        for data, name in ((TEXT, "mine"), (b"other", "other")):
            (tmp_path / name).write_bytes(data)
            sign(tmp_path / name, machine.key("ada"))
    assert attach(study, tmp_path / "mine.sig") == study / "registration.json.sig"
    with pytest.raises(RegistrationError, match="of other bytes"):
        attach(study, tmp_path / "other.sig")


def test_a_pending_receipt_gives_way_to_its_block_and_not_back(study: Path, receipt: Path) -> None:
    """What `ots upgrade` gives may replace what it was given, and nothing replaces that."""
    pending, upgraded = ots_of(TEXT, CALENDAR), ots_of(TEXT, CALENDAR, BLOCK)
    receipt.write_bytes(pending)
    place = attach(study, receipt)
    receipt.write_bytes(upgraded)
    assert attach(study, receipt) == place
    assert place.read_bytes() == upgraded
    for other in (pending, ots_of(TEXT, BitcoinBlockHeaderAttestation(7))):
        receipt.write_bytes(other)
        with pytest.raises(RegistrationError, match="already there"):
            attach(study, receipt)
    assert place.read_bytes() == upgraded


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ots_of(b"other", BLOCK), "another file"),
        (ots_of(TEXT, BLOCK)[:-2], "not attached"),
        (b"nonsense", "neither an OpenTimestamps receipt"),
        (b"", "neither an OpenTimestamps receipt"),
        (b"\x30\x82" + b"0" * 200, "no RFC 3161 receipt"),
        (b"-----BEGIN SSH SIGNATURE-----\n", "first or last line"),
        (b"0" * 70_000, "too large"),
    ],
    ids=["file", "short", "nonsense", "empty", "der", "armor", "large"],
)
def test_what_is_not_of_the_registration_is_refused(
    study: Path, receipt: Path, data: bytes, words: str
) -> None:
    """A receipt of another file, or no receipt, leaves the study as it was."""
    receipt.write_bytes(data)
    with pytest.raises(RegistrationError, match=words):
        attach(study, receipt)
    assert [p.name for p in study.iterdir()] == ["registration.json"]


def test_what_cannot_be_checked_is_not_attached(
    study: Path, receipt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the library nobody can say that the receipt is of this registration."""
    receipt.write_bytes(ots_of(TEXT, BLOCK))
    monkeypatch.setitem(sys.modules, "opentimestamps.core.timestamp", None)
    with pytest.raises(RegistrationError, match="can't be checked") as caught:
        attach(study, receipt)
    assert caught.value.remedy == "pip install 'prereg-gates[receipts]'"


def test_there_must_be_a_registration(tmp_path: Path, receipt: Path) -> None:
    """A receipt is of a registration; the remedy makes one."""
    receipt.write_bytes(ots_of(TEXT, BLOCK))
    with pytest.raises(RegistrationError, match=r"has no registration\.json") as caught:
        attach(tmp_path, receipt)
    assert caught.value.remedy == f"prereg freeze {tmp_path}"


def test_a_link_in_the_receipts_place_is_not_written_through(
    study: Path, receipt: Path, tmp_path: Path
) -> None:
    """Where a link lies in the receipt's place, a receipt with its block takes the link's place, not its target's."""
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    (study / "registration.json.ots").symlink_to(target)
    receipt.write_bytes(ots_of(TEXT, BLOCK))
    place = attach(study, receipt)
    assert target.read_bytes() == b"precious"
    assert not place.is_symlink()
