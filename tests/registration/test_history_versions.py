"""What stood at a path in each commit: nothing that a merge, a rename or a link does can hide it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Repository, is_file, trees
from tests.registration.repositories import Repo, isolate

P = "gates/s/protocol.toml"


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.put({P: "threshold = 1\n", "README": "read me\n"}, "Freeze")
    return made


def texts(repo: Repo, path: str = P) -> dict[str, str | None]:
    """Return what each commit's subject had at a path: text, or the version where that is no file."""
    opened = Repository.open(repo.path)
    found = {}
    for commit, version in zip(opened.commits, opened.versions(path), strict=True):
        found[commit.subject] = opened.read(version).decode().strip() if is_file(version) else version
    return found


def subjects(repo: Repo, path: str = P) -> list[str]:
    return [commit.subject for commit in Repository.open(repo.path).introduced(path)]


def test_versions_agree_with_git_in_every_commit(repo: Repo) -> None:
    """The same as asking git for each commit's file, one by one."""
    for number in range(3):
        repo.branch(f"side{number}", "main")
        repo.put({P: f"side {number}\n", f"gates/s/more{number}": "1"}, f"Side {number}")
        repo.checkout("main")
        repo.put({"README": str(number)}, f"Main {number}")
        repo.merge(f"side{number}", options=("-X", "theirs"), message=f"Merge {number}")
    opened = Repository.open(repo.path)
    for path in (P, "gates/s/more1", "gates", "none", "README"):
        for commit, version in zip(opened.commits, opened.versions(path), strict=True):
            asked = repo.git("rev-parse", "--verify", "--quiet", f"{commit.id}:{path}", check=False) or None
            assert (None if version is None else version.removeprefix("folder:")) == asked


def test_an_edit_and_its_revert_are_both_seen(repo: Repo) -> None:
    """Edit, commit, run, revert: the window stands in the history."""
    edited = repo.put({P: "threshold = 0\n"}, "Edit")
    repo.git("revert", "--no-edit", edited, env=repo.dates(None))
    found = list(texts(repo).values())
    assert found == ["threshold = 1", "threshold = 0", "threshold = 1"]
    assert subjects(repo) == ["Freeze"]


def test_an_evil_merge_is_seen(repo: Repo) -> None:
    """A merge may set a file to what neither parent has; no log of simplified diffs shows it well."""
    repo.branch("side")
    repo.put({"other": "1"}, "Side")
    repo.checkout("main")
    repo.put({"README": "2"}, "Main")
    repo.merge("side", write={P: "threshold = 0\n"}, message="Evil")
    assert texts(repo)["Evil"] == "threshold = 0"
    assert texts(repo)["Main"] == texts(repo)["Side"] == "threshold = 1"


def test_an_edit_on_a_branch_that_is_merged_as_ours_is_seen(repo: Repo) -> None:
    """The merge drops the edit, and git log -- path drops the branch; its commits are walked all the same."""
    repo.branch("side")
    repo.put({P: "threshold = 0\n"}, "Side")
    repo.checkout("main")
    repo.merge("side", options=("-s", "ours"), message="Ours")
    assert "Side" not in repo.git("log", "--format=%s", "--", P)
    assert texts(repo) == {"Freeze": "threshold = 1", "Side": "threshold = 0", "Ours": "threshold = 1"}


def test_an_octopus_is_seen_from_all_sides(repo: Repo) -> None:
    """Each of many parents counts."""
    for name in ("one", "two", "three"):
        repo.branch(name, "main")
        repo.put({f"gates/s/{name}": name}, name)
    repo.checkout("main")
    repo.merge("one", "two", "three", message="Octopus")
    assert texts(repo, "gates/s/two")["Octopus"] == "two"
    assert subjects(repo, "gates/s/two") == ["two"]


def test_a_squash_merge_introduces_what_it_brings(repo: Repo) -> None:
    """The branch's own commits are not in the history, so the squash is where the file appeared."""
    repo.branch("side")
    repo.put({"gates/s/registration.json": "{}"}, "Register")
    repo.checkout("main")
    repo.squash("side", "Squash")
    assert subjects(repo, "gates/s/registration.json") == ["Squash"]
    assert "Register" not in texts(repo)


def test_a_file_removed_and_added_again_is_introduced_twice(repo: Repo) -> None:
    """The first of them is the first."""
    repo.remove(P)
    repo.commit("Remove")
    repo.put({P: "threshold = 0\n"}, "Again")
    assert texts(repo) == {"Freeze": "threshold = 1", "Remove": None, "Again": "threshold = 0"}
    assert subjects(repo) == ["Freeze", "Again"]


def test_a_file_added_on_two_branches_is_introduced_twice(repo: Repo) -> None:
    """A merge of both introduces nothing."""
    for name in ("one", "two"):
        repo.branch(name, "main")
        repo.put({"new": "same"}, name)
    repo.checkout("main")
    repo.merge("one", "two", message="Both")
    assert sorted(subjects(repo, "new")) == ["one", "two"]


def test_a_file_that_only_a_merge_brings_is_introduced_by_it(repo: Repo) -> None:
    """An evil merge may be the first to hold a registration."""
    repo.branch("side")
    repo.put({"other": "1"}, "Side")
    repo.checkout("main")
    repo.merge("side", write={"new": "1"}, message="Evil")
    assert subjects(repo, "new") == ["Evil"]


def test_a_renamed_folder_starts_anew(repo: Repo) -> None:
    """A path is a path: what was promised under another name is another promise."""
    repo.git("mv", "gates/s", "gates/t")
    repo.commit("Rename")
    assert texts(repo) == {"Freeze": "threshold = 1", "Rename": None}
    assert subjects(repo, "gates/t/protocol.toml") == ["Rename"]


def test_a_rebase_with_dates_set_back_is_a_new_history(repo: Repo) -> None:
    """A forged date changes no order: the file appears after the commit that it is based on."""
    repo.branch("side")
    repo.put({"gates/s/registration.json": "{}"}, "Register")
    repo.checkout("main")
    results = repo.put({"results": "1"}, "Results")
    repo.checkout("side")
    repo.git("rebase", "--quiet", "main", env=repo.dates(1_500_000_000))
    opened = Repository.open(repo.path)
    (registered,) = opened.introduced("gates/s/registration.json")
    assert opened.is_ancestor(results, registered.id, strict=True)
    assert registered.committed_at < opened.commits[opened.index[results]].committed_at
    assert [commit.id for commit in opened.backdated()] == [registered.id]


def test_a_link_in_a_files_place_is_no_file(repo: Repo) -> None:
    """It is never followed, and never the first version of a file."""
    (repo.path / "gates/s/registration.json").symlink_to("../../README")
    repo.commit("Link")
    (repo.path / "gates/s/registration.json").unlink()
    repo.put({"gates/s/registration.json": "{}"}, "File")
    found = texts(repo, "gates/s/registration.json")
    assert str(found["Link"]).startswith("symlink:")
    assert subjects(repo, "gates/s/registration.json") == ["File"]


def test_a_folder_in_a_files_place_is_no_file(repo: Repo) -> None:
    """A folder of that name, made early, dates no registration."""
    repo.put({"gates/s/registration.json/x": "1"}, "Folder")
    repo.remove("gates/s/registration.json")
    repo.put({"gates/s/registration.json": "{}"}, "File")
    assert str(texts(repo, "gates/s/registration.json")["Folder"]).startswith("folder:")
    assert subjects(repo, "gates/s/registration.json") == ["File"]


def test_a_link_in_a_folders_place_is_named(repo: Repo) -> None:
    """Checked out, the path would lead to other files; here it leads nowhere."""
    repo.put({"other/protocol.toml": "threshold = 0\n"}, "Other")
    repo.remove("gates/s")
    (repo.path / "gates").mkdir(exist_ok=True)
    (repo.path / "gates/s").symlink_to("../other")
    repo.commit("Link")
    assert str(texts(repo)["Link"]).startswith("symlink:")
    assert str(Repository.open(repo.path).listings("gates/s")[-1]["."]).startswith("symlink:")


def test_a_file_in_a_folders_place_holds_nothing(repo: Repo) -> None:
    """Below a file there is nothing; listed, it is itself."""
    repo.remove("gates")
    repo.put({"gates": "a file"}, "File")
    opened = Repository.open(repo.path)
    assert opened.versions(P)[-1] is None
    assert dict(opened.listings("gates")[-1]) == {".": opened.versions("gates")[-1]}


def test_listings_are_by_commit_and_shared_where_equal(repo: Repo) -> None:
    """Relative paths and blobs, below all folders; the same tree is the same object."""
    repo.put({"README": "2"}, "Beside")
    repo.put({"gates/s/attempts/a.json": "1", "gates/s/attempts/deep/b.json": "2"}, "Attempts")
    repo.remove("gates")
    repo.commit("Gone")
    opened = Repository.open(repo.path)
    freeze, beside, attempts, gone = opened.listings("gates/s")
    assert dict(freeze) == {"protocol.toml": opened.versions(P)[0]}
    assert freeze is beside
    assert set(attempts) == {"protocol.toml", "attempts/a.json", "attempts/deep/b.json"}
    assert attempts["attempts/deep/b.json"] == opened.versions("gates/s/attempts/deep/b.json")[2]
    assert dict(gone) == {}
    with pytest.raises(TypeError):
        attempts["new"] = "x"  # type: ignore[index]


def test_the_whole_tree_can_be_listed(repo: Repo) -> None:
    """As git lists it."""
    listed = Repository.open(repo.path).listings(".")[-1]
    assert sorted(listed) == sorted(repo.git("ls-tree", "-r", "--name-only", "HEAD").splitlines())


def test_introductions_say_of_every_file_where_it_appeared(repo: Repo) -> None:
    """Files that are gone are among them: each attempt that was ever committed is found."""
    repo.put({"gates/s/attempts/a": "1", "gates/s/attempts/b": "1"}, "Attempts")
    repo.remove("gates/s/attempts/a")
    repo.commit("Remove")
    repo.branch("side")
    repo.put({"gates/s/attempts/c": "1"}, "Side")
    repo.checkout("main")
    repo.put({"gates/s/attempts/a": "2"}, "Again")
    repo.merge("side", options=("-s", "ours"), message="Ours")
    opened = Repository.open(repo.path)
    found = opened.introductions("gates/s")
    assert {path: [c.subject for c in commits] for path, commits in found.items()} == {
        "attempts/a": ["Attempts", "Again"],
        "attempts/b": ["Attempts"],
        "attempts/c": ["Side"],
        "protocol.toml": ["Freeze"],
    }
    for path, commits in found.items():
        assert commits == opened.introduced(f"gates/s/{path}")


@pytest.mark.parametrize(
    "name", ["sp ace", "\u00fcber", "new\nline", "*", ":(top)x", "-x", "40000 gates", "a\tb"]
)
def test_names_are_taken_literally(repo: Repo, name: str) -> None:
    """No quoting, no pattern, no option."""
    repo.put({f"gates/{name}/f": "1"}, "Odd")
    opened = Repository.open(repo.path)
    assert is_file(opened.versions(f"gates/{name}/f")[-1])
    assert opened.versions(P)[-1] == opened.versions(P)[0]
    assert f"{name}/f" in opened.listings("gates")[-1]
    assert opened.status([f"gates/{name}"]) == ()
    repo.write(f"gates/{name}/f", "2")
    assert [change.path for change in opened.status([f"gates/{name}"])] == [f"gates/{name}/f"]


def test_a_name_that_looks_like_another_entry_is_not_it(repo: Repo) -> None:
    """The bytes of an entry inside another file's name are no entry."""
    repo.put({"100644 registration.json": "1"}, "Lure")
    assert Repository.open(repo.path).versions("registration.json") == (None, None)


def test_an_id_that_holds_the_bytes_of_a_name_is_not_it(repo: Repo) -> None:
    """Entries are told apart by counting, not by looking for a name."""
    lure = b"100644 x\0" + b"a" * 11
    tree = repo.object("tree", b"100644 a\0" + lure)
    top = repo.git("commit-tree", tree, "-p", "HEAD", "-m", "Lure", env=repo.dates(None))
    repo.git("update-ref", "refs/heads/main", top)
    opened = Repository.open(repo.path)
    assert opened.versions("x") == (None, None)
    assert opened.versions("a")[-1] == lure.hex()


def entry(name: bytes, mode: bytes = b"100644") -> bytes:
    return mode + b" " + name + b"\0" + bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")


@pytest.mark.parametrize(
    "raw",
    [
        entry(b"x") + entry(b"x"),
        entry(b"x") + entry(b"x", b"40000"),
        entry(b"x") + b"garbage",
        b"garbage",
        entry(b"x")[:-1],
        entry(b"y", b"999999") + entry(b"x"),
    ],
    ids=["a name twice", "a file and a folder", "a rest", "nothing else", "cut short", "no mode"],
)
def test_a_malformed_tree_is_an_error(repo: Repo, raw: bytes) -> None:
    """Two files of one name, or bytes that are no entry: nobody knows what a checkout would hold."""
    top = repo.git("commit-tree", repo.object("tree", raw), "-m", "Bad", env=repo.dates(None))
    repo.git("update-ref", "refs/heads/main", top)
    opened = Repository.open(repo.path)
    with pytest.raises(RegistrationError, match="malformed"):
        opened.versions("x")
    with pytest.raises(RegistrationError, match="malformed"):
        opened.listings(".")


@pytest.mark.parametrize("name", [b"..", b".", b".git", b"a/b", b"/etc"])
def test_a_tree_whose_names_lead_out_is_not_listed(repo: Repo, name: bytes) -> None:
    """Nobody joins such a name to a folder."""
    top = repo.git("commit-tree", repo.object("tree", entry(name)), "-m", "Bad", env=repo.dates(None))
    repo.git("update-ref", "refs/heads/main", top)
    with pytest.raises(RegistrationError, match="malformed"):
        Repository.open(repo.path).listings(".")


def nested(repo: Repo, width: int, depth: int) -> None:
    """Commit a tree of `width` times itself, `depth` times over."""
    tree = repo.object("tree", entry(b"f"))
    for _ in range(depth):
        one = bytes.fromhex(tree)
        tree = repo.object("tree", b"".join(b"40000 %02d\0" % at + one for at in range(width)))
    top = repo.git("commit-tree", tree, "-m", "Bomb", env=repo.dates(None))
    repo.git("update-ref", "refs/heads/main", top)


def test_a_bomb_of_trees_is_refused(repo: Repo) -> None:
    """Ten small objects that stand for ten billion files use up no memory."""
    nested(repo, width=10, depth=10)
    with pytest.raises(RegistrationError, match=f"more than {trees.ENTRIES:,} files"):
        Repository.open(repo.path).listings(".")


def test_folders_without_end_are_refused(repo: Repo) -> None:
    """Depth is bounded before any recursion."""
    nested(repo, width=1, depth=trees.DEPTH + 1)
    with pytest.raises(RegistrationError, match="nested more than"):
        Repository.open(repo.path).listings(".")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", "a\0b"])
def test_only_paths_from_the_root_are_asked_for(repo: Repo, path: str) -> None:
    """Anything else is refused rather than tidied."""
    opened = Repository.open(repo.path)
    for ask in (opened.versions, opened.listings, opened.introduced, lambda p: opened.status([p])):
        with pytest.raises(RegistrationError, match="is no path from the repository's root"):
            ask(path)


def test_a_tree_that_is_not_kept_is_read_again(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room to keep trees the answers are the same."""
    repo.put({"gates/s/x": "1"})
    kept = Repository.open(repo.path)
    monkeypatch.setattr(trees, "KEPT", 0)
    bare = Repository.open(repo.path)
    assert bare.versions(P) == kept.versions(P)
    assert [dict(one) for one in bare.listings(".")] == [dict(one) for one in kept.listings(".")]


def test_a_path_costs_one_process_for_each_level(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many commits there are; what is known is not asked again."""
    for number in range(5):
        repo.put({"README": str(number)})
    opened = Repository.open(repo.path)
    assert len(opened.commits) == 6
    started = []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: (started.append(a), real(*a, **k))[1])
    opened.versions(P)
    assert len(started) == 3
    opened.versions(P)
    opened.introduced(P)
    opened.versions("gates/s/registration.json")
    assert len(started) == 3
