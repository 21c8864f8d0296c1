"""The glance of a warm run: the first commit of a registration, and whether its folder is as HEAD has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Quick, Repository
from tests.registration.repositories import Repo, isolate

R = "gates/s/registration.json"


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.put({"gates/s/protocol.toml": "threshold = 1\n"})
    return made


def quick(repo: Repo) -> Quick:
    opened = Repository.open(repo.path / "gates/s")
    found = opened.quick(repo.path / R)
    whole = opened.introduced(R)
    assert found.first == (whole[0].id if whole else None), "the glance and the walk must agree"
    return found


def test_the_commit_that_added_it_is_named(repo: Repo) -> None:
    """Whatever came later."""
    first = repo.put({R: "{}"})
    repo.put({"README": "1"})
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (first, False, (), None)
    assert found.clean


def test_what_is_not_committed_has_no_first_commit(repo: Repo) -> None:
    """And it isn't clean."""
    repo.write(R, "{}")
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (None, False, (R,), None)
    assert not quick(repo).clean


def test_an_edit_in_the_folder_is_named_and_one_elsewhere_is_not(repo: Repo) -> None:
    """Only the study's own folder is looked at."""
    repo.put({R: "{}", "README": "1"})
    repo.write(R, "{ }")
    repo.write("README", "2")
    repo.write("gates/s/amendments/1.json", "{}")
    assert quick(repo).uncommitted == ("gates/s/amendments/1.json", R)


def test_a_later_version_is_a_rewrite(repo: Repo) -> None:
    """The first commit is still the first."""
    first = repo.put({R: "{}"})
    repo.put({R: "{1}"})
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (first, True, (), None)


def test_a_rewrite_that_was_reverted_is_a_rewrite(repo: Repo) -> None:
    """Every version there ever was counts."""
    repo.put({R: "{}"})
    repo.put({R: "{1}"})
    repo.put({R: "{}"})
    assert quick(repo).rewritten


def test_a_rewrite_on_a_branch_that_is_merged_as_ours_is_a_rewrite(repo: Repo) -> None:
    """Git log would not show it."""
    repo.put({R: "{}"})
    repo.branch("side")
    repo.put({R: "{1}"})
    repo.checkout("main")
    repo.merge("side", options=("-s", "ours"))
    assert quick(repo).rewritten


def test_a_rewrite_by_an_evil_merge_is_a_rewrite(repo: Repo) -> None:
    """A merge is looked at as any commit."""
    repo.put({R: "{}"})
    repo.branch("side")
    repo.put({"x": "1"})
    repo.checkout("main")
    repo.merge("side", write={R: "{1}"})
    assert quick(repo).rewritten


def test_a_file_that_an_evil_merge_adds_is_first_there(repo: Repo) -> None:
    """No parent of the merge has it."""
    repo.branch("side")
    repo.put({"x": "1"})
    repo.checkout("main")
    merge = repo.merge("side", write={R: "{}"})
    assert quick(repo).first == merge


def test_removed_and_added_again_unchanged_is_no_rewrite(repo: Repo) -> None:
    """Its content was never another; that it was gone is for the whole walk to show."""
    first = repo.put({R: "{}"})
    repo.remove(R)
    repo.commit()
    repo.put({R: "{}"})
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (first, False, (), None)


def test_removed_and_frozen_again_is_a_rewrite(repo: Repo) -> None:
    """The first of them decides."""
    first = repo.put({R: "{}"})
    repo.remove(R)
    repo.commit()
    repo.put({R: "{1}"})
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (first, True, (), None)


def test_a_merge_of_a_branch_that_registered_is_no_rewrite(repo: Repo) -> None:
    """Nor is it the first."""
    repo.branch("side")
    first = repo.put({R: "{}"})
    repo.checkout("main")
    repo.put({"x": "1"})
    repo.merge("side")
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (first, False, (), None)


def test_a_link_or_a_folder_of_that_name_dates_nothing(repo: Repo) -> None:
    """The file is first where it is a file."""
    (repo.path / R).symlink_to("protocol.toml")
    repo.commit()
    (repo.path / R).unlink()
    repo.put({f"{R}/x": "1"})
    repo.remove(R)
    first = repo.put({R: "{}"})
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (first, False, (), None)


def test_a_link_that_replaced_it_is_a_rewrite(repo: Repo) -> None:
    """Then HEAD's registration is wherever the link leads."""
    first = repo.put({R: "{}"})
    (repo.path / R).unlink()
    (repo.path / R).symlink_to("protocol.toml")
    repo.commit()
    found = quick(repo)
    assert (found.first, found.rewritten) == (first, True)


def test_a_folder_that_replaced_it_is_a_rewrite(repo: Repo) -> None:
    """As anything else would be."""
    first = repo.put({R: "{}"})
    repo.remove(R)
    repo.put({f"{R}/x": "1"})
    found = quick(repo)
    assert (found.first, found.rewritten) == (first, True)


def test_a_forged_date_moves_nothing(repo: Repo) -> None:
    """Ancestry decides, not clocks."""
    first = repo.put({R: "{}"}, date=1_900_000_000)
    repo.put({R: "{1}"}, date=1_500_000_000)
    assert quick(repo).first == first


def test_a_shallow_clone_is_an_obstacle(repo: Repo, tmp_path: Path) -> None:
    """Its first commit isn't known to be the first."""
    repo.put({R: "{}"})
    repo.put({"x": "1"})
    clone = repo.clone(tmp_path / "clone", "--depth=1")
    found = quick(clone)
    assert found.obstacle is not None
    assert "git fetch --unshallow" in found.obstacle.remedy


def test_settings_that_change_what_git_log_shows_change_nothing(repo: Repo) -> None:
    """Only plumbing is asked."""
    first = repo.put({R: "{}"})
    for setting in ("log.follow=true", "log.showRoot=false", "diff.renames=copies", "diff.noprefix=true",
                    "core.quotePath=true", "diff.ignoreSubmodules=all", "status.showUntrackedFiles=no",
                    "color.ui=always", "diff.relative=true", "log.diffMerges=off"):  # fmt: skip
        repo.git("config", *setting.split("="))
    found = quick(repo)
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (first, False, (), None)
    repo.write("gates/s/new", "1")
    assert quick(repo).uncommitted == ("gates/s/new",)


def test_a_study_in_the_root_is_looked_at_as_any(tmp_path: Path) -> None:
    """Its folder is the whole repository."""
    repo = Repo(tmp_path / "root")
    first = repo.put({"registration.json": "{}"})
    repo.write("other/x", "1")
    found = Repository.open(repo.path).quick(repo.path / "registration.json")
    assert (found.first, found.rewritten, found.uncommitted, found.obstacle) == (
        first,
        False,
        ("other/x",),
        None,
    )


def test_a_file_outside_is_refused(repo: Repo, tmp_path: Path) -> None:
    """Of it nothing can be said."""
    with pytest.raises(RegistrationError, match="lies outside"):
        Repository.open(repo.path).quick(tmp_path / "registration.json")


def test_a_glance_is_five_processes(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the history is."""
    repo.put({R: "{}"})
    started = []
    real = subprocess.Popen.__init__
    monkeypatch.setattr(
        subprocess.Popen, "__init__", lambda self, *a, **k: (started.append(a), real(self, *a, **k))[1]
    )
    Repository.open(repo.path).quick(repo.path / R)
    assert len(started) == 5
