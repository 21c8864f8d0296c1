"""How a study stands at a glance: each status with its reason and the next step, and nothing that raises."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prereg.registration import components
from prereg.registration.components import PACKAGE
from prereg.registration.records import Registration, sealed, write_record
from prereg.registration.standing import Standing
from tests.frozen import H9, added, answered, edit, frozen, standing, written
from tests.registration.test_records import HOSTILE
from tests.synthetic import commit, git, register

SAMPLE = Path("gates") / "sample"


def test_a_frozen_and_committed_study_is_registered(tmp_path: Path) -> None:
    """It says under which root, since which commit, and what was known."""
    frozen(tmp_path)
    found = standing(tmp_path)
    assert (found.status, found.reasons, found.remedy, found.known) == ("registered", (), None, "none")
    assert found.commit == git(tmp_path, "rev-parse", "HEAD")
    assert found.root is not None
    assert found.line().startswith(f"registered {found.root[:16]}, frozen 20")
    assert "data were known" not in found.line()


def test_a_study_that_nobody_froze_is_unregistered(tmp_path: Path) -> None:
    """And says how to freeze it."""
    folder = written(tmp_path)
    found = standing(tmp_path)
    assert (found.status, found.root, found.remedy) == ("unregistered", None, f"prereg freeze {folder}")
    assert found.line() == "not registered: no freeze is on record"


# -- tampered -------------------------------------------------------------------------------------------------


def loosen(root: Path) -> None:
    edit(root / SAMPLE / "protocol.toml", "threshold = 0.1\n", "threshold = 0.05\n")


def loosen_and_commit(root: Path) -> None:
    loosen(root)
    commit(root, "Loosen")


def freeze_again(root: Path) -> None:
    (root / SAMPLE / "registration.json").unlink()
    commit(root, "Forget")
    loosen_and_commit(root)
    repository = root / ".git"
    hidden = root.parent / "hidden.git"
    repository.rename(hidden)  # the freeze must not see what was there
    git(root, "init", "--quiet")
    commit(root, "A new beginning")
    register(root)
    shutil.rmtree(repository)
    hidden.rename(repository)
    commit(root, "Register it, as ever")


def edit_registration(root: Path) -> None:
    edit(root / SAMPLE / "registration.json", '"threshold": 0.1', '"threshold": 0.05')
    loosen_and_commit(root)


def unregister(root: Path) -> None:
    loosen(root)
    added(root, "H1")
    (root / SAMPLE / "registration.json").unlink()
    commit(root, "Forget the first")


def cut(root: Path) -> None:
    loosen(root)
    added(root, "H1")
    edit(root / SAMPLE / "protocol.toml", "threshold = 0.05\n", "threshold = 0.01\n")
    added(root, "H1")
    sorted((root / SAMPLE / "amendments").iterdir())[0].unlink()
    commit(root, "Forget one")


def rename(root: Path) -> None:
    loosen(root)
    added(root, "H1")
    [file] = (root / SAMPLE / "amendments").iterdir()
    file.rename(file.with_name("0001-deadbeef.json"))
    commit(root, "Rename")


@pytest.mark.parametrize(
    ("bend", "says"),
    [
        (loosen, "hypotheses.H1.threshold: 0.1 -> 0.05, looser"),
        (loosen_and_commit, "hypotheses.H1.threshold: 0.1 -> 0.05, looser"),
        (freeze_again, "was rewritten after its first commit"),
        (edit_registration, "it was edited"),
        (unregister, "amendments is there, but registration.json is not"),
        (cut, "an amendment before it is missing"),
        (rename, "it was renamed"),
    ],
)
def test_what_contradicts_the_registration_is_tampered(
    tmp_path: Path, bend: Callable[[Path], None], says: str
) -> None:
    """With what is wrong, and a command that shows or mends it."""
    root = tmp_path / "project"
    frozen(root)
    bend(root)
    found = standing(root)
    assert found.status == "tampered"
    assert says in " ".join(found.reasons)
    assert found.remedy is not None
    assert "git" in found.remedy or "prereg audit" in found.remedy
    assert "TAMPERED" in found.line()
    assert not found.is_registered
    assert str(tmp_path) not in json.dumps(found.as_record())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_registration_raises_nothing(tmp_path: Path, name: str) -> None:
    """It is tampered with, and no machine's path stands in the reason."""
    folder = frozen(tmp_path)
    (folder / "registration.json").write_bytes(HOSTILE[name])
    found = standing(tmp_path)
    assert found.status == "tampered"
    assert all(reason.isprintable() and str(tmp_path) not in reason for reason in found.reasons)


def test_hostile_names_in_a_registration_raise_nothing(tmp_path: Path) -> None:
    """Sealed by its author, its names lead out, don't end, or would clear a terminal."""
    folder = frozen(tmp_path)
    names = [
        "\x1b[2J.py",
        "../../../etc/passwd",
        "prereg/../../x.py",
        "x" * 5000,
        "prereg/" + "x" * 5000 + ".py",
        "a\0b",
    ]
    file = folder / "registration.json"
    content = {k: v for k, v in json.loads(file.read_text("utf-8")).items() if k != "root"}
    file.unlink()
    for part in ("gates", "code", "facts"):
        content["components"][part] = content["components"][part] | dict.fromkeys(names, "a" * 64)
    write_record(file, sealed(Registration, content))
    found = standing(tmp_path)
    assert found.status == "unverified"
    assert all(reason.isprintable() for reason in found.reasons)
    assert len(found.reasons) == 6


# -- unverified -----------------------------------------------------------------------------------------------


def edit_gate(root: Path) -> None:
    edit(root / SAMPLE / "test_h1.py", "assert verdict.supported", "assert True")
    commit(root, "Simplify")


def add_conftest(root: Path) -> None:
    (root / "conftest.py").write_text("")
    commit(root, "Configure")


def add_helper(root: Path) -> None:
    (root / SAMPLE / "helper.py").write_text("")
    commit(root, "Help")


def link_folder(root: Path) -> None:
    (root / SAMPLE / "more").symlink_to(root / "fixtures")
    commit(root, "Link")


def edit_facts(root: Path) -> None:
    with (root / "facts.csv").open("a") as file:
        file.write("x,y\n")
    commit(root, "Add a fact")


def leave_untracked(root: Path) -> None:
    (root / SAMPLE / "notes.txt").write_text("")


def no_git(root: Path) -> None:
    shutil.rmtree(root / ".git")


def never_committed(root: Path) -> None:
    git(root, "reset", "--quiet", "HEAD~1")


def shallow(root: Path) -> None:
    clone = root.parent / "clone"
    git(root.parent, "clone", "--quiet", "--depth=1", f"file://{root}", str(clone))
    shutil.rmtree(root)
    clone.rename(root)


def reformat(root: Path) -> None:
    file = root / SAMPLE / "registration.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8"))), "utf-8")


def damage_log(root: Path) -> None:
    (root / SAMPLE / "attempts").mkdir()
    (root / SAMPLE / "attempts" / f"{'ab' * 32}.json").write_text("{}")
    commit(root, "Damage the log")


@pytest.mark.parametrize(
    ("bend", "says", "next_step"),
    [
        (edit_gate, "gates/sample/test_h1.py is not the registered one", "prereg amend"),
        (add_conftest, "conftest.py is not the registered one", "prereg amend"),
        (add_helper, "gates/sample/helper.py is not the registered one", "prereg amend"),
        (link_folder, "gates/sample/more is not the registered one", "prereg amend"),
        (edit_facts, "facts.csv is not the registered one", "prereg amend"),
        (leave_untracked, "gates/sample/notes.txt is not committed", "git add"),
        (no_git, "git", ""),
        (never_committed, "registration.json is not committed", "git add"),
        (shallow, "shallow", "git fetch --unshallow"),
        (reformat, "gates/sample/registration.json is not committed as it is here", "git add"),
        (damage_log, "the attempts log is damaged", "git checkout"),
    ],
)
def test_what_cannot_be_shown_is_unverified(
    tmp_path: Path, bend: Callable[[Path], None], says: str, next_step: str
) -> None:
    """With the one thing that is in the way, and the command that would settle it."""
    root = tmp_path / "project"
    frozen(root)
    bend(root)
    found = standing(root)
    assert found.status == "unverified"
    assert len(found.reasons) == 1
    assert says in found.reasons[0]
    assert next_step in (found.remedy or "")
    assert "UNVERIFIED" in found.line()
    assert found.root is not None


def test_a_changed_module_of_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`return 1.0` somewhere in the analysis, and the study is no longer the registered one."""
    frozen(tmp_path / "project")
    copy = tmp_path / "prereg"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(components, "PACKAGE", copy)
    assert standing(tmp_path / "project").status == "registered"
    with (copy / "analysis" / "kernels.py").open("a") as file:
        file.write("\nsure = True\n")
    found = standing(tmp_path / "project")
    assert found.status == "unverified"
    assert found.reasons == ("prereg/analysis/kernels.py is not the registered one",)


def test_many_reasons_are_cut_short(tmp_path: Path) -> None:
    """Five, and how many more."""
    folder = frozen(tmp_path)
    for n in range(8):
        (folder / f"helper_{n}.py").write_text("")
    found = standing(tmp_path)
    assert len(found.reasons) == 6
    assert found.reasons[-1] == "and 3 more"


# -- what is no trouble ---------------------------------------------------------------------------------------


def test_a_checkout_with_crlf_is_registered(tmp_path: Path) -> None:
    """Registration, amendment, gates and protocol with the line ends of another system are the same."""
    folder = frozen(tmp_path)
    loosen(tmp_path)
    added(tmp_path, "H1")
    for file in (*folder.rglob("*.py"), *folder.rglob("*.toml"), *folder.rglob("*.json")):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert standing(tmp_path) == Standing(**{f: getattr(standing(tmp_path), f) for f in Standing.__slots__})
    assert standing(tmp_path).status == "registered"


def test_comments_and_spelling_are_no_edit_of_the_promise(tmp_path: Path) -> None:
    """Committed, they leave the study registered."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", "level = 0.95", "level = 95e-2  # as in the paper")
    commit(tmp_path, "Comment")
    assert standing(tmp_path).status == "registered"


def test_new_attempts_are_no_trouble(tmp_path: Path) -> None:
    """Every run adds one; it may be committed later."""
    folder = answered(tmp_path)
    git(tmp_path, "rm", "--quiet", "-r", "--cached", str(folder / "attempts"))
    git(tmp_path, "commit", "--quiet", "--message", "Not yet")
    assert standing(tmp_path).status == "registered"


def test_a_removed_attempt_is_trouble(tmp_path: Path) -> None:
    """A log may only grow: what was committed must be there."""
    folder = answered(tmp_path)
    for file in (folder / "attempts").iterdir():
        file.unlink()
    found = standing(tmp_path)
    assert found.status == "unverified"
    assert "gates/sample/attempts/" in found.reasons[0]


def test_a_project_below_a_folder_called_attempts_is_looked_at(tmp_path: Path) -> None:
    """Only the study's own log is let pass, not every path that holds the word."""
    root = tmp_path / "repository" / "attempts" / "project"
    folder = frozen(root)
    shutil.rmtree(root / ".git")
    git(tmp_path / "repository", "init", "--quiet")
    commit(tmp_path / "repository", "All at once")
    assert standing(root).status == "registered"
    (folder / "notes.txt").write_text("")
    assert standing(root).status == "unverified"


def test_what_lies_elsewhere_in_the_repository_is_no_trouble(tmp_path: Path) -> None:
    """Only the study's folder, and the conftest files above it, are its own."""
    frozen(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "gates" / "other").mkdir()
    (tmp_path / "gates" / "other" / "conftest.py").write_text("")
    assert standing(tmp_path).status == "registered"


def test_the_environment_leads_git_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIT_DIR of a hook, say, names another repository."""
    frozen(tmp_path / "one")
    written(tmp_path / "two")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "two" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "two"))
    assert standing(tmp_path / "one").status == "registered"


def test_amended_is_registered_under_the_last_root_and_the_first_date(tmp_path: Path) -> None:
    """The most that was known is said."""
    folder = frozen(tmp_path)
    first = standing(tmp_path)
    file = folder / "protocol.toml"
    file.write_text(file.read_text("utf-8") + H9, "utf-8")
    last = added(tmp_path, "H9", known="pilot", statement="A pilot of twenty prompts was seen.")
    found = standing(tmp_path)
    assert (found.status, found.root, found.known) == ("registered", last.root, "pilot")
    assert (found.date, found.commit) == (first.date, first.commit)
    assert found.line().endswith("; pilot data were known")


def test_an_uncommitted_amendment_is_unverified(tmp_path: Path) -> None:
    """Nothing shows that it came before the data."""
    frozen(tmp_path)
    loosen(tmp_path)
    added(tmp_path, "H1")
    git(tmp_path, "reset", "--quiet", "HEAD~1")
    found = standing(tmp_path)
    assert found.status == "unverified"
    assert any("amendments/0001-" in reason for reason in found.reasons)


def test_a_pipe_in_place_of_facts_is_not_waited_for(tmp_path: Path) -> None:
    """The facts are named as not the registered ones."""
    frozen(tmp_path)
    (tmp_path / "facts.csv").unlink()
    os.mkfifo(tmp_path / "facts.csv")
    assert standing(tmp_path).reasons == ("facts.csv is not the registered one",)


def test_a_record_says_status_root_known_and_reasons(tmp_path: Path) -> None:
    """Nothing of the machine: no date, no commit, no remedy with a path."""
    frozen(tmp_path)
    found = standing(tmp_path)
    assert found.as_record() == {"status": "registered", "root": found.root, "known": "none", "reasons": []}
