"""Git as a subprocess that a repository can't talk into anything.

A repository's own configuration may name programs to run (hooks, filters, a file system monitor) and caches that
answer in place of the objects (replacements, grafts, a commit-graph). All of these are switched off here, and only
commands that run no filter are used elsewhere in this package.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from prereg.errors import RegistrationError
from prereg.hostile import printable

__all__ = ["Git", "environment"]

SECONDS = 300.0
"""The most that one walk may take; ten thousand commits take well under one."""

_KEPT = frozenset(
    {
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_COUNT",
        "GIT_EXEC_PATH",
        "GIT_CEILING_DIRECTORIES",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    }
)
"""Where the reader's own git and configuration are; every other GIT_ variable is dropped."""

_KEPT_PREFIXES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")

_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=" + os.devnull,
    "core.commitGraph=false",  # a cache beside the objects, which nothing binds to them
    "core.quotePath=false",
    "gpg.program=gpg",
    "gpg.ssh.program=ssh-keygen",
    "gpg.x509.program=gpgsm",
    "log.showSignature=false",
)

_OPTIONS = ("--no-pager", "--literal-pathspecs", *(part for s in _SETTINGS for part in ("-c", s)))

_OWNER = re.compile(r"(?:dubious ownership in repository at|unsafe repository \(?)\s*'([^'\n]*)'")


def environment() -> dict[str, str]:
    """Return the environment that git is given: the reader's, without what redirects git or opens the network."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    return kept | {
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_NO_LAZY_FETCH": "1",
        # A git too old for GIT_NO_LAZY_FETCH asks the remote of a partial clone for what is missing.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


@dataclass(frozen=True, slots=True)
class Git:
    """Git, run in one folder.

    Parameters
    ----------
    folder
        Where it runs: the repository's root, or a folder in it.
    """

    folder: Path

    def run(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> bytes:
        """Return what a command prints.

        Raises
        ------
        RegistrationError
            If git isn't installed, takes too long, or ends with an exit code that is not in `ok`.
        """
        code, out, err = self.attempt(*arguments)
        if code not in ok:
            raise self.explain(err, arguments)
        return out

    def attempt(self, *arguments: str) -> tuple[int, bytes, bytes]:
        """Return exit code, output and complaints of a command, whatever they are.

        Raises
        ------
        RegistrationError
            If git isn't installed or takes too long.
        """
        process = self._start(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise self._late(arguments) from error
        finally:
            _end(process)
        return process.returncode, out, err

    @contextlib.contextmanager
    def piped(self, *arguments: str, lines: Iterable[str]) -> Iterator[IO[bytes]]:
        """Feed lines to a command and yield its output as a stream; the command ends with the block.

        Raises
        ------
        RegistrationError
            If git isn't installed, takes too long, or failed where the block came to its end.
        """
        # Files rather than pipes for what goes in and for complaints: nobody waits for anybody.
        with tempfile.TemporaryFile() as fed, tempfile.TemporaryFile() as complaints:
            fed.write("".join(f"{line}\n" for line in lines).encode())
            fed.seek(0)
            process = self._start(arguments, stdin=fed, stderr=complaints)
            late = threading.Event()

            def on_time() -> None:
                late.set()
                _kill(process)

            clock = threading.Timer(SECONDS, on_time)
            clock.daemon = True
            clock.start()
            finished = False
            try:
                if process.stdout is not None:  # it is: asked for above
                    yield process.stdout
                finished = True
            finally:
                if process.stdout is not None:
                    process.stdout.close()
                code = process.wait() if finished else None
                clock.cancel()
                _end(process)
                complaints.seek(0)
                said = complaints.read(65_536)
            if late.is_set():
                raise self._late(arguments)
            if code != 0:
                raise self.explain(said, arguments)

    def explain(self, complaint: bytes, arguments: tuple[str, ...]) -> RegistrationError:
        """Return git's complaint as an error with a remedy."""
        text = complaint.decode("utf-8", "replace")
        owned = _OWNER.search(text)
        if owned is not None or "dubious ownership" in text:
            place = printable(owned[1] if owned is not None else str(self.folder))
            return RegistrationError(
                f"git does not trust the repository at {place}: it belongs to another user",
                remedy=f"git config --global --add safe.directory '{place}'",
            )
        if "not a git repository" in text:
            return RegistrationError(
                f"{self.folder} is in no git repository: nothing shows when anything was promised",
                remedy="git init, git add, git commit; or clone the study's repository",
            )
        if "must be run in a work tree" in text:
            return RegistrationError(
                f"{self.folder} belongs to a git repository without working files",
                remedy="git worktree add, or git clone it, and work there",
            )
        first = next((line for line in text.splitlines() if line.strip()), "no reason given")
        return RegistrationError(f"git {arguments[0]} failed: {printable(first)}", remedy="git fsck --full")

    def _start(
        self, arguments: tuple[str, ...], *, stdin: int | IO[bytes], stderr: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._command(arguments),
                cwd=self.folder,
                env=environment(),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise RegistrationError(
                f"git can't be run in {printable(str(self.folder))}: {printable(str(error))}",
                remedy="check that the folder is there and that git --version works",
            ) from error

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        program = shutil.which("git")
        if program is None:
            raise RegistrationError(
                "git is not installed: without it nothing shows when anything was promised",
                remedy="install git (version 2.31 or newer), and run this again",
            )
        return [program, *_OPTIONS, *arguments]

    def _late(self, arguments: tuple[str, ...]) -> RegistrationError:
        return RegistrationError(
            f"git {arguments[0]} did not end within {SECONDS:g} s", remedy="git gc, and run this again"
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and what it started: a child that holds the pipe would be waited for."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    """See to it that a program has ended and nothing of it is left open."""
    if process.poll() is None:
        _kill(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()
