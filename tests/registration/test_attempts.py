"""The attempts log: nothing is lost, nothing is edited unseen, nothing in the folder can hurt its reader."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prereg.errors import RegistrationError, StorageError
from prereg.registration import attempts, attempts_files
from prereg.registration.attempts import Attempt, AttemptLog, LogState, Look, Tally, read_attempt

ROOT, OTHER_ROOT, PROTOCOL = "a" * 64, "b" * 64, "c" * 64
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

WRITER = """
import sys
from pathlib import Path
from prereg.registration.attempts import AttemptLog

folder, prefix, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
for i in range(count):
    data = f"{prefix:02d}{i:062d}"
    AttemptLog(folder).record(
        study="s", model=f"m{prefix}", registration=None, protocol="c" * 64, results={"H1": (data, "supported")}
    )
"""


def digest(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def record(log: AttemptLog, data: object = 0, **changed: Any) -> Attempt | None:
    """Record one answer to H1 on the data called `data`."""
    given: dict[str, Any] = {
        "study": "study",
        "model": "tiny",
        "registration": ROOT,
        "protocol": PROTOCOL,
        "results": {"H1": (digest(data), "supported")},
        "at": "2026-11-30T12:00:00Z",
    }
    return log.record(**(given | changed))


def chain(folder: Path, *names: object) -> list[Attempt]:
    log = AttemptLog(folder)
    return [entry for entry in (record(log, name) for name in names) if entry is not None]


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def read(folder: Path) -> LogState:
    return AttemptLog(folder).read()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "attempts"


class TestRecording:
    def test_a_log_that_is_not_there_is_empty_and_whole(self, folder: Path) -> None:
        """Reading makes nothing: no folder, no entries, no faults."""
        assert read(folder) == LogState((), (), ())
        assert not folder.exists()

    def test_an_entry_is_named_by_its_content_and_reads_back(self, folder: Path) -> None:
        """The file's name is the sha256 of the canonical content, which anyone can compute."""
        look = Look(look=2, alpha=0.0125)
        written = record(AttemptLog(folder), looks={"H1": look})
        assert written is not None
        (file,) = folder.iterdir()
        content = json.loads(file.read_text())
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        assert file.name == hashlib.sha256(canonical.encode()).hexdigest() + ".json" == written.file_name
        assert content["looks"] == {"H1": {"look": 2, "alpha": 0.0125}}
        assert read(folder) == LogState((written,), (written.id,), ())

    def test_each_entry_names_the_heads_it_found(self, folder: Path) -> None:
        """A lone writer makes a chain."""
        first, second, third = chain(folder, 1, 2, 3)
        assert (first.parents, second.parents, third.parents) == ((), (first.id,), (second.id,))
        assert read(folder) == LogState((first, second, third), (third.id,), ())

    def test_a_warm_rerun_writes_nothing(self, folder: Path) -> None:
        """The same answers on the same data leave every byte and every time of change as it was."""
        record(AttemptLog(folder))
        before = {file: file.stat().st_mtime_ns for file in [folder, *folder.iterdir()]}
        assert record(AttemptLog(folder), at="2027-01-01T00:00:00Z") is None
        assert {file: file.stat().st_mtime_ns for file in [folder, *folder.iterdir()]} == before

    def test_nothing_to_record_makes_no_folder(self, folder: Path) -> None:
        """No results are no attempt."""
        assert record(AttemptLog(folder), results={}) is None
        assert not folder.exists()

    @pytest.mark.parametrize(
        "changed",
        [
            {"registration": OTHER_ROOT},
            {"registration": None},
            {"protocol": "d" * 64},
            {"model": "other"},
            {"results": {"H2": (digest(0), "supported")}},
            {"results": {"H1": (digest(1), "supported")}},
            {"results": {"H1": (digest(0), "refuted")}},
        ],
    )
    def test_any_other_promise_model_data_or_answer_is_new(
        self, folder: Path, changed: Mapping[str, Any]
    ) -> None:
        """Registration, protocol, model, hypothesis, data and outcome each make an attempt."""
        log = AttemptLog(folder)
        record(log)
        assert record(log, **changed) is not None
        assert record(log, **changed) is None
        assert len(log.read().entries) == 2

    def test_only_the_hypotheses_that_are_new_are_written(self, folder: Path) -> None:
        """Of two results and two looks, the one that was logged before is left out."""
        log = AttemptLog(folder)
        record(log)
        results = {"H1": (digest(0), "supported"), "H2": (digest(0), "refuted")}
        looks = {name: Look(look=1, alpha=0.01) for name in results}
        entry = record(log, results=results, looks=looks)
        assert entry is not None
        assert (set(entry.data), entry.outcomes, set(entry.looks)) == ({"H2"}, {"H2": "refuted"}, {"H2"})

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"study": "../x"}, "study"),
            ({"model": ""}, "model"),
            ({"model": "m\x1b[2J"}, "printable"),
            ({"registration": "A" * 64}, "registration"),
            ({"protocol": "abc"}, "protocol"),
            ({"results": {"H1": ("abc", "supported")}}, "data.H1"),
            ({"results": {"H 1": (digest(0), "supported")}}, "data"),
            ({"results": {"H1": (digest(0), "passed")}}, "one of supported, refuted"),
            ({"looks": {"H9": Look(look=1, alpha=0.1)}}, "without a result"),
            ({"at": "yesterday"}, "at"),
            ({"at": "2026-02-30T00:00:00Z"}, "at"),
            ({"results": {f"H{i}": (digest(i), "supported") for i in range(3000)}}, "larger than"),
        ],
    )
    def test_what_is_no_attempt_is_refused_before_anything_is_written(
        self, folder: Path, changed: Mapping[str, Any], said: str
    ) -> None:
        """The error names the field; the folder stays as it was."""
        with pytest.raises(RegistrationError, match=said):
            record(AttemptLog(folder), **changed)
        assert not folder.exists()

    def test_the_time_is_now_in_utc_unless_given(self, folder: Path) -> None:
        """The author's clock is read for the stamp, and for nothing else."""
        before = time.time()
        entry = record(AttemptLog(folder), at=None)
        assert entry is not None
        assert before - 1.0 <= datetime.fromisoformat(entry.at).timestamp() <= time.time()

    @FEW
    @given(alpha=st.floats(0.0, 1.0, exclude_min=True, exclude_max=True), look=st.integers(1, 10**9))
    def test_any_look_reads_back_as_itself(self, tmp_path: Path, alpha: float, look: int) -> None:
        """No rounding on the way through the file, or the digest would not fit."""
        folder = tmp_path / digest((alpha, look))
        entry = record(AttemptLog(folder), looks={"H1": Look(look=look, alpha=alpha)})
        assert read(folder) == LogState((entry,), (entry.id,), ())  # type: ignore[arg-type, union-attr]

    def test_a_models_alias_has_one_spelling(self, folder: Path) -> None:
        """Composed or decomposed, it is the same model."""
        log = AttemptLog(folder)
        record(log, model="mod\u00e8le/x")
        assert record(log, model="mode\u0300le/x") is None
        assert log.tally("mode\u0300le/x", "H1").runs == 1


class TestTally:
    def test_counts_distinct_data_in_the_logs_order(self, folder: Path) -> None:
        """The same data under another promise or with another answer count once; runs count each."""
        log = AttemptLog(folder)
        for data, changed in (
            (1, {}),
            (2, {"registration": None}),
            (1, {"registration": OTHER_ROOT}),
            (3, {}),
            (1, {"results": {"H1": (digest(1), "refuted")}}),
            (4, {"model": "other"}),
            (5, {"results": {"H2": (digest(5), "refuted")}}),
        ):
            assert record(log, data, **changed) is not None
        tally = log.tally("tiny", "H1")
        assert tally.data == (digest(1), digest(2), digest(3))
        assert tally.runs == 5
        assert tally.registered(ROOT) == (digest(1), digest(3))
        assert tally.registered(None) == (digest(2),)
        assert tally.registered(ROOT, OTHER_ROOT, None) == tally.data
        assert tally.registered() == ()

    def test_of_what_was_never_tried_is_empty(self, folder: Path) -> None:
        """No entry, no data, no run; a name that no entry can have is no error."""
        assert AttemptLog(folder).tally("m\x00", "H1") == Tally((), 0, ())

    def test_look_is_the_place_among_distinct_data_or_the_next(self, folder: Path) -> None:
        """Known data keep their look; new data get the next one, which asking doesn't use up."""
        log = AttemptLog(folder)
        assert log.look_of("tiny", "H1", ROOT, digest(1)) == 1
        for data in (1, 2):
            record(log, data)
        record(log, 3, registration=OTHER_ROOT)
        assert [log.look_of("tiny", "H1", ROOT, digest(i)) for i in (1, 2, 3, 4)] == [1, 2, 3, 3]
        both = (ROOT, OTHER_ROOT)
        assert [log.look_of("tiny", "H1", both, digest(i)) for i in (1, 2, 3, 4)] == [1, 2, 3, 4]
        assert log.look_of("tiny", "H1", None, digest(1)) == 1

    def test_is_read_when_asked_for_and_once(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Making a log reads nothing; a second question doesn't go to the disk again."""
        chain(folder, 1, 2)
        calls: list[Path] = []

        def counted(path: Path) -> attempts_files.Listing:
            calls.append(path)
            return attempts_files.list_folder(path)

        monkeypatch.setattr(attempts, "list_folder", counted)
        log = AttemptLog(folder)
        assert calls == []
        log.tally("tiny", "H1")
        log.look_of("tiny", "H1", ROOT, digest(1))
        assert log.read() is log.read()
        assert calls == [folder]


class TestDamage:
    @FEW
    @given(picked=st.data())
    def test_deleting_any_entry_but_a_head_is_a_fault(self, tmp_path: Path, picked: st.DataObject) -> None:
        """Whatever the graph: two branches, merged or not."""
        folder = tmp_path / digest(picked)[:12]
        grow(folder, picked.draw(st.lists(STEPS, min_size=3, max_size=8)))
        state = read(folder)
        inner = [entry for entry in state.entries if entry.id not in state.heads]
        for entry in inner:
            content = (folder / entry.file_name).read_bytes()
            (folder / entry.file_name).unlink()
            faults = read(folder).faults
            assert any(f"an attempt was removed: {entry.id} is named by " in fault for fault in faults)
            (folder / entry.file_name).write_bytes(content)
        assert read(folder) == state
        shutil.rmtree(folder)

    def test_deleting_the_newest_does_not_show(self, folder: Path) -> None:
        """The limit that the docstring states: only history can tell."""
        first, second = chain(folder, 1, 2)
        (folder / second.file_name).unlink()
        assert read(folder) == LogState((first,), (first.id,), ())

    @FEW
    @given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
    def test_any_byte_that_changes_the_meaning_is_a_fault(self, tmp_path: Path, at: int, byte: int) -> None:
        """Either the entry says what it said, or its file is named as broken."""
        folder = tmp_path / digest((at, byte))[:12]
        (entry,) = chain(folder, 1)
        file = folder / entry.file_name
        content = bytearray(file.read_bytes())
        content[at % len(content)] = byte
        file.write_bytes(bytes(content))
        state = read(folder)
        assert state.heads == (entry.id,)
        if state.faults:
            assert (state.entries, state.faults[0].startswith(file.name)) == ((), True)
        else:
            assert state.entries == (entry,)
        shutil.rmtree(folder)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("study", "other"),
            ("model", "other"),
            ("registration", None),
            ("protocol", "e" * 64),
            ("parents", ["e" * 64]),
            ("data", {"H1": "e" * 64}),
            ("outcomes", {"H1": "refuted"}),
            ("looks", {"H1": {"look": 1, "alpha": 0.05}}),
            ("at", "2025-11-30T12:00:00Z"),
            ("format", 2),
            ("format", True),
            ("extra", 1),
        ],
    )
    def test_each_field_is_bound(self, folder: Path, key: str, value: object) -> None:
        """Editing any one of them is a fault that names the file."""
        (entry,) = chain(folder, 1)
        file = folder / entry.file_name
        file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
        (fault,) = read(folder).faults
        assert fault.startswith(file.name)

    @pytest.mark.parametrize(
        "changed",
        [
            {"parents": ["f" * 64, "e" * 64]},
            {"parents": ["e" * 64, "e" * 64]},
            {"data": {}, "outcomes": {}},
            {"outcomes": {}},
            {"outcomes": {"H1": "supported", "H2": "supported"}},
            {"outcomes": {"H1": "not_tested"}},
            {"looks": {"H2": {"look": 1, "alpha": 0.05}}},
            {"looks": {"H1": {"look": 0, "alpha": 0.05}}},
            {"looks": {"H1": {"look": 1, "alpha": 0}}},
            {"looks": {"H1": {"look": 1, "alpha": 1}}},
            {"looks": {"H1": {"look": True, "alpha": 0.05}}},
            {"model": "\u202etiny"},
            {"at": "2026-13-01T00:00:00Z"},
            {"study": "a/../b"},
        ],
    )
    def test_a_right_digest_does_not_make_nonsense_an_attempt(
        self, folder: Path, changed: dict[str, Any]
    ) -> None:
        """Who can write a file can name it as well: the content must hold together by itself."""
        (entry,) = chain(folder, 1)
        content = json.loads((folder / entry.file_name).read_text()) | changed
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        (folder / f"{hashlib.sha256(canonical.encode()).hexdigest()}.json").write_text(canonical)
        state = read(folder)
        assert (state.entries, len(state.faults)) == ((entry,), 1)
        assert "digest" not in state.faults[0]

    def test_spelling_is_no_edit(self, folder: Path) -> None:
        """CRLF, compact JSON, escaped letters and another key order are the same attempt."""
        entry = record(AttemptLog(folder), model="modèle", looks={"H1": Look(look=1, alpha=0.05)})
        assert entry is not None
        file = folder / entry.file_name
        content = json.loads(file.read_text(encoding="utf-8"))
        for text in (
            file.read_text(encoding="utf-8").replace("\n", "\r\n"),
            json.dumps(content, separators=(",", ":")),
            json.dumps(dict(reversed(content.items())), ensure_ascii=True),
            json.dumps(content).replace("0.05", "5e-2"),
        ):
            file.write_bytes(text.encode())
            assert read(folder) == LogState((entry,), (entry.id,), ())

    def test_a_key_that_stands_twice_is_a_fault(self, folder: Path) -> None:
        """Readers differ in which of the two they believe."""
        (entry,) = chain(folder, 1)
        file = folder / entry.file_name
        file.write_text(file.read_text().replace('"format"', '"study": "other",\n  "format"'))
        assert "twice" in read(folder).faults[0]

    def test_a_copy_under_another_name_is_a_fault(self, folder: Path) -> None:
        """A name is a digest, not a label."""
        (entry,) = chain(folder, 1)
        shutil.copy(folder / entry.file_name, folder / f"{'0' * 64}.json")
        state = read(folder)
        assert (state.entries, len(state.faults)) == ((entry,), 1)
        assert f"has the digest {entry.id}" in state.faults[0]

    def test_a_broken_log_is_recorded_onto_and_stays_broken(self, folder: Path) -> None:
        """The new attempt isn't lost, and the fault isn't gone."""
        first, second = chain(folder, 1, 2)
        (folder / first.file_name).unlink()
        third = record(AttemptLog(folder), 3)
        state = read(folder)
        assert third is not None
        assert state.entries == (second, third)
        assert state.faults == (
            f"{first.file_name}: an attempt was removed: {first.id} is named by {second.id}",
        )

    def test_an_edited_newest_attempt_cannot_be_removed_after_the_next(self, folder: Path) -> None:
        """A damaged attempt counts as a head by its name, so that the next one names it."""
        (first,) = chain(folder, 1)
        file = folder / first.file_name
        file.write_text("{}")
        second = record(AttemptLog(folder), 2)
        assert second is not None
        assert second.parents == (first.id,)
        file.unlink()
        assert "an attempt was removed" in read(folder).faults[0]

    def test_one_damaged_file_is_one_fault(self, folder: Path) -> None:
        """An entry that is there but damaged isn't reported as removed as well."""
        first, _ = chain(folder, 1, 2)
        (folder / first.file_name).write_text("<<<<<<< HEAD")
        assert len(read(folder).faults) == 1


class TestHostileFolder:
    CONTENT: tuple[bytes, ...] = (
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf{}",
        b"[" * 200_000,
        b'{"a":' * 40_000,
        b"9" * 200_000,
        b'{"format": 1e999}',
        b'{"format": NaN}',
        b'{"\\ud800": 1}',
        b'{"\x1b[2J\\u001b[2J\\u202e": 1}',
        b"gASVDAAAAAAAAACMCGJ1aWx0aW5z",
        b"\x80\x04\x95",
    )

    @pytest.mark.parametrize("content", CONTENT, ids=range(len(CONTENT)))
    def test_no_content_raises(self, folder: Path, content: bytes) -> None:
        """Each is one printable fault of bounded length, and the others are read."""
        (entry,) = chain(folder, 1)
        (folder / f"{'0' * 64}.json").write_bytes(content)
        state = read(folder)
        assert (state.entries, len(state.faults)) == ((entry,), 1)
        assert state.faults[0].isprintable()
        assert state.faults[0].isascii()
        assert len(state.faults[0]) < 400

    @FEW
    @given(content=st.binary(max_size=300) | st.recursive(st.none(), st.lists).map(lambda v: str(v).encode()))
    def test_random_content_never_raises(self, tmp_path: Path, content: bytes) -> None:
        """Bytes of any kind are a fault, not an error."""
        folder = tmp_path / "random"
        folder.mkdir(exist_ok=True)
        (folder / f"{'0' * 64}.json").write_bytes(content)
        assert len(read(folder).faults) == 1

    def test_a_file_that_is_too_large_is_not_read(self, folder: Path) -> None:
        """A sparse terabyte costs nothing."""
        folder.mkdir()
        with (folder / f"{'0' * 64}.json").open("wb") as handle:
            handle.truncate(2**40)
        assert "too large" in read(folder).faults[0]

    def test_links_pipes_and_folders_are_neither_followed_nor_opened(
        self, folder: Path, tmp_path: Path
    ) -> None:
        """A link to a good entry elsewhere is no entry; a pipe doesn't make the reader wait."""
        (entry,) = chain(tmp_path / "elsewhere", 1)
        folder.mkdir()
        (folder / entry.file_name).symlink_to(tmp_path / "elsewhere" / entry.file_name)
        (folder / f"{'1' * 64}.json").symlink_to("/dev/zero")
        os.mkfifo(folder / f"{'2' * 64}.json")
        (folder / f"{'3' * 64}.json").mkdir()
        state = read(folder)
        assert (state.entries, state.heads, len(state.faults)) == ((), (), 4)
        assert sum("symbolic link" in fault for fault in state.faults) == 2

    def test_a_file_that_became_something_else_since_it_was_listed(self, tmp_path: Path) -> None:
        """Opening doesn't wait for a pipe's other end, follow a link, or read a folder."""
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to("/dev/zero")
        for name, said in (
            ("pipe", "no regular file"),
            ("link", "no regular"),
            (".", "can't be read|no regular"),
        ):
            with pytest.raises(ValueError, match=said):
                attempts_files.read_bounded(tmp_path / name, 100)

    def test_foreign_files_are_faults_with_printable_names(self, folder: Path) -> None:
        """Whatever the name's bytes; what a file manager leaves is none."""
        folder.mkdir()
        for name in (b"notes.txt", b"\xff\x1b[2J.json", b"A" * 64 + b".json", b".hidden", b".DS_Store"):
            (Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))).write_bytes(b"x")  # noqa: PTH118
        faults = read(folder).faults
        assert (len(faults), all("foreign" in fault for fault in faults)) == (4, True)
        assert all(fault.isascii() and fault.isprintable() for fault in faults)

    def test_a_folder_that_is_a_link_is_neither_read_nor_written(self, folder: Path, tmp_path: Path) -> None:
        """The log lies in the study, not where a link leads; nothing is cleaned up there either."""
        chain(tmp_path / "elsewhere", 1)
        leftover = tmp_path / "elsewhere" / f".{'0' * 64}.4194305-00000000.part"
        leftover.write_bytes(b"")
        before = files(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        assert read(folder) == LogState((), (), ("the log's folder is a symbolic link: it is not followed",))
        with pytest.raises(StorageError, match="symbolic link"):
            record(AttemptLog(folder), 2)
        assert files(tmp_path / "elsewhere") == before

    def test_a_file_in_the_folders_place(self, folder: Path) -> None:
        """A fault to the reader, an error with a remedy to the writer."""
        folder.write_text("")
        assert "no folder" in read(folder).faults[0]
        with pytest.raises(StorageError, match="next: see to it"):
            record(AttemptLog(folder))

    def test_too_many_files_and_too_many_bytes_are_said(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Reading stops at the limit, and the log is not whole."""
        chain(folder, *range(6))
        monkeypatch.setattr(attempts, "MAX_TOTAL_BYTES", 1000)
        state = read(folder)
        assert len(state.entries) < 6
        assert "those after it were not read" in state.faults[0]
        monkeypatch.undo()
        monkeypatch.setattr(attempts_files, "MAX_FILES", 5)
        state = read(folder)
        assert (len(state.entries), state.faults[0]) == (5, "more than 5 files: the rest was not read")

    def test_a_log_of_very_many_heads_is_joined_a_thousand_at_a_time(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An entry stays small however many branches there were; the rest wait for the next one."""
        monkeypatch.setattr(attempts, "MAX_PARENTS", 3)
        folder.mkdir()
        for i in range(5):
            (entry,) = chain(folder.parent / f"branch{i}", i)
            shutil.copy(folder.parent / f"branch{i}" / entry.file_name, folder)
        sizes = []
        for i in (10, 11):
            record(AttemptLog(folder), i)
            sizes.append(len(read(folder).heads))
        assert sizes == [3, 1]


STEPS = st.sampled_from(["left", "right", "merge"])


def grow(folder: Path, steps: list[str]) -> dict[str, list[str]]:
    """Record on two copies of the log in turn, uniting their files at "merge"; return each branch's order."""
    left, right = folder.with_name(folder.name + "-left"), folder.with_name(folder.name + "-right")
    for branch in (left, right, folder):
        branch.mkdir()
    order: dict[str, list[str]] = {"left": [], "right": []}
    for i, step in enumerate([*steps, "merge"]):
        if step == "merge":
            unite(left, right)
            unite(right, left)
        else:
            entry = record(AttemptLog(left if step == "left" else right), (step, i))
            assert entry is not None
            order[step].append(entry.id)
    unite(left, folder)
    shutil.rmtree(left)
    shutil.rmtree(right)
    return order


def unite(source: Path, target: Path) -> None:
    for file in source.iterdir():
        shutil.copy(file, target)


class TestBranches:
    @FEW
    @given(steps=st.lists(STEPS, max_size=10))
    def test_a_union_of_files_loses_nothing_and_keeps_each_branchs_order(
        self, tmp_path: Path, steps: list[str]
    ) -> None:
        """Any interleaving of two branches with merges between; and what came before a merge stays before."""
        folder = tmp_path / digest(steps)[:12]
        order = grow(folder, steps)
        state = read(folder)
        found = [entry.id for entry in state.entries]
        assert state.faults == ()
        assert sorted(found) == sorted(order["left"] + order["right"])
        for branch in order.values():
            assert [id_ for id_ in found if id_ in branch] == branch
        for entry in state.entries:
            assert all(found.index(parent) < found.index(entry.id) for parent in entry.parents)
        assert set(state.heads) == set(found) - {p for entry in state.entries for p in entry.parents}
        shutil.rmtree(folder)

    def test_ids_decide_between_what_could_stand_in_either_order(self, folder: Path, tmp_path: Path) -> None:
        """Every reader sees one order, whichever way the files came."""
        made = []
        folder.mkdir()
        for i in range(6):
            made += chain(tmp_path / f"branch{i}", i)
            unite(tmp_path / f"branch{i}", folder)
        assert [entry.id for entry in read(folder).entries] == sorted(entry.id for entry in made)

    def test_git_merges_two_branches_without_a_conflict(self, tmp_path: Path) -> None:
        """A real merge: both branches' attempts are there, two heads, and the next attempt joins them."""
        study = tmp_path / "gates" / "study"
        study.mkdir(parents=True)
        folder = study / "attempts"

        def git(*arguments: str) -> str:
            names = ("HOME", "XDG_CONFIG_HOME")
            environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | dict.fromkeys(
                names, str(tmp_path)
            )
            identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
            command = ["git", "-c", "init.defaultBranch=main", *identity, *arguments]
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
            )
            return done.stdout

        def commit(data: str) -> Attempt:
            (entry,) = chain(folder, data)
            git("add", "gates")
            git("commit", "-q", "-m", data)
            return entry

        git("init", "-q")
        base = commit("base")
        git("checkout", "-q", "-b", "side")
        side = [commit("side 1"), commit("side 2")]
        git("checkout", "-q", "main")
        main = [commit("main 1"), commit("main 2")]
        git("merge", "-q", "--no-edit", "side")
        assert git("status", "--porcelain") == ""
        state = read(folder)
        found = [entry.id for entry in state.entries]
        assert state.faults == ()
        assert found[0] == base.id
        assert sorted(found) == sorted(e.id for e in (base, *side, *main))
        assert state.heads == tuple(sorted([side[-1].id, main[-1].id]))
        assert commit("after").parents == state.heads


class TestKilledAndTogether:
    def test_processes_that_record_at_once_lose_nothing(self, folder: Path) -> None:
        """Three writers, no lock: every attempt is there, each writer's in its own order, no leftover."""
        count = 15
        running = [start(folder, prefix, count) for prefix in range(3)]
        for process in running:
            _, errors = process.communicate()
            assert (process.returncode, errors) == (0, "")
        state = read(folder)
        assert state.faults == ()
        for prefix in range(3):
            mine = [entry.data["H1"] for entry in state.entries if entry.model == f"m{prefix}"]
            assert mine == [f"{prefix:02d}{i:062d}" for i in range(count)]
        assert all(name.endswith(".json") for name in files(folder))

    def test_a_writer_killed_among_many_records_leaves_whole_entries_only(self, folder: Path) -> None:
        """SIGKILL at whatever moment: no fault, and the next record cleans up and goes on."""
        for prefix in range(4):
            process = start(folder, prefix, 100_000)
            assert process.stdout is not None
            process.stdout.readline()
            while len(list(folder.glob(f"{'[0-9a-f]' * 64}.json"))) < 5 * (prefix + 1):
                assert process.poll() is None
                time.sleep(0.001)
            process.kill()
            process.communicate()
            state = read(folder)
            assert state.faults == ()
            assert len(state.entries) >= 5 * (prefix + 1)
            assert record(AttemptLog(folder), ("after", prefix)) is not None
            assert all(name.endswith(".json") for name in files(folder))

    @pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.hardlink_to", "pathlib.Path.unlink"])
    def test_killed_at_the_worst_moments(self, folder: Path, moment: str) -> None:
        """Before the file is on disk, before it has its name, before its other name is gone."""
        module, _, name = moment.rpartition(".")
        owner = f"{module}" if module == "os" else "Path"
        code = WRITER.replace(
            'print("ready"',
            f"import os, signal\n{owner}.{name} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
            'print("ready"',
        )
        folder.mkdir()
        done = subprocess.run([sys.executable, "-c", code, str(folder), "7", "1"], check=False)
        assert done.returncode == -signal.SIGKILL
        (leftover,) = [name for name in files(folder) if name.endswith(".part")]
        state = read(folder)
        assert (state.faults, len(state.entries)) == ((), 1 if moment.endswith("unlink") else 0)
        assert record(AttemptLog(folder), 1) is not None
        assert leftover not in files(folder)
        assert read(folder).faults == ()

    def test_only_what_has_lost_its_writer_is_cleaned_away(self, folder: Path) -> None:
        """A running process' fresh file stays, an old one goes, and so does one whose process is gone."""
        record(AttemptLog(folder))
        mine, old, gone = (
            folder / f".{digit * 64}.{process}-00000000.part"
            for digit, process in (("1", os.getpid()), ("2", os.getpid()), ("3", 4_294_967_295))
        )
        for file in (mine, old, gone):
            file.write_bytes(b"half")
        os.utime(old, (0, 0))
        assert record(AttemptLog(folder)) is None
        assert [file.exists() for file in (mine, old, gone)] == [True, False, False]
        assert read(folder).faults == ()

    def test_a_writer_whose_file_was_cleaned_away_writes_it_anew(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A machine that slept for long is robbed of nothing but its temporary file."""
        real = Path.hardlink_to
        robbed: list[Path] = []

        def rob(self: Path, target: Path) -> None:
            if len(robbed) < 2:
                robbed.append(target)
                target.unlink()
            real(self, target)

        monkeypatch.setattr(Path, "hardlink_to", rob)
        entry = record(AttemptLog(folder))
        assert entry is not None
        assert (len(robbed), list(files(folder))) == (2, [entry.file_name])

    def test_a_disk_without_hard_links_is_written_to_as_well(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The file gets its name by being renamed."""

        def none(self: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(Path, "hardlink_to", none)
        entries = chain(folder, 1, 2)
        assert read(folder) == LogState(tuple(entries), (entries[-1].id,), ())

    @pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
    def test_a_disk_that_refuses_is_an_error_with_a_remedy(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, reason: int
    ) -> None:
        """No half file and no leftover; the log is as it was."""
        (first,) = chain(folder, 1)

        def refuse(handle: int) -> None:
            raise OSError(reason, os.strerror(reason))

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError, match=r"can't take a new attempt(.|\n)*next: see to it"):
            record(AttemptLog(folder), 2)
        assert list(files(folder)) == [first.file_name]

    def test_something_else_in_the_new_files_place_is_an_error(self, folder: Path, tmp_path: Path) -> None:
        """It is never overwritten, and the attempt is not said to be logged."""
        (entry,) = chain(tmp_path / "other", 1)
        folder.mkdir()
        (folder / entry.file_name).mkdir()
        with pytest.raises(StorageError, match="something else lies"):
            record(AttemptLog(folder), 1)


def start(folder: Path, prefix: int, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(prefix), str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_reading_one_file_by_its_bytes_asks_for_its_name(folder: Path) -> None:
    """What an audit does with a file out of git's history."""
    (entry,) = chain(folder, 1)
    assert read_attempt(entry.as_bytes(), entry.file_name) == entry
    with pytest.raises(RegistrationError, match="edited or renamed"):
        read_attempt(entry.as_bytes(), f"{'0' * 64}.json")


def test_importing_stays_light() -> None:
    """The log needs neither torch nor scipy nor pandas."""
    code = (
        "import sys, prereg.registration.attempts; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'scipy', 'pandas', 'torch', 'pyarrow'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
