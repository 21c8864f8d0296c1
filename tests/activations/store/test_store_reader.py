"""Reading: what was written comes back, and anything else is refused before it is used."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prereg.activations.store import Store, find_store, list_stores, remove_store
from prereg.activations.store.folder import locked
from prereg.errors import ActivationsError, StorageError, StoreCorrupt
from tests.forbidden import forbidden


def test_every_array_comes_back_as_it_was_written(bench):
    """A finished store gives the arrays, the prompts and the labels that went in."""
    store, _ = bench.build()
    for name, wanted in bench.arrays.items():
        np.testing.assert_array_equal(store.stack(name), wanted)
    assert store.prompts() == bench.prompts
    np.testing.assert_array_equal(store.top1, bench.arrays["top1"])
    np.testing.assert_array_equal(store.answer_logprob, bench.arrays["answer_logprob"])


def test_a_stack_is_mapped_and_read_only(bench):
    """An analysis can't change a store by accident."""
    stack = bench.build()[0].stack("resid")
    assert isinstance(stack, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        stack[0, 0, 0] = 1.0


def test_sites_are_found_by_their_transformer_lens_names(bench):
    """resid_post of a block is resid_pre of the next, and that of the last block is the deepest layer."""
    store, _ = bench.build()
    resid = bench.arrays["resid"]
    np.testing.assert_array_equal(store.site("blocks.0.hook_resid_pre"), resid[0])
    np.testing.assert_array_equal(store.site("blocks.0.hook_resid_post"), resid[1])
    np.testing.assert_array_equal(store.site("blocks.1.hook_resid_post"), resid[2])
    np.testing.assert_array_equal(store.site("blocks.1.hook_mlp_out"), bench.arrays["mlp_out"][1])


@pytest.mark.parametrize(
    "site",
    ["blocks.2.hook_resid_pre", "blocks.0.hook_q", "blocks.-1.hook_resid_pre", "blocks.0.hook_attn_out"],
)
def test_a_site_that_is_not_held_is_refused(bench, site):
    """A layer beyond the model, an unknown hook and a stack that wasn't asked for are errors."""
    with pytest.raises(ActivationsError):
        bench.build()[0].site(site)


def test_the_digest_is_that_of_the_content(bench, tmp_path):
    """The same bytes under another provenance have the same digest; one other value changes it."""
    first = bench.build()[0].digest
    remove_store(bench.root, bench.manifest.key)
    object.__setattr__(
        bench, "manifest", bench.manifest.model_copy(update={"provenance": {"registration": "r2"}})
    )
    assert bench.build()[0].digest == first
    remove_store(bench.root, bench.manifest.key)
    bench.arrays["resid"][0, 0, 0] += 1
    assert bench.build()[0].digest != first


def test_one_flipped_bit_anywhere_is_named(bench):
    """Full verification names the file, the rows and both hashes, whichever bit was flipped."""
    store, _ = bench.build()
    store.verify()
    rng = np.random.default_rng(0)
    for spec in bench.manifest.arrays:
        file = bench.folder / spec.file
        data = bytearray(file.read_bytes())
        for place in rng.integers(128, len(data), size=5):
            data[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(data)
            with pytest.raises(
                StoreCorrupt, match=rf"{spec.file}, {spec.unit} rows \d+:\d+ \(block \d\): found"
            ):
                Store.open(bench.folder).verify()
            data[:] = bench_bytes(bench, spec)
            file.write_bytes(data)
    Store.open(bench.folder).verify()


def bench_bytes(bench, spec) -> bytes:
    """Return the bytes that an array's file should have."""
    buffer = io.BytesIO()
    np.save(buffer, bench.arrays[spec.name])
    return buffer.getvalue()


def test_arrays_are_plain_npy_files(bench):
    """Each array's file is, byte for byte, what numpy itself would save."""
    bench.build()
    for spec in bench.manifest.arrays:
        assert (bench.folder / spec.file).read_bytes() == bench_bytes(bench, spec)


@pytest.mark.parametrize("harm", ["cut", "grow", "remove", "header"])
def test_a_wrong_size_or_header_is_seen_on_opening(bench, harm):
    """A truncated, longer, missing or re-labelled file is refused without hashing anything."""
    bench.build()
    file = bench.folder / "resid.npy"
    data = file.read_bytes()
    harmed = {"cut": data[:-1], "grow": data + b"x", "header": data.replace(b"<f4", b"<i4", 1)}
    if harm == "remove":
        file.unlink()
    else:
        file.write_bytes(harmed[harm])
    with pytest.raises(StoreCorrupt, match=r"resid\.npy"):
        Store.open(bench.folder)


def test_a_pickle_is_never_opened(bench):
    """An object array in an array's place is refused, not loaded."""
    store, _ = bench.build()
    np.save(bench.folder / "top1.npy", np.array([{"a": 1}] * 10), allow_pickle=True)
    with pytest.raises(StoreCorrupt, match=r"top1\.npy"):
        Store.open(bench.folder)
    with pytest.raises(StoreCorrupt, match=r"top1\.npy"):
        store.stack("top1")


@pytest.mark.parametrize("name", ["tokens.npy", "offsets.npy", "answer_ids.npy", "prompt_ids.json"])
def test_a_changed_side_file_is_refused(bench, name):
    """The prompts that a store carries are checked against the manifest each time they are read."""
    store, _ = bench.build()
    file = bench.folder / name
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreCorrupt, match=name):
        store.prompts()
    with pytest.raises(StoreCorrupt, match=name):
        store.verify()


def test_an_edited_provenance_is_refused_with_both_digests(bench):
    """The manifest is sealed when the store is complete: it can't be moved under another registration."""
    bench.build()
    file = bench.folder / "manifest.json"
    file.write_text(file.read_text().replace('"r1"', '"r2"'))
    with pytest.raises(StoreCorrupt, match=r"changed since: found blake3 \w+, wanted \w+"):
        Store.open(bench.folder)
    with pytest.raises(StoreCorrupt, match="not this capture's manifest"):
        bench.writer()


def test_a_manifest_that_lies_about_its_key_is_refused(bench):
    """A folder under another name, or fields that don't hash to the key, are refused."""
    bench.build()
    other = bench.root / ("0" * 64)
    bench.folder.rename(other)
    with pytest.raises(StoreCorrupt, match="wanted the same three times"):
        Store.open(other)
    other.rename(bench.folder)
    file = bench.folder / "manifest.json"
    file.write_text(file.read_text().replace('"model":"m"', '"model":"n"'))
    with pytest.raises(StoreCorrupt, match="wanted the same three times"):
        Store.open(bench.folder)


def test_a_manifest_that_is_no_manifest_is_refused(bench):
    """Broken JSON is what the next capture writes anew; JSON that is something else is not touched."""
    bench.build()
    for content, remedy in (("{", "run the capture again"), ('{"format": 1}', "remove")):
        (bench.folder / "manifest.json").write_text(content)
        with pytest.raises(StoreCorrupt, match=rf"is not a store's manifest[\s\S]*next: {remedy}"):
            Store.open(bench.folder)


def test_an_unfinished_store_is_not_found(bench):
    """Until its last block is journaled and marked, a store is as good as absent."""
    assert find_store(bench.root, bench.manifest.key) is None
    writer = bench.writer()
    writer.write_block(0, bench.share(0))
    writer.close()
    assert find_store(bench.root, bench.manifest.key) is None
    with pytest.raises(StoreCorrupt, match="not complete"):
        Store.open(bench.folder)
    assert [info.complete for info in list_stores(bench.root)] == [False]
    bench.build()
    assert find_store(bench.root, bench.manifest.key) is not None


def test_a_listing_shows_trouble_and_goes_on(bench):
    """A damaged store is listed with its trouble; files and folders of other names are left out."""
    bench.build()
    (bench.root / "notes").mkdir()
    info = list_stores(bench.root)[0]
    assert (info.key, info.complete, info.n_prompts, info.trouble) == (bench.manifest.key, True, 10, None)
    assert info.provenance == {"registration": "r1"}
    (bench.folder / "resid.npy").unlink()
    assert "resid.npy" in list_stores(bench.root)[0].trouble
    (bench.folder / "manifest.json").write_text("")
    assert "not a store's manifest" in list_stores(bench.root)[0].trouble
    assert list_stores(bench.root / "absent") == ()


def test_removal_is_of_a_key_only(bench):
    """A path in a key's place is refused, and so is a key that isn't there."""
    bench.build()
    for key in ("../stores", "..", "", bench.manifest.key[:-1]):
        with pytest.raises(ActivationsError, match="64 hex digits"):
            remove_store(bench.root, key)
    remove_store(bench.root, bench.manifest.key)
    assert list(bench.root.iterdir()) == []
    with pytest.raises(ActivationsError, match="no store"):
        remove_store(bench.root, bench.manifest.key)


def test_a_store_that_is_being_written_is_not_removed(bench):
    """Removal takes the writer's lock, and gives up at once if it is held."""
    bench.build()
    with locked(bench.root, bench.manifest.key), pytest.raises(StorageError, match="another process"):
        remove_store(bench.root, bench.manifest.key)
    assert find_store(bench.root, bench.manifest.key) is not None


def test_reading_needs_no_torch(bench):
    """Opening, reading and verifying a store imports neither torch nor transformers."""
    bench.build()
    program = (
        "import sys, json; from pathlib import Path; from prereg.activations.store import find_store;"
        f"s = find_store(Path({str(bench.root)!r}), {bench.manifest.key!r}); s.verify(); s.stack('resid').sum();"
        "print(json.dumps([m for m in ('torch', 'transformers', 'transformer_lens') if m in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert json.loads(out.stdout) == []


def test_the_capture_package_imports_no_torch():
    """Naming the capture API costs nothing until it is called."""
    program = "import sys, prereg.activations.capture; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "False"


def test_size_counts_every_file(bench):
    """size_bytes is what the folder takes."""
    store, _ = bench.build()
    assert store.size_bytes == sum(Path(file).stat().st_size for file in bench.folder.iterdir())


def test_a_store_that_may_not_be_read_is_a_storage_error(bench):
    """Finding, listing, opening, checking and removing say so alike."""
    store, _ = bench.build()
    key = bench.manifest.key
    asked = [
        lambda: find_store(bench.root, key),
        lambda: list_stores(bench.root),
        lambda: remove_store(bench.root, key),
        lambda: Store.open(bench.folder),
        store.verify,
        bench.writer,
    ]
    for ask in asked:
        with forbidden(bench.root), pytest.raises(StorageError, match="Permission denied"):
            ask()


def test_one_store_that_may_not_be_read_does_not_hide_the_others(bench, monkeypatch):
    """It is listed with its trouble."""
    bench.build()

    def refuse(self, real=Path.iterdir):
        if self == bench.folder:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    (info,) = list_stores(bench.root)
    assert "Permission denied" in info.trouble
