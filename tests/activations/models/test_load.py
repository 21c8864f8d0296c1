"""Loading: trained weights, untrained twins, and token ids."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

from prereg.activations.models import (
    LocalModel,
    encode,
    ensure,
    load,
    load_registry,
    load_twin,
    resolve,
)
from prereg.activations.models.folder import read_config
from prereg.errors import ModelError
from tests.tiny_models import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prereg.activations.models import ModelEntry

MODEL_TYPES = {"gemma3": "gemma3_text", "opt_post_ln": "opt"}


@pytest.fixture
def have(folder_entry: Callable[..., ModelEntry], cache: Path) -> Callable[..., LocalModel]:
    """Have a tiny checkpoint by family."""

    def build(family: str, /, **keys: object) -> LocalModel:
        return ensure(folder_entry(family, **keys), cache, offline=True, progress=None)

    return build


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_loads(family: str, have: Callable[..., LocalModel]) -> None:
    """Each architecture loads in eval mode, in float32, with its shape read from the config."""
    model_type = MODEL_TYPES.get(family, family)
    loaded = load(have(family, family=model_type, n_layers=3, d_model=32))
    assert (loaded.n_layers, loaded.d_model) == (3, 32)
    assert loaded.attn_implementation == "sdpa"
    assert not loaded.model.training
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([encode(loaded, "abc")])).logits
    assert logits.isfinite().all()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_twin_is_the_same_bits_for_the_same_seed(family: str, have: Callable[..., LocalModel]) -> None:
    """One seed gives one twin, another seed another, and the caller's random state is untouched."""
    local = have(family)
    state = torch.random.get_rng_state()
    twins = [load_twin(local, seed) for seed in (0, 0, 1)]
    assert torch.equal(state, torch.random.get_rng_state())
    first, again, other = (twin.model.state_dict() for twin in twins)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert not twins[0].model.training
    assert twins[0].identity == twins[1].identity
    digests = {twin.identity.digest for twin in twins} | {local.identity.digest}
    assert len(digests) == 3


def test_a_twin_has_the_scale_that_the_config_publishes(
    have: Callable[..., LocalModel],
) -> None:
    """The embedding's standard deviation is initializer_range, within its sampling error."""
    twin = load_twin(have("llama"), 0)
    embedding = twin.model.get_input_embeddings().weight
    kept = embedding[torch.arange(len(embedding)) != twin.model.config.pad_token_id]
    published = read_config(have("llama").folder)["initializer_range"]
    # n = 259 * 32 normal draws: the relative standard error of their deviation is 1/sqrt(2n).
    assert kept.std().item() == pytest.approx(published, rel=4 / (2 * kept.numel()) ** 0.5)


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_a_twin_without_a_known_scale_is_refused(
    family: str, checkpoints: dict[str, Path], tmp_path: Path, cache: Path
) -> None:
    """A config that lost its initializer_range is not given a library's default."""
    folder = shutil.copytree(checkpoints[family], tmp_path / "bare")
    config = json.loads((folder / "config.json").read_text())
    config.pop("initializer_range", None)
    config.pop("init_std", None)
    (folder / "config.json").write_text(json.dumps(config))
    entry = resolve(str(folder), registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelError, match="scale of an untrained twin is unknown"):
        load_twin(ensure(entry, cache, offline=True, progress=None), 0)
    registered = entry.model_copy(update={"initializer_range": 0.3})
    twin = load_twin(ensure(registered, cache, offline=True, progress=None), 0)
    assert twin.model.get_input_embeddings().weight.std().item() == pytest.approx(0.3, rel=0.1)


def test_registry_and_config_may_not_disagree_on_the_scale(
    have: Callable[..., LocalModel],
) -> None:
    """Two scales for one model are an error, not a choice."""
    with pytest.raises(ModelError, match=r"says initializer_range = 0\.1, the registry says 0\.2"):
        load_twin(have("llama", initializer_range=0.2), 0)


@pytest.mark.parametrize("seed", [-1, True, 2**63])
def test_a_seed_is_a_whole_number(seed: int, have: Callable[..., LocalModel]) -> None:
    """A seed that torch would fold or misread is refused."""
    with pytest.raises(ModelError, match="seed"):
        load_twin(have("gpt2"), seed)


@pytest.mark.parametrize(
    ("promise", "message"),
    [
        ({"family": "llama"}, "family is 'gpt2'"),
        ({"n_layers": 12}, "n_layers is 3"),
        ({"d_model": 768}, "d_model is 32"),
    ],
)
def test_another_shape_than_promised_is_refused(
    promise: dict[str, object], message: str, have: Callable[..., LocalModel]
) -> None:
    """Family, depth and width are checked against the registry."""
    with pytest.raises(ModelError, match=message):
        load(have("gpt2", **promise))


def test_missing_weights_are_not_drawn_at_random(
    checkpoints: dict[str, Path], tmp_path: Path, cache: Path
) -> None:
    """Transformers fills what the file lacks with random numbers: refused, by name."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(checkpoints["llama"], tmp_path / "hole")
    weights = load_file(folder / "model.safetensors")
    weights.pop("model.layers.1.mlp.up_proj.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    entry = resolve(str(folder), registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelError, match=r"no weights for model\.layers\.1\.mlp\.up_proj"):
        load(ensure(entry, cache, offline=True, progress=None))


def test_weights_that_are_not_finite_are_refused(
    checkpoints: dict[str, Path], tmp_path: Path, cache: Path
) -> None:
    """A NaN among the weights is named at loading, not met later as a strange result."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(checkpoints["llama"], tmp_path / "nan")
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    entry = resolve(str(folder), registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelError, match=r"not finite in model\.norm\.weight"):
        load(ensure(entry, cache, offline=True, progress=None))


def test_a_file_changed_since_it_was_fetched_is_not_loaded(
    checkpoints: dict[str, Path], tmp_path: Path, cache: Path
) -> None:
    """Loading reads every byte against the identity that was promised."""
    folder = shutil.copytree(checkpoints["gpt2"], tmp_path / "copy")
    entry = resolve(str(folder), registry=load_registry(), root=tmp_path)
    local = ensure(entry, cache, offline=True, progress=None)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_head": 2}))
    with pytest.raises(ModelError, match="wanted"):
        load(local)
    with pytest.raises(ModelError, match="wanted"):
        load_twin(local, 0)


def test_an_unknown_dtype_is_refused(have: Callable[..., LocalModel]) -> None:
    """Only floating point types that are meant to be used."""
    with pytest.raises(ModelError, match="no dtype 'int8'"):
        load(have("gpt2"), dtype="int8")


@pytest.mark.parametrize(
    ("family", "add_bos", "first"),
    [
        ("gpt2", False, 55),
        ("gpt2", True, 1),
        ("gpt2", None, 55),
        ("gemma3", True, 1),
        ("gemma3", False, 55),
        ("gemma3", None, 1),
    ],
)
def test_bos_stands_where_the_registry_says(
    family: str, add_bos: bool | None, first: int, have: Callable[..., LocalModel]
) -> None:
    """One BOS or none, whatever the tokenizer itself would do; None leaves it to the tokenizer."""
    loaded = load(have(family, add_bos=add_bos))
    ids = encode(loaded, "The")
    assert ids[0] == first
    assert ids.count(1) == (1 if first == 1 else 0)
    assert ids[-3:] == [55, 75, 72]


def test_an_empty_text_has_no_ids(have: Callable[..., LocalModel]) -> None:
    """Nothing in, error out."""
    with pytest.raises(ModelError, match="empty text"):
        encode(load(have("gpt2")), "")
