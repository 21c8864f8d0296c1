"""`prereg diff`: what a promise says at two places, read out of git's objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from prereg.cli.diff import diff
from prereg.protocol import read_protocol
from tests.synthetic import commit, frozen_project, git, make_project

Run = Callable[..., Result]
GATE = "gates/sample/test_h1.py"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process; an exception that isn't foreseen is raised."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(diff)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), catch_exceptions=False)

    return invoke


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project whose one study was committed and tagged `first`."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    make_project(tmp_path)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "Write the study")
    git(tmp_path, "tag", "first")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(project: Path, old: str, new: str, file: str = "gates/sample/protocol.toml") -> None:
    path = project / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def document(found: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def test_the_same_promise_exits_with_0(project: Path, run: Run) -> None:
    """Comments and spelling of numbers are no change."""
    edit(project, "threshold = 0.1", "threshold = 1e-1 # a tenth")
    commit(project, "Comment")
    found = run("first", "HEAD")
    assert found.exit_code == 0, found.output
    assert "the promise and the gates are the same" in found.stdout


def test_a_looser_threshold_is_told_and_exits_with_1(project: Path, run: Run) -> None:
    """Key, both values, effect, and whom it concerns."""
    edit(project, "threshold = 0.1", "threshold = 0.05")
    edit(project, "level = 0.95", "level = 0.99")
    head = commit(project, "Loosen")
    found = run("first", "HEAD", "sample")
    assert found.exit_code == 1
    assert "hypotheses.H1.threshold: 0.1 -> 0.05, looser" in found.stdout
    assert "inference.level: 0.95 -> 0.99, stricter" in found.stdout
    assert "1 looser, 1 stricter, 0 other, 0 wording; gate files: 0" in found.stdout
    assert "concerns H1, H1-order" in found.stdout
    assert f"HEAD ({head[:12]})" in found.stdout


def test_wording_alone_exits_with_0(project: Path, run: Run) -> None:
    """Long text is shown in full, before and after, folded to the width."""
    edit(
        project,
        "A tenth is the least worth reporting.",
        "A tenth is the least worth reporting" + ", really" * 20,
    )
    found = run("first", "worktree")
    assert found.exit_code == 0
    assert "- A tenth is the least worth reporting." in found.stdout
    assert found.stdout.count("really") == 20
    assert max(map(len, found.stdout.splitlines())) <= 80


def test_the_json_document_names_all(project: Path, run: Run) -> None:
    """Commits, digests, changes with their effect and whom they concern, files."""
    edit(project, 'controls = ["sane"]', "controls = []")
    found = run("first", "worktree", "--json")
    told = document(found)
    assert found.exit_code == 1
    assert told["old"]["commit"] == git(project, "rev-parse", "first^{commit}")
    assert told["new"] == {
        "ref": "worktree",
        "commit": None,
        "digest": read_protocol(project / "gates" / "sample").digest,
    }
    assert told["changes"] == [
        {
            "key": "hypotheses.H1.controls",
            "old": "sane",
            "new": None,
            "effect": "looser",
            "words": 'hypotheses.H1.controls: "sane" removed, looser (one condition fewer)',
            "concerns": ["H1"],
        }
    ]
    assert (told["study"], told["gates"], told["records"], told["substantive"]) == (
        "gates/sample",
        [],
        [],
        True,
    )


def test_gates_that_changed_are_listed_and_count(project: Path, run: Run) -> None:
    """A gate's body can make anything pass; line ends can't."""
    gate = project / GATE
    gate.write_bytes(gate.read_bytes().replace(b"\n", b"\r\n"))
    assert run("first", "worktree").exit_code == 0
    gate.write_text("def test_h1():\n    pass\n")
    (project / "gates" / "sample" / "test_h1_order.py").unlink()
    (project / "gates" / "conftest.py").write_text("")
    (project / "gates" / "sample" / "notes.txt").write_text("no gate")
    files = [("gates/conftest.py", "added"), (GATE, "changed"), ("gates/sample/test_h1_order.py", "removed")]
    for place in ("worktree", commit(project, "Change the gates")):
        found = run("first", place, "--json")
        assert found.exit_code == 1
        assert [(file["path"], file["how"]) for file in document(found)["gates"]] == files
    shown = run("first", "HEAD").stdout
    assert f"{GATE}: changed" in shown
    assert "gate files: 3" in shown


def test_a_gate_that_became_a_link_changed(project: Path, run: Run) -> None:
    """It is named, not followed."""
    (project / "elsewhere.py").write_bytes((project / GATE).read_bytes())
    (project / GATE).unlink()
    (project / GATE).symlink_to("../../elsewhere.py")
    commit(project, "Link")
    assert document(run("first", "HEAD", "--json"))["gates"] == [{"path": GATE, "how": "changed"}]
    assert run("first", "worktree").exit_code == 2


def test_registrations_and_amendments_are_listed(project: Path, run: Run) -> None:
    """Appearing is no change of the promise; what is being written isn't there yet."""
    study = project / "gates" / "sample"
    (study / "registration.json").write_text("{}")
    (study / "amendments").mkdir()
    (study / "amendments" / "0001-abcdef01.json").write_text("{}")
    (study / "amendments" / ".0002.json").write_text("{}")
    names = ["gates/sample/amendments/0001-abcdef01.json", "gates/sample/registration.json"]
    for place in ("worktree", commit(project, "Register")):
        found = run("first", place, "--json")
        assert found.exit_code == 0
        assert document(found)["records"] == [{"path": name, "how": "added"} for name in names]
    assert "registration.json: added" in run("first", "HEAD").stdout


def test_frozen_is_what_the_registration_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """The promise and the gates as they were registered, wherever the files went since."""
    frozen_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("frozen", "worktree").exit_code == 0
    assert run("frozen", "HEAD").exit_code == 0
    edit(tmp_path, "threshold = 0.1", "threshold = 0.3")
    edit(tmp_path, "The claim holds", "The claim may hold", GATE)
    found = run("frozen", "worktree")
    assert found.exit_code == 1
    assert "hypotheses.H1.threshold: 0.1 -> 0.3, stricter" in found.stdout
    assert f"{GATE}: changed" in found.stdout
    assert run("HEAD", "frozen").exit_code == 0


def test_without_a_registration_nothing_is_frozen(project: Path, run: Run) -> None:
    """The next command is named."""
    found = run("frozen", "worktree")
    assert found.exit_code == 2
    assert "next: prereg freeze gates/sample" in found.stderr


@pytest.mark.parametrize(
    "ref", ["nowhere", "HEAD~40", "first..HEAD", "HEAD:gates", "", "a\x1bb", "HEAD\nHEAD", "0" * 40]
)
def test_a_ref_that_is_none_is_an_error(project: Path, run: Run, ref: str) -> None:
    """Neither a range, nor a tree, nor what a terminal would obey."""
    found = run(ref, "HEAD", "--json")
    assert found.exit_code == 2
    assert document(found)["error"]["kind"] == "RegistrationError"
    assert "\x1b" not in found.output


def test_a_ref_that_is_an_option_is_refused(project: Path, run: Run) -> None:
    """Git is given none, even after `--`."""
    target = project / "written"
    found = run("--json", "--", f"--output={target}", "HEAD")
    assert found.exit_code == 2
    assert "is no name of a commit" in document(found)["error"]["message"]
    assert not target.exists()


def test_a_protocol_that_does_not_parse_is_named_by_ref_file_and_line(project: Path, run: Run) -> None:
    """What stands in the past can't be mended: another ref is the way on."""
    edit(project, "threshold = 0.1", 'threshold = "low"')
    commit(project, "Break")
    git(project, "tag", "broken")
    line = (project / "gates/sample/protocol.toml").read_text("utf-8").splitlines().index(
        'threshold = "low"'
    ) + 1
    found = run("first", "broken")
    assert found.exit_code == 2
    assert f"broken:gates/sample/protocol.toml:{line}: hypotheses.H1.threshold" in found.stderr
    assert "compare with a commit" in found.stderr


def test_a_commit_without_the_study_is_an_error(project: Path, run: Run) -> None:
    """So is one with a link in the protocol's place: it isn't followed."""
    protocol = project / "gates" / "sample" / "protocol.toml"
    text = protocol.read_bytes()
    protocol.unlink()
    commit(project, "Remove")
    protocol.symlink_to("/etc/hostname")
    commit(project, "Link")
    protocol.unlink()
    protocol.write_bytes(text)
    assert "HEAD~1:gates/sample/protocol.toml: there is no such file" in run("first", "HEAD~1").stderr
    assert "HEAD:gates/sample/protocol.toml: not a regular file" in run("first", "HEAD").stderr


def test_nothing_is_checked_out_or_written(project: Path, run: Run) -> None:
    """The working tree, the index and HEAD stay as they are."""
    edit(project, "threshold = 0.1", "threshold = 0.2")
    commit(project, "Raise")
    edit(project, "threshold = 0.2", "threshold = 0.3")
    before = (git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD"))
    assert "0.1 -> 0.2, stricter" in run("first", "HEAD").stdout
    assert "0.2 -> 0.3, stricter" in run("HEAD", "worktree").stdout
    assert (git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD")) == before


def test_a_project_below_the_repository_and_a_repository_below_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Files are named from the project, wherever git has its root."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    for name, top in (("below", "."), ("above", "inner/gates/sample"), ("gates", "inner/gates")):
        project = tmp_path / name / "inner"
        project.mkdir(parents=True)
        make_project(project)
        root = tmp_path / name / top
        git(root, "init", "--quiet")
        commit(root, "First")
        edit(project, "threshold = 0.1", "threshold = 0.2")
        (project / GATE).write_text("# nothing\n")
        commit(root, "Second")
        monkeypatch.chdir(project)
        told = document(run("HEAD~1", "HEAD", "--json"))
        assert told["gates"] == [{"path": GATE, "how": "changed"}]
        assert [change["key"] for change in told["changes"]] == ["hypotheses.H1.threshold"]
        assert document(run("HEAD", "worktree", "--json"))["substantive"] is False


def test_without_git_the_files_are_compared_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Only a commit needs a repository."""
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run("worktree", "worktree").exit_code == 0
    assert run("HEAD", "worktree").exit_code == 2


def test_help_explains_effects_and_exit_codes(run: Run) -> None:
    """Everything that a script needs to know."""
    text = run("--help").stdout
    for word in ("looser", "stricter", "wording", "Exit codes", "Examples", "frozen", "worktree"):
        assert word in text
