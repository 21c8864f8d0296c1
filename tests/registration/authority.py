"""A little certificate and time-stamping authority, made with openssl, for the tests of receipts."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from prereg.registration.cms import _parts

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

CONFIGURATION = """\
[req]
distinguished_name = dn
prompt = no
[dn]
CN = nobody
[root]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[stamper]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[mailer]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,emailProtection
[tsa]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha1,sha256,sha384,sha512
accuracy = secs:1
tsa_name = yes
clock_precision_digits = 3
"""
KEYS = {"ec": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), "rsa": ("rsa:2048",)}


@dataclass
class Authority:
    """A root, and a time-stamping certificate that it issued; `.stamp` makes responses."""

    folder: Path
    key: str = "ec"
    name: str = "Test Root"

    def __post_init__(self) -> None:
        self.folder.mkdir()
        (self.folder / "c.cnf").write_text(CONFIGURATION)
        (self.folder / "serial").write_text("01\n")
        new = ("-config", "c.cnf", "-newkey", *KEYS[self.key], "-nodes")
        root = ("-extensions", "root", "-keyout", "root.key", "-out", "root.pem", "-days", "3650")
        self.openssl("req", "-x509", *new, *root, "-subj", f"/CN={self.name}")
        self.openssl("req", *new, "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=Test TSA")
        self.issue("stamper")

    @property
    def roots(self) -> bytes:
        """The root, PEM."""
        return (self.folder / "root.pem").read_bytes()

    def issue(self, extensions: str, name: str = "tsa.pem") -> None:
        """Have the root certify the stamper's key."""
        ca = ("-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", "-days", "3650")
        extended = ("-extfile", "c.cnf", "-extensions", extensions)
        self.openssl("x509", "-req", "-in", "tsa.csr", *ca, *extended, "-out", name)

    def stamp(self, data: bytes, digest: str = "sha256", *, certificate: bool = True) -> bytes:
        """Return a response for these bytes."""
        (self.folder / "data").write_bytes(data)
        asked = ("-cert",) if certificate else ()
        self.openssl("ts", "-query", "-data", "data", f"-{digest}", *asked, "-out", "query")
        stamper = ("-signer", "tsa.pem", "-inkey", "tsa.key")
        self.openssl(
            "ts",
            "-reply",
            "-config",
            "c.cnf",
            "-section",
            "tsa",
            "-queryfile",
            "query",
            *stamper,
            "-out",
            "reply",
        )
        return (self.folder / "reply").read_bytes()

    def stamp_with_another_certificate(self, data: bytes) -> bytes:
        """Return a response whose signer's certificate, by the same root, is not one for time stamping."""
        from rfc3161_client import decode_timestamp_response

        token = decode_timestamp_response(self.stamp(data)).time_stamp_token()
        content, _ = _parts(token)
        (self.folder / "content").write_bytes(content)
        self.issue("mailer", "mailer.pem")
        kind = ("-econtent_type", "1.2.840.113549.1.9.16.1.4", "-nosmimecap", "-binary", "-nodetach")
        signer = ("-signer", "mailer.pem", "-inkey", "tsa.key", "-md", "sha256")
        self.openssl("cms", "-sign", *kind, *signer, "-in", "content", "-outform", "DER", "-out", "token")
        body = b"\x30\x03\x02\x01\x00" + (self.folder / "token").read_bytes()
        return b"\x30\x82" + len(body).to_bytes(2, "big") + body

    def openssl(self, *arguments: str) -> None:
        """Run openssl in the authority's folder."""
        subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, check=True, timeout=30)
