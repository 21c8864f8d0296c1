"""OpenTimestamps receipts: what they claim, which only a Bitcoin node or a calendar can settle.

Source: the format of the `opentimestamps` library, which reads it. A receipt is a tree of hash operations from
the file's digest to attestations; an attestation in a Bitcoin block says that the block's merkle root is the
result. Offline, the operations can be carried out, but whether the block has that root can't be seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from prereg.hostile import printable
from prereg.registration.witness import Finding

__all__ = ["MAGIC", "check_ots"]

MAX_RECEIPT = 32_000
"""Bytes. Ordinary receipts have some hundreds to a few thousand; each byte may cost the reader 4 KiB of memory."""

MAGIC = b"\x00OpenTimestamps\x00\x00Proof\x00"
_MAX_HEIGHT = 2**31
_CALENDARS = 4

_INSTALL = "pip install 'prereg-gates[receipts]'"


def check_ots(data: bytes, digests: Iterable[str], name: str) -> Finding:
    """Say what an OpenTimestamps receipt claims of a file.

    Parameters
    ----------
    data
        The receipt's bytes, at most `MAX_RECEIPT`.
    digests
        The sha256 digests, hex, any of which the receipt may be of.
    name
        The receipt's file name, for the remedy.
    """
    try:
        from opentimestamps.core.notary import (  # type: ignore[import-untyped]
            BitcoinBlockHeaderAttestation,
            PendingAttestation,
        )
        from opentimestamps.core.serialize import (  # type: ignore[import-untyped]
            BytesDeserializationContext,
            UnsupportedMajorVersion,
        )
        from opentimestamps.core.timestamp import DetachedTimestampFile  # type: ignore[import-untyped]
    except ImportError:
        return Finding("unknown", "", "an OpenTimestamps receipt; what reads it is not installed", _INSTALL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one operation is deprecated, which is no fault of the receipt's
            receipt = DetachedTimestampFile.deserialize(BytesDeserializationContext(data))
            claims = list(receipt.timestamp.all_attestations())
    except UnsupportedMajorVersion:
        return Finding(
            "unknown", "", "an OpenTimestamps receipt of a newer format", "pip install -U opentimestamps"
        )
    except (
        Exception
    ) as error:  # a foreign parser on hostile bytes: whatever it raises, the receipt can't be read
        return Finding(
            "bad", "", f"no OpenTimestamps receipt: {printable(str(error), 120) or type(error).__name__}"
        )
    method = str(receipt.file_hash_op)
    if method != "sha256" or receipt.file_digest.hex() not in set(digests):
        return Finding("bad", "", f"the receipt is of another file: {method} {receipt.file_digest.hex()}")
    blocks = sorted(
        (claim.height, result) for result, claim in claims if isinstance(claim, BitcoinBlockHeaderAttestation)
    )
    if blocks:
        return _blocks(blocks, name)
    calendars = sorted({claim.uri for _, claim in claims if isinstance(claim, PendingAttestation)})
    if calendars:
        by = ", ".join(printable(uri, 80) for uri in calendars[:_CALENDARS])
        words = f"promised by {by}, not yet in a Bitcoin block; `ots upgrade` asks for the block"
        return Finding("unknown", by, words, f"ots upgrade {name}")
    kinds = ", ".join(sorted({_kind(claim) for _, claim in claims})) or "no attestation"
    return Finding("unknown", "", f"attested only by what prereg can't read: {kinds}", f"ots info {name}")


def _blocks(blocks: list[tuple[int, bytes]], name: str) -> Finding:
    for height, result in blocks:
        if height >= _MAX_HEIGHT or len(result) != 32:
            return Finding(
                "bad", "", "the receipt names a Bitcoin block that can't be: height or merkle root"
            )
    height, result = blocks[0]
    words = (
        f"claims that Bitcoin block {height} has the merkle root {result[::-1].hex()}, which would date the file "
        f"no later than that block; `ots verify` or a block explorer settles it"
    )
    return Finding("unknown", f"Bitcoin block {height}", words, f"ots verify {name}")


def _kind(claim: object) -> str:
    tag = getattr(claim, "TAG", None)
    name = type(claim).__name__.removesuffix("Attestation")
    return f"{name} {tag.hex()}" if isinstance(tag, bytes) else name
