"""Does a time-stamp token contradict itself? The signature alone, whoever's certificate it carries.

A receipt whose root isn't known is no forgery; one whose signature isn't of its own bytes is. The library that
checks receipts looks at the certificates first and stops there, so the second question is asked here.
Source: RFC 5652, sections 5.3-5.6. Only what RFC 3161 authorities use: DER, one signer, signed attributes, RSA
(PKCS #1 v1.5), ECDSA or Ed25519.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509 import Certificate

__all__ = ["fits_itself"]

_MESSAGE_DIGEST = bytes.fromhex("06092a864886f70d010904")

_HASHES: dict[bytes, hashes.HashAlgorithm] = {
    bytes.fromhex("06052b0e03021a"): hashes.SHA1(),  # noqa: S303 - old authorities sign so; good is not said here
    bytes.fromhex("0609608648016503040201"): hashes.SHA256(),
    bytes.fromhex("0609608648016503040202"): hashes.SHA384(),
    bytes.fromhex("0609608648016503040203"): hashes.SHA512(),
}
_SIGNATURES: dict[bytes, hashes.HashAlgorithm | None] = {
    bytes.fromhex("06092a864886f70d010101"): None,  # RSA; the digest is named apart
    bytes.fromhex("06092a864886f70d010105"): hashes.SHA1(),  # noqa: S303
    bytes.fromhex("06092a864886f70d01010b"): hashes.SHA256(),
    bytes.fromhex("06092a864886f70d01010c"): hashes.SHA384(),
    bytes.fromhex("06092a864886f70d01010d"): hashes.SHA512(),
    bytes.fromhex("06082a8648ce3d040302"): hashes.SHA256(),
    bytes.fromhex("06082a8648ce3d040303"): hashes.SHA384(),
    bytes.fromhex("06082a8648ce3d040304"): hashes.SHA512(),
    bytes.fromhex("06032b6570"): None,  # Ed25519
}


class _Item(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def fits_itself(token: bytes, leaf: Certificate) -> bool | None:
    """Say whether a time-stamp token's signature is right under the certificate it carries.

    Parameters
    ----------
    token
        The DER bytes of the ContentInfo.
    leaf
        The signer's certificate. It need not be trusted.

    Returns
    -------
    bool or None
        None where it can't be told: another form or method than those above.
    """
    try:
        content, signer = _parts(token)
        digest_id, attributes, method, signature = _signer(signer)
        algorithm = _HASHES[digest_id]
        if _named_digest(attributes.content) != hashlib.new(algorithm.name, content).digest():
            return False
        # Signed as a SET, stored under an implicit tag.
        signed = b"\x31" + attributes.whole[1:]
        return _verified(leaf, signature, signed, _SIGNATURES[method] or algorithm)
    except (ValueError, KeyError, IndexError, UnsupportedAlgorithm):
        return None


def _parts(token: bytes) -> tuple[bytes, bytes]:
    """Return the content that is signed, and the one SignerInfo."""
    (info,) = _items(token)
    _, wrapped = _items(info.content)
    (signed_data,) = _items(wrapped.content)
    fields = _items(signed_data.content)
    _, explicit = _items(fields[2].content)
    (octets,) = _items(explicit.content)
    (signer,) = _items(fields[-1].content)
    return octets.content, signer.content


def _signer(signer: bytes) -> tuple[bytes, _Item, bytes, bytes]:
    """Return the digest's id, the signed attributes, the signature's method and the signature."""
    _, _, digest, attributes, method, signature, *_ = _items(signer)
    if attributes.tag != 0xA0:
        raise ValueError("no signed attributes")
    return _items(digest.content)[0].whole, attributes, _items(method.content)[0].whole, signature.content


def _named_digest(attributes: bytes) -> bytes:
    for attribute in _items(attributes):
        name, values = _items(attribute.content)
        if name.whole == _MESSAGE_DIGEST:
            (value,) = _items(values.content)
            return value.content
    raise ValueError("no message digest")


def _verified(
    leaf: Certificate, signature: bytes, signed: bytes, algorithm: hashes.HashAlgorithm
) -> bool | None:
    key = leaf.public_key()
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, signed, padding.PKCS1v15(), algorithm)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, signed, ec.ECDSA(algorithm))
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, signed)
        else:
            return None
    except InvalidSignature:
        return False
    return True


def _items(data: bytes) -> list[_Item]:
    """Split DER into its items, one level deep.

    Raises
    ------
    ValueError
        If it is no DER of definite lengths.
    """
    found: list[_Item] = []
    at = 0
    while at < len(data):
        start, tag, length = at, data[at], data[at + 1]
        at += 2
        if length >= 0x80:
            size = length - 0x80
            if not 1 <= size <= 4:
                raise ValueError("no definite length")
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        if at + length > len(data):
            raise ValueError("cut short")
        found.append(_Item(tag, data[at : at + length], data[start : at + length]))
        at += length
    return found
