"""The worked example's own analysis, on a model and answers that are known."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from prereg.activations.models import LoadedModel
from prereg.activations.view import Activations
from prereg.analysis.authoring import Workers, load_analysis, random_activations
from prereg.errors import AnalysisError
from tests.analysis.interventions.fakes import loaded
from tests.synthetic import REPOSITORY
from tests.tiny_models import make_checkpoint

FILE = REPOSITORY / "examples" / "logit_lens" / "logit_lens.py"
N_LAYERS, D_MODEL = 3, 32


@pytest.fixture(scope="module")
def lens() -> ModuleType:
    """The analysis, as the study loads it."""
    return load_analysis(FILE)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A tiny model."""
    from transformers import AutoModelForCausalLM

    folder = make_checkpoint("gpt_neox", tmp_path_factory.mktemp("neox") / "model")
    return loaded(AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval())


@pytest.fixture
def activations() -> Activations:
    """Made-up streams of the model's width."""
    return random_activations(n_layers=N_LAYERS, d_model=D_MODEL)


def read_by(model: LoadedModel, activations: Activations) -> Activations:
    """Return the activations with the token that the model itself reads after the last block as each answer."""
    import torch

    with torch.inference_mode():
        hidden = torch.tensor(activations.resid[-1])
        top = model.model.lm_head(model.model.gpt_neox.final_layer_norm(hidden)).argmax(-1).numpy()
    return replace(activations, answer_ids=top.astype(np.int64))


def test_what_is_read_after_the_last_block_is_the_models_own_answer(
    lens: ModuleType, model: LoadedModel, activations: Activations
) -> None:
    """By the norm and the head written out; after earlier blocks another stream is read."""
    known = read_by(model, activations)
    evidence = lens.measure(known, lens.LensSettings(others=1, seed=0), Workers(), model=model, twin=False)
    correct = np.array(evidence.table["value.correct"].to_pylist()).reshape(-1, N_LAYERS)
    assert (correct[:, -1] == 1.0).all()
    assert correct[:, 0].mean() < 0.5
    assert [(check.name, check.passed) for check in evidence.checks] == [("last_reading", True)]


def test_facts_that_the_model_does_not_answer_fail_its_check_but_not_a_twins(
    lens: ModuleType, model: LoadedModel, activations: Activations
) -> None:
    """A study of known facts in which the last reading is another answer read the wrong thing."""
    settings = lens.LensSettings(others=1, seed=0)
    trained = lens.measure(activations, settings, Workers(), model=model, twin=False)
    assert [check.passed for check in trained.checks] == [False]
    assert lens.measure(activations, settings, Workers(), model=model, twin=True).checks == ()


def test_others_are_other_answers_of_the_relation_whatever_the_order_of_prompts(
    lens: ModuleType, activations: Activations
) -> None:
    """The prompt's own answer is never among them."""
    settings = lens.LensSettings(others=3, seed=5)
    drawn = lens.draw_tokens(activations, settings)
    assert (drawn[:, 0] == activations.answer_ids).all()
    for own, relation, others in zip(
        activations.answer_ids, activations.relations, drawn[:, 1:], strict=True
    ):
        allowed = {
            int(a)
            for a, r in zip(activations.answer_ids, activations.relations, strict=True)
            if r == relation
        }
        assert set(others.tolist()) <= allowed - {int(own)}
        assert len(set(others.tolist())) == 3
    order = np.random.default_rng(1).permutation(len(drawn))
    names = ("prompts", "subjects", "relations", "templates", "answers")
    shuffled = replace(
        activations,
        resid=activations.resid[:, order],
        held_out=activations.held_out[order],
        answer_ids=activations.answer_ids[order],
        **{name: tuple(getattr(activations, name)[i] for i in order) for name in names},
    )
    assert (lens.draw_tokens(shuffled, settings) == drawn[order]).all()


@pytest.mark.parametrize("kind", ["few", "none"])
def test_answers_that_can_not_be_compared_are_an_error(
    lens: ModuleType, model: LoadedModel, activations: Activations, kind: str
) -> None:
    """Rather than fewer comparisons than were promised."""
    asked = activations if kind == "few" else replace(activations, answer_ids=None)
    with pytest.raises(AnalysisError, match="wanted 99" if kind == "few" else "no first token"):
        lens.measure(asked, lens.LensSettings(others=99, seed=0), Workers(), model=model, twin=False)
