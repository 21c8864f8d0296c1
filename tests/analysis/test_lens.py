"""The lens reads with the model's own norm and head, in every family."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.activations.models import LoadedModel
from prereg.analysis.lens import read_stream
from prereg.errors import AnalysisError
from tests.analysis.interventions.fakes import loaded
from tests.tiny_models import FAMILIES, VOCAB_SIZE, make_checkpoint

N_LAYERS, D_MODEL = 3, 32


@pytest.fixture(scope="module", params=[*FAMILIES, "softcapped"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Give one model of each family, and one whose logits are capped."""
    from transformers import AutoModelForCausalLM

    family = "gemma3" if request.param == "softcapped" else request.param
    folder = make_checkpoint(family, tmp_path_factory.mktemp(request.param) / "model")
    options = {"final_logit_softcapping": 2.0} if request.param == "softcapped" else {}
    return loaded(AutoModelForCausalLM.from_pretrained(folder, dtype="float32", **options).eval())


def streams(model: LoadedModel, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the stream that leaves the last block at each position, and the logits there, by a whole forward pass."""
    import torch

    from prereg.activations.capture.sites import find_sites

    kept = []
    block = find_sites(model.model).blocks[-1]
    handle = block.register_forward_hook(
        lambda _m, _a, out: kept.append(out[0] if isinstance(out, tuple) else out)
    )
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    handle.remove()
    return kept[0][0].numpy(), logits.double().log_softmax(-1).numpy()


def test_after_the_last_block_it_reads_the_models_own_output(model: LoadedModel) -> None:
    """For every token of the vocabulary, at every position, in batches of any size."""
    ids = np.random.default_rng(0).integers(3, VOCAB_SIZE, 9).tolist()
    stream, wanted = streams(model, ids)
    tokens = np.tile(np.arange(VOCAB_SIZE), (9, 1))
    found = read_stream(model, stream, tokens, batch_rows=4)
    np.testing.assert_allclose(found.log_probability, wanted, atol=2e-5)
    top = wanted.argmax(axis=1)
    assert (read_stream(model, stream, top).rank == 0).all()
    # Which of two logits is the larger may hang on rounding.
    least, most = ((wanted[:, None, :] > wanted[:, :, None] + slack).sum(axis=2) for slack in (1e-4, -1e-4))
    assert ((least <= found.rank) & (found.rank < most)).all()


def test_the_model_is_as_before(model: LoadedModel) -> None:
    """Its blocks work again, also where reading failed midway."""
    import torch

    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        before = model.model(input_ids=ids).logits
        read_stream(model, np.ones((2, D_MODEL)), np.array([3, 4]))
        with pytest.raises(AnalysisError):
            read_stream(model, np.ones((2, D_MODEL)), np.array([3, VOCAB_SIZE]))
        assert torch.equal(before, model.model(input_ids=ids).logits)


@pytest.mark.parametrize(
    ("stream", "tokens"),
    [((2, 5), (2,)), ((2, D_MODEL), (3,)), ((0, D_MODEL), (0,)), ((2, D_MODEL), (2, 0)), ((D_MODEL,), (D_MODEL,)),
     ((2, D_MODEL), (2, 1, 1))],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(
    model: LoadedModel, stream: tuple[int, ...], tokens: tuple[int, ...]
) -> None:
    """Broadcasting would read another prompt's answer."""
    with pytest.raises(AnalysisError, match="wanted"):
        read_stream(model, np.zeros(stream), np.zeros(tokens, np.int64))
