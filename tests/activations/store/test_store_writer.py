"""Writing: whatever interrupts it, the next run ends with the same store."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from prereg.activations.store import Store, find_store
from prereg.activations.store import files as disk
from prereg.activations.store import journal as journals
from prereg.activations.store import writer as writers
from prereg.activations.store.layout import header
from prereg.errors import ActivationsError, StorageError, StoreCorrupt


class PowerCut(BaseException):
    """The machine stops here."""


def test_a_second_run_writes_nothing(bench):
    """A complete and intact store is taken as it is."""
    first, written = bench.build()
    assert written == (0, 1, 2)
    journal = (bench.folder / "journal.jsonl").read_bytes()
    second, written = bench.build()
    assert written == ()
    assert second.digest == first.digest
    assert (bench.folder / "journal.jsonl").read_bytes() == journal


def test_a_power_cut_at_any_step_loses_one_block_at_most(bench, monkeypatch):
    """At every single write the machine stops and what was not forced to disk is gone; the next run ends well."""
    # The disk below is made up, so the real one need not be waited for.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(writers, "DATA_SYNC", lambda _: None)
    whole = bench.build()[0].digest
    step = 0
    while True:
        for file in bench.folder.iterdir():
            file.unlink()
        cut = _Disk(monkeypatch, stop_at=step)
        try:
            bench.build()
        except PowerCut:
            cut.lose_what_was_not_forced()
        else:
            break
        finally:
            cut.undo()
        journaled = len(journals.read_journal(bench.folder / "journal.jsonl").blocks)
        store, written = bench.build()
        assert len(written) == 3 - journaled
        assert store.digest == whole
        store.verify()
        step += 1
    assert step > 3 * 4 * 2  # three blocks of four arrays, written and forced


class _Disk:
    """Counts writes and forced writes, remembers what a write replaced, and stops at a given count."""

    def __init__(self, monkeypatch, stop_at):
        self.stop_at, self.count, self.unforced = stop_at, 0, []
        self.patch = monkeypatch.context()
        patch = self.patch.__enter__()
        patch.setattr(writers, "pwrite_all", self.pwrite_all)
        patch.setattr(writers, "DATA_SYNC", self.sync)
        patch.setattr(writers, "append", self.append)

    def undo(self):
        self.patch.__exit__(None, None, None)

    def tick(self):
        self.count += 1
        if self.count > self.stop_at:
            raise PowerCut

    def pwrite_all(self, fd, data, offset):
        self.tick()
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        self.unforced.append((path, offset, os.pread(fd, len(data), offset)))
        half = len(data) // 2
        disk.pwrite_all(fd, data[:half], offset)
        self.tick()
        disk.pwrite_all(fd, data[half:], offset + half)

    def sync(self, fd):
        self.tick()
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        self.unforced = [entry for entry in self.unforced if entry[0] != path]

    def append(self, file, entry):
        try:
            self.tick()
        except PowerCut:
            # The line was on its way: half of it may stand.
            with file.open("ab") as handle:
                handle.write(journals._line(entry)[:40])
            raise
        assert self.unforced == [], "a block was journaled before it was on disk"
        journals.append(file, entry)

    def lose_what_was_not_forced(self):
        for path, offset, old in reversed(self.unforced):
            with Path(path).open("r+b") as handle:
                handle.seek(offset)
                handle.write(old)


@pytest.mark.parametrize("name", ["resid", "mlp_out", "top1", "answer_logprob"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_only_the_damaged_block_is_written_again(bench, name, index):
    """One flipped byte costs one block, and the repaired store has the digest that it had."""
    store, _ = bench.build()
    spec = bench.manifest.array(name)
    place = len(header(spec)) + spec.rows_of(*bench.blocks[index])[0] * spec.row_bytes
    data = bytearray((bench.folder / spec.file).read_bytes())
    data[place] ^= 1
    (bench.folder / spec.file).write_bytes(data)
    repaired, written = bench.build()
    assert written == (index,)
    assert repaired.digest == store.digest
    repaired.verify()


@pytest.mark.parametrize(
    ("harm", "cost"),
    [
        ("cut", {2}),
        ("remove", {0, 1, 2}),
        ("header", set()),
        ("grow", set()),
        ("side", set()),
        ("journal", {0, 1, 2}),
    ],
)
def test_a_harmed_file_costs_what_it_held(bench, harm, cost):
    """A cut, lost, grown or re-labelled file is restored; intact blocks are kept."""
    store, _ = bench.build()
    file = bench.folder / "resid.npy"
    data = file.read_bytes()
    if harm == "cut":
        file.write_bytes(data[:-3])
    elif harm == "remove":
        file.unlink()
    elif harm == "header":
        file.write_bytes(data.replace(b"<f4", b"<i4", 1))
    elif harm == "grow":
        file.write_bytes(data + b"xyz")
    elif harm == "side":
        (bench.folder / "tokens.npy").unlink()
    else:
        (bench.folder / "journal.jsonl").unlink()
    repaired, written = bench.build()
    assert set(written) == cost
    assert repaired.digest == store.digest
    repaired.verify()


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\x00garbage", "half"])
def test_a_lost_or_garbled_manifest_is_written_anew(bench, content):
    """Its seal shows that it is the same one again: no block is redone."""
    store, _ = bench.build()
    file = bench.folder / "manifest.json"
    whole = file.read_bytes()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    repaired, written = bench.build()
    assert (written, repaired.digest) == ((), store.digest)
    assert file.read_bytes() == whole
    repaired.verify()


@pytest.mark.parametrize("finished", [True, False])
def test_blocks_that_no_manifest_speaks_for_are_redone(bench, finished):
    """Losing the manifest doesn't move what was captured under one registration to another."""
    if finished:
        bench.build()
    else:
        writer = bench.writer()
        writer.write_block(0, bench.share(0))
        writer.close()
    (bench.folder / "manifest.json").write_text("{")
    later = bench.manifest.model_copy(update={"provenance": {"registration": "r2"}})
    object.__setattr__(bench, "manifest", later)
    store, written = bench.build()
    assert written == (0, 1, 2)
    assert store.manifest.provenance == {"registration": "r2"}
    store.verify()


def test_json_that_is_another_manifest_is_not_overwritten(bench):
    """Only what says nothing is replaced; an edit is refused."""
    bench.build()
    file = bench.folder / "manifest.json"
    for content in ("{}", "[1]", '{"format": "prereg-store/2"}'):
        file.write_text(content)
        with pytest.raises(StoreCorrupt, match="is not a store's manifest"):
            bench.writer()
        assert file.read_text() == content


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_torn_last_line_is_dropped(bench, cut):
    """A journal whose last line was cut, even of its newline alone, loses that line and no other."""
    bench.build()
    file = bench.folder / "journal.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + lines[2][:-cut])
    assert journals.read_journal(file).broken_lines == 1
    repaired, written = bench.build()
    assert written == (2,)
    assert journals.read_journal(file).broken_lines == 0
    repaired.verify()


def test_a_changed_journal_line_is_not_believed(bench):
    """A line whose content was edited fails its checksum: the store is refused, then its block redone."""
    bench.build()
    file = bench.folder / "journal.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"prompts":[4,8]', b'"prompts":[4,9]')
    file.write_bytes(b"".join(lines))
    with pytest.raises(StoreCorrupt, match="1 unreadable lines, wanted 3 blocks"):
        Store.open(bench.folder)
    assert bench.build()[1] == (1,)


def test_a_removed_journal_line_is_missed(bench):
    """A journal without one of its blocks is refused although every line of it is sound."""
    bench.build()
    file = bench.folder / "journal.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[2] + lines[3])
    with pytest.raises(StoreCorrupt, match="found 2 blocks"):
        Store.open(bench.folder)
    assert bench.build()[1] == (1,)


def test_a_foreign_line_in_the_journal_is_dropped(bench):
    """A sound store with one unreadable line more is refused, and repaired without writing a block."""
    store, _ = bench.build()
    file = bench.folder / "journal.jsonl"
    file.write_bytes(b'{"event":"block"}\n' + file.read_bytes())
    with pytest.raises(StoreCorrupt, match="found 3 blocks and 1 unreadable lines"):
        Store.open(bench.folder)
    repaired, written = bench.build()
    assert (written, repaired.digest) == ((), store.digest)


def test_half_written_files_are_cleared_away(bench):
    """What an atomic replacement left when it was killed does not stay."""
    bench.writer().close()
    (bench.folder / ".manifest.json.1.part").write_bytes(b"{")
    bench.build()
    assert not list(bench.folder.glob(".*"))


def test_another_plan_in_the_same_folder_is_refused_with_both_values(bench):
    """A manifest that differs in anything but parity and provenance stops the writer."""
    bench.build()
    plan = bench.manifest.plan.model_copy(update={"padded_tokens": 41})
    object.__setattr__(bench, "manifest", bench.manifest.model_copy(update={"plan": plan}))
    with pytest.raises(StoreCorrupt, match=r"plan.padded_tokens: found 40, wanted 41"):
        bench.writer()


def test_a_store_keeps_the_provenance_that_it_was_begun_under(bench):
    """A later registration does not relabel activations that were captured before it."""
    bench.build()
    later = bench.manifest.model_copy(update={"provenance": {"registration": "r2"}})
    object.__setattr__(bench, "manifest", later)
    assert bench.build()[0].manifest.provenance == {"registration": "r1"}


def test_a_full_disk_says_what_is_needed_and_keeps_what_is_done(bench, monkeypatch):
    """ENOSPC in the second block: a StorageError with the size and the remedy, and the first block stays."""
    calls = []

    def pwrite(fd, data, offset, real=os.pwrite):
        calls.append(offset)
        if len(calls) > 15:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(StorageError, match=r"needed\): No space left[\s\S]*next: free some space"):
            bench.build()
    store, written = bench.build()
    assert written == (1, 2)
    store.verify()


def test_a_write_in_pieces_is_a_whole_write(bench, monkeypatch):
    """The system may take fewer bytes than it was given; all of them end up on disk."""

    def stingy(fd, data, offset, real=os.pwrite):
        return real(fd, data[:7], offset)

    monkeypatch.setattr(os, "pwrite", stingy)
    store, _ = bench.build()
    np.testing.assert_array_equal(store.stack("resid"), bench.arrays["resid"])


def test_too_little_space_stops_before_anything_is_written(bench, monkeypatch):
    """The free space is asked first: needed and free are both in the error."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100})())
    with pytest.raises(StorageError, match=r"needed, 100 B free"):
        bench.build()
    assert not (bench.folder / "resid.npy").exists()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_no_permission_is_a_storage_error(bench, monkeypatch, code):
    """A folder that can't be written names itself and proposes another."""

    def refuse(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match=r"can't be used.*[\s\S]*--cache-dir"):
        bench.build()


def test_a_block_of_the_wrong_shape_or_dtype_is_refused(bench):
    """A block that would be written beside its place never reaches the disk."""
    writer = bench.writer()
    share = bench.share(0)
    with pytest.raises(ActivationsError, match="block 0 of resid"):
        writer.write_block(0, share | {"resid": share["resid"][:, :-1]})
    with pytest.raises(ActivationsError, match="block 0 of resid"):
        writer.write_block(0, share | {"resid": share["resid"].astype(np.float64)})
    assert writer.pending == (0, 1, 2)
    writer.close()


def test_a_store_with_a_missing_block_can_not_be_marked(bench):
    """The mark is refused while a block is pending."""
    writer = bench.writer()
    writer.write_block(1, bench.share(1))
    with pytest.raises(StoreCorrupt, match=r"blocks \[0, 2\] are missing"):
        writer.finish()
    writer.close()
    assert find_store(bench.root, bench.manifest.key) is None
