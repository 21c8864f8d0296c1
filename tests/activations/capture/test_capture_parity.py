"""The gate: a fast path that is wrong in any one place captures nothing."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
import transformers as hf

from prereg.activations.capture import CaptureRequest, capture
from prereg.activations.capture import fill as fills
from prereg.activations.capture import forward as forwards
from prereg.activations.capture import parity as gate
from prereg.activations.capture import run as runs
from prereg.activations.capture.parity import check_parity
from prereg.activations.capture.sites import find_sites, site_names
from prereg.errors import ActivationsError, ParityError
from tests.activations.capture.conftest import random_prompts, some_prompts
from tests.tiny_models import FAMILIES, VOCAB_SIZE


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_agrees_with_the_bridge_offline(family, model_of, offline):
    """All sites and the logits agree far within the limits, with no network and no tokenizer."""
    model = model_of(family)
    parity = check_parity(model, find_sites(model), some_prompts(), 64)
    assert parity.prompts == 16
    assert 0 < parity.resid < gate.PARITY_RTOL / 3
    assert parity.terms is None or parity.terms < gate.TERM_RTOL / 30
    assert parity.logits < gate.PARITY_RTOL
    assert (parity.identity is None) == (family == "opt_post_ln")
    assert parity.identity is None or parity.identity < gate.IDENTITY_RTOL / 10


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gate_leaves_the_model_as_it_was(family, model_of):
    """The bridge wants eager attention and puts its own modules in: it gets a copy."""
    model = model_of(family)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    kinds = [type(module) for module in model.modules()]
    check_parity(model, find_sites(model), some_prompts(4), 64)
    assert model.config._attn_implementation == "sdpa"
    assert [type(module) for module in model.modules()] == kinds
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.requires_grad for p in model.parameters())


def test_a_twin_made_from_a_configuration_passes(offline):
    """An untrained twin has neither a name nor a list of architectures in its configuration."""
    config = hf.LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        twin = hf.AutoModelForCausalLM.from_config(config).eval()
    assert twin.config.architectures is None
    assert check_parity(twin, find_sites(twin), some_prompts(4), 64).resid < gate.PARITY_RTOL


def test_the_sample_is_spread_over_the_lengths():
    """Shortest and longest prompts are always in, and never more than 16."""
    prompts = random_prompts([7] * 40 + [1] + [30])
    chosen = gate._spread(prompts)
    assert len(chosen) == len(set(chosen)) == 16
    assert {40, 41} <= set(chosen)
    assert gate._spread(random_prompts([4])) == [0]


def shifted(sites):
    """Listen one block too late."""
    return dataclasses.replace(sites, blocks=(*sites.blocks[1:], sites.blocks[0]))


def swapped(sites):
    """Take one sublayer for the other."""
    return dataclasses.replace(sites, attn=sites.mlp, mlp=sites.attn)


def before_the_post_norm(sites):
    """Take Gemma's sublayers themselves, not the norms after them."""
    return dataclasses.replace(sites, attn=tuple(block.self_attn for block in sites.blocks))


@pytest.mark.parametrize(
    ("family", "wrong", "site"),
    [
        ("llama", shifted, "blocks.0.hook_resid_pre (layer 0)"),
        ("gpt_neox", swapped, "blocks.0.hook_attn_out (layer 0)"),
        ("gemma3", before_the_post_norm, "blocks.0.hook_attn_out (layer 0)"),
    ],
)
def test_a_hook_in_the_wrong_place_is_named(family, wrong, site, model_of, monkeypatch, tmp_path):
    """The error names site, layer and the largest relative error; no store is begun."""
    monkeypatch.setattr(runs, "find_sites", lambda model: wrong(find_sites(model)))
    with pytest.raises(
        ParityError, match=re.escape(site) + ": largest relative error .* wanted at most (1e-05|0.0001)"
    ):
        capture(
            model_of(family),
            None,
            some_prompts(),
            CaptureRequest(),
            root=tmp_path,
            model_digest="m",
            provenance={},
        )
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_terms_that_do_not_add_up_are_refused_even_if_the_reference_agrees(model_of, monkeypatch):
    """Should the bridge one day mean something else by attn_out, the identity still holds the gate shut."""
    model = model_of("gemma3")
    sites = before_the_post_norm(find_sites(model))
    monkeypatch.setattr(gate, "_bridge", lambda model, sites, sample: gate._fast(model, sites, sample, 1))
    with pytest.raises(ParityError, match=r"resid_pre \+ attn_out \+ mlp_out of block 0 is not the stream"):
        check_parity(model, sites, some_prompts(), 1)
    assert check_parity(model, find_sites(model), some_prompts(), 1).resid == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_reading_the_last_column_is_caught(family, model_of, monkeypatch):
    """h[:, -1] under right padding, the classical mistake, does not pass."""
    real = forwards.Tap.aim

    def last_column(self, buffers, rows, lengths):
        real(self, buffers, rows, [max(lengths)] * len(lengths))

    monkeypatch.setattr(forwards.Tap, "aim", last_column)
    with pytest.raises(ParityError, match="hook_"):
        check_parity(model_of(family), find_sites(model_of(family)), some_prompts(), 256)


def test_a_wrong_head_is_caught(model_of, monkeypatch):
    """Logits that are scaled, as a forgotten soft cap would leave them, don't pass."""
    monkeypatch.setattr(gate, "last_logits", lambda *args: forwards.last_logits(*args) * 1.01)
    with pytest.raises(ParityError, match="the last token's logits"):
        check_parity(model_of("llama"), find_sites(model_of("llama")), some_prompts(), 64)


def test_a_reference_that_writes_to_the_weights_is_caught(model_of, monkeypatch):
    """Should the bridge ever fold or centre in place, the shared weights would change: it is noticed."""
    boot = gate._boot

    def centring(model):
        bridge = boot(model)
        with torch.no_grad():
            for parameter in bridge.parameters():
                parameter.mul_(1.0)
        return bridge

    monkeypatch.setattr(gate, "_boot", centring)
    with pytest.raises(ParityError, match="changed the model's own weights"):
        check_parity(model_of("llama"), find_sites(model_of("llama")), some_prompts(4), 64)


def tiny(config_class: str, **more):
    """Make a tiny model of another architecture."""
    shape = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return hf.AutoModelForCausalLM.from_config(getattr(hf, config_class)(**shape | more)).eval()


@pytest.mark.parametrize(
    ("config_class", "more"),
    [
        ("MistralConfig", {"num_key_value_heads": 2}),
        ("Qwen3Config", {"num_key_value_heads": 2, "head_dim": 8}),
        ("Gemma2Config", {"num_key_value_heads": 2, "head_dim": 8, "final_logit_softcapping": 0.5}),
        ("Olmo2Config", {"num_key_value_heads": 2}),
    ],
)
def test_an_unlisted_architecture_is_found_by_its_shape(config_class, more, tmp_path):
    """Blocks and sublayers are found generically, and the gate vouches for them."""
    request = CaptureRequest(stacks=("resid", "attn_out", "mlp_out"))
    store = capture(
        tiny(config_class, **more),
        None,
        some_prompts(8),
        request,
        root=tmp_path,
        model_digest="m",
        provenance={},
    )
    assert store.manifest.model.family.startswith("generic:")
    assert store.manifest.parity["identity_max_relative_error"] < 1e-6


def test_an_architecture_without_a_reference_is_refused(tmp_path):
    """Where transformer-lens has no bridge there is no oracle: the reason is told, nothing captured."""
    with pytest.raises(
        ParityError, match=r"PersimmonForCausalLM: transformer-lens gives no reference \(ValueError"
    ):
        capture(
            tiny("PersimmonConfig"),
            None,
            some_prompts(8),
            CaptureRequest(),
            root=tmp_path,
            model_digest="m",
            provenance={},
        )


def test_a_model_without_blocks_is_refused():
    """A state-space model of another kind has layers, but not these."""
    model = tiny("LlamaConfig")
    model.config.num_hidden_layers = 7
    with pytest.raises(ActivationsError, match="the configuration says 7 blocks, the model has 2"):
        find_sites(model)


def test_unknown_sublayers_leave_the_stream():
    """Blocks whose sublayers have no known name still have a stream; their terms are refused."""
    model = tiny("MistralConfig", num_key_value_heads=2)
    for block in model.model.layers:
        block.mixer = block.self_attn
        del block.self_attn
    sites = find_sites(model)
    assert sites.stacks == ("resid",)
    with pytest.raises(ActivationsError, match="no attention and MLP under a name that is known"):
        sites.require(("resid", "attn_out"))


def test_site_names_are_in_depth_order():
    """L + 1 residuals, the last being what leaves the last block, and L of each term."""
    assert site_names(("resid", "mlp_out"), 2) == (
        "blocks.0.hook_resid_pre",
        "blocks.1.hook_resid_pre",
        "blocks.1.hook_resid_post",
        "blocks.0.hook_mlp_out",
        "blocks.1.hook_mlp_out",
    )


def test_the_gate_stands_before_every_capture(model_of, monkeypatch, tmp_path):
    """Beginning and resuming both ask the gate; a complete store does not run the model at all."""
    asked = []
    monkeypatch.setattr(gate, "check_parity", lambda *args: asked.append(1) or check_parity(*args))

    def go(progress=None):
        return capture(
            model_of("gpt2"),
            None,
            some_prompts(),
            CaptureRequest(block_rows=8),
            root=tmp_path,
            model_digest="m",
            provenance={},
            progress=progress,
        )

    class Stop:
        def start(self, total, label):  # noqa: ARG002 (the protocol names it)
            self.label = label

        def advance(self, n=1):
            if n and self.label == "capture":
                raise KeyboardInterrupt

        def finish(self):
            pass

    with pytest.raises(KeyboardInterrupt):
        go(Stop())
    go()
    assert len(asked) == 2
    monkeypatch.setattr(fills, "last_logits", None)
    go()
    assert len(asked) == 2
