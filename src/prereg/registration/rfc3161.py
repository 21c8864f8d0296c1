"""RFC 3161 receipts: a time-stamping authority's signature over a file's digest and a time.

Checked offline by the `rfc3161-client` library against the roots that the study names in tsa_roots.pem; certificates
are judged at the receipt's own time. Revocation is not looked up.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prereg.hostile import printable
from prereg.registration.witness import Finding

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name
    from rfc3161_client import TimeStampResponse

__all__ = ["ROOTS", "check_tsr"]

ROOTS = "tsa_roots.pem"
MAX_RECEIPT = 64_000
MAX_ROOTS = 20

_INSTALL = "pip install 'prereg-gates[receipts]'"
_HASHES = {
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}


class _Unfit(Exception):
    """A receipt that is no proof, with the finding that says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.detail)
        self.finding = finding


def check_tsr(data: bytes, contents: Sequence[bytes], roots: bytes | None, name: str) -> Finding:
    """Say what an RFC 3161 response proves of a file.

    Parameters
    ----------
    data
        The response, DER, at most `MAX_RECEIPT` bytes.
    contents
        The file's bytes, in each of the forms that the receipt may be of.
    roots
        The study's tsa_roots.pem: self-signed roots, with intermediates where the receipt carries none. None
        where there is none.
    name
        The receipt's file name, for the remedy.
    """
    try:
        import rfc3161_client  # noqa: F401
    except ImportError:
        return Finding("unknown", "", "an RFC 3161 receipt; what checks it is not installed", _INSTALL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # certificates that are odd, but not wrong
            return _check(data, contents, roots, name)
    except _Unfit as unfit:
        return unfit.finding
    except Exception as error:  # a foreign parser on hostile bytes
        return Finding(
            "bad", "", f"no RFC 3161 receipt: {printable(str(error), 120) or type(error).__name__}"
        )


def _check(data: bytes, contents: Sequence[bytes], roots: bytes | None, name: str) -> Finding:
    from rfc3161_client import decode_timestamp_response

    response = decode_timestamp_response(data)
    if response.status > 1:
        said = printable("; ".join(response.status_string), 120)
        return Finding(
            "bad", "", f"the authority refused to stamp the file (status {response.status}): {said}"
        )
    digest = _fitting(response, contents)
    when = response.tst_info.gen_time.astimezone(UTC)
    leaf = _leaf(response, when)
    by = _name(leaf.subject)
    trusted, others = _roots(roots, by, when)
    reasons = []
    for root in trusted:
        why = _refused(response, digest, [root, *others])
        if why is None:
            words = f"stamped by {by} at {when:%Y-%m-%dT%H:%M:%SZ}; its root is {_name(root.subject)}, {_print(root)}, "
            return Finding("good", by, words + f"named by the study's {ROOTS}", None, when)
        reasons.append(why)
    return _undecided(response, leaf, when, reasons, name)


def _fitting(response: TimeStampResponse, contents: Sequence[bytes]) -> bytes:
    """Return the digest that was stamped, having seen that it is the file's."""
    imprint = response.tst_info.message_imprint
    method = _HASHES.get(imprint.hash_algorithm.dotted_string)
    if method is None:
        words = (
            f"the receipt is of a digest of another kind than SHA-2: {imprint.hash_algorithm.dotted_string}"
        )
        raise _Unfit(Finding("unknown", "", words, "openssl ts -query -sha256 -cert"))
    digest = bytes(imprint.message)
    if digest not in {hashlib.new(method, content).digest() for content in contents}:
        raise _Unfit(Finding("bad", "", f"the receipt is of another file: {method} {digest.hex()}"))
    return digest


def _leaf(response: TimeStampResponse, when: datetime) -> Certificate:
    """Return the certificate of the one who signed."""
    from cryptography.x509 import load_der_x509_certificate

    (signer,) = response.signed_data.signer_infos
    for der in response.signed_data.certificates:
        certificate = load_der_x509_certificate(der)
        if (certificate.issuer, certificate.serial_number) == (signer.issuer, signer.serial_number):
            return certificate
    words = f"the receipt carries no certificate of its signer, issued by {_name(signer.issuer)}; the time is claimed"
    raise _Unfit(Finding("unknown", _name(signer.issuer), words, "openssl ts -query -cert asks for it", when))


def _roots(roots: bytes | None, by: str, when: datetime) -> tuple[list[Certificate], list[Certificate]]:
    """Return the self-signed certificates of the study's roots, and the others."""
    from cryptography.x509 import load_pem_x509_certificates

    if roots is None:
        return [], []
    try:
        found = load_pem_x509_certificates(roots)
        trusted = [certificate for certificate in found if certificate.subject == certificate.issuer]
    except Exception as error:  # as for receipts; damaged roots say nothing against the receipt
        words = f"claims to be stamped by {by}; {ROOTS} can't be read: {printable(str(error), 120)}"
        raise _Unfit(Finding("unknown", by, words, f"git checkout -- {ROOTS}", when)) from error
    if len(found) > MAX_ROOTS:
        words = f"claims to be stamped by {by}; {ROOTS} holds more than {MAX_ROOTS} certificates"
        raise _Unfit(Finding("unknown", by, words, f"keep in {ROOTS} what the receipt needs", when))
    return trusted, [certificate for certificate in found if certificate not in trusted]


def _refused(response: TimeStampResponse, digest: bytes, roots: list[Certificate]) -> str | None:
    """Return why the receipt isn't vouched for by these roots, or None where it is."""
    from rfc3161_client import VerifierBuilder

    try:
        verified = VerifierBuilder(roots=roots).build().verify(response, digest)
    except Exception as error:  # the library's own, or what a damaged root makes of it
        told = re.search(r'Verify error: ([^"]+)', str(error)) or re.search(r'reason: "([^"]+)', str(error))
        return printable(told[1] if told else str(error), 120)
    return None if verified is True else "it was not verified"


def _undecided(
    response: TimeStampResponse, leaf: Certificate, when: datetime, reasons: list[str], name: str
) -> Finding:
    """Say of a receipt that no root vouches for whether it contradicts itself, or is merely not known."""
    from prereg.registration.cms import fits_itself

    by = _name(leaf.subject)
    if not _for_time_stamping(leaf):
        return Finding("bad", by, f"the certificate of {by} is not one for time stamping")
    fits = fits_itself(response.time_stamp_token(), leaf)
    if fits is False:
        return Finding("bad", by, f"the signature by {by} is of other bytes")
    time = f"{when:%Y-%m-%dT%H:%M:%SZ}"
    claim = f"claims to be stamped by {by} (issued by {_name(leaf.issuer)}) at {time}"
    if fits is None:
        claim += "; its signature is of a kind not checked here"
    why = (
        f"no root in {ROOTS} vouches for it: {'; '.join(sorted(set(reasons)))}"
        if reasons
        else f"no root is in {ROOTS}"
    )
    remedy = (
        f"put the authority's root into {ROOTS}, or openssl ts -verify -in {name} -CAfile ROOT -data FILE"
    )
    return Finding("unknown", by, f"{claim}; {why}", remedy, when)


def _for_time_stamping(leaf: Certificate) -> bool:
    from cryptography.x509 import ExtendedKeyUsage, ExtensionNotFound
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        uses = leaf.extensions.get_extension_for_class(ExtendedKeyUsage)
    except ExtensionNotFound:
        return False
    return uses.critical and ExtendedKeyUsageOID.TIME_STAMPING in uses.value


def _name(name: Name) -> str:
    from cryptography.x509.oid import NameOID

    for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME):
        for attribute in name.get_attributes_for_oid(kind):
            return printable(attribute.value, 80)
    return printable(name.rfc4514_string(), 80) or "an unnamed authority"


def _print(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.hashes import SHA256

    return f"sha256 {certificate.fingerprint(SHA256()).hex()}"
