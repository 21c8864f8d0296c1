"""Which commit came first, and which pieces of history were wrong."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Commit, Repository
from prereg.registration.history.ancestry import Ancestry
from tests.registration.repositories import Repo, isolate


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path / "home")


def commit(name: str, *parents: str, at: int = 0) -> Commit:
    when = datetime.fromtimestamp(at, UTC)
    return Commit(name, parents, "A <a@b>", when, "A <a@b>", when, name)


def graph(text: str) -> Ancestry:
    """Return the ancestry of "a b:a c:a d:b,c"."""
    found = []
    for part in text.split():
        name, _, parents = part.partition(":")
        found.append(commit(name, *filter(None, parents.split(","))))
    return Ancestry(tuple(found))


DIAMOND = "a b:a c:a d:b,c e:d"


def windows(text: str, bad: str) -> list[tuple[str, bool]]:
    made = graph(text)
    found = made.windows([one.id in bad for one in made.commits])
    for window in found:
        assert window.first is window.commits[0]
        assert window.last is window.commits[-1]
    return [("".join(one.id for one in window.commits), window.open) for window in found]


def test_ancestors_are_those_that_git_names(tmp_path: Path) -> None:
    """Every pair of a real history with branches, against git merge-base."""
    repo = Repo(tmp_path / "repo")
    repo.put({"a": "1"})
    repo.branch("side")
    repo.put({"b": "1"})
    repo.checkout("main")
    repo.put({"a": "2"})
    repo.merge("side")
    repo.put({"a": "3"})
    opened = Repository.open(repo.path)
    for one in opened.commits:
        listed = set(repo.git("rev-list", one.id).split())
        for other in opened.commits:
            assert opened.is_ancestor(other.id, one.id) == (other.id in listed)
            assert opened.is_ancestor(other.id, one.id, strict=True) == (other.id in listed - {one.id})


def test_ancestors_agree_with_a_closure_on_random_histories() -> None:
    """Many shapes, against the plainest way to compute them."""
    for seed in range(20):
        rng = random.Random(seed)
        made = [commit("0")]
        for number in range(1, 40):
            parents = rng.sample(range(number), min(number, rng.choice([0, 1, 1, 1, 2, 3])))
            made.append(commit(str(number), *map(str, parents)))
        ancestry = Ancestry(tuple(made))
        above: dict[str, set[str]] = {}
        for one in made:
            above[one.id] = {one.id}.union(*(above[parent] for parent in one.parents))
        for one in made:
            for other in made:
                assert ancestry.is_ancestor(other.id, one.id) == (other.id in above[one.id])


def test_an_unknown_commit_is_an_error() -> None:
    """Neither yes nor no is said of what isn't there."""
    with pytest.raises(RegistrationError, match="not in the history of HEAD"):
        graph("a b:a").is_ancestor("a", "x")


@pytest.mark.parametrize(
    ("history", "bad", "expected"),
    [
        (DIAMOND, "", []),
        (DIAMOND, "b", [("b", False)]),
        (DIAMOND, "bc", [("b", False), ("c", False)]),
        (DIAMOND, "bcd", [("bcd", False)]),
        (DIAMOND, "abc", [("abc", False)]),
        (DIAMOND, "ace", [("ac", False), ("e", True)]),
        (DIAMOND, "de", [("de", True)]),
        ("a b:a c:b d:c e:d", "bd", [("b", False), ("d", False)]),
        ("a b:a c:b d:c e:d", "abcde", [("abcde", True)]),
        ("a b c:a,b", "ab", [("a", False), ("b", False)]),
        ("a b:a c:a d:b e:c f:d,e", "bce", [("b", False), ("ce", False)]),
        ("a:missing b:a", "a", [("a", False)]),
    ],
)
def test_windows_are_connected_pieces(history: str, bad: str, expected: list[tuple[str, bool]]) -> None:
    """Each is maximal; it is open where HEAD is in it."""
    assert windows(history, bad) == expected


def test_a_window_closed_by_a_merge_is_found(tmp_path: Path) -> None:
    """An edit on a branch that a merge drops is a window, though it never stood on main."""
    repo = Repo(tmp_path / "repo")
    repo.put({"p": "1"}, "Freeze")
    repo.branch("side")
    repo.put({"p": "0"}, "Edit")
    repo.put({"result": "1"}, "Result")
    repo.checkout("main")
    repo.merge("side", options=("-s", "ours"), message="Ours")
    opened = Repository.open(repo.path)
    frozen = opened.versions("p")[0]
    (window,) = opened.windows([version != frozen for version in opened.versions("p")])
    assert [one.subject for one in window.commits] == ["Edit", "Result"]
    assert not window.open


def test_flags_must_be_one_for_each_commit() -> None:
    """A shorter list would leave commits unjudged."""
    with pytest.raises(RegistrationError, match="1 flags for 2 commits"):
        graph("a b:a").windows([True])


def test_a_date_before_a_parents_is_noted() -> None:
    """Only then; equal dates are fine."""
    made = Ancestry(
        (commit("a", at=10), commit("b", "a", at=10), commit("c", "b", at=9), commit("d", "a", "c", at=9))
    )
    assert [one.id for one in made.backdated()] == ["c", "d"]
