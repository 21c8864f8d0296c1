"""Signed files, with real keys, and what happens where a tool is missing."""

from __future__ import annotations

import base64
import random
import shutil
from pathlib import Path

import pytest

from prereg.registration.signatures import commit_witness, ssh_witness
from tests.registration.keys import (
    Machine,
    SigningRepo,
    needs_git,
    needs_gpg,
    needs_ssh,
    sign,
)


@pytest.fixture
def promise(tmp_path: Path) -> Path:
    """A file to sign."""
    file = tmp_path / "registration.json"
    file.write_bytes(b'{\n  "root": "abc"\n}\n')
    return file


@needs_ssh
def test_a_signed_file(machine: Machine, promise: Path, allowed: Path) -> None:
    """A file signed by a key that the study names is good; without signature there is no witness."""
    assert ssh_witness(promise, promise.with_name("registration.json.sig"), allowed) is None
    found = ssh_witness(promise, sign(promise, machine.key("ada")), allowed)
    assert found is not None
    assert (found.kind, found.state, found.by, found.when) == ("ssh", "good", "ada@example.org", None)


@needs_ssh
def test_a_signed_file_that_was_edited(machine: Machine, promise: Path, allowed: Path) -> None:
    """One other byte, and the signature is bad, with a list and without one."""
    signature = sign(promise, machine.key("ada"))
    promise.write_bytes(promise.read_bytes().replace(b"abc", b"abd"))
    for signers in (allowed, None):
        found = ssh_witness(promise, signature, signers)
        assert found is not None
        assert found.state == "bad"


@needs_ssh
def test_a_signature_for_another_purpose_is_bad(machine: Machine, promise: Path, allowed: Path) -> None:
    """What was signed for git or for mail was not signed as a registration."""
    found = ssh_witness(promise, sign(promise, machine.key("ada"), "git"), allowed)
    assert found is not None
    assert found.state == "bad"
    assert "'git'" in found.detail


@needs_ssh
@pytest.mark.parametrize(
    ("options", "state"),
    [
        ('namespaces="prereg"', "good"),
        ('namespaces="git"', "unknown"),
        ('valid-before="20200101"', "unknown"),
        ('valid-after="20200101"', "good"),
    ],
)
def test_what_a_line_of_allowed_signers_restricts(
    machine: Machine, promise: Path, allowed: Path, options: str, state: str
) -> None:
    """A key is allowed for the purposes and the time that its line says."""
    allowed.write_text(machine.line("ada@example.org", "ada", options))
    found = ssh_witness(promise, sign(promise, machine.key("ada")), allowed)
    assert found is not None
    assert found.state == state


@needs_ssh
@pytest.mark.parametrize("principals", ["ada@a,ada@b", "*@example.org", "*"])
def test_lists_and_patterns_of_principals(
    machine: Machine, promise: Path, allowed: Path, principals: str
) -> None:
    """A line may name several principals, or a pattern of them."""
    allowed.write_text("# who may\r\n" + machine.line(principals, "ada").replace("\n", "\r\n"))
    found = ssh_witness(promise, sign(promise, machine.key("ada")), allowed)
    assert found is not None
    assert found.state == "good"


@needs_ssh
def test_a_checkout_with_crlf_is_no_edit(machine: Machine, promise: Path, allowed: Path) -> None:
    """Where only the LF form was signed, it is good and the detail says so; a signature with CRLF is read."""
    signature = sign(promise, machine.key("ada"))
    for file in (promise, signature):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    found = ssh_witness(promise, signature, allowed)
    assert found is not None
    assert found.state == "good"
    assert "LF line ends" in found.detail
    signed_so = ssh_witness(promise, sign(promise, machine.key("ada")), allowed)
    assert signed_so is not None
    assert signed_so.state == "good"
    assert "LF" not in signed_so.detail


@needs_ssh
def test_links_are_not_followed(machine: Machine, promise: Path, allowed: Path, tmp_path: Path) -> None:
    """A signature or a list of signers that is a link is not read."""
    signature = sign(promise, machine.key("ada"))
    moved = signature.rename(tmp_path / "elsewhere")
    signature.symlink_to(moved)
    found = ssh_witness(promise, signature, allowed)
    assert found is not None
    assert found.state == "unknown"
    link = tmp_path / "signers"
    link.symlink_to(allowed)
    found = ssh_witness(promise, moved, link)
    assert found is not None
    assert found.state == "unknown"
    assert "link" in found.detail


@needs_ssh
def test_a_damaged_signature_is_never_good(machine: Machine, promise: Path, allowed: Path) -> None:
    """Some hundred mutations of a signature: none raises, none is good."""
    signature = sign(promise, machine.key("ada"))
    whole = signature.read_bytes()
    rng = random.Random(1)
    for _ in range(120):
        data = bytearray(whole)
        at = rng.randrange(len(data))
        damage = rng.randrange(3)
        if damage == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif damage == 1:
            del data[at : at + rng.randrange(1, 9)]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(3))
        signature.write_bytes(bytes(data))
        found = ssh_witness(promise, signature, allowed)
        assert found is not None
        # Base64 has white space and last bits that mean nothing.
        assert found.state in {"bad", "unknown"} or decoded(bytes(data)) == decoded(whole)


def decoded(armored: bytes) -> bytes:
    """Return the bytes that an armored signature stands for."""
    return base64.b64decode(b"".join(armored.strip().splitlines()[1:-1]))


@needs_git
@needs_ssh
@needs_gpg
def test_a_missing_tool_is_unknown_and_says_what_to_install(
    repo: SigningRepo,
    machine: Machine,
    promise: Path,
    allowed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without gpg or ssh-keygen a signature can't be decided."""
    gpg, ssh = repo.signed_by_gpg(), repo.signed_by_ssh(machine.key("ada"))
    signature = sign(promise, machine.key("ada"))
    tools_left = tmp_path / "bin"
    tools_left.mkdir()
    (tools_left / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(tools_left))
    found = [commit_witness(repo.root, gpg, allowed), commit_witness(repo.root, ssh, allowed)]
    found.append(ssh_witness(promise, signature, allowed))
    assert [(w.state, w.remedy) for w in found if w] == [
        ("unknown", "install gpg"),
        ("unknown", "install ssh-keygen"),
        ("unknown", "install ssh-keygen"),
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    without_git = commit_witness(repo.root, gpg, None)
    assert without_git is not None
    assert without_git.state == "unknown"
    assert str(without_git.remedy).startswith("install git")
