"""The history as the audit asks about it, in small repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.audit.timeline import Timeline
from prereg.registration.history import Repository
from tests.registration.repositories import Repo, isolate


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository without a commit."""
    isolate(monkeypatch, tmp_path / "home")
    return Repo(tmp_path / "repo")


def opened(repo: Repo) -> Timeline:
    return Timeline(Repository.open(repo.path))


def test_after_and_before_follow_the_links_and_exclude_the_commit_itself(repo: Repo) -> None:
    """Commits on branches beside each other are neither before nor after."""
    names = {"root": repo.put({"a": "1"})}
    repo.branch("side")
    names["side"] = repo.put({"b": "1"})
    repo.checkout("main")
    names["main"] = repo.put({"c": "1"})
    names["merge"] = repo.merge("side")
    timeline = opened(repo)
    at = {name: timeline.repository.index[commit] for name, commit in names.items()}
    after = {name for name in names if timeline.after(at["side"])[at[name]]}
    before = {name for name in names if timeline.before(at["merge"])[at[name]]}
    assert after == {"merge"}
    assert before == {"root", "side", "main"}
    assert timeline.first([at["root"], at["side"]]) == (at["root"],)
    assert timeline.first(sorted([at["main"], at["side"]])) == tuple(sorted([at["main"], at["side"]]))


def test_a_content_arrives_where_no_parent_has_it(repo: Repo) -> None:
    """A merge that takes a side's file brings nothing; one that writes its own does."""
    repo.put({"r/a": "1"})
    repo.branch("side")
    side = repo.put({"r/b": "2"})
    repo.checkout("main")
    repo.put({"c": "3"})
    evil = repo.merge("side", write={"r/evil": "4"})
    again = repo.put({"r/a": "5"})
    timeline = opened(repo)
    found = [(a.path, timeline.commit(a.at).id) for a in timeline.arrivals("r")]
    assert found[1:] == [("r/b", side), ("r/evil", evil), ("r/a", again)]


def test_text_has_one_digest_whatever_its_line_ends(repo: Repo) -> None:
    """A gate committed with CRLF is the registered gate."""
    repo.put({"a.py": "x = 1\n", "b.py": "x = 1\r\n"})
    timeline = opened(repo)
    (one,), (other,) = (timeline.repository.versions(name) for name in ("a.py", "b.py"))
    digests = timeline.text_digests([one, other, None, "symlink:" + "0" * 40])
    assert one != other
    assert digests[one or ""] == digests[other or ""] is not None
    assert digests["symlink:" + "0" * 40] is None


def test_what_is_no_json_counts_as_none(repo: Repo) -> None:
    """A file that can't be read is nothing, not an error."""
    repo.put({"a.json": "{", "b.json": '{"a": 1}'})
    timeline = opened(repo)
    (bad,), (good,) = (timeline.repository.versions(name) for name in ("a.json", "b.json"))
    timeline.load([bad, good, None, "submodule:" + "0" * 40, "f" * 40])
    assert timeline.json(bad) is None
    assert timeline.json("f" * 40) is None
    assert timeline.json(good) == {"a": 1}


def test_a_protocol_that_says_nothing_has_a_fault(repo: Repo) -> None:
    """What was absent, a link or broken promises nothing, and says why."""
    repo.put({"protocol.toml": "format = nan"})
    timeline = opened(repo)
    (blob,) = timeline.repository.versions("protocol.toml")
    timeline.load_protocols([blob])
    assert timeline.said(blob).digest is None
    assert timeline.said(None).fault == "it was not there"
    assert timeline.said("symlink:" + "0" * 40).fault == "a symlink lay in its place"
    assert timeline.said("f" * 40).fault
