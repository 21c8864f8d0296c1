"""Which repository is asked, and what is said where there is none to ask."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Repository, git
from tests.registration.repositories import Repo, isolate


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.put({"gates/s/protocol.toml": "threshold = 1\n", "README": "read me"})
    return made


def test_a_repository_is_found_from_any_folder_or_file_in_it(repo: Repo) -> None:
    """Its root and HEAD are known, whether a folder, a file or a file yet to come is named."""
    for path in (
        repo.path,
        repo.path / "gates/s",
        repo.path / "README",
        repo.path / "gates/s/registration.json",
    ):
        opened = Repository.open(path)
        assert opened.root == repo.path
        assert opened.head == repo.head


def test_no_git_is_an_error_with_a_remedy(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without git is told to install it."""
    monkeypatch.setenv("PATH", str(repo.home))
    with pytest.raises(RegistrationError, match="git is not installed") as error:
        Repository.open(repo.path)
    assert "install git" in str(error.value.remedy)


def test_no_repository_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """A folder under no version control has no witness."""
    with pytest.raises(RegistrationError, match="is in no git repository") as error:
        Repository.open(tmp_path)
    assert "git init" in str(error.value.remedy)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Nothing but our own error is raised."""
    with pytest.raises(RegistrationError, match="can't be run in"):
        Repository.open(tmp_path / "none" / "such")


def test_no_commit_yet_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """An unborn HEAD is told apart from a broken one."""
    empty = Repo(tmp_path / "empty")
    with pytest.raises(RegistrationError, match="nothing has been committed") as error:
        Repository.open(empty.path)
    assert "git commit" in str(error.value.remedy)


def test_a_branch_that_names_a_missing_commit_is_an_error(repo: Repo) -> None:
    """A broken HEAD isn't taken for an unborn one."""
    (repo.path / ".git/refs/heads/main").write_text("1" * 40 + "\n")
    with pytest.raises(RegistrationError, match="not a commit that this repository holds") as error:
        Repository.open(repo.path)
    assert "git fsck" in str(error.value.remedy)


def test_another_users_repository_is_an_error_that_names_safe_directory(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git's own refusal is passed on with the command that settles it."""
    monkeypatch.setattr(git, "_KEPT", git._KEPT | {"GIT_TEST_ASSUME_DIFFERENT_OWNER"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(RegistrationError, match="belongs to another user") as error:
        Repository.open(repo.path / "gates")
    assert str(error.value.remedy) == f"git config --global --add safe.directory '{repo.path}'"
    repo.git("config", "--file", os.environ["GIT_CONFIG_GLOBAL"], "safe.directory", str(repo.path))
    assert Repository.open(repo.path / "gates").head == repo.head


def test_a_bare_repository_has_no_working_files(repo: Repo, tmp_path: Path) -> None:
    """A bare clone is an error, its worktree is as good as any."""
    bare = tmp_path / "bare.git"
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(bare))
    with pytest.raises(RegistrationError, match="without working files"):
        Repository.open(bare)
    repo.git("worktree", "add", "--quiet", str(tmp_path / "tree"), "main", cwd=bare)
    opened = Repository.open(tmp_path / "tree" / "gates")
    assert opened.root == tmp_path / "tree"
    assert opened.obstacles() == ()
    assert opened.status() == ()


def test_a_worktree_has_its_own_head(repo: Repo, tmp_path: Path) -> None:
    """Beside the main working tree another branch is seen as it stands there."""
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "tree"))
    side = Repo(tmp_path / "tree", init=False)
    there = side.put({"new": "1"})
    assert Repository.open(tmp_path / "tree").head == there
    assert Repository.open(repo.path).head == repo.head != there


def test_a_study_in_its_own_repository_is_asked_there(repo: Repo) -> None:
    """Of nested repositories the innermost speaks."""
    inner = Repo(repo.path / "gates" / "own")
    first = inner.put({"protocol.toml": "inner"})
    opened = Repository.open(inner.path)
    assert opened.root == inner.path
    assert [commit.id for commit in opened.introduced("protocol.toml")] == [first]
    outer = Repository.open(repo.path)
    assert set(outer.versions("gates/own/protocol.toml")) == {None}


def test_a_submodule_is_its_own_repository(repo: Repo, tmp_path: Path) -> None:
    """A study in a submodule is asked there; the outer history holds only the submodule's commit."""
    source = Repo(tmp_path / "source")
    pinned = source.put({"protocol.toml": "inner"})
    repo.git("submodule", "--quiet", "add", str(source.path), "gates/sub")
    repo.commit("Add a submodule")
    opened = Repository.open(repo.path / "gates/sub")
    assert opened.root == repo.path / "gates/sub"
    assert opened.head == pinned
    outer = Repository.open(repo.path)
    assert outer.versions("gates/sub")[-1] == f"submodule:{pinned}"
    assert outer.versions("gates/sub/protocol.toml")[-1] == f"submodule:{pinned}"
    assert outer.listings("gates")[-1]["sub"] == f"submodule:{pinned}"
    assert outer.introduced("gates/sub/protocol.toml") == ()
    assert outer.status() == ()


def test_a_sha256_repository_is_walked_as_any(tmp_path: Path) -> None:
    """Ids of 64 digits, checked by SHA-256."""
    repo = Repo(tmp_path / "new", object_format="sha256")
    first = repo.put({"gates/s/p": "1\n"})
    repo.put({"gates/s/p": "2\n"})
    opened = Repository.open(repo.path)
    old, new = opened.versions("gates/s/p")
    assert len(first) == len(str(old)) == 64
    assert opened.read(str(old)) == b"1\n"
    assert new in opened.blob_of(repo.path / "gates/s/p")
    assert opened.status() == ()
    assert opened.obstacles() == ()


def test_paths_are_named_from_the_root(repo: Repo, tmp_path: Path) -> None:
    """Links on the way are resolved; what lies outside is refused."""
    opened = Repository.open(repo.path)
    (repo.path / "short").symlink_to("gates/s")
    (repo.path / "away").symlink_to(tmp_path)
    (repo.path / "link").symlink_to("README")
    assert opened.relative(repo.path) == "."
    assert opened.relative(repo.path / "gates/s/../s/new.json") == "gates/s/new.json"
    assert opened.relative(repo.path / "short/protocol.toml") == "gates/s/protocol.toml"
    assert opened.relative(repo.path / "short") == "gates/s"
    assert opened.relative(repo.path / "link") == "link"
    for outside in (
        tmp_path,
        repo.path / "..",
        repo.path / "away",
        repo.path / "away/x",
        repo.path / "a/../../x",
    ):
        with pytest.raises(RegistrationError, match="lies outside the repository"):
            opened.relative(outside)


def test_a_relative_path_is_taken_from_where_we_are(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a command line."""
    monkeypatch.chdir(repo.path / "gates")
    opened = Repository.open(Path("s"))
    assert opened.relative(Path("s/protocol.toml")) == "gates/s/protocol.toml"


def test_variables_of_an_enclosing_git_do_not_redirect(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run from a hook, git's variables name another repository; the one that was asked for answers."""
    other = Repo(tmp_path / "other")
    other.put({"other": "1"})
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git/index"))
    opened = Repository.open(repo.path)
    assert opened.head == repo.head
    assert opened.status() == ()


def test_a_line_break_in_the_path_is_refused(repo: Repo, tmp_path: Path) -> None:
    """Git's answer would be ambiguous, so it is not guessed at."""
    odd = tmp_path / "a\nb"
    shutil.copytree(repo.path, odd)
    with pytest.raises(RegistrationError, match="line break in a path"):
        Repository.open(odd)


def test_a_repositorys_configuration_runs_nothing(repo: Repo, tmp_path: Path) -> None:
    """Hooks, filters, a monitor, a pager, text conversions, external diffs: none of them is started."""
    ran = tmp_path / "ran"
    program = repo.write("evil.sh", f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    program.chmod(0o755)
    for key in (
        "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "filter.evil.clean", "filter.evil.smudge",
        "filter.evil.process", "diff.evil.textconv", "diff.evil.command", "diff.external", "gpg.program",
        "core.askPass", "core.gitProxy", "pager.log", "pager.status", "alias.rev-list", "alias.ls-files",
    ):  # fmt: skip
        repo.git("config", key, str(program))
    hooks = repo.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "post-checkout", "fsmonitor-watchman"):
        shutil.copy(program, hooks / name)
    repo.write(".git/info/attributes", "* filter=evil diff=evil\n")
    repo.write("README", "changed")
    opened = Repository.open(repo.path)
    assert ("README", "modified") in [(change.path, change.kind) for change in opened.status()]
    opened.versions("README")
    opened.obstacles()
    opened.quick(repo.path / "README")
    opened.blob_of(repo.path / "README")
    assert not ran.exists()


def test_time_that_runs_out_is_an_error(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that doesn't end is ended, and says so."""
    monkeypatch.setattr(git, "SECONDS", 0.0)
    with pytest.raises(RegistrationError, match="did not end within"):
        Repository.open(repo.path)


def test_a_stream_that_does_not_end_is_ended(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock also runs while objects are read."""
    opened = Repository.open(repo.path)
    monkeypatch.setattr(git, "SECONDS", 0.05)
    monkeypatch.setattr(git, "_OPTIONS", ("-c", "alias.stall=!exec sleep 30"))
    with (
        pytest.raises(RegistrationError, match="did not end within"),
        opened._git.piped("stall", lines=()) as out,
    ):
        assert out.read() == b""
