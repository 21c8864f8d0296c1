"""`prereg freeze`: what it refuses, and that it writes the same bytes once or nothing at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prereg.errors import PreregError, RegistrationError
from prereg.registration import components
from prereg.registration.freeze import freeze
from prereg.registration.records import Known, Registration
from tests.frozen import edit, frozen, written
from tests.synthetic import commit, git, measured, prepared, register

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
SAID = "A pilot on pythia-tiny gave an R2 of 0.4."


def refused(root: Path, match: str, *, known: Known = "none", statement: str | None = None) -> PreregError:
    """Freeze, and return the refusal; nothing may have been written."""
    before = tree(root)
    with pytest.raises(PreregError, match=match) as caught:
        freeze(prepared(root), known=known, statement=statement)
    assert tree(root) == before
    return caught.value


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(f.relative_to(root)): f.read_bytes() if f.is_file() and not f.is_symlink() else None
        for f in root.rglob("*")
        if f.relative_to(root).parts[0] not in (".git", "cache")
    }


def froze(root: Path, known: Known = "none", statement: str | None = None) -> Registration:
    return freeze(prepared(root), known=known, statement=statement, now=NOON)


# -- what is written ------------------------------------------------------------------------------------------


def test_the_same_study_gives_the_same_bytes_anywhere(tmp_path: Path) -> None:
    """Neither the folder, the clock's zone nor the order of a dictionary gets into the file."""
    files = []
    for name in ("one", "two"):
        folder = written(tmp_path / name)
        froze(tmp_path / name)
        files.append((folder / "registration.json").read_bytes())
    assert files[0] == files[1]
    assert str(tmp_path).encode() not in files[0]


def test_the_file_is_sorted_json_with_line_feeds(tmp_path: Path) -> None:
    """What a diff shows is what changed, on every system."""
    raw = (written(tmp_path) / "registration.json", froze(tmp_path))[0].read_bytes()
    assert b"\r" not in raw
    assert raw.endswith(b"}\n")
    assert raw.decode() == json.dumps(json.loads(raw), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert "café" in raw.decode()


def test_it_holds_what_the_verdict_depends_on(tmp_path: Path) -> None:
    """Promise, gates, code, facts, models, libraries: each by a digest or a version."""
    written(tmp_path)
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "gates" / "conftest.py").write_text("")
    commit(tmp_path, "Configure")
    found = froze(tmp_path).components
    assert set(found.gates) == {
        "conftest.py", "gates/conftest.py", "gates/sample/test_h1.py", "gates/sample/test_h1_order.py",
    }  # fmt: skip
    assert set(found.facts) == {"facts.csv", "world.csv"}
    assert {"prereg/study/study.py", "prereg/inference/verdict.py", "prereg/analysis/kernels.py"} <= set(
        found.code
    )
    assert "pythia-tiny" in found.models
    assert set(found.libraries) == set(components.LIBRARIES)
    assert not any("+" in version for version in found.libraries.values())


# -- what is refused ------------------------------------------------------------------------------------------


def test_a_second_freeze_is_refused(tmp_path: Path) -> None:
    """What is there is never written again; the way on is an amendment."""
    frozen(tmp_path)
    assert "prereg amend" in str(refused(tmp_path, "registered already"))


def test_a_freeze_after_the_file_was_removed_is_refused(tmp_path: Path) -> None:
    """A commit remembers; the message names it and how to bring the file back."""
    folder = frozen(tmp_path)
    first = git(tmp_path, "rev-parse", "HEAD")
    (folder / "registration.json").unlink()
    commit(tmp_path, "Forget it")
    error = refused(tmp_path, f"registered in commit {first[:12]}")
    assert f"git checkout {first[:12]}" in str(error.remedy)


@pytest.mark.parametrize("kind", ["folder", "dangling link", "link", "pipe"])
def test_whatever_lies_in_its_place_is_left_alone(tmp_path: Path, kind: str) -> None:
    """A folder, a pipe, a link to somewhere or to nowhere: none is written into or through."""
    folder = written(tmp_path)
    file, target = folder / "registration.json", tmp_path / "elsewhere.json"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(target)
        if kind == "link":
            target.write_text("{}")
    refused(tmp_path, "registered already")
    assert target.exists() is (kind == "link")


def modify(root: Path) -> None:
    edit(root / "gates" / "sample" / "test_h1.py", "assert verdict.supported", "assert True")


def stage(root: Path) -> None:
    modify(root)
    git(root, "add", "--all")


def hide(root: Path) -> None:
    git(root, "update-index", "--assume-unchanged", "gates/sample/test_h1.py")
    modify(root)


def leave(root: Path) -> None:
    (root / "gates" / "sample" / "helper.py").write_text("x = 1\n")


@pytest.mark.parametrize("spoil", [modify, stage, hide, leave])
def test_a_dirty_tree_is_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Modified, staged, hidden from git status, or untracked: no commit shows what would be registered."""
    written(tmp_path)
    spoil(tmp_path)
    error = refused(tmp_path, "the tree is dirty")
    assert "gates/sample/" in str(error)
    assert "git commit" in str(error.remedy)


def test_a_gate_that_git_ignores_is_refused(tmp_path: Path) -> None:
    """The tree looks clean, but no clone would have the file."""
    folder = written(tmp_path)
    edit(tmp_path / ".gitignore", "/cache/\n", "/cache/\nconftest.py\n")
    commit(tmp_path, "Ignore")
    (folder / "conftest.py").write_text("import pytest\n")
    assert "conftest.py" in str(refused(tmp_path, "no commit holds it"))


def test_without_git_is_refused(tmp_path: Path) -> None:
    """Nothing would show that it came before the data."""
    written(tmp_path)
    shutil.rmtree(tmp_path / ".git")
    refused(tmp_path, "git")


def test_without_a_commit_is_refused(tmp_path: Path) -> None:
    """A repository in which nothing was committed shows no more than none."""
    written(tmp_path)
    shutil.rmtree(tmp_path / ".git")
    git(tmp_path, "init", "--quiet")
    refused(tmp_path, "nothing has been committed")


@pytest.mark.parametrize(
    ("gate", "named"),
    [
        ("test_h1.py", "H1"),
        ("test_h1_order.py", "H1-order"),
    ],
)
def test_a_hypothesis_without_a_gate_is_refused(tmp_path: Path, gate: str, named: str) -> None:
    """Also H1, for which test_h1_order is no gate: that one asks H1-order."""
    folder = written(tmp_path)
    (folder / gate).unlink()
    commit(tmp_path, "Drop a gate")
    error = refused(tmp_path, f"hypothesis {named} has no gate")
    assert "add a test named test_h1" in str(error.remedy)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("helper.py", "def test_h1():\n    pass\n"),
        ("conftest.py", "def test_h1():\n    pass\n"),
        ("test_h1.py", "def outer():\n    def test_h1():\n        pass\n"),
        ("test_h1.py", "test_h1 = 'def test_h1(): ...'\n"),
    ],
    ids=["helper", "conftest", "nested", "text"],
)
def test_a_gate_that_pytest_would_not_collect_is_none(tmp_path: Path, name: str, text: str) -> None:
    """A function that no run calls asks nothing."""
    folder = written(tmp_path)
    (folder / "test_h1.py").unlink()
    (folder / name).write_text(text)
    commit(tmp_path, "Move the gate")
    refused(tmp_path, "hypothesis H1 has no gate")


def test_a_gate_in_a_class_counts(tmp_path: Path) -> None:
    """Pytest collects methods as well."""
    folder = written(tmp_path)
    (folder / "test_h1.py").write_text("class TestH1:\n    def test_h1(self, study):\n        ...\n")
    commit(tmp_path, "Move the gate")
    froze(tmp_path)


def test_a_gate_that_is_no_python_is_refused(tmp_path: Path) -> None:
    """The file is named; nothing is executed to find out."""
    folder = written(tmp_path)
    (folder / "test_h1.py").write_text("def test_h1(:\n")
    commit(tmp_path, "Break the gate")
    refused(tmp_path, r"test_h1\.py: not Python")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_linked_gate_is_refused(tmp_path: Path, kind: str) -> None:
    """What a link leads to would not be registered, be it one file or a folder of them."""
    folder = written(tmp_path / "project")
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "test_more.py").write_text("def test_more():\n    pass\n")
    (folder / "test_more.py").symlink_to(other / "test_more.py" if kind == "file" else other)
    if kind == "folder":
        (folder / "test_more.py").rename(folder / "more")
    commit(tmp_path / "project", "Link")
    refused(tmp_path / "project", "not a regular file")


def test_an_equivalence_without_precision_is_refused(tmp_path: Path) -> None:
    """Whether noise could meet the margin can't be told."""
    folder = written(tmp_path)
    file = folder / "protocol.toml"
    file.write_text(file.read_text("utf-8").partition("[hypotheses.H1-order.precision]")[0], "utf-8")
    commit(tmp_path, "Forget the precision")
    assert "H1-order.precision" in str(refused(tmp_path, "how finely").remedy)


def test_an_equivalence_within_the_noise_is_refused(tmp_path: Path) -> None:
    """A margin below the minimum detectable effect would be promised in vain."""
    folder = written(tmp_path)
    edit(folder / "protocol.toml", "standard_error = 0.001", "standard_error = 0.1")
    commit(tmp_path, "Measure coarsely")
    refused(tmp_path, "hypotheses.H1-order")


def test_other_facts_are_refused(tmp_path: Path) -> None:
    """The protocol names their bytes."""
    written(tmp_path)
    with (tmp_path / "world.csv").open("a") as file:
        file.write("x,y\n")
    commit(tmp_path, "Add a fact")
    refused(tmp_path, r"world\.csv: sha256 [0-9a-f]{16}, the protocol says")


@pytest.mark.parametrize("kind", ["missing", "pipe", "link"])
def test_facts_that_are_no_file_of_the_project_are_refused(tmp_path: Path, kind: str) -> None:
    """Missing, a pipe (which would never end), or a link out of the project."""
    root = tmp_path / "project"
    written(root)
    (root / "facts.csv").rename(tmp_path / "facts.csv")
    if kind == "link":
        (root / "facts.csv").symlink_to(tmp_path / "facts.csv")
    commit(root, "Move the facts")
    if kind == "pipe":
        with (root / ".gitignore").open("a") as file:
            file.write("facts.csv\n")
        commit(root, "Ignore them")
        os.mkfifo(root / "facts.csv")
    refused(root, r"facts\.csv: sha256 missing")


def test_a_missing_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registration pins what will measure; where it isn't installed, nothing can be pinned."""
    written(tmp_path)
    versions = components.library_versions()
    del versions["torch"]
    monkeypatch.setattr("prereg.registration.freeze.library_versions", lambda: versions)
    assert "prereg-gates[capture]" in str(refused(tmp_path, "torch is not installed").remedy)


# -- what was known -------------------------------------------------------------------------------------------


def in_the_tree(root: Path) -> None:
    measured(root)
    shutil.rmtree(root / "gates" / "sample" / "attempts")
    commit(root, "Measure")


def in_a_commit_only(root: Path) -> None:
    in_the_tree(root)
    shutil.rmtree(root / "reports")
    commit(root, "Forget the results")


def in_the_log_only(root: Path) -> None:
    measured(root)
    shutil.rmtree(root / "reports")
    commit(root, "Only the log")


def in_an_earlier_log_only(root: Path) -> None:
    in_the_log_only(root)
    shutil.rmtree(root / "gates" / "sample" / "attempts")
    commit(root, "Not even the log")


ON_RECORD = [in_the_tree, in_a_commit_only, in_the_log_only, in_an_earlier_log_only]


@pytest.mark.parametrize("leave_results", ON_RECORD)
@pytest.mark.parametrize("known", ["pilot", "full"])
def test_results_on_record_were_known(
    tmp_path: Path, leave_results: Callable[[Path], None], known: Known
) -> None:
    """Ignorance is refused wherever results lie; an honest statement is taken, and `seen` names the model."""
    written(tmp_path)
    leave_results(tmp_path)
    error = refused(tmp_path, "results of this study are on record already, on pythia-tiny")
    assert "--known full" in str(error.remedy)
    found = froze(tmp_path, known, SAID)
    assert (found.known, found.seen, found.statement) == (known, ("pythia-tiny",), SAID)


def test_a_damaged_log_is_no_empty_one(tmp_path: Path) -> None:
    """Attempts that were made unreadable don't let their author claim to have seen none."""
    folder = written(tmp_path)
    (folder / "attempts").mkdir()
    (folder / "attempts" / f"{'ab' * 32}.json").write_text("{}")
    commit(tmp_path, "Damage the log")
    refused(tmp_path, "the attempts log is damaged")


@pytest.mark.parametrize(
    ("statement", "match"), [(None, "no statement"), ("A pilotstudy.", "three words"), ("x", "12 char")]
)
def test_what_was_known_is_said_in_a_sentence(tmp_path: Path, statement: str | None, match: str) -> None:
    """No statement, two words, or a letter: none tells a reader anything."""
    written(tmp_path)
    refused(tmp_path, match, known="pilot", statement=statement)


# -- at once, and halfway -------------------------------------------------------------------------------------


def test_of_two_freezes_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find nothing there; only one may write, and the other is told."""
    folder = written(tmp_path)
    meeting = threading.Barrier(2)
    from prereg.registration import freeze as module

    def sealed(*arguments):  # type: ignore[no-untyped-def]
        meeting.wait(30)
        return real(*arguments)

    real = module.sealed
    monkeypatch.setattr(module, "sealed", sealed)
    outcomes: list[Registration | PreregError] = []

    def run(statement: str) -> None:
        try:
            outcomes.append(freeze(prepared(tmp_path), known="none", statement=statement))
        except PreregError as error:
            outcomes.append(error)

    runs = [threading.Thread(target=run, args=(f"The freeze of author {n}.",)) for n in "AB"]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    [won] = [o for o in outcomes if isinstance(o, Registration)]
    [lost] = [o for o in outcomes if isinstance(o, RegistrationError)]
    assert "there already" in str(lost)
    assert json.loads((folder / "registration.json").read_text("utf-8"))["root"] == won.root
    assert not list(folder.glob(".*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from prereg.registration import jsonfile
from tests.synthetic import register
jsonfile._publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
register(Path(sys.argv[1]))
"""


def test_a_freeze_that_is_killed_leaves_no_registration(tmp_path: Path) -> None:
    """The next one cleans up what was half written, and succeeds."""
    folder = written(tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (folder / "registration.json").exists()
    assert len(list(folder.glob(".*.part"))) == 1
    register(tmp_path)
    assert not list(folder.glob(".*.part"))


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system is told as one of prereg's."""
    written(tmp_path)

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("prereg.registration.jsonfile.os.fsync", full)
    refused(tmp_path, "registration.json")


def test_without_hard_links_it_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems have none; what lies there is still not written over."""
    folder = written(tmp_path)

    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    froze(tmp_path)
    before = (folder / "registration.json").read_bytes()
    refused(tmp_path, "registered already")
    assert (folder / "registration.json").read_bytes() == before
