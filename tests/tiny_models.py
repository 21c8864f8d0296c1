"""Tiny randomly initialised checkpoints of every architecture family that prereg supports.

A checkpoint folder looks like a hub snapshot: config.json, model.safetensors, tokenizer files.
Weights depend on the seed alone, so two calls give the same bytes. The tokenizer reads bytes: any
text has ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FAMILIES", "VOCAB_SIZE", "make_checkpoint"]

FAMILIES = ("gpt_neox", "gpt2", "opt", "opt_post_ln", "llama", "gemma3")
"""`opt_post_ln` is opt-350m's shape: norms after the sublayers, projections around the blocks."""

SPECIALS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
VOCAB_SIZE = 256 + len(SPECIALS)
POSITIONS = 64


def make_checkpoint(family: str, folder: Path, seed: int = 0, n_layers: int = 3, d_model: int = 32) -> Path:
    """Write a tiny checkpoint of `family` into `folder` (created) and return the folder."""
    import torch
    from transformers import AutoModelForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    config = _config(family, n_layers, d_model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
        _wake_up_biases(model)
    model.eval().save_pretrained(folder)
    _tokenizer(adds_bos=family in ("opt", "opt_post_ln", "gemma3")).save_pretrained(folder)
    return folder


def _wake_up_biases(model: Any) -> None:
    """Move biases and norm weights off 0 and 1, or a dropped bias would go unnoticed."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))


def _config(family: str, n_layers: int, d_model: int) -> Any:
    import transformers as hf

    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    common = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": d_model,
        "num_hidden_layers": n_layers,
        "num_attention_heads": 4,
        "max_position_embeddings": POSITIONS,
        **ids,
    }
    if family == "gpt_neox":
        return hf.GPTNeoXConfig(
            **common, intermediate_size=4 * d_model, initializer_range=0.1, rotary_pct=0.25
        )
    if family == "gpt2":
        return hf.GPT2Config(
            vocab_size=VOCAB_SIZE,
            n_embd=d_model,
            n_layer=n_layers,
            n_head=4,
            n_positions=POSITIONS,
            initializer_range=0.1,
            **ids,
        )
    if family in ("opt", "opt_post_ln"):
        post = family == "opt_post_ln"
        return hf.OPTConfig(
            **common,
            ffn_dim=4 * d_model,
            init_std=0.1,
            do_layer_norm_before=not post,
            word_embed_proj_dim=d_model // 2 if post else d_model,
        )
    if family == "llama":
        return hf.LlamaConfig(
            **common,
            intermediate_size=3 * d_model,
            num_key_value_heads=2,
            initializer_range=0.1,
        )
    if family == "gemma3":
        return hf.Gemma3TextConfig(
            **common,
            intermediate_size=3 * d_model,
            num_key_value_heads=2,
            head_dim=d_model // 4,
            initializer_range=0.1,
            sliding_window=8,
        )
    raise ValueError(f"no tiny checkpoint of family {family!r}; there are {', '.join(FAMILIES)}")


def _tokenizer(*, adds_bos: bool) -> Any:
    """Byte-level tokenizer without merges: one token a byte, special tokens first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate((*SPECIALS.values(), *alphabet))}
    raw = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    if adds_bos:
        raw.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", vocab["<s>"])]
        )
    return PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=POSITIONS, **SPECIALS)
