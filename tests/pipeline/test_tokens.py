"""Every position of every captured prompt: what dictionaries may learn from, in each arm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prereg.activations.view import Tokens
from prereg.errors import ActivationsError
from prereg.pipeline import Pipeline
from tests.pipeline.test_pipeline import pipeline, root

__all__ = ["root"]

ALL = ('position     = "last"', 'position     = "all"')


@pytest.mark.parametrize("arm", ["model", "twin-1"])
def test_the_last_token_of_a_selected_prompt_is_its_readout(root: Path, arm: str) -> None:
    """`selected` says which captured prompt each one is, in the model as in a twin."""
    view = pipeline(root, ALL).capture(arm).view
    tokens = view.tokens
    assert tokens is not None
    ends = tokens.offsets[1:][tokens.selected] - 1
    np.testing.assert_array_equal(tokens.stream[:, ends], view.resid)
    assert [tokens.subjects[i] for i in tokens.selected] == list(view.subjects)


def test_a_twin_is_asked_all_but_other_prompts_of_held_out_subjects(root: Path) -> None:
    """What dictionaries may learn from is the same in both arms; the rest would be captured for nothing."""
    asked = pipeline(root, ALL)
    model, twin = asked.capture("model").view, asked.capture("twin-1").view
    assert model.tokens is not None
    assert twin.tokens is not None
    held_out = {s for s, out in zip(model.subjects, model.held_out, strict=True) if out}
    study = {model.tokens.ids[i] for i in model.tokens.selected}
    every = zip(model.tokens.ids, model.tokens.subjects, strict=True)
    wanted = {ids for ids, subject in every if subject not in held_out or ids in study}
    assert set(twin.tokens.ids) == wanted
    assert len(twin.tokens.ids) < len(model.tokens.ids)


def test_answers_go_with_their_prompts(root: Path) -> None:
    """The answer's first token is the one that the model was right about."""
    captured = pipeline(root, ALL).capture()
    view, store = captured.view, captured.store
    top1 = dict(zip(store.prompt_ids, store.top1.tolist(), strict=True))
    assert view.answer_ids is not None
    assert [top1[p] for p in view.prompts] == view.answer_ids.tolist()
    rows = {r.fact.prompt_id: r.fact.answer for r in pipeline(root).capturing.prompts()}
    assert tuple(rows[p] for p in view.prompts) == view.answers


def test_without_all_positions_there_are_no_tokens(root: Path) -> None:
    """A study of the readout alone keeps what it needs."""
    assert pipeline(root).capture().view.tokens is None


def test_how_dictionaries_are_trained_is_part_of_what_rests_on_them(root: Path) -> None:
    """Another width is another measurement of a state; a study without dictionaries keeps its key."""

    def keys(width: int) -> tuple[str, str]:
        added = (
            f"[analyses.dictionaries]\nwidth = {width}\n\n[analyses.state_space]\nx = 1\n\n[controls.shuffled"
        )
        file = root / "gates/delta_stream/protocol.toml"
        before = file.read_text("utf-8")
        asked: Pipeline = pipeline(root, ("[controls.shuffled", added))
        found = asked.key("state_space", "model"), asked.key("kernels", "model")
        file.write_text(before, "utf-8")
        return found

    (narrow, kernels), (wide, same) = keys(8), keys(16)
    assert narrow != wide
    assert kernels == same


@pytest.mark.parametrize(
    ("ids", "subjects", "rows", "selected"),
    [
        (((1, 2), (3,)), ("a",), 3, [0]),
        (((1, 2), ()), ("a", "b"), 2, [0]),
        (((1, 2), (3,)), ("a", "b"), 4, [0]),
        (((1, 2), (3,)), ("a", "b"), 3, [2]),
        (((1, 2), (3,)), ("a", "b"), 3, [-1]),
    ],
)
def test_tokens_that_do_not_fit_their_stream_are_refused(
    ids: tuple[tuple[int, ...], ...], subjects: tuple[str, ...], rows: int, selected: list[int]
) -> None:
    """Lengths that disagree, an empty prompt, a prompt that wasn't captured."""
    with pytest.raises(ActivationsError):
        Tokens(ids, subjects, np.zeros((2, rows, 4), np.float32), np.array(selected))
