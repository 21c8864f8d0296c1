"""The files as they lie, against what HEAD holds."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Repository, worktree
from tests.registration.repositories import Repo, isolate

P = "gates/s/protocol.toml"


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.put({P: "threshold = 1\n", "README": "read me\n", "data.bin": b"\0\r\n\1"})
    return made


def status(repo: Repo, *paths: str) -> dict[str, str]:
    found = Repository.open(repo.path).status(paths)
    assert [change.path for change in found] == sorted(change.path for change in found)
    return {change.path: change.kind for change in found}


def test_a_clean_tree_has_no_changes(repo: Repo) -> None:
    """Nor is it dirty."""
    assert status(repo) == {}
    assert not Repository.open(repo.path).is_dirty()


def test_each_kind_of_change_is_named(repo: Repo) -> None:
    """In the tree and in the index."""
    repo.put(dict.fromkeys(("gone", "unlisted", "staged", "linked", "foldered"), "1"))
    repo.write(P, "threshold = 0\n")
    repo.write("new", "1")
    repo.write("added", "1")
    repo.git("add", "added")
    repo.git("rm", "--quiet", "--cached", "unlisted")
    (repo.path / "gone").unlink()
    repo.write("staged", "2")
    repo.git("add", "staged")
    repo.write("staged", "1")
    (repo.path / "linked").unlink()
    (repo.path / "linked").symlink_to("README")
    (repo.path / "foldered").unlink()
    repo.write("foldered/x", "1")
    assert status(repo) == {
        P: "modified", "new": "untracked", "added": "added", "unlisted": "staged", "gone": "deleted",
        "staged": "staged", "linked": "replaced", "foldered": "replaced", "foldered/x": "untracked",
    }  # fmt: skip
    assert Repository.open(repo.path).is_dirty()


def test_only_the_paths_asked_for_are_looked_at(repo: Repo) -> None:
    """A folder, a file, several; the rest may be dirty."""
    repo.write(P, "threshold = 0\n")
    repo.write("gates/s/new", "1")
    repo.write("gates/st", "1")
    repo.write("README", "2")
    assert status(repo, "gates/s") == {P: "modified", "gates/s/new": "untracked"}
    assert status(repo, P) == {P: "modified"}
    assert status(repo, "README", "gates/st") == {"README": "modified", "gates/st": "untracked"}
    assert status(repo, "none") == {}
    assert status(repo, ".") == status(repo)
    assert Repository.open(repo.path).is_dirty(["gates"])
    assert not Repository.open(repo.path).is_dirty(["data.bin"])


def test_ignored_files_are_left_out(repo: Repo) -> None:
    """As git status leaves them out; a file that HEAD holds is looked at all the same."""
    repo.put({".gitignore": "*.log\n*.toml\n"})
    repo.write("gates/s/run.log", "1")
    repo.write(P, "threshold = 0\n")
    assert status(repo) == {P: "modified"}


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_an_index_that_looks_away_is_not_believed(repo: Repo, flag: str) -> None:
    """Git status shows nothing for a file that is flagged so."""
    repo.git("update-index", flag, P)
    repo.write(P, "threshold = 0\n")
    assert repo.git("status", "--porcelain") == ""
    assert status(repo) == {P: "modified"}


def test_times_set_back_are_not_believed(repo: Repo) -> None:
    """With ctime left out, git status takes an edit of the same size and time for none."""
    repo.git("config", "core.trustctime", "false")
    repo.git("config", "core.checkStat", "minimal")
    file = repo.path / P
    os.utime(file, (1_600_000_000, 1_600_000_000))
    repo.git("update-index", "--refresh")
    repo.write(P, "threshold = 0\n")
    os.utime(file, (1_600_000_000, 1_600_000_000))
    assert repo.git("status", "--porcelain") == ""
    assert status(repo) == {P: "modified"}


def test_a_checkout_with_other_line_ends_is_unchanged(repo: Repo, tmp_path: Path) -> None:
    """CRLF in the folder, LF in the commit: no edit; an edit under CRLF is one."""
    clone = repo.clone(tmp_path / "clone", "--config", "core.autocrlf=true")
    assert (clone.path / P).read_bytes() == b"threshold = 1\r\n"
    assert status(clone) == {}
    opened = Repository.open(clone.path)
    assert opened.versions(P)[-1] in opened.blob_of(clone.path / P)
    clone.write(P, "threshold = 0\r\n")
    assert status(clone) == {P: "modified"}
    assert opened.versions(P)[-1] not in opened.blob_of(clone.path / P)


def test_crlf_in_the_commit_is_unchanged_as_it_is(repo: Repo) -> None:
    """A file's own bytes are always one of its ids."""
    repo.put({P: "threshold = 1\r\n"})
    assert status(repo) == {}


def test_line_ends_in_binary_files_count(repo: Repo) -> None:
    """What holds a NUL is no text."""
    repo.put({"data.bin": b"\0\n\1"})
    repo.write("data.bin", b"\0\r\n\1")
    assert status(repo) == {"data.bin": "modified"}


def test_a_file_kept_by_lfs_is_unchanged_while_its_digest_is_the_committed_one(repo: Repo) -> None:
    """The commit holds a pointer with the SHA-256 of the bytes; the filter that made it isn't run."""
    content = b"PAR1" * 1_000
    digest = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
    repo.put({"e.parquet": pointer})
    repo.write("e.parquet", content)
    assert status(repo) == {}
    repo.write("e.parquet", content[:-1] + b"2")
    assert status(repo) == {"e.parquet": "modified"}


def test_a_link_is_compared_as_a_link(repo: Repo) -> None:
    """Where it points to is its content; what stands there isn't read."""
    (repo.path / "link").symlink_to("README")
    repo.commit()
    assert status(repo) == {}
    (repo.path / "link").unlink()
    (repo.path / "link").symlink_to("data.bin")
    assert status(repo) == {"link": "modified"}
    (repo.path / "link").unlink()
    repo.write("link", "README")
    assert status(repo) == {"link": "replaced"}


def test_a_folder_that_became_a_link_holds_none_of_its_files(repo: Repo) -> None:
    """Even where the link leads to the same content."""
    repo.put({"copy/protocol.toml": "threshold = 1\n"})
    (repo.path / P).unlink()
    (repo.path / "gates/s").rmdir()
    (repo.path / "gates/s").symlink_to("../copy")
    assert status(repo) == {P: "replaced", "gates/s": "untracked"}


def test_a_conflict_is_named(repo: Repo) -> None:
    """A merge that stopped halfway is no clean tree."""
    repo.branch("side")
    repo.put({P: "threshold = 2\n"})
    repo.checkout("main")
    repo.put({P: "threshold = 3\n"})
    repo.git("merge", "side", check=False)
    assert status(repo) == {P: "unmerged"}


def test_a_submodule_that_is_gone_is_named(repo: Repo, tmp_path: Path) -> None:
    """What lies in it is not looked at."""
    source = Repo(tmp_path / "source")
    source.put({"f": "1"})
    repo.git("submodule", "--quiet", "add", str(source.path), "sub")
    repo.commit()
    repo.write("sub/f", "2")
    assert status(repo) == {}
    (repo.path / "sub").rename(tmp_path / "away")
    assert status(repo) == {"sub": "deleted"}
    repo.write("sub", "a file")
    assert status(repo) == {"sub": "replaced"}


def test_a_pipe_in_a_files_place_is_not_opened(repo: Repo) -> None:
    """Nobody waits for its other end."""
    (repo.path / P).unlink()
    os.mkfifo(repo.path / P)
    assert status(repo) == {P: "replaced"}
    with pytest.raises(RegistrationError, match="no regular file"):
        Repository.open(repo.path).blob_of(repo.path / P)


def test_ids_of_a_file_are_those_that_git_gives_it(repo: Repo) -> None:
    """With and without its filters for line ends."""
    opened = Repository.open(repo.path)
    file = repo.write("text", "a\r\nb\r\n")
    plain = repo.git("hash-object", "--no-filters", "text")
    filtered = repo.git("-c", "core.autocrlf=input", "hash-object", "text")
    assert opened.blob_of(file)[:2] == (plain, filtered)
    assert plain != filtered
    assert opened.blob_of(repo.write("empty", "")) == (repo.git("hash-object", "empty"),)


def test_a_link_or_nothing_has_no_id(repo: Repo) -> None:
    """Neither is followed or guessed at."""
    opened = Repository.open(repo.path)
    (repo.path / "link").symlink_to("README")
    for name in ("link", "none"):
        with pytest.raises(RegistrationError, match="can't be read"):
            opened.blob_of(repo.path / name)


def test_large_text_is_not_tried_with_other_line_ends(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have to be held in memory; then it is compared as it is."""
    file = repo.write("text", "a\r\nb\r\n")
    opened = Repository.open(repo.path)
    whole = opened.blob_of(file)
    monkeypatch.setattr(worktree, "_TEXT", 5)
    assert len(opened.blob_of(file)) == len(whole) - 1


def test_a_file_that_grows_meanwhile_is_an_error(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest of no state that the file ever had is none."""
    real = worktree._blocks
    monkeypatch.setattr(worktree, "_blocks", lambda file: iter([*real(file), b"more"]))
    with pytest.raises(RegistrationError, match="changes while it is read"):
        Repository.open(repo.path).blob_of(repo.path / P)


def test_a_head_whose_paths_lead_out_is_refused(repo: Repo) -> None:
    """No file outside is opened to be compared."""
    blob = bytes.fromhex(repo.git("rev-parse", "HEAD:README"))
    inner = bytes.fromhex(repo.object("tree", b"100644 passwd\0" + blob))
    tree = repo.object("tree", b"40000 ..\0" + inner)
    repo.git("update-ref", "refs/heads/main", repo.git("commit-tree", tree, "-m", "x", env=repo.dates(None)))
    with pytest.raises(RegistrationError, match=r"leads out|git ls-tree failed"):
        Repository.open(repo.path).status()


def test_names_that_are_no_text_are_named_all_the_same(repo: Repo) -> None:
    """A path is bytes; it goes to the disk and back unchanged."""
    odd = os.fsdecode(b"gates/s/\xff\xfe")
    repo.write(odd, "1")
    assert status(repo) == {odd: "untracked"}
    repo.commit()
    assert status(repo) == {}
    assert odd in Repository.open(repo.path).listings(".")[-1]
