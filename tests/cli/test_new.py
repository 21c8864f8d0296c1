"""`prereg new`: what it writes, what it refuses, and that the written study runs as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from prereg.activations.facts import read_facts
from prereg.cli.scaffolding import SEEDS
from prereg.cli.undecided import UNDECIDED, require_decided
from prereg.errors import RegistrationError, StorageError
from prereg.protocol import read_protocol
from prereg.registration.components import gate_functions
from prereg.registration.freeze import gate_name
from tests.cli.conftest import Run
from tests.end_to_end.cold_project import prereg
from tests.synthetic import REPOSITORY

KINDS = ("kernels", "band_kernels")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder for a project that holds nothing but the shared data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    for name in ("facts", "pythia-tiny"):
        shutil.copytree(REPOSITORY / "fixtures" / name, tmp_path / "fixtures" / name)
    return tmp_path


def files(root: Path) -> dict[str, bytes]:
    """Return every file of a project by its path, links not followed."""
    return {str(f.relative_to(root)): f.read_bytes() for f in sorted(root.rglob("*")) if f.is_file()}


# -- what it writes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_protocol_is_valid_and_each_hypothesis_has_its_gate(here: Path, run: Run, kind: str) -> None:
    """A study's files fit together: protocol, settings of its analysis, one gate a hypothesis."""
    found = run("new", "my-study", "--evidence", kind)
    assert found.exit_code == 0, found.output
    folder = here / "gates" / "my_study"
    protocol = read_protocol(folder).protocol
    assert protocol.study.name == "my_study"
    assert set(protocol.analyses) == {kind}
    assert {h.evidence for h in protocol.hypotheses.values()} == {kind}
    gates = gate_functions(folder)
    assert len(gates) == len(protocol.hypotheses) == len(list(folder.glob("test_*.py")))
    for hypothesis in protocol.hypotheses:
        assert [g for g in gates if g.startswith(gate_name(hypothesis))], hypothesis


@pytest.mark.parametrize("kind", KINDS)
def test_every_line_of_it_fits_the_page(here: Path, run: Run, kind: str) -> None:
    """Prose is wrapped as in the rest of the house; only tables of contrasts may run on."""
    run("new", "my-study", "--evidence", kind)
    for file in (here / "gates" / "my_study").iterdir():
        for line in file.read_text("utf-8").splitlines():
            assert len(line) <= 120 or "contrasts =" in line or "{ label" in line, line


@pytest.mark.parametrize("kind", KINDS)
def test_what_only_the_author_knows_is_marked(here: Path, run: Run, kind: str) -> None:
    """Each hypothesis' threshold has a reason still to be written, and so has what the study asks."""
    run("new", "my-study", "--evidence", kind)
    protocol = read_protocol(here / "gates" / "my_study").protocol
    for hypothesis in protocol.hypotheses.values():
        assert hypothesis.rationale.startswith(UNDECIDED)
    for sentence in (protocol.study.title, protocol.study.question, protocol.study.source):
        assert sentence.startswith(UNDECIDED)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_undecided_can_be_refused_by_key(here: Path, run: Run, kind: str) -> None:
    """Each marked sentence counts; without marks nothing is refused."""
    run("new", "my-study", "--evidence", kind)
    protocol = here / "gates" / "my_study" / "protocol.toml"
    text = protocol.read_text("utf-8")
    marked = text.count(f'"{UNDECIDED}')
    with pytest.raises(
        RegistrationError, match=rf"leaves {marked} sentences .*study\.title, study\.question"
    ):
        require_decided(protocol)
    protocol.write_text(text.replace(f'"{UNDECIDED}', '"Decided'), "utf-8")
    require_decided(protocol)


def test_facts_are_bound_by_the_digests_of_the_files_there(here: Path, run: Run) -> None:
    """Both facts files are read as the protocol registers them."""
    run("new", "my-study")
    facts = read_protocol(here / "gates" / "my_study").protocol.facts
    for path, sha256 in [(facts.path, facts.sha256), *((w.path, w.sha256) for w in facts.worlds)]:
        assert read_facts(here / path, expected_sha256=sha256).facts


def test_seeds_come_from_the_name(here: Path, run: Run) -> None:
    """The same name gives the same seeds, another name others; no seed serves two ends."""
    run("new", "my-study")
    run("new", "another")
    run("new", "bands", "--evidence", "band_kernels")
    texts = [(here / "gates" / n / "protocol.toml").read_text("utf-8") for n in ("my_study", "another")]
    seeds = [re.findall(r"\b\d{6,10}\b", text) for text in texts]
    assert [len(set(one)) for one in seeds] == [len(SEEDS), len(SEEDS)]
    assert not set(seeds[0]) & set(seeds[1])
    (here / "gates" / "my_study" / "protocol.toml").rename(here / "kept.toml")
    for file in (here / "gates" / "my_study").iterdir():
        file.unlink()
    (here / "gates" / "my_study").rmdir()
    run("new", "my-study")
    assert (here / "gates" / "my_study" / "protocol.toml").read_text("utf-8") == texts[0]


def test_an_empty_project_gets_all_that_a_reader_needs(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts with their licences, the embedded model, what pytest and git have to know."""
    monkeypatch.chdir(tmp_path)
    found = json.loads(run("new", "my-study", "--json").stdout)
    assert set(files(tmp_path)) == set(found["files"])
    for name in (
        "facts/facts.csv",
        "facts/SOURCES.md",
        "facts/licences/cldr.txt",
        "pythia-tiny/model.safetensors",
    ):
        assert (tmp_path / "fixtures" / name).read_bytes() == (REPOSITORY / "fixtures" / name).read_bytes()
    assert "gates" in (tmp_path / "pyproject.toml").read_text("utf-8")
    assert "__pycache__/" in (tmp_path / ".gitignore").read_text("utf-8")


def test_a_second_study_shares_the_first_one_s_data(here: Path, run: Run) -> None:
    """Only its own folder is new; two studies' gates have file names of their own."""
    run("new", "first")
    before = files(here)
    assert json.loads(run("new", "second", "--json").stdout)["files"] == [
        "gates/second/protocol.toml", "gates/second/test_second_h1.py", "gates/second/test_second_h2.py",
    ]  # fmt: skip
    assert files(here).items() >= before.items()


def test_a_project_s_own_settings_are_left_alone(here: Path, run: Run) -> None:
    """A pyproject.toml and a .gitignore that are there stay as they are."""
    for name in ("pyproject.toml", ".gitignore"):
        (here / name).write_text("# mine\n")
    assert run("new", "my-study").exit_code == 0
    for name in ("pyproject.toml", ".gitignore"):
        assert (here / name).read_text() == "# mine\n"


def test_the_commands_that_follow_name_study_and_model(here: Path, run: Run) -> None:
    """They can be copied: tried on the embedded model, answered on the one that was named."""
    found = run("new", "my-study", "--model", "smollm2-135m")
    for line in (
        "  pytest gates/my_study --model pythia-tiny",
        "  prereg calibrate gates/my_study --pilot pythia-tiny",
        "  pytest gates/my_study --model smollm2-135m",
        "  prereg audit gates/my_study",
    ):
        assert line in found.stdout.splitlines(), line


def test_commands_are_whole_lines_however_narrow_the_terminal(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a command is another command."""
    monkeypatch.setenv("COLUMNS", "30")
    told = run("new", "my-study").stdout.splitlines()
    commands = json.loads(run("new", "other", "--json").stdout)["next"]
    for command in commands:
        assert f"  {command.replace('other', 'my_study')}" in told


def test_from_within_the_project_it_says_where_the_commands_belong(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study goes to the project's gates, wherever in it one stands."""
    run("new", "first")
    monkeypatch.chdir(here / "gates")
    found = run("new", "second")
    assert (here / "gates" / "second" / "protocol.toml").is_file()
    assert f"next, in {here}:" in "".join(found.stdout.splitlines())


def test_its_help_teaches_by_example(run: Run) -> None:
    """Exit codes, and commands to copy."""
    found = run("new", "--help")
    assert found.exit_code == 0
    for part in ("Exit codes: 0", "    prereg new my-study\n", "--evidence", "--model", "--json"):
        assert part in found.stdout


# -- what it refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "1st", "a b", "../out", "a/b", "-", "é", "x.y", "a" * 61, "a\n"])
def test_a_name_that_could_name_no_test_is_refused(here: Path, run: Run, name: str) -> None:
    """The error says what a name may hold, and nothing is written."""
    found = run("new", "--", name)
    assert found.exit_code == 2
    assert "can't name a study" in found.stderr
    assert not (here / "gates").exists()


def test_a_study_that_is_there_is_not_overwritten(here: Path, run: Run) -> None:
    """Nor one of the same name in other letters."""
    run("new", "my-study")
    before = files(here)
    for name in ("my-study", "my_study", "My-Study"):
        found = run("new", name)
        assert found.exit_code == 2
        assert "nothing is overwritten" in found.stderr
    assert files(here) == before


def test_other_facts_in_the_same_place_are_not_overwritten(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's own facts stay; the study is not half written either."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "fixtures" / "facts" / "facts.csv"
    own.parent.mkdir(parents=True)
    own.write_text("mine\n")
    found = run("new", "my-study")
    assert found.exit_code == 2
    assert "fixtures/facts/facts.csv is not the file" in found.stderr.replace("\n", " ")
    assert files(tmp_path) == {"fixtures/facts/facts.csv": b"mine\n"}


def test_a_model_that_nobody_knows_is_refused(here: Path, run: Run) -> None:
    """With the alias that was meant, and before anything is written."""
    found = run("new", "my-study", "--model", "pythia-tinny")
    assert found.exit_code == 2
    assert "pythia-tiny" in found.stderr
    assert not (here / "gates").exists()


def test_an_installation_without_the_data_says_so(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names what is missing; nothing is written."""
    nowhere = SimpleNamespace(files=lambda _package: here / "nowhere" / "src" / "prereg")
    monkeypatch.setattr("prereg.cli.scaffolding.resources", nowhere)
    found = run("new", "my-study")
    assert found.exit_code == 2
    assert "this installation of prereg has no" in found.stderr
    assert not (here / "gates").exists()


def test_a_project_ends_where_its_repository_does(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository within another project is its own: nothing is written above it."""
    (tmp_path / "pyproject.toml").write_text("# the outer project's\n")
    (tmp_path / "gates").mkdir()
    inner = tmp_path / "inner"
    inner.mkdir()
    subprocess.run(["git", "init", "-q", str(inner)], check=True, capture_output=True)
    monkeypatch.chdir(inner)
    assert run("new", "my-study").exit_code == 0
    assert (inner / "gates" / "my_study" / "protocol.toml").is_file()
    assert (inner / "pyproject.toml").is_file()
    assert not list((tmp_path / "gates").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gates", "inner", "pyproject.toml"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes by name")
@pytest.mark.parametrize("path", ["fixtures/facts/facts.csv", "fixtures/pythia-tiny/config.json"])
def test_a_pipe_in_a_file_s_place_is_not_waited_for(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It is refused, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / path).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / path)
    found = run("new", "my-study")
    assert found.exit_code == 2
    assert "nothing is overwritten" in found.stderr
    assert files(tmp_path) == {}


@pytest.mark.parametrize("linked", ["fixtures", "fixtures/facts", "gates"])
@pytest.mark.parametrize("holds", ["nothing", "the data"])
def test_a_link_out_of_the_project_is_not_followed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, linked: str, holds: str
) -> None:
    """Neither written through nor relied on: who gets the project gets the link alone."""
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    (project / linked).parent.mkdir(parents=True)
    if holds == "the data":
        shutil.copytree(REPOSITORY / "fixtures", outside, dirs_exist_ok=True)
    (project / linked).symlink_to(outside)
    before = files(tmp_path)
    monkeypatch.chdir(project)
    found = run("new", "my-study")
    assert found.exit_code == 2
    assert "leads out of the project" in found.stderr.replace("\n", " ")
    assert files(tmp_path) == before


@pytest.mark.parametrize("taken", ["gates", "fixtures", "fixtures/facts", "fixtures/facts/licences"])
def test_a_file_in_a_folder_s_place_is_told_before_anything_is_written(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    """With a remedy that this command has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / taken).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / taken).write_text("mine\n")
    found = run("new", "my-study")
    assert found.exit_code == 2
    assert f"{taken} is no folder" in found.stderr.replace("\n", " ")
    assert f"next: move it elsewhere: mv {taken} ..." in found.stderr
    assert files(tmp_path) == {taken: b"mine\n"}


@pytest.mark.parametrize("error", [StorageError("no room", remedy="--cache-dir DIR"), OSError(28, "no room")])
def test_trouble_with_the_disk_advises_no_option_that_is_not_there(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Neither --cache-dir nor --report-dir is this command's."""

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr("prereg.workers.write_atomically", full)
    found = run("new", "my-study")
    assert found.exit_code == 2
    assert "no room" in found.stderr
    assert "run this in another folder" in found.stderr
    assert "-dir" not in found.stderr


# -- that it runs ---------------------------------------------------------------------------------------------


def test_a_new_study_of_kernels_answers_at_once(here: Path, run: Run) -> None:
    """On the embedded model each hypothesis has an answer, and none is invalid; only its sizes are cut."""
    run("new", "my-study")
    protocol = here / "gates" / "my_study" / "protocol.toml"
    text = protocol.read_text("utf-8")
    for found, fewer in (
        ("shuffles            = 49", "shuffles            = 19"),
        ("template     = 60", "template     = 20"),
    ):
        assert found in text
        text = text.replace(found, fewer)
    protocol.write_text(text, "utf-8")
    done = prereg(here, "verdicts", "--measure", "--gate-exit=harness", "--json", "--jobs", "1", "--offline")
    assert done.returncode == 0, done.stderr
    answers = {v["hypothesis"]: v["answer"] for v in json.loads(done.stdout)["verdicts"]}
    assert answers["H1"] == "supported"
    assert answers["H2"] in {"supported", "refuted", "inconclusive"}
