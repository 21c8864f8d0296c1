"""A tiny GGUF file, and wheels that carry it, as a package index would serve them."""

from __future__ import annotations

import hashlib
import zipfile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

D_MODEL, N_LAYERS, HEADS, WIDTH = 32, 2, 4, 64
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def byte_alphabet() -> list[str]:
    """Printable stand-ins for the 256 bytes, in a fixed order."""
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def write_gguf(path: Path, *, pre: str = "smollm", seed: int = 0) -> dict[str, np.ndarray]:
    """Write a two-block Llama model and return its arrays by GGUF name."""
    import gguf

    rng = np.random.default_rng(seed)
    tokens = [*SPECIALS, *byte_alphabet(), "19", "\u0120t", "\u0120th"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(N_LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(D_MODEL)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS)))
    writer.add_token_merges(["1 9", "\u0120 t", "\u0120t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    arrays = {"token_embd.weight": (len(tokens), D_MODEL), "output_norm.weight": (D_MODEL,)}
    for block in range(N_LAYERS):
        arrays |= {
            f"blk.{block}.attn_norm.weight": (D_MODEL,),
            f"blk.{block}.attn_q.weight": (D_MODEL, D_MODEL),
            f"blk.{block}.attn_k.weight": (D_MODEL, D_MODEL),
            f"blk.{block}.attn_v.weight": (D_MODEL, D_MODEL),
            f"blk.{block}.attn_output.weight": (D_MODEL, D_MODEL),
            f"blk.{block}.ffn_norm.weight": (D_MODEL,),
            f"blk.{block}.ffn_gate.weight": (WIDTH, D_MODEL),
            f"blk.{block}.ffn_up.weight": (WIDTH, D_MODEL),
            f"blk.{block}.ffn_down.weight": (D_MODEL, WIDTH),
        }
    written = {}
    for name, shape in arrays.items():
        written[name] = (0.1 * rng.standard_normal(shape)).astype(np.float32)
        writer.add_tensor(name, written[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written


def write_wheel(folder: Path, package: str, member: str, content: bytes) -> Path:
    """Write an installable wheel of version 1.0 that holds one data file; same bytes each time."""
    name = package.replace("-", "_")
    info = f"{name}-1.0.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, data in files.items():
            archive.writestr(zipfile.ZipInfo(inner), data)
    return path


def part_table(wheel: Path, package: str, member: str) -> dict[str, object]:
    """Describe a wheel as the registry does."""
    content = wheel.read_bytes()
    return {
        "package": package,
        "version": "1.0",
        "file": wheel.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "member": member,
    }
