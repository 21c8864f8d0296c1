"""GGUF to safetensors, once: dequantised to float32, with config and tokenizer, all reproducible.

transformers reads the file. Three things that it leaves open are settled here. Marks of quantisation
are taken off, or nothing could be saved. The initial scale of the weights, which a GGUF header does not
carry, comes from the registry or is left out, never from a library's default. The tokenizer's splitting
rule is the one that the header names, and its vocabulary is compared with the header's, token by token.
"""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any

from prereg.activations.models.quiet import quiet_transformers
from prereg.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from prereg.workers import Progress

__all__ = ["convert_gguf"]

VOLATILE = ("_name_or_path", "_model_name_or_path", "transformers_version", "quantization_config")
"""Keys that speak of the conversion, not of the model: they would change its digest."""
VOLATILE_TOKENIZER = ("is_local", "local_files_only", "name_or_path", "gguf_file")
QUANTISED = ("hf_quantizer", "is_quantized", "quantization_method")
STEPS = 4
_ANEW = "get the file anew, or use the model's safetensors repository"


def convert_gguf(gguf: Path, target: Path, *, initializer_range: float | None, progress: Progress) -> None:
    """Write config.json, model.safetensors and the tokenizer of a GGUF file into `target`.

    Parameters
    ----------
    gguf
        The file.
    target
        An existing empty folder. The same file and library versions give the same bytes.
    initializer_range
        Of the published config; None leaves it out, and then no untrained twin can be drawn.
    progress
        Counts four steps.

    Raises
    ------
    ModelError
        Where the file can't be read, or names a tokenizer that isn't known here.
    """
    progress.start(STEPS, f"convert {gguf.name}")
    try:
        header = _Header.read(gguf)
        progress.advance()
        model = _read_model(gguf)
        progress.advance()
        with quiet_transformers():
            model.save_pretrained(target)
        (target / "generation_config.json").unlink(missing_ok=True)
        (target / "model.safetensors").chmod(0o644)
        _settle_config(target, initializer_range)
        progress.advance()
        _write_tokenizer(gguf, target, header)
        progress.advance()
    finally:
        progress.finish()


class _Header:
    """What the GGUF header says of the tokenizer."""

    def __init__(self, model: str, pre: str, tokens: tuple[str, ...]) -> None:
        self.model = model
        self.pre = pre
        self.tokens = tokens

    @classmethod
    def read(cls, gguf: Path) -> _Header:
        from gguf import GGUFReader

        try:
            fields = GGUFReader(str(gguf)).fields
            values = [fields[f"tokenizer.ggml.{key}"].contents() for key in ("model", "tokens")]
            pre = fields["tokenizer.ggml.pre"].contents() if "tokenizer.ggml.pre" in fields else ""
        except Exception as error:  # the reader raises whatever a damaged file makes it raise
            raise ModelError(f"{gguf.name} is not a readable GGUF file: {error!r}", remedy=_ANEW) from error
        return cls(str(values[0]), str(pre), tuple(values[1]))


def _read_model(gguf: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    try:
        # The bar that counts tensors asks nobody whether it is wanted.
        with quiet_transformers(), contextlib.redirect_stderr(io.StringIO()):
            model = AutoModelForCausalLM.from_pretrained(
                gguf.parent,
                gguf_file=gguf.name,
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
            )
    except Exception as error:
        raise ModelError(f"transformers can't read {gguf.name}: {error!r}", remedy=_ANEW) from error
    for name in QUANTISED:
        with contextlib.suppress(AttributeError):
            delattr(model, name)
    with contextlib.suppress(AttributeError):
        del model.config.quantization_config
    return model


def _settle_config(target: Path, initializer_range: float | None) -> None:
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    for key in (*VOLATILE, "initializer_range", "init_std"):
        config.pop(key, None)
    if initializer_range is not None:
        config["initializer_range"] = initializer_range
    _write(target / "config.json", config)


def _write_tokenizer(gguf: Path, target: Path, header: _Header) -> None:
    from transformers import AutoTokenizer

    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(
                gguf.parent, gguf_file=gguf.name, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        raise ModelError(
            f"transformers can't read the tokenizer of {gguf.name}: {error!r}", remedy=_ANEW
        ) from error
    _split_as_published(tokenizer.backend_tokenizer, header)
    vocabulary = tokenizer.get_vocab()
    spelled = [_as_spelled(token, header) for token in header.tokens]
    wrong = [i for i, token in enumerate(spelled) if vocabulary.get(token) != i]
    if wrong:
        raise ModelError(
            f"{gguf.name}: {len(wrong)} tokens are not at the ids that the header gives, the first is "
            f"{header.tokens[wrong[0]]!r} at {wrong[0]}",
            remedy="use the model's safetensors repository",
        )
    tokenizer.save_pretrained(target)
    settings = json.loads((target / "tokenizer_config.json").read_text(encoding="utf-8"))
    for key in VOLATILE_TOKENIZER:
        settings.pop(key, None)
    _write(target / "tokenizer_config.json", settings)


def _as_spelled(token: str, header: _Header) -> str:
    """Write a token as the tokenizer does: a header of this kind holds runs of spaces bare."""
    return token.replace(" ", "\u2581") if header.model == "llama" else token


def _split_as_published(backend: Any, header: _Header) -> None:
    """Set the rule that splits text before merging, by the name that the header gives it.

    transformers assumes GPT-2's rule for every byte-level tokenizer. SmolLM's splits digits first:
    without it 1999 becomes one token that the model has never been trained on.
    """
    from tokenizers import pre_tokenizers

    kind = (header.model, header.pre)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
    if kind in (("gpt2", "gpt-2"), ("gpt2", "gpt2")):
        backend.pre_tokenizer = gpt2
    elif kind == ("gpt2", "smollm"):
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, gpt2])
    elif kind not in (("llama", "default"), ("llama", "")):
        raise ModelError(
            f"the GGUF file names a tokenizer of kind {kind[0]!r} that splits text by the rule "
            f"{kind[1]!r}, which is not known here; a wrong rule gives wrong tokens silently",
            remedy="use the model's safetensors repository",
        )


def _write(path: Path, value: object) -> None:
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
