"""Readers' machines with real keys, and repositories signed with them, for the tests of signatures."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
needs_gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")

DATE = "2026-03-01T12:00:00+00:00"
WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
ADA = "Ada <ada@example.org>"


def call(
    *command: str | Path,
    cwd: Path | None = None,
    stdin: bytes | None = None,
    env: dict[str, str] | None = None,
) -> bytes:
    """Run a command that must succeed; return what it printed."""
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        check=True,
        env=env,
        timeout=30,
    )
    return ran.stdout


@dataclass(frozen=True)
class Machine:
    """A reader's machine: a home, git's global configuration, and a keyring."""

    home: Path
    keyring: Path
    empty: Path

    def key(self, name: str) -> Path:
        """Return an SSH key pair's private half, made on first use."""
        file = self.home / name
        if not file.exists():
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file)
        return file

    def line(self, principal: str, key: str, options: str = "") -> str:
        """Return a line for allowed_signers."""
        return f"{principal} {options} {self.key(key).with_suffix('.pub').read_text().strip()}\n"


@contextmanager
def reader() -> Iterator[Machine]:
    """A home of its own, so that nobody's real keys are seen."""
    # A short path: gpg-agent's socket lies in it.
    with tempfile.TemporaryDirectory(prefix="pr") as folder, pytest.MonkeyPatch.context() as patch:
        home = Path(folder)
        made = Machine(home, home / "g", home / "e")
        made.keyring.mkdir(mode=0o700)
        made.empty.mkdir(mode=0o700)
        (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        for name in [n for n in os.environ if n.startswith("GIT_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("GNUPGHOME", str(made.keyring))
        patch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_AUTHOR_DATE", DATE)
        patch.setenv("GIT_COMMITTER_DATE", DATE)
        if shutil.which("gpg"):
            call(
                "gpg",
                "--batch",
                "--quiet",
                "--passphrase",
                "",
                "--quick-gen-key",
                ADA,
                "ed25519",
                "sign",
                "0",
            )
        yield made
        if shutil.which("gpgconf"):
            for keyring in (made.keyring, made.empty):
                call("gpgconf", "--kill", "all", env={**os.environ, "GNUPGHOME": str(keyring)})


class SigningRepo:
    """A temporary repository."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        call("git", "init", "-q", "-b", "main", *options, root)

    def git(self, *arguments: str | Path, stdin: bytes | None = None) -> str:
        return call("git", *arguments, cwd=self.root, stdin=stdin).decode().strip()

    def commit(self, *options: str) -> str:
        self.git(*options, "commit", "-q", "--allow-empty", "-m", "promise")
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def signed_by_ssh(self, key: Path) -> str:
        return self.commit(
            "-c", "gpg.format=ssh", "-c", f"user.signingKey={key}", "-c", "commit.gpgSign=true"
        )

    def signed_by_gpg(self) -> str:
        return self.commit("-c", "commit.gpgSign=true")

    def written(self, kind: str, data: bytes) -> str:
        """Write an object of these bytes, whatever they say."""
        return self.git("hash-object", "-t", kind, "-w", "--literally", "--stdin", stdin=data)

    def changed(self, commit: str, old: bytes = b"promise", new: bytes = b"another") -> str:
        """Return a commit with another text under the same signature."""
        data = call("git", "cat-file", "commit", commit, cwd=self.root)
        assert old in data
        return self.written("commit", data.replace(old, new))

    def verifies(self, commit: str, *options: str, what: str = "verify-commit") -> bool:
        """Return what git itself says."""
        return (
            subprocess.run(["git", *options, what, commit], cwd=self.root, capture_output=True).returncode
            == 0
        )


def sign(file: Path, key: Path, namespace: str = "prereg") -> Path:
    """Sign a file as an author would; return the signature's path."""
    signature = file.with_name(file.name + ".sig")
    signature.unlink(missing_ok=True)
    call("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace, file)
    return signature
