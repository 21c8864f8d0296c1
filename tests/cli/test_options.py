"""Which study and which project a command is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.cli.options import project_root, run_options, study_folder
from prereg.errors import PreregError, StudyError


def study(root: Path, name: str) -> Path:
    folder = root / "gates" / name
    folder.mkdir(parents=True)
    (folder / "protocol.toml").touch()
    return folder


def test_the_only_study_needs_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the root or from any folder below it."""
    only = study(tmp_path, "one")
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    for place in (tmp_path, below):
        monkeypatch.chdir(place)
        assert study_folder(None).resolve() == only


def test_several_studies_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is guessed: the error lists the candidates."""
    study(tmp_path, "one")
    study(tmp_path, "two")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match="2 studies here: one, two") as caught:
        study_folder(None)
    assert "gates/one, gates/two" in (caught.value.remedy or "")


def test_no_study_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to ask is not nothing to do."""
    (tmp_path / "gates").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match="no study"):
        study_folder(None)


def test_a_study_is_named_by_folder_by_name_or_by_its_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three lead to the same folder."""
    folder = study(tmp_path, "one")
    study(tmp_path, "two")
    monkeypatch.chdir(tmp_path)
    for named in ("gates/one", "one", "gates/one/protocol.toml", str(folder)):
        assert study_folder(Path(named)).resolve() == folder


def test_a_folder_without_a_protocol_is_refused_with_the_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typo is answered by what there is."""
    study(tmp_path, "one")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match="no protocol") as caught:
        study_folder(Path("onne"))
    assert "gates/one" in (caught.value.remedy or "")


def test_standing_in_a_study_is_naming_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a study's folder, that study is meant, whatever else there is."""
    study(tmp_path, "one")
    two = study(tmp_path, "two")
    monkeypatch.chdir(two)
    assert study_folder(None).resolve() == two


def test_the_root_is_the_nearest_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pyproject.toml or a gates folder marks it; without either it is where the user stands."""
    folder = study(tmp_path / "outer", "one")
    (tmp_path / "outer" / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "outer" / "inner" / "pyproject.toml").touch()
    assert project_root(folder) == tmp_path / "outer"
    assert project_root(tmp_path / "outer" / "inner" / "deep") == tmp_path / "outer" / "inner"


def test_options_reach_the_run(tmp_path: Path) -> None:
    """What is given on the command line is what the pipeline gets."""
    options = run_options(
        tmp_path, cache_dir=tmp_path / "c", report_dir=tmp_path / "r", device="cuda", offline=True,
        engine="threading", jobs=3,
    )  # fmt: skip
    assert (options.cache, options.reports, options.device) == (tmp_path / "c", tmp_path / "r", "cuda")
    assert (options.offline, options.engine, options.jobs) == (True, "threading", 3)
    assert run_options(tmp_path, cache_dir=None).jobs >= 1


def test_an_engine_that_can_t_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    """Not after a capture of minutes."""
    with pytest.raises(PreregError, match="engine 'multiprocessing' can't be used"):
        run_options(tmp_path, cache_dir=tmp_path, engine="multiprocessing", jobs=2)


@pytest.mark.parametrize("git", ["folder", "file", "none"])
def test_a_project_ends_where_its_repository_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: str
) -> None:
    """What lies above a repository is another project's; a worktree or submodule has a file in the folder's place."""
    (tmp_path / "pyproject.toml").touch()
    place = tmp_path / "inner" / "deep"
    place.mkdir(parents=True)
    if git == "folder":
        (tmp_path / "inner" / ".git").mkdir()
    elif git == "file":
        (tmp_path / "inner" / ".git").write_text("gitdir: elsewhere\n")
    monkeypatch.chdir(place)
    assert project_root(place) == (tmp_path if git == "none" else place)
    (tmp_path / "inner" / "gates").mkdir()
    assert project_root(place) == tmp_path / "inner"
