"""Temporary git repositories for tests: nothing of the machine's own git configuration gets in.

repo = Repo(tmp_path / "repo")
repo.write("gates/s/protocol.toml", "threshold = 1")
first = repo.commit("Freeze")
repo.branch("side")
...
repo.checkout("main")
repo.merge("side", write={"gates/s/protocol.toml": "threshold = 2"})  # an evil merge
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

__all__ = ["Repo", "isolate", "isolated"]

START = 1_700_000_000
"""Seconds since 1970 of a repository's first commit; each later one is made a minute after."""

CONFIG = """\
[init]
    defaultBranch = main
[user]
    name = Ada Lovelace
    email = ada@example.org
[commit]
    gpgSign = false
[tag]
    gpgSign = false
[core]
    autocrlf = false
[advice]
    detachedHead = false
[protocol "file"]
    allow = always
[gc]
    auto = 0
[maintenance]
    auto = false
"""


def isolated(home: Path) -> dict[str, str]:
    """Return an environment in which git knows only what `home` says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def isolate(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Give this process, and so the code under test, the isolated environment."""
    home.mkdir(parents=True, exist_ok=True)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in isolated(home).items():
        monkeypatch.setenv(name, value)


class Repo:
    """A repository with a fixed identity, a clock of its own, the branch main and no signing.

    Parameters
    ----------
    path
        Its root, made if it isn't there.
    object_format
        ``sha1`` or ``sha256``.
    init
        Whether to make it; False for one that was cloned there.
    """

    def __init__(self, path: Path, *, object_format: str = "sha1", init: bool = True) -> None:
        self.path = path
        self.home = path.parent / f".{path.name}-home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.env = isolated(self.home)
        self.now = START
        path.mkdir(parents=True, exist_ok=True)
        (self.home / ".gitconfig").write_text(CONFIG, encoding="utf-8")
        if init:
            self.git("init", "--quiet", f"--object-format={object_format}")

    def git(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        input: bytes | str | None = None,  # noqa: A002 - as subprocess calls it
        check: bool = True,
        cwd: Path | None = None,
    ) -> str:
        """Run git, and return what it prints without the last line's end."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.path,
            env={**self.env, **(env or {})},
            input=input.encode() if isinstance(input, str) else input,
            capture_output=True,
            check=False,
        )
        if check and done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace")
            raise AssertionError(f"git {' '.join(arguments)} ended with {done.returncode}: {said}")
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def head(self) -> str:
        """The id of the commit that HEAD names."""
        return self.git("rev-parse", "HEAD")

    def write(self, rel: str, text: str | bytes) -> Path:
        """Write a file, with its folders, exactly as given; nothing is staged."""
        file = self.path / rel
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def remove(self, *rels: str) -> None:
        """Remove files or folders, from the index as well."""
        self.git("rm", "-r", "--quiet", "--force", "--", *rels)

    def commit(
        self,
        message: str = "A change",
        *,
        date: str | int | None = None,
        author: str | None = None,
        all: bool = True,  # noqa: A002 - as git calls it
        options: Sequence[str] = (),
    ) -> str:
        """Commit everything that lies there (or, with ``all=False``, what is staged), and return the id.

        Parameters
        ----------
        message
            The message.
        date
            Of author and committer: whatever git reads as a date, or seconds since 1970; else a minute after the
            commit before.
        author
            ``Name <email>``.
        all
            Whether to stage everything first.
        options
            More options of git commit.
        """
        if all:
            self.git("add", "--all")
        by = [f"--author={author}"] if author is not None else []
        self.git("commit", "--quiet", "--allow-empty", "-m", message, *by, *options, env=self.dates(date))
        return self.head

    def put(self, files: Mapping[str, str | bytes], message: str = "A change", **more: str | int) -> str:
        """Write files and commit them."""
        for rel, text in files.items():
            self.write(rel, text)
        return self.commit(message, **more)  # type: ignore[arg-type]

    def branch(self, name: str, at: str = "HEAD") -> None:
        """Make a branch and switch to it."""
        self.git("switch", "--quiet", "--create", name, at)

    def checkout(self, name: str) -> None:
        """Switch to a branch, or to a commit, detached."""
        self.git("checkout", "--quiet", name)

    def merge(
        self,
        *branches: str,
        message: str = "A merge",
        write: Mapping[str, str | bytes] | None = None,
        remove: Iterable[str] = (),
        options: Sequence[str] = (),
        date: str | int | None = None,
    ) -> str:
        """Merge branches into the one at hand, never by fast-forward, and return the merge's id.

        Parameters
        ----------
        branches
            One or, for an octopus, more.
        message
            The message.
        write
            Files that the merge itself sets, whatever its parents say: an evil merge, or a conflict resolved.
        remove
            Files that the merge itself removes.
        options
            More options, such as ``-s ours``, one part each.
        date
            As of `commit`.
        """
        env = self.dates(date)
        if not write and not remove:
            self.git("merge", "--quiet", "--no-ff", "-m", message, *options, *branches, env=env)
            return self.head
        # A conflict ends git merge with 1; what is written settles it.
        self.git("merge", "--quiet", "--no-ff", "--no-commit", *options, *branches, env=env, check=False)
        for rel, text in (write or {}).items():
            self.write(rel, text)
        for rel in remove:
            (self.path / rel).unlink()
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message, env=env)
        return self.head

    def squash(self, branch: str, message: str = "A squash merge") -> str:
        """Commit what a branch brings, as one commit with one parent."""
        self.git("merge", "--quiet", "--squash", branch, env=self.dates(None))
        return self.commit(message)

    def clone(self, path: Path, *options: str) -> Repo:
        """Return a clone of this repository, through a transport rather than by links."""
        other = Repo(path, init=False)
        other.git("clone", "--quiet", *options, f"file://{self.path}", str(path), cwd=path.parent)
        other.now = self.now
        return other

    def object(self, kind: str, raw: bytes) -> str:
        """Write an object as it is, however malformed, and return its id."""
        return self.git("hash-object", "-t", kind, "-w", "--stdin", "--literally", input=raw)

    def dates(self, date: str | int | None) -> dict[str, str]:
        """Return an environment with author's and committer's date; the clock goes on a minute."""
        self.now += 60
        when = f"@{self.now if date is None else date} +0000" if not isinstance(date, str) else date
        return {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
