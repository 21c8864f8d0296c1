"""Where in a transformers model the named sites are.

Names are transformer-lens'. The stream is the model's own: nothing is folded, nothing centred. The stream
entering block l is that block's own input, whatever the architecture does before it, and the stream that
leaves the last block is that block's own output, before the final norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prereg.errors import ActivationsError

if TYPE_CHECKING:
    from torch import nn

    from prereg.activations.store.request import Stack

__all__ = ["Sites", "find_sites", "site_name", "site_names"]


@dataclass(frozen=True, slots=True)
class _Family:
    """Dotted paths: the blocks in the model, and in a block what adds to the stream."""

    blocks: str
    attn: str
    mlp: str


# attn and mlp name the module whose output is added to the stream: on Gemma 3 a norm after the sublayer.
_FAMILIES = {
    "gpt_neox": _Family("gpt_neox.layers", "attention", "mlp"),
    "gpt2": _Family("transformer.h", "attn", "mlp"),
    "opt": _Family("model.decoder.layers", "self_attn", "fc2"),
    "llama": _Family("model.layers", "self_attn", "mlp"),
    "gemma3_text": _Family("model.layers", "post_attention_layernorm", "post_feedforward_layernorm"),
}
_GENERIC = (
    _Family("", "post_attention_layernorm", "post_feedforward_layernorm"),
    _Family("", "self_attn", "mlp"),
    _Family("", "attn", "mlp"),
    _Family("", "attention", "mlp"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """The modules to hook.

    Parameters
    ----------
    family
        The configuration's model_type; ``generic:<model_type>`` where the blocks were found by their shape.
    blocks
        The L blocks, in order.
    attn, mlp
        Per block the module whose output is ``hook_attn_out`` / ``hook_mlp_out``; None where undefined.
    undefined
        Why `attn` and `mlp` are None; None where they are not.
    d_model
        Width of the stream.
    """

    family: str
    blocks: tuple[nn.Module, ...]
    attn: tuple[nn.Module, ...] | None
    mlp: tuple[nn.Module, ...] | None
    undefined: str | None
    d_model: int

    @property
    def n_layers(self) -> int:
        """Number of blocks L."""
        return len(self.blocks)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that are defined for this model."""
        return ("resid",) if self.undefined else ("resid", "attn_out", "mlp_out")

    def require(self, stacks: tuple[Stack, ...]) -> None:
        """Refuse stacks that have no meaning in this model.

        Raises
        ------
        ActivationsError
            Names the stacks and says why.
        """
        missing = [stack for stack in stacks if stack not in self.stacks]
        if missing:
            raise ActivationsError(
                f"{', '.join(missing)} can't be captured from this {self.family} model: {self.undefined}",
                remedy='ask for stacks = ("resid",)',
            )


def find_sites(model: Any) -> Sites:
    """Find the blocks and sublayers of a transformers causal language model.

    Raises
    ------
    ActivationsError
        If the model has no list of ``num_hidden_layers`` blocks.
    """
    config = model.config.get_text_config()
    model_type, n_layers, d_model = config.model_type, config.num_hidden_layers, config.hidden_size
    family = _FAMILIES.get(model_type)
    if family is None:
        blocks, family = _search_blocks(model, n_layers)
        label = f"generic:{model_type}"
    else:
        blocks, label = tuple(model.get_submodule(family.blocks)), model_type
    if len(blocks) != n_layers:
        raise ActivationsError(
            f"{label}: the configuration says {n_layers} blocks, the model has {len(blocks)}"
        )
    undefined = _why_undefined(config, family)
    if undefined or family is None:
        return Sites(label, blocks, None, None, undefined, d_model)
    attn = tuple(block.get_submodule(family.attn) for block in blocks)
    mlp = tuple(block.get_submodule(family.mlp) for block in blocks)
    return Sites(label, blocks, attn, mlp, None, d_model)


def _why_undefined(config: Any, family: _Family | None) -> str | None:
    if family is None:
        return "its blocks have no attention and MLP under a name that is known here"
    if config.model_type == "opt" and not config.do_layer_norm_before:
        return (
            "its norms stand after the addition (do_layer_norm_before = false), so no sublayer's output "
            "is a term of the stream"
        )
    return None


def _search_blocks(model: Any, n_layers: int) -> tuple[tuple[nn.Module, ...], _Family | None]:
    from torch import nn

    lists = [
        (name.count("."), name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == n_layers
    ]
    if not lists:
        raise ActivationsError(
            f"{type(model).__name__}: no list of {n_layers} blocks found",
            remedy="use a decoder-only causal language model of transformers",
        )
    blocks = tuple(min(lists, key=lambda entry: entry[:2])[2])
    known = [
        family
        for family in _GENERIC
        if all(_has(block, family.attn) and _has(block, family.mlp) for block in blocks)
    ]
    return blocks, known[0] if known else None


def _has(block: nn.Module, name: str) -> bool:
    return name in dict(block.named_children())


def site_name(stack: str, layer: int, n_layers: int) -> str:
    """Return the transformer-lens name of a stack's layer; layer L of ``resid`` leaves the last block."""
    if stack != "resid":
        return f"blocks.{layer}.hook_{stack}"
    return f"blocks.{layer}.hook_resid_pre" if layer < n_layers else f"blocks.{n_layers - 1}.hook_resid_post"


def site_names(stacks: tuple[Stack, ...], n_layers: int) -> tuple[str, ...]:
    """Return the names of every site in `stacks`, stack by stack, in depth order."""
    return tuple(
        site_name(stack, layer, n_layers)
        for stack in stacks
        for layer in range(n_layers + (1 if stack == "resid" else 0))
    )
