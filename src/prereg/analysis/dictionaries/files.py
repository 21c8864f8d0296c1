"""Dictionaries on disk: tensors, and a sealed record of what they are.

``<key>.safetensors`` holds the parameters, ``<key>.json`` says where they come from and how they did. The record is
written last. Nothing is trusted: a file whose bytes, seal or key are not the expected ones counts as missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import blake3
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from prereg.analysis.dictionaries.dictionary import Dictionary
from prereg.analysis.dictionaries.settings import Kind
from prereg.errors import AnalysisError
from prereg.evidence import digest_of
from prereg.hostile import read_bounded
from prereg.workers import refused_by_disk, write_atomically

__all__ = ["Record", "read_dictionary", "write_dictionary"]

MAX_RECORD = 1_000_000
MAX_TENSORS = 4_000_000_000
PARTS = ("encoder", "encoder_bias", "decoder", "bias")


class Record(BaseModel):
    """What a dictionary is, what it was trained on, and how it did on that."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    format: int = 1
    key: str
    kind: Kind
    seed: int
    update: int
    identity: str
    """The caller's digest of where the activations come from."""
    rows: str
    """Digest of the training rows."""
    settings: dict[str, Any]
    """Those that training depends on."""
    source: str
    """Digest of the source that trained it."""
    libraries: dict[str, str]
    device: str
    n_rows: int
    n_prompts: int
    duplicates: int
    capped: float
    """Share of training rows that were shortened."""
    l0_tokens: float
    l0_readout: float
    """Mean active features of the training rows, and of those at the readout position."""
    fired: tuple[int, ...]
    """For each feature, in how many training rows it is active."""
    explained: float
    """Explained variance of the capped training rows."""
    price: float
    """L1's final price of a unit of activation; 0 for TopK."""
    curve: tuple[tuple[float, ...], ...]
    """Rows of `training.CURVE`."""
    tensors: str = ""
    """blake3 of the tensors' file; filled in on writing."""
    seal: str = ""
    """Digest of all the other fields; filled in on writing."""

    @property
    def live(self) -> npt.NDArray[np.bool_]:
        """(F,) bool: the features that are active in some training row."""
        return np.array(self.fired) > 0

    @property
    def dead(self) -> float:
        """Share of features that are active in no training row."""
        return float(np.mean(~self.live))

    def sealed(self) -> Record:
        """Return the record with its seal."""
        content = self.model_dump(mode="json", exclude={"seal"})
        return self.model_copy(update={"seal": digest_of(content)})


def write_dictionary(folder: Path, dictionary: Dictionary, record: Record) -> Record:
    """Write a dictionary under its record's key; return the record with digest and seal.

    Raises
    ------
    StorageError
        If the folder can't be written.
    """
    from safetensors.numpy import save

    tensors = {name: getattr(dictionary, name).astype(np.float32) for name in PARTS}
    content = save({**tensors, "scale": np.array([dictionary.scale])})
    write_atomically(folder / f"{record.key}.safetensors", lambda part: part.write_bytes(content))
    done = record.model_copy(update={"tensors": blake3.blake3(content).hexdigest()}).sealed()
    text = json.dumps(done.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"
    write_atomically(folder / f"{record.key}.json", lambda part: part.write_text(text, "utf-8"))
    return done


def read_dictionary(folder: Path, key: str) -> tuple[Dictionary, Record] | None:
    """Return the dictionary of that key; None if it is missing, damaged, or another's.

    Raises
    ------
    StorageError
        If the disk can't be read.
    """
    try:
        raw = read_bounded(folder / f"{key}.json", MAX_RECORD)
        content = read_bounded(folder / f"{key}.safetensors", MAX_TENSORS)
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise refused_by_disk(folder / key, error, "can't be read") from error
    try:
        record = Record.model_validate_json(raw, strict=True)
    except ValueError:
        return None
    whole = record.key == key and record.seal == record.sealed().seal
    if not whole or record.tensors != blake3.blake3(content).hexdigest():
        return None
    dictionary = _decode(content, record)
    return None if dictionary is None else (dictionary, record)


def _decode(content: bytes, record: Record) -> Dictionary | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = load(content)
        parts = {name: found[name].astype(np.float64) for name in PARTS}
        return Dictionary(record.kind, record.settings["k"], **parts, scale=float(found["scale"][0]))
    except (SafetensorError, KeyError, ValueError, TypeError, IndexError, AnalysisError):
        return None
