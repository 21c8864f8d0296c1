"""What keeps a history from being seen whole: each is found, and nothing is where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Obstacle, Repository
from tests.registration.repositories import Repo, isolate


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    for number in range(3):
        made.put({"gates/s/p": f"{number}\n"}, f"Commit {number}")
    return made


def the_obstacle(repo: Repo) -> Obstacle:
    """Return the one obstacle there is."""
    (found,) = Repository.open(repo.path).obstacles()
    assert found.reason.isprintable()
    assert found.remedy.isprintable()
    return found


def test_a_whole_history_has_no_obstacle(repo: Repo, tmp_path: Path) -> None:
    """A repository, a full clone of it, and one with packs, tags and notes."""
    repo.git("tag", "-a", "-m", "v1", "v1")
    repo.git("notes", "add", "-m", "note")
    repo.git("repack", "-a", "-d", "--quiet")
    assert Repository.open(repo.path).obstacles() == ()
    assert Repository.open(repo.clone(tmp_path / "clone").path).obstacles() == ()


def test_a_shallow_clone_is_named_with_its_remedy(repo: Repo, tmp_path: Path) -> None:
    """The remedy settles it."""
    clone = repo.clone(tmp_path / "clone", "--depth=2")
    found = the_obstacle(clone)
    assert "shallow" in found.reason
    assert "git fetch --unshallow" in found.remedy
    assert len(Repository.open(clone.path).commits) == 2
    clone.git("fetch", "--quiet", "--unshallow")
    assert Repository.open(clone.path).obstacles() == ()


def test_a_shallow_file_that_was_removed_does_not_make_it_whole(repo: Repo, tmp_path: Path) -> None:
    """Then a parent is missing, and that is an obstacle too."""
    clone = repo.clone(tmp_path / "clone", "--depth=2")
    (clone.path / ".git/shallow").unlink()
    found = the_obstacle(clone)
    assert "git rev-list failed" in found.reason
    with pytest.raises(RegistrationError):
        _ = Repository.open(clone.path).commits


def test_a_replaced_object_is_named_with_its_remedy(repo: Repo) -> None:
    """Git log would show the replacement."""
    one, two = repo.git("rev-list", "--max-count=2", "HEAD").split()
    repo.git("replace", one, two)
    found = the_obstacle(repo)
    assert "replaced" in found.reason
    assert found.remedy == f"git replace --delete {one}"
    repo.git("replace", "--delete", one)
    assert Repository.open(repo.path).obstacles() == ()


def test_a_grafts_file_is_named(repo: Repo) -> None:
    """A comment alone is none."""
    repo.write(".git/info/grafts", "# nothing\n\n")
    assert Repository.open(repo.path).obstacles() == ()
    repo.write(".git/info/grafts", f"{repo.head}\n")
    assert "grafts" in the_obstacle(repo).reason


def test_grafts_of_the_main_repository_are_seen_from_a_worktree(repo: Repo, tmp_path: Path) -> None:
    """What worktrees share is looked for where it is shared."""
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "tree"))
    repo.write(".git/info/grafts", f"{repo.head}\n")
    assert "grafts" in the_obstacle(Repo(tmp_path / "tree", init=False)).reason


def test_a_partial_clone_is_named_and_asks_no_remote(repo: Repo, tmp_path: Path) -> None:
    """Blobs are missing; reading one neither fetches it nor takes it for empty."""
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = repo.clone(tmp_path / "clone", "--filter=blob:none")
    found = the_obstacle(clone)
    assert "partial" in found.reason
    assert "without --filter" in found.remedy
    opened = Repository.open(clone.path)
    old = opened.versions("gates/s/p")[0]
    with pytest.raises(RegistrationError):
        opened.read(str(old))
    listed = clone.git("rev-list", "--objects", "--missing=print", "HEAD")
    assert f"?{old}" in listed


def test_a_remote_that_is_said_not_to_be_a_promisor_is_no_obstacle(repo: Repo) -> None:
    """A setting that is off is off; one without a value is on, as git reads it."""
    repo.git("config", "remote.origin.promisor", "false")
    assert Repository.open(repo.path).obstacles() == ()
    with (repo.path / ".git/config").open("a") as config:
        config.write('[remote "other"]\n\tpromisor\n')
    assert "partial" in the_obstacle(repo).reason


def test_a_detached_head_that_nobody_holds_is_named(repo: Repo) -> None:
    """A commit that no branch, tag or remote branch contains exists for nobody else."""
    repo.checkout(repo.head)
    assert Repository.open(repo.path).obstacles() == ()
    repo.put({"new": "1"})
    found = the_obstacle(repo)
    assert "detached" in found.reason
    assert repo.head[:12] in found.reason


@pytest.mark.parametrize("reference", ["refs/heads/b", "refs/tags/t", "refs/remotes/pull/7/merge"])
def test_a_detached_head_that_a_reference_holds_is_none(repo: Repo, reference: str) -> None:
    """As a build server checks out a pull request."""
    repo.checkout(repo.head)
    there = repo.put({"new": "1"})
    repo.git("update-ref", reference, repo.put({"newer": "1"}))
    repo.checkout(there)
    assert Repository.open(repo.path).obstacles() == ()


def test_a_reference_that_only_this_repository_knows_holds_nothing(repo: Repo) -> None:
    """A stash or a note is not a branch."""
    repo.checkout(repo.head)
    repo.git("update-ref", "refs/stash", repo.put({"new": "1"}))
    assert "detached" in the_obstacle(repo).reason


def test_borrowed_objects_that_are_gone_are_named(repo: Repo, tmp_path: Path) -> None:
    """A shared clone is whole as long as what it borrows from is there."""
    clone = Repo(tmp_path / "clone", init=False)
    clone.git("clone", "--quiet", "--shared", str(repo.path), str(clone.path), cwd=tmp_path)
    clone.put({"new": "1"})
    assert Repository.open(clone.path).obstacles() == ()
    opened = Repository.open(clone.path)
    repo.path.rename(tmp_path / "moved")
    reasons = [found.reason for found in opened.obstacles()]
    assert any("objects are borrowed from" in reason and "not there" in reason for reason in reasons)


def test_borrowed_objects_of_which_some_are_gone_are_named(repo: Repo, tmp_path: Path) -> None:
    """The folder is there, one blob isn't."""
    clone = Repo(tmp_path / "clone", init=False)
    clone.git("clone", "--quiet", "--shared", str(repo.path), str(clone.path), cwd=tmp_path)
    blob = repo.git("rev-parse", "HEAD~:gates/s/p")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert "some are missing" in the_obstacle(clone).reason


def test_several_obstacles_are_all_named(repo: Repo, tmp_path: Path) -> None:
    """None hides another."""
    clone = repo.clone(tmp_path / "clone", "--depth=2")
    clone.write(".git/info/grafts", f"{clone.head}\n")
    clone.checkout(clone.head)
    clone.put({"new": "1"})
    reasons = " ".join(found.reason for found in Repository.open(clone.path).obstacles())
    for word in ("shallow", "grafts", "detached"):
        assert word in reasons


def test_a_grafts_file_that_can_not_be_read_is_an_error(repo: Repo) -> None:
    """Nothing is concluded from what can't be read."""
    (repo.path / ".git/info/grafts").mkdir(parents=True)
    with pytest.raises(RegistrationError, match="can't be read"):
        Repository.open(repo.path).obstacles()
