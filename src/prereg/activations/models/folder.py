"""A model's folder: which files count, and which folders are refused before anything is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prereg.errors import ModelError, ModelUnavailable
from prereg.workers import refused_by_disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["ModelFiles", "choose_weights", "read_config", "restore", "tokenizer_files"]

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
)
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a folder that make a model; all others are ignored.

    Parameters
    ----------
    folder
        Where they are.
    weights
        Safetensors files, and their index where there are several.
    tokenizer
        Tokenizer files.
    """

    folder: Path
    weights: tuple[str, ...]
    tokenizer: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All files, config.json first."""
        return ("config.json", *self.weights, *self.tokenizer)

    @classmethod
    def of(cls, folder: Path) -> ModelFiles:
        """List a folder's files.

        Raises
        ------
        ModelUnavailable
            Where there is no folder.
        ModelError
            Where config, safetensors or tokenizer is missing, or the model needs code of its own.
        StorageError
            Where the folder can't be read.
        """
        try:
            present = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
        except FileNotFoundError as error:
            raise ModelUnavailable(f"there is no model folder {folder}") from error
        except OSError as error:
            raise refused_by_disk(folder, error, "can't be listed") from error
        refuse_code(read_config(folder), str(folder))
        weights = choose_weights(present, str(folder))
        if any(name.endswith(".index.json") for name in weights):
            weights = (*weights, *_shards(folder, present))
        return cls(folder, weights, tokenizer_files(present, str(folder)))


def restore(path: Path) -> str:
    """Return the remedy for a file that is missing or damaged."""
    return f"put {path.name} into {path.parent} again, from where the model came from"


def read_config(folder: Path) -> dict[str, object]:
    """Read config.json as it stands, without transformers' defaults."""
    return _read_object(folder / "config.json")


def _read_object(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"{path.parent} holds no {path.name}: it is not a model",
            remedy="name a folder with config.json, *.safetensors and a tokenizer",
        ) from error
    except OSError as error:
        raise refused_by_disk(path, error, "can't be read") from error
    except ValueError as error:
        raise ModelError(f"{path} is damaged: not JSON: {error}", remedy=restore(path)) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} is damaged: wanted a JSON object", remedy=restore(path))
    return found


def refuse_code(config: Mapping[str, object], where: str) -> None:
    """Refuse a model that only its author's own code can load."""
    if "auto_map" in config or "custom_pipelines" in config:
        raise ModelError(
            f"{where}: config.json names code of its own (auto_map), and no model's code is ever run",
            remedy="choose a model of an architecture that transformers itself implements",
        )
    if config.get("quantization_config"):
        raise ModelError(
            f"{where}: the weights are quantised; wanted plain ones",
            remedy="use the unquantised repository, or a .gguf file",
        )


def choose_weights(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Pick the weights among file names: one file, or the index of several."""
    found = set(names)
    for choice in ("model.safetensors", "model.safetensors.index.json"):
        if choice in found:
            return (choice,)
    pickles = sorted(name for name in found if name.endswith(PICKLES))
    if pickles:
        raise ModelError(
            f"{where}: the weights are in {', '.join(pickles)} only, and a pickle can run code, so "
            "none is ever opened; wanted model.safetensors",
            remedy="name a revision that holds safetensors: --model org/name@revision",
        )
    raise ModelError(
        f"{where}: there is no model.safetensors",
        remedy="name a folder or repository whose weights are safetensors, or a .gguf file",
    )


def _shards(folder: Path, present: Iterable[str]) -> tuple[str, ...]:
    index = _read_object(folder / "model.safetensors.index.json")
    table = index.get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModelError(
            f"{folder}: model.safetensors.index.json has no weight_map",
            remedy=restore(folder / "model.safetensors.index.json"),
        )
    shards = sorted({str(name) for name in table.values()})
    missing = sorted(set(shards) - set(present))
    if missing:
        raise ModelError(
            f"{folder}: the index names {', '.join(missing)}, which is not there",
            remedy=restore(folder / missing[0]),
        )
    return tuple(shards)


def tokenizer_files(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Pick the tokenizer's files among file names."""
    found = tuple(name for name in TOKENIZER_FILES if name in set(names))
    whole = "tokenizer.json" in found or "tokenizer.model" in found
    if not whole and not {"vocab.json", "merges.txt"} <= set(found):
        raise ModelError(
            f"{where}: there is no tokenizer (tokenizer.json)",
            remedy="put the model's own tokenizer.json beside its weights: another's ids mean other words",
        )
    return found
