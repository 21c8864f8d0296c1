"""The study of sparse sources from nothing to answers: dictionaries, states, ablations, for real and small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.cold_project import (
    ANSWERS,
    ARMS,
    SOURCES,
    answer,
    copied,
    evidence,
    make_cold_project,
    modules,
    outcomes,
    reports,
)

HYPOTHESES = {
    "H3-rank", "H3-parameters", "H3-full", "H3-depth", "H3-learned", "H3-decoding", "H4a-mid", "H4b-raw-mid",
    "H4b-mid", "H4a-late", "H4b-raw-late", "H4b-late", "H5",
}  # fmt: skip
HEAVY = {"torch", "transformers", "transformer_lens", "scipy.stats", "pandas", "joblib"}


class Cold:
    """A project after one undisturbed cold run in one process, and what that run said; nobody may change it."""

    def __init__(self, project: Path) -> None:
        self.project = make_cold_project(project, study=SOURCES)
        self.run = answer(project)
        self.reports = reports(project)
        self.evidence = evidence(project)
        self.modules = modules(project)


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Cold:
    return Cold(tmp_path_factory.mktemp("sources") / "project")


def test_a_cold_run_answers_every_hypothesis(cold: Cold) -> None:
    """From the model's files to verdicts; controls that small dictionaries fail make an answer invalid, no error."""
    found = outcomes(cold.project, SOURCES)
    assert set(found) == HYPOTHESES, cold.run.stdout + cold.run.stderr
    assert set(found.values()) <= ANSWERS | {"invalid"}
    assert found["H5"] == "invalid"  # seven updates are too few
    assert "Traceback" not in cold.run.stdout + cold.run.stderr


def test_each_analysis_leaves_its_evidence_and_its_tables(cold: Cold) -> None:
    """A state for each arm, the rest for the model; and a table for each figure."""
    names = {Path(name).name for name in cold.reports}
    assert {f"state_space.{arm}.parquet" for arm in ARMS} <= names
    for analysis in ("dictionaries", "state_decoding", "interventions", "identifiability"):
        assert f"{analysis}.model.parquet" in names
    assert {
        "ssm_gain_by_update.csv", "ssm_grid.csv", "state_path.csv", "state_memory.csv", "state_decoding.csv",
        "causal_effects.csv", "causal_context.csv", "dictionary_stability.csv", "dictionaries.csv",
        "dictionary_training.csv",
    } <= names  # fmt: skip


def test_a_second_run_imports_nothing_heavy_and_changes_no_byte(cold: Cold, tmp_path: Path) -> None:
    """Where the evidence is, neither a model nor a dictionary is loaded."""
    assert "torch" in cold.modules
    finished = copied(cold.project, tmp_path / "project", evidence=True)
    done = answer(finished)
    assert done.returncode == cold.run.returncode
    assert not HEAVY & modules(finished)
    assert reports(finished) == cold.reports


@pytest.mark.parametrize(
    "stop_at",
    [
        "prereg.analysis.dictionaries.library:Library.dictionary:9:SIGKILL",
        "prereg.evidence:write_evidence:5:SIGKILL",
    ],
)
def test_a_run_that_was_killed_is_taken_up_with_the_same_bytes(
    cold: Cold, tmp_path: Path, stop_at: str
) -> None:
    """Halfway through the first analysis, and between two; two workers finish what one began."""
    project = make_cold_project(tmp_path / "project", study=SOURCES)
    killed = answer(project, stop_at=stop_at)
    assert killed.returncode < 0, killed.stdout + killed.stderr
    resumed = answer(project, jobs=2)
    assert resumed.returncode == cold.run.returncode, resumed.stdout + resumed.stderr
    assert evidence(project) == cold.evidence
