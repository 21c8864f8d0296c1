"""Results on record: wherever they lie or lay, nobody can claim not to have known them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration.history import Repository
from prereg.registration.seen import require_known, result_models, seen_models
from tests.frozen import answered, frozen
from tests.synthetic import commit, git


def seen(root: Path, reports: Path | None = None) -> tuple[str, ...]:
    folder = root / "gates" / "sample"
    return seen_models(folder, reports or root / "reports" / "sample", Repository.open(folder))


@pytest.mark.parametrize(
    ("names", "models"),
    [
        (["m/verdicts.json"], {"m"}),
        (["m/verdicts.csv", "n/evidence/kernels.model.parquet"], {"m", "n"}),
        (["m/evidence/kernels.model.json", "m/contrasts.csv", "m/notes.txt"], set()),
        (["verdicts.json", "x.parquet"], set()),
        (["."], set()),
        ([], set()),
    ],
)
def test_a_result_is_a_table_of_evidence_or_of_verdicts(names: list[str], models: set[str]) -> None:
    """In a model's folder; what lies beside the folders belongs to no model."""
    assert result_models(names) == models


def test_nothing_measured_is_nothing_seen(tmp_path: Path) -> None:
    """A registered study without results."""
    frozen(tmp_path)
    assert seen(tmp_path) == ()


def test_results_in_the_tree_are_seen_uncommitted(tmp_path: Path) -> None:
    """Also where git ignores them."""
    frozen(tmp_path)
    file = tmp_path / "reports" / "sample" / "some-model" / "evidence" / "x.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert seen(tmp_path) == ("some-model",)


@pytest.mark.parametrize(
    "gone", [("reports",), ("gates/sample/attempts",), ("reports", "gates/sample/attempts")]
)
def test_results_that_any_commit_held_are_seen(tmp_path: Path, gone: tuple[str, ...]) -> None:
    """Removed since, in the tree and in the last commit."""
    answered(tmp_path)
    for folder in gone:
        shutil.rmtree(tmp_path / folder)
    commit(tmp_path, "Tidy up")
    assert seen(tmp_path) == ("pythia-tiny",)


def test_results_on_a_merged_branch_are_seen(tmp_path: Path) -> None:
    """Whose removal was merged, too."""
    frozen(tmp_path)
    git(tmp_path, "switch", "--quiet", "--create", "try")
    file = tmp_path / "reports" / "sample" / "some-model" / "verdicts.csv"
    file.parent.mkdir(parents=True)
    file.write_text("")
    commit(tmp_path, "Try")
    file.unlink()
    commit(tmp_path, "Forget")
    git(tmp_path, "switch", "--quiet", "main")
    commit(tmp_path, "Meanwhile")
    git(tmp_path, "merge", "--quiet", "try", "--message", "Merge")
    assert seen(tmp_path) == ("some-model",)


def test_another_studys_results_are_not_this_ones(tmp_path: Path) -> None:
    """Reports lie by study."""
    frozen(tmp_path)
    file = tmp_path / "reports" / "other" / "some-model" / "verdicts.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    commit(tmp_path, "Another study")
    assert seen(tmp_path) == ()


def test_reports_outside_the_repository_are_looked_at_where_they_lie(tmp_path: Path) -> None:
    """Git knows nothing of them; the tree does."""
    root, reports = tmp_path / "project", tmp_path / "elsewhere"
    frozen(root)
    (reports / "some-model").mkdir(parents=True)
    (reports / "some-model" / "verdicts.json").write_text("{}")
    assert seen(root, reports) == ("some-model",)


def test_files_that_are_no_attempts_are_no_results(tmp_path: Path) -> None:
    """A README among the attempts answered nothing."""
    folder = frozen(tmp_path)
    (folder / "attempts").mkdir()
    (folder / "attempts" / "README.md").write_text("No attempt.")
    (folder / "attempts" / f"{'ab' * 32}.json").write_text("{}")
    commit(tmp_path, "Explain")
    assert seen(tmp_path) == ()


def test_ignorance_is_contradicted_and_knowledge_is_not(tmp_path: Path) -> None:
    """Who says that data were known is believed."""
    folder = answered(tmp_path)
    repository = Repository.open(folder)
    reports = tmp_path / "reports" / "sample"
    with pytest.raises(RegistrationError, match="something was known"):
        require_known("none", folder, reports, repository)
    assert require_known("pilot", folder, reports, repository) == ("pythia-tiny",)
    assert require_known("full", folder, reports, repository) == ("pythia-tiny",)
