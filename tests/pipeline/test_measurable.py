"""What the protocol alone shows to be impossible is refused before anything is captured."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.analysis.watching import Watch
from prereg.errors import ProtocolError
from prereg.pipeline import Pipeline, RunOptions
from prereg.pipeline.measuring import require_measurable
from prereg.protocol import read_protocol
from tests.synthetic import REPOSITORY

STUDIES = sorted(
    file for folder in ("gates", "examples") for file in (REPOSITORY / folder).glob("*/protocol.toml")
)
SOURCES = REPOSITORY / "gates" / "delta_stream_sources" / "protocol.toml"


def bent(tmp_path: Path, old: str, new: str) -> Path:
    """Write the study of sparse sources with one thing replaced, which must be there."""
    text = SOURCES.read_text("utf-8")
    assert old in text, old
    file = tmp_path / "gates" / "delta_stream_sources" / "protocol.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text.replace(old, new, 1), "utf-8")
    return file


@pytest.mark.parametrize("study", STUDIES, ids=lambda file: file.parent.name)
def test_the_project_s_own_studies_can_be_measured(study: Path) -> None:
    """As far as their protocols tell."""
    require_measurable(read_protocol(study.parent), Watch(REPOSITORY, REPOSITORY / "cache"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("candidates       = 64", "candidates       = 5000", "analyses.interventions.candidates"),
        ('updates          = ["mid", "late"]', 'updates          = ["nope"]', "no set of updates 'nope'"),
        ("seed             = 1", "seed             = 9", "no dictionary is trained with 9"),
        ("dictionary_seed     = 1", "dictionary_seed     = 9", "no dictionary is trained with 9"),
        ('fit = "ssm_full" }', 'fit = "sssm" }', "measures no fit 'sssm'"),
        (
            'fit = "feature_*" }',
            'fit = "featur_*" }',
            r"measures no fit 'featur_\*' on model; .* feature_\*, feature_\*_matched",
        ),
        ('position     = "all"', 'position     = "last"', "only the last one is captured"),
        ("null_draws = 3", "null_drawss = 3", "null_drawss"),
    ],
)
def test_a_fault_of_the_last_analysis_is_told_before_the_first_begins(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """No model is loaded and nothing is captured: there is none here that could be."""
    file = bent(tmp_path, old, new)
    options = RunOptions(root=tmp_path, cache=tmp_path / "cache", offline=True)
    asked = Pipeline(read_protocol(file.parent), "smollm2-135m", options)
    with pytest.raises(ProtocolError, match=message):
        asked._measure("dictionaries", "model")
    assert not (tmp_path / "cache").exists()


def test_dictionaries_must_be_described_where_something_rests_on_them(tmp_path: Path) -> None:
    """Naming an analysis of them is not enough."""
    text = SOURCES.read_text("utf-8")
    start = text.index("[analyses.dictionaries]")
    section = text[start : text.index("[analyses.state_space]")]
    file = bent(tmp_path, section, "")
    text = file.read_text("utf-8").replace('evidence  = "dictionaries"', 'evidence  = "identifiability"')
    file.write_text(text, "utf-8")
    with pytest.raises(ProtocolError, match="nothing says how to train them"):
        require_measurable(read_protocol(file.parent), Watch(tmp_path, tmp_path / "cache"))


def test_a_way_to_name_sets_that_came_later_changes_no_older_key(tmp_path: Path) -> None:
    """Evidence from before ``at_depth`` stays the evidence of a protocol that doesn't use it."""
    from prereg.pipeline.pipeline import _sets

    before = read_protocol(STUDIES[0].parent).protocol
    assert "at_depth" not in _sets(before)["whole_stack"]
    after = read_protocol(SOURCES.parent).protocol
    assert _sets(after)["mid"]["at_depth"] == 0.5
    assert _sets(after)["whole_stack"]["at_depth"] is None
