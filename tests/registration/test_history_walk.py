"""The commits of a history: all of them, in order, as they are, whatever they hold."""

from __future__ import annotations

import hashlib
import struct
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Repository, commits, objects, repository
from tests.registration.repositories import START, Repo, isolate


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def crafted(
    repo: Repo, *, who: bytes = b"A <a@b> 1 +0000", message: bytes = b"m\n", more: bytes = b""
) -> str:
    """Put a hand-made commit on top of HEAD, and make it HEAD."""
    tree = repo.git("rev-parse", "HEAD^{tree}").encode()
    raw = b"tree %s\nparent %s\nauthor %s\ncommitter %s\n%s\n%s" % (
        tree, repo.head.encode(), who, who, more, message,
    )  # fmt: skip
    made = repo.object("commit", raw)
    repo.git("update-ref", "refs/heads/main", made)
    return made


def test_a_commit_is_read_as_it_is(repo: Repo) -> None:
    """Id, parents, people, dates and subject are those of the commit."""
    first = repo.commit("First", date="2024-03-01T12:00:00+0200", author="Eve <eve@example.org>")
    second = repo.commit("Second:\na long one\n\nwith a body")
    one, two = Repository.open(repo.path).commits
    assert (one.id, one.parents) == (first, ())
    assert (one.author, one.committer) == ("Eve <eve@example.org>", "Ada Lovelace <ada@example.org>")
    assert one.authored_at == datetime(2024, 3, 1, 10, tzinfo=UTC)
    assert one.authored_at.utcoffset() == timedelta(hours=2)
    assert (two.id, two.parents, two.subject) == (second, (first,), "Second: a long one")
    assert two.committed_at == datetime.fromtimestamp(START + 120, UTC)


def test_parents_come_before_children_whatever_the_dates(repo: Repo) -> None:
    """Order follows ancestry; a date set back moves nothing."""
    repo.put({"a": "1"}, date=2_000_000_000)
    repo.branch("side")
    repo.put({"b": "1"}, date=1_000_000_000)
    repo.checkout("main")
    repo.put({"a": "2"}, date=1_900_000_000)
    merge = repo.merge("side", date=1_500_000_000)
    opened = Repository.open(repo.path)
    assert opened.commits[-1].id == merge == opened.head
    assert opened.index[merge] == 3
    for at, commit in enumerate(opened.commits):
        assert opened.index[commit.id] == at
        assert all(opened.index[parent] < at for parent in commit.parents)


def test_all_commits_are_listed_through_an_octopus_and_two_roots(repo: Repo) -> None:
    """What git counts is what is walked."""
    repo.put({"a": "1"})
    for name in ("one", "two"):
        repo.branch(name, "main")
        repo.put({name: "1"})
    repo.git("checkout", "--quiet", "--orphan", "other")
    repo.put({"root": "1"})
    repo.checkout("main")
    repo.merge("one", "two")
    repo.merge("other", options=("--allow-unrelated-histories",))
    opened = Repository.open(repo.path)
    assert len(opened.commits) == int(repo.git("rev-list", "--count", "HEAD")) == 6
    assert max(len(commit.parents) for commit in opened.commits) == 3
    assert sum(not commit.parents for commit in opened.commits) == 2


def test_only_heads_history_is_walked(repo: Repo) -> None:
    """A branch that was never merged is no part of it."""
    repo.put({"a": "1"})
    repo.branch("side")
    away = repo.put({"b": "1"})
    repo.checkout("main")
    opened = Repository.open(repo.path)
    assert away not in opened.index
    with pytest.raises(RegistrationError, match="not in the history of HEAD"):
        opened.is_ancestor(away, opened.head)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (b"\x1b[2J\x1b]0;owned\x07 clean\n", "?[2J?]0;owned? clean"),
        (b"a\rb\tc\n", "a b c"),
        (b"\xff\xfe caf\xc3\xa9\n", "\ufffd\ufffd caf\u00e9"),
        ("right\u202eleft\n".encode(), "right?left"),
        (b"", ""),
        (b"\n\n\nlate\n", "late"),
        (b"one\ntwo\n\nauthor Eve <e@e> 9 +0000\n", "one two"),
        (b"x" * 100_000, "x" * 197 + "..."),
    ],
)
def test_a_hostile_subject_is_made_printable(repo: Repo, message: bytes, shown: str) -> None:
    """No escape, no control character, no change of direction reaches a terminal."""
    repo.commit()
    crafted(repo, message=message)
    subject = Repository.open(repo.path).commits[-1].subject
    assert subject == shown
    assert subject.isprintable()


@pytest.mark.parametrize(
    ("who", "shown", "at"),
    [
        (b"A \x1b[31m\xff <a@b> 60 +0000", "A ?[31m\ufffd <a@b>", 60),
        (b"A <a@b> 60 -0730", "A <a@b>", 60),
        (b"A <a@b> 60 +9999", "A <a@b>", 60),
        (b"A <a@b> -60 +0000", "A <a@b>", -60),
        (b"A <a@b> 999999999999999999 +0000", "A <a@b>", 0),
        (b"A <a@b> soon", "A <a@b>", 0),
        (b"A <a@b>", "A <a@b>", 0),
        (b"nobody", "nobody", 0),
        (b"A <a> 5 +0000 <b> 60 +0000", "A <a> 5 +0000 <b>", 60),
        (b"", "", 0),
    ],
)
def test_a_hostile_identity_is_read_as_git_reads_it(repo: Repo, who: bytes, shown: str, at: int) -> None:
    """Names are printable; a date that is none is 1970, as in git log; a date is always aware."""
    repo.commit()
    crafted(repo, who=who)
    commit = Repository.open(repo.path).commits[-1]
    assert commit.author == commit.committer == shown
    assert commit.committed_at == commit.authored_at == datetime.fromtimestamp(at, UTC)
    assert commit.committed_at.tzinfo is not None


@pytest.mark.parametrize(
    ("more", "message", "shown"),
    [
        (b"encoding ISO-8859-1\n", b"caf\xe9\n", "caf\u00e9"),
        (b"encoding unicode_escape\n", b"\\x1b\n", "\\x1b"),
        (b"encoding zlib\n", b"caf\xc3\xa9\n", "caf\u00e9"),
        (b"gpgsig -----BEGIN\n encoding latin-1\n -----END\n", b"caf\xc3\xa9\n", "caf\u00e9"),
    ],
)
def test_an_encoding_is_followed_only_where_it_is_one(
    repo: Repo, more: bytes, message: bytes, shown: str
) -> None:
    """Python's codecs that are no encodings, and headers inside a signature, are not."""
    repo.commit()
    crafted(repo, message=message, more=more)
    assert Repository.open(repo.path).commits[-1].subject == shown


def test_a_signature_or_a_quoted_header_adds_no_parent(repo: Repo) -> None:
    """Parents are only those that stand before the author."""
    first = repo.commit()
    crafted(repo, more=b"parent " + b"1" * 40 + b"\ngpgsig x\n parent " + b"2" * 40 + b"\n")
    assert Repository.open(repo.path).commits[-1].parents == (first,)


def test_a_malformed_commit_is_an_error(repo: Repo) -> None:
    """What can't be read is named, with the command that looks closer."""
    repo.commit()
    tree = repo.git("rev-parse", "HEAD^{tree}")
    made = repo.object("commit", f"tree {tree}\nparent {repo.head}\nnonsense\n\nx".encode())
    repo.git("update-ref", "refs/heads/main", made)
    opened = Repository.open(repo.path)
    with pytest.raises(RegistrationError, match=r"malformed|failed"):
        _ = opened.commits
    assert any("malformed" in found.reason or "failed" in found.reason for found in opened.obstacles())


def test_a_mailmap_renames_nobody(repo: Repo) -> None:
    """Who committed is what the commit says, whatever a file in the tree says."""
    repo.put({".mailmap": "Eve <eve@example.org> <ada@example.org>\n"})
    assert Repository.open(repo.path).commits[-1].author == "Ada Lovelace <ada@example.org>"


def test_replacements_and_grafts_do_not_hide_commits(repo: Repo) -> None:
    """The history that is walked is the one that was committed."""
    ids = [repo.put({"a": str(number)}) for number in range(4)]
    repo.git("replace", "--graft", ids[3], ids[0])
    repo.write(".git/info/grafts", f"{ids[2]}\n")
    assert len(repo.git("rev-list", "HEAD").split()) < 4
    assert [commit.id for commit in Repository.open(repo.path).commits] == ids


def test_a_commit_graph_is_not_believed(repo: Repo) -> None:
    """A cache that gives HEAD another parent hides commits from git log, and none here."""
    ids = [repo.put({"a": str(number)}) for number in range(4)]
    repo.git("commit-graph", "write", "--reachable")
    graph = repo.path / ".git/objects/info/commit-graph"
    raw = bytearray(graph.read_bytes())
    chunks = {
        bytes(raw[at : at + 4]): int.from_bytes(raw[at + 4 : at + 12]) for at in range(8, 8 + 12 * raw[6], 12)
    }
    place = {name: at for at, name in enumerate(sorted(ids))}
    entry = chunks[b"CDAT"] + 36 * place[ids[3]]
    raw[entry + 20 : entry + 24] = struct.pack(">I", place[ids[0]])
    graph.chmod(0o644)
    graph.write_bytes(raw)
    assert repo.git("rev-list", "HEAD").split() == [ids[3], ids[0]]
    assert [commit.id for commit in Repository.open(repo.path).commits] == ids


def overwrite(repo: Repo, name: str, kind: bytes, raw: bytes) -> None:
    """Put other bytes in an object's place, as someone with an editor would."""
    file = repo.path / ".git/objects" / name[:2] / name[2:]
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"%s %d\0" % (kind, len(raw)) + raw))


def test_a_blob_overwritten_in_the_object_store_is_detected(repo: Repo) -> None:
    """Git would show it as the committed one."""
    repo.put({"a": "1"})
    opened = Repository.open(repo.path)
    blob = str(opened.versions("a")[0])
    overwrite(repo, blob, b"blob", b"2")
    assert repo.git("cat-file", "-p", "HEAD:a", check=False) == "2"
    with pytest.raises(RegistrationError, match="not those that were committed"):
        opened.read(blob)


def test_a_commit_overwritten_in_the_object_store_is_detected(repo: Repo) -> None:
    """A date set back in place doesn't pass."""
    first = repo.put({"a": "1"}, date=1_700_000_000)
    raw = repo.git("cat-file", "commit", first).encode() + b"\n"
    overwrite(repo, first, b"commit", raw.replace(b"1700000000", b"1600000000"))
    with pytest.raises(RegistrationError, match="not a commit that this repository holds"):
        Repository.open(repo.path)


def misfile(repo: Repo, name: str, kind: str, raw: bytes) -> None:
    """Pack other bytes under an object's id, with an index whose checksums are all right."""
    folder = repo.path / ".git/objects"
    stem = repo.git("pack-objects", "--quiet", str(folder / "pack/pack"), input=repo.object(kind, raw) + "\n")
    index = folder / f"pack/pack-{stem}.idx"
    data = index.read_bytes()
    fanout = b"".join(struct.pack(">I", int(byte >= int(name[:2], 16))) for byte in range(256))
    body = data[:8] + fanout + bytes.fromhex(name) + data[8 + 1024 + 20 : -20]
    index.chmod(0o644)
    index.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())
    index.with_suffix(".rev").unlink(missing_ok=True)
    (folder / name[:2] / name[2:]).unlink()


def test_a_commit_misfiled_in_a_pack_is_detected(repo: Repo) -> None:
    """Git checks loose objects but believes its packs; here each object is checked."""
    first = repo.put({"a": "1"}, date=1_700_000_000)
    repo.put({"a": "2"})
    raw = repo.git("cat-file", "commit", first).encode() + b"\n"
    misfile(repo, first, "commit", raw.replace(b"1700000000", b"1600000000"))
    assert "@1600000000" in repo.git("log", "--format=@%ct", first)
    with pytest.raises(RegistrationError, match=f"commit {first} are not those that were committed"):
        _ = Repository.open(repo.path).commits


def test_a_tree_misfiled_in_a_pack_is_detected(repo: Repo) -> None:
    """A version can't be swapped for another one beneath its commit."""
    repo.put({"a": "1"})
    repo.put({"a": "2"})
    tree = repo.git("rev-parse", "HEAD~^{tree}")
    misfile(repo, tree, "tree", b"100644 a\0" + bytes.fromhex(repo.git("rev-parse", "HEAD:a")))
    assert repo.git("show", "HEAD~:a") == "2"
    with pytest.raises(RegistrationError, match=f"tree {tree} are not those that were committed"):
        Repository.open(repo.path).versions("a")


def test_a_missing_object_is_an_error_that_names_it(repo: Repo) -> None:
    """A blob that was deleted from the store can't be read as nothing."""
    repo.put({"a": "1"})
    opened = Repository.open(repo.path)
    blob = str(opened.versions("a")[0])
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RegistrationError, match=f"blob {blob} belongs to the history, but is not"):
        opened.read(blob)


def test_a_missing_tree_is_an_error(repo: Repo) -> None:
    """What a folder held is not guessed at."""
    repo.put({"gates/s/a": "1"})
    tree = repo.git("rev-parse", "HEAD:gates/s")
    (repo.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    opened = Repository.open(repo.path)
    with pytest.raises(RegistrationError, match=f"tree {tree}"):
        opened.versions("gates/s/a")


def test_blobs_are_read_within_a_limit(repo: Repo) -> None:
    """The size is known before anything is read; many are read at once."""
    repo.put({"a": "1" * 100, "b": "2" * 101, "c": ""})
    opened = Repository.open(repo.path)
    a, b, c = (str(opened.versions(name)[0]) for name in "abc")
    assert opened.read(a, limit=100) == b"1" * 100
    assert dict(opened.read_many([c, a, c])) == {a: b"1" * 100, c: b""}
    assert dict(opened.read_many([])) == {}
    with pytest.raises(RegistrationError, match="has 101 bytes; at most 100 are read"):
        opened.read_many([a, b], limit=100)


def test_what_is_read_at_once_is_bounded(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small files are together as large as one large one."""
    repo.put({"a": "1" * 100, "b": "2" * 100})
    opened = Repository.open(repo.path)
    monkeypatch.setattr(repository, "TOTAL", 150)
    with pytest.raises(RegistrationError, match="more than 150 bytes"):
        opened.read_many([str(opened.versions(name)[0]) for name in "ab"])


@pytest.mark.parametrize(
    "blob", ["HEAD:a", "--all", "abc", "symlink:" + "1" * 40, "1" * 41, "1" * 40 + "\n" + "2" * 40]
)
def test_only_full_ids_are_read(repo: Repo, blob: str) -> None:
    """No expression reaches git in place of an id."""
    repo.put({"a": "1"})
    with pytest.raises(RegistrationError, match="is no object id"):
        Repository.open(repo.path).read(blob)


def test_a_tree_is_no_blob(repo: Repo) -> None:
    """Its kind is part of what was asked for."""
    repo.put({"gates/a": "1"})
    opened = Repository.open(repo.path)
    with pytest.raises(RegistrationError, match="is a tree, where a blob was wanted"):
        opened.read(repo.git("rev-parse", "HEAD:gates"))


def test_a_commit_too_large_to_be_one_is_refused(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of gigabytes fills no memory."""
    repo.commit("x" * 2_000)
    monkeypatch.setattr(commits, "LARGEST", 1_000)
    with pytest.raises(RegistrationError, match="at most 1,000 are read"):
        _ = Repository.open(repo.path).commits


def test_ids_are_those_that_git_computes() -> None:
    """The empty blob's two well-known names."""
    assert objects.digest_of("sha1", "blob", b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert objects.digest_of("sha256", "blob", b"").startswith(
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a3037218"
    )
