"""Models from the hub, through huggingface_hub: one commit, the files that count, each checked.

A commit is asked for, never a branch: a branch is resolved at the first fetch, the commit is locked
beside the cache, and a branch that has moved since is refused until somebody decides.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prereg.activations.models.content import write_json
from prereg.activations.models.folder import TOKENIZER_FILES, choose_weights, tokenizer_files
from prereg.activations.models.layout import locked_commit
from prereg.activations.models.progress import watch_folder
from prereg.activations.models.wheels import sha256_of
from prereg.errors import ModelError, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prereg.activations.models.entries import HubSource
    from prereg.workers import Progress

__all__ = ["Listing", "ask_hub", "download", "lock_commit"]

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What the hub says of a file: size, and a sha256 (large files) or a git blob id."""

    size: int
    sha256: str | None
    blob_id: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit: the files that make the model."""

    commit: str
    files: Mapping[str, RemoteFile]

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return sum(file.size for file in self.files.values())


def ask_hub(source: HubSource, cache: Path) -> Listing:
    """Resolve the revision and list the files that will be fetched.

    Raises
    ------
    ModelUnavailable
        The hub can't be reached.
    ModelError
        No such repository or revision, no safetensors, or a revision that is not the locked one.
    """
    from huggingface_hub import HfApi

    with _hub_errors(source):
        info = HfApi(endpoint=_endpoint()).model_info(source.repo, revision=source.ref, files_metadata=True)
    commit = str(info.sha)
    known = source.commit or locked_commit(source, cache)
    if known is not None and known != commit:
        raise ModelError(
            f"{source.repo}@{source.ref} was {known} and is {commit} now: another model by the same name",
            remedy=f"--model {source.repo}@{known} for the first, @{commit} for the present one",
        )
    present = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    wanted = _wanted(present, str(source))
    return Listing(commit, {name: _remote(present[name], source) for name in wanted})


def _wanted(present: Mapping[str, Any], where: str) -> tuple[str, ...]:
    top = [name for name in present if "/" not in name]
    if "config.json" not in top:
        raise ModelError(f"{where}: there is no config.json")
    weights = choose_weights(top, where)
    if weights[0].endswith(".index.json"):
        shards = [n for n in top if n.startswith("model-") and n.endswith(".safetensors")]
        weights = (*weights, *sorted(shards))
    tokenizer_files(top, where)
    return ("config.json", *weights, *(name for name in TOKENIZER_FILES if name in top))


def _remote(sibling: Any, source: HubSource) -> RemoteFile:
    if sibling.size is None:
        raise ModelError(f"{source}: the hub does not tell the size of {sibling.rfilename}")
    lfs = sibling.lfs
    return RemoteFile(
        size=int(sibling.size),
        sha256=str(lfs.sha256) if lfs is not None else None,
        blob_id=sibling.blob_id,
    )


def lock_commit(source: HubSource, commit: str, cache: Path) -> None:
    """Remember what a branch was resolved to. The caller holds the cache's lock on revisions."""
    if source.commit is not None or locked_commit(source, cache) == commit:
        return
    path = cache / "revisions.json"
    table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write_json(path, {**table, f"{source.repo}@{source.ref}": commit})


def download(source: HubSource, listing: Listing, part: Path, progress: Progress) -> None:
    """Fetch the listed files into `part`, taking up what an earlier try left there, and check them.

    Raises
    ------
    ModelUnavailable
        The connection broke; what came so far is kept, also if the process dies.
    ModelError
        A file is not what the hub's own listing says; it is deleted.
    """
    part.mkdir(parents=True, exist_ok=True)
    with watch_folder(part, listing.size, f"fetch {source.repo}", progress):
        for name, remote in listing.files.items():
            if not (part / name).is_file():
                _fetch(source, listing.commit, name, remote.size, part)
            _check(part / name, remote, str(source))


def _fetch(source: HubSource, commit: str, name: str, size: int, part: Path) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    # snapshot_download forgets a half-fetched file when its process ends; a weights file is large
    # enough to be worth taking up again, so its pieces are appended to a file of our own.
    unfinished = part / f"{name}.incomplete"
    with unfinished.open("ab") as file:
        have = file.tell()
        if have > size:
            file.truncate(0)
            have = 0
        if have < size:
            with _hub_errors(source):
                http_get(
                    hf_hub_url(source.repo, name, revision=commit, endpoint=_endpoint()),
                    file,
                    resume_size=have,
                    headers=build_hf_headers(library_name="prereg"),
                    expected_size=size,
                    tqdm_class=_silent_bar(),
                )
    unfinished.replace(part / name)


def _check(path: Path, remote: RemoteFile, where: str) -> None:
    size = path.stat().st_size if path.is_file() else None
    if size == remote.size:
        if remote.sha256 is not None:
            right = sha256_of(path) == remote.sha256
        elif remote.blob_id is not None:
            right = _git_blob_id(path, size) == remote.blob_id
        else:
            right = False
        if right:
            return
    path.unlink(missing_ok=True)
    raise ModelError(
        f"{where}: {path.name} came as {size} bytes that are not the {remote.size} bytes the hub "
        "lists; it was deleted",
        remedy="run the same command again",
    )


def _git_blob_id(path: Path, size: int) -> str:
    hasher = hashlib.sha1(usedforsecurity=False)  # git's own name for the bytes, not our security
    hasher.update(f"blob {size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hasher.update(block)
    return hasher.hexdigest()


def _endpoint() -> str | None:
    # Read at the call: huggingface_hub reads it once, at its import.
    return os.environ.get("HF_ENDPOINT") or None


def _silent_bar() -> Any:
    from tqdm import tqdm

    class Silent(tqdm):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": True})

    return Silent


@contextlib.contextmanager
def _hub_errors(source: HubSource) -> Iterator[None]:
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    unreachable: tuple[type[BaseException], ...] = (HfHubHTTPError, OSError, *_transport_errors())
    try:
        yield
    except GatedRepoError as error:
        raise ModelUnavailable(
            f"{source.repo} asks for its licence to be accepted first",
            remedy="accept it on the repository's page, then: hf auth login",
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"the hub has no repository {source.repo}, or it is private",
            remedy="check the name, or: hf auth login",
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{source.repo} has no revision {source.ref}") from error
    except unreachable as error:
        if getattr(error, "errno", None) in DISK_ERRORS:
            raise
        said = (str(error).strip() or repr(error)).splitlines()[0]
        raise ModelUnavailable(
            f"{source.repo} can't be fetched from the hub now: {said}",
            remedy="run the same command again: it resumes where it stopped",
        ) from error


def _transport_errors() -> tuple[type[BaseException], ...]:
    """Errors of the HTTP client, whichever of its generations huggingface_hub uses."""
    found: list[type[BaseException]] = []
    for name in ("httpx2", "httpx"):
        with contextlib.suppress(ImportError):
            found.append(importlib.import_module(name).HTTPError)
    return tuple(found)
