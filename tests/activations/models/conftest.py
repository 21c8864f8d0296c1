"""Tiny checkpoints, a hub, and wheels, for the tests of model loading."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from prereg.activations.models import ModelEntry, Registry
from prereg.activations.models.entries import FolderSource
from tests.activations.models.gguf_files import part_table, write_gguf, write_wheel
from tests.activations.models.hub_standin import HubStandIn, start_hub
from tests.tiny_models import FAMILIES, make_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One tiny checkpoint of each family; read only."""
    base = tmp_path_factory.mktemp("checkpoints")
    return {family: make_checkpoint(family, base / family) for family in FAMILIES}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Name a cache folder that is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    """Serve a hub on this machine, which huggingface_hub is told to use."""
    from huggingface_hub.utils import close_session

    hub, server, thread = start_hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    # A piece of a file is written when it is complete; tiny files need tiny pieces.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 250)
    yield hub
    close_session()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder_entry(checkpoints: dict[str, Path]) -> Callable[..., ModelEntry]:
    """Build the entry of a tiny checkpoint's folder, with further keys if wanted."""

    def build(family: str, /, **keys: object) -> ModelEntry:
        source = FolderSource(kind="folder", path=str(checkpoints[family]))
        return ModelEntry.model_validate({"alias": f"tiny-{family}", "source": source, **keys})

    return build


@pytest.fixture
def few(folder_entry: Callable[..., ModelEntry]) -> Registry:
    """Make a registry of one model that is here."""
    return Registry(entries=(folder_entry("gpt2"),))


@pytest.fixture(scope="session")
def wheel_entry(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelEntry, Path]:
    """Split a model over two wheels; also give the folder where an index would find them."""
    base = tmp_path_factory.mktemp("wheels")
    whole = base / "tiny.gguf"
    write_gguf(whole)
    content = whole.read_bytes()
    cut = len(content) // 3
    parts = []
    for number, piece in enumerate((content[:cut], content[cut:]), start=1):
        package, member = f"tiny-part{number}", f"tiny_part{number}/data/part"
        wheel = write_wheel(base, package, member, piece)
        parts.append(part_table(wheel, package, member))
    source = {
        "kind": "wheels",
        "format": "gguf",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "parts": parts,
    }
    entry = {
        "alias": "tiny-wheels",
        "source": source,
        "family": "llama",
        "n_layers": 2,
        "d_model": 32,
        "add_bos": False,
        "initializer_range": 0.05,
    }
    return ModelEntry.model_validate(entry), base
