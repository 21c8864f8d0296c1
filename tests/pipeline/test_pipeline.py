"""The pipeline on the embedded model: what an analysis sees, and what is refused before it is measured."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from prereg.errors import PreregError, ProtocolError
from prereg.pipeline import Pipeline, RunOptions
from prereg.protocol import read_protocol
from tests.synthetic import REPOSITORY

RELATIONS = ("birthplace", "guild")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with the registered study, asking the embedded model two relations only."""
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures" / "pythia-tiny").symlink_to(REPOSITORY / "fixtures" / "pythia-tiny")
    lines = (REPOSITORY / "fixtures/pythia-tiny/facts.csv").read_text("utf-8").splitlines(keepends=True)
    facts = "".join(line for line in lines if line.startswith(("relation", *RELATIONS)))
    (tmp_path / "facts.csv").write_text(facts, "utf-8")
    study = tmp_path / "gates" / "delta_stream"
    study.mkdir(parents=True)
    protocol = (REPOSITORY / "gates/delta_stream/protocol.toml").read_text("utf-8")
    world = protocol.index("[[facts.worlds]]"), protocol.index("[prompts]")
    digest = hashlib.sha256(facts.encode()).hexdigest()
    named = f'[[facts.worlds]]\nmodel = "pythia-tiny"\npath = "facts.csv"\nsha256 = "{digest}"\n\n'
    protocol = protocol[: world[0]] + named + protocol[world[1] :]
    (study / "protocol.toml").write_text(
        protocol.replace("minimum_subjects     = 50", "minimum_subjects = 10"), "utf-8"
    )
    return tmp_path


def pipeline(root: Path, *changes: tuple[str, str]) -> Pipeline:
    file = root / "gates/delta_stream/protocol.toml"
    text = file.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file.write_text(text, "utf-8")
    options = RunOptions(root=root, cache=root / "cache", offline=True)
    return Pipeline(read_protocol(file), "pythia-tiny", options)


def test_the_readout_is_the_same_whichever_positions_were_captured(root: Path) -> None:
    """An analysis sees the last prompt token's stream, also from a store of all tokens."""
    last = pipeline(root).capture().view
    every = pipeline(root, ('position     = "last"', 'position     = "all"')).capture()
    assert every.store.stack("resid").shape[1] > every.store.n_prompts
    assert every.view.prompts == last.prompts
    np.testing.assert_allclose(every.view.resid, last.resid, rtol=1e-4, atol=1e-5)


def test_known_prompts_split_by_subject(root: Path) -> None:
    """What is selected is known to the model, and no subject is on both sides."""
    captured = pipeline(root).capture()
    view, rows = captured.view, {r.fact.prompt_id: r for r in pipeline(root).capturing.prompts()}
    top1 = dict(zip(captured.store.prompt_ids, captured.store.top1.tolist(), strict=True))
    assert all(top1[p] == rows[p].answer_id for p in view.prompts)
    out = {s for s, h in zip(view.subjects, view.held_out, strict=True) if h}
    assert out
    assert not out & {s for s, h in zip(view.subjects, view.held_out, strict=True) if not h}


def test_a_twin_sees_the_same_prompts_with_other_weights(root: Path) -> None:
    """Paired by prompt, and nothing learned in it."""
    asked = pipeline(root)
    model, twin = asked.capture("model").view, asked.capture("twin-1").view
    assert (model.prompts, model.held_out.tolist()) == (twin.prompts, twin.held_out.tolist())
    a, b = model.resid[-1].ravel(), twin.resid[-1].ravel()
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '{ weight = 1.0, fit = "history_2" }',
            '{ weight = 1.0, fit = "history_9" }',
            "kernels measures no fit 'history_9' on model",
        ),
        (
            'fit = "running_sum", arm = "twin-1"',
            'fit = "history_2", arm = "twin-1"',
            "kernels measures no fit 'history_2' on twin-1",
        ),
    ],
)
def test_a_fit_that_will_not_be_measured_is_refused_first(
    root: Path, old: str, new: str, message: str
) -> None:
    """Not after minutes of fitting the others; the message names what there is."""
    with pytest.raises(ProtocolError, match="measures no fit") as caught:
        pipeline(root, (old, new)).evidence("kernels")
    assert message in str(caught.value)
    assert "running_sum_history_1" in str(caught.value)
    assert not (root / "reports").exists()


def test_facts_that_are_not_the_registered_ones_are_refused(root: Path) -> None:
    """One changed answer, and nothing is captured."""
    facts = root / "facts.csv"
    facts.write_text(facts.read_text("utf-8").replace("birthplace", "birthplaces"), "utf-8")
    with pytest.raises(PreregError, match="sha256"):
        pipeline(root).capture()
