"""The programs that check signatures (gpg, ssh-keygen), run without a shell and for a limited time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.history.git import environment

__all__ = ["Ran", "ToolFailed", "ToolMissing", "run"]

SECONDS = 10.0
"""The most that one program may take; verification takes some milliseconds."""


class ToolMissing(RegistrationError):
    """A program that isn't installed here."""


class ToolFailed(RegistrationError):
    """A program that took too long or couldn't be started."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program said."""

    code: int
    out: bytes
    err: bytes

    @property
    def said(self) -> str:
        """What it complained of, printable."""
        return printable(self.err)


def run(command: Sequence[str], *, cwd: Path, stdin: bytes = b"") -> Ran:
    """Run a program, with all that it starts, for at most `SECONDS`.

    Raises
    ------
    ToolMissing
        If it isn't installed.
    ToolFailed
        If it couldn't be started, or was ended because it took too long.
    """
    name = command[0]
    program = shutil.which(name)
    if program is None:
        raise ToolMissing(f"{name} is not installed", remedy=f"install {name}")
    try:
        with subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment() | {"TZ": "UTC"},  # ssh-keygen reads times as local ones
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(stdin, timeout=SECONDS)
            except subprocess.TimeoutExpired as error:
                _end(process)
                raise ToolFailed(f"{name} did not answer within {SECONDS:g} s", remedy="try again") from error
            except BaseException:
                _end(process)
                raise
            return Ran(process.returncode, out, err)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"{name} can't be run: {printable(str(error))}") from error


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and its children: a child that still holds the pipe would be waited for."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
