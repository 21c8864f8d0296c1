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
from prereg.activations.models.devices import require_device, working_devices
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


@pytest.fixture
def copy(checkpoints: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """Copy a tiny checkpoint that a test may spoil."""
    return lambda family: shutil.copytree(checkpoints[family], tmp_path / "copy")


@pytest.fixture
def refusal(cache: Path, tmp_path: Path) -> Callable[[Path], ModelError]:
    """Load a folder and return the error, which must say what to do."""

    def fail(folder: Path, loading: Callable[[LocalModel], object] = load) -> ModelError:
        entry = resolve(str(folder), registry=load_registry(), root=tmp_path)
        with pytest.raises(ModelError) as caught:
            loading(ensure(entry, cache, offline=True, progress=None))
        assert caught.value.remedy
        return caught.value

    return fail


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_missing_weights_are_not_drawn_at_random(
    copy: Callable[[str], Path], refusal: Callable[[Path], ModelError]
) -> None:
    """Transformers fills what the file lacks with random numbers: refused, by name."""
    folder = copy("llama")
    edit_weights(folder, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    assert "no weights for model.layers.1.mlp.up_proj" in refusal(folder).message


@pytest.mark.parametrize(
    ("family", "depth"),
    [("gpt_neox", "num_hidden_layers"), ("gpt2", "n_layer"), ("llama", "num_hidden_layers")],
)
def test_a_config_of_fewer_layers_than_the_weights_is_refused(
    family: str, depth: str, copy: Callable[[str], Path], refusal: Callable[[Path], ModelError]
) -> None:
    """Transformers drops what the config has no place for: another model, which nobody asked for."""
    folder = copy(family)
    edit_config(folder, **{depth: 2}, layer_types=None)
    message = refusal(folder).message
    assert "no place for" in message
    assert ".2." in message
    assert "more: they would be dropped" in message


def test_a_weight_without_a_place_is_refused(
    copy: Callable[[str], Path], refusal: Callable[[Path], ModelError]
) -> None:
    """One bias too many is enough."""
    folder = copy("llama")
    edit_weights(folder, lambda w: w.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(32)}))
    assert "no place for model.layers.0.self_attn.q_proj.bias" in refusal(folder).message


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("gpt2", ["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"]),
        (
            "gpt_neox",
            [
                "gpt_neox.layers.0.attention.bias",
                "gpt_neox.layers.0.attention.masked_bias",
                "gpt_neox.layers.0.attention.rotary_emb.inv_freq",
            ],
        ),
        ("llama", ["model.layers.0.self_attn.rotary_emb.inv_freq"]),
    ],
)
def test_buffers_that_older_versions_saved_do_no_harm(
    family: str, names: list[str], copy: Callable[[str], Path], cache: Path, tmp_path: Path
) -> None:
    """Published checkpoints carry masks and frequencies that are computed today."""
    folder = copy(family)
    edit_weights(folder, lambda weights: weights.update({name: torch.ones(1) for name in names}))
    entry = resolve(str(folder), registry=load_registry(), root=tmp_path)
    assert load(ensure(entry, cache, offline=True, progress=None)).n_layers == 3


def test_weights_that_are_not_finite_are_refused(
    copy: Callable[[str], Path], refusal: Callable[[Path], ModelError]
) -> None:
    """A NaN among the weights is named at loading, not met later as a strange result."""
    folder = copy("llama")
    edit_weights(folder, lambda weights: weights["model.norm.weight"].fill_(float("nan")))
    assert "not finite in model.norm.weight" in refusal(folder).message


@pytest.mark.parametrize("harm", ["empty", "cut", "garbled", "grown"])
@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
)
def test_a_damaged_file_is_named_with_what_to_do(
    harm: str, name: str, copy: Callable[[str], Path], refusal: Callable[[Path], ModelError]
) -> None:
    """Whatever a library would raise, the user reads which file and where to get it."""
    folder = copy("gpt2")
    content = (folder / name).read_bytes()
    harmed = {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "garbled": bytes(byte ^ 0x5A for byte in content),
        "grown": content + b"}x",
    }
    (folder / name).write_bytes(harmed[harm])
    error = refusal(folder)
    assert f"{name} is damaged" in error.message
    assert name in (error.remedy or "")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", '{"model_type": "no-such-architecture"}'),
        ("config.json", '{"model_type": "gpt2", "n_embd": "wide"}'),
        ("config.json", '{"model_type": "gpt2", "n_head": 7}'),
        ("config.json", '{"model_type": ["gpt2"]}'),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", '{"model": {"type": "BPE", "vocab": 3}}'),
        ("tokenizer_config.json", "[]"),
    ],
)
@pytest.mark.parametrize("loading", [load, lambda local: load_twin(local, 0)])
def test_json_that_says_nonsense_is_an_error_in_words(
    name: str,
    content: str,
    loading: Callable[[LocalModel], object],
    copy: Callable[[str], Path],
    refusal: Callable[..., ModelError],
) -> None:
    """What parses but means nothing is a ModelError too, for the model and for its twins."""
    folder = copy("gpt2")
    (folder / name).write_text(content)
    assert "copy" in refusal(folder, loading).message


def test_an_unknown_architecture_is_named(
    copy: Callable[[str], Path], refusal: Callable[[Path], ModelError]
) -> None:
    """By what its config calls it."""
    folder = copy("gpt2")
    edit_config(folder, model_type="mamba-nine")
    assert "model_type 'mamba-nine'" in refusal(folder).message


@pytest.mark.parametrize("device", ["nonsense", "", "cuda:99", "mps:7", "meta", "cpu:3"])
@pytest.mark.parametrize("loading", [load, lambda local, **keys: load_twin(local, 0, **keys)])
def test_a_device_that_is_not_here_is_refused_before_loading(
    device: str,
    loading: Callable[..., object],
    have: Callable[..., LocalModel],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names those that are; no file is read for it."""
    local = have("gpt2")

    def refuse(_: LocalModel) -> None:
        raise AssertionError("the files were read")

    monkeypatch.setattr(LocalModel, "verify", refuse)
    with pytest.raises(ModelError, match="there is cpu") as caught:
        loading(local, device=device)
    assert "--device cpu" in (caught.value.remedy or "")


def test_an_accelerator_that_is_here_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its kind, or by number where there are several."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert working_devices() == ("cpu", "cuda", "cuda:0", "cuda:1")
    for name in ("cpu", "cpu:0", "cuda", "cuda:1"):
        require_device(name)
    with pytest.raises(ModelError, match="no device 'cuda:2'"):
        require_device("cuda:2")


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
