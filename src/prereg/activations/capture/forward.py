"""One forward pass of a batch: hooks copy the wanted rows, the LM head sees the last token only.

The body runs without the LM head: on small models the head over all positions costs more than the blocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from prereg.errors import ActivationsError

if TYPE_CHECKING:
    from prereg.activations.capture.sites import Sites
    from prereg.activations.store.request import Position, Stack

__all__ = ["Tap", "last_logits", "readout", "require_usable", "torch_threads"]

_Hook = Callable[[torch.Tensor], None]


@contextlib.contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Compute with this many threads, then put the caller's number back."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Tap:
    """Hooks on the chosen sites; while entered, each forward pass fills the buffers.

    Parameters
    ----------
    sites, stacks
        Where to listen.
    position
        ``last`` takes each prompt's last token, ``all`` every token that isn't padding.
    """

    def __init__(self, sites: Sites, stacks: Sequence[Stack], position: Position) -> None:
        sites.require(tuple(stacks))
        self._sites, self._stacks, self._position = sites, tuple(stacks), position
        self._handles: list[Any] = []
        self._buffers: Mapping[str, torch.Tensor] = {}
        self._taken = self._rows = torch.empty(0, dtype=torch.int64)

    def __enter__(self) -> Tap:
        last = len(self._sites.blocks) - 1
        for layer, block in enumerate(self._sites.blocks):
            if "resid" in self._stacks:
                self._handles.append(
                    block.register_forward_pre_hook(_input_to(self._keep("resid", layer)), with_kwargs=True)
                )
                if layer == last:
                    self._handles.append(
                        block.register_forward_hook(_output_to(self._keep("resid", layer + 1)))
                    )
        for stack, modules in (("attn_out", self._sites.attn), ("mlp_out", self._sites.mlp)):
            for layer, module in enumerate(modules or ()):
                if stack in self._stacks:
                    self._handles.append(module.register_forward_hook(_output_to(self._keep(stack, layer))))
        return self

    def __exit__(self, *_: object) -> None:
        while self._handles:
            self._handles.pop().remove()

    def aim(self, buffers: Mapping[str, torch.Tensor], rows: Sequence[int], lengths: Sequence[int]) -> None:
        """Say where the next batch goes.

        Parameters
        ----------
        buffers
            Per stack a float32 tensor (layers, rows, d_model) on the CPU.
        rows
            Per prompt of the batch, the first row that it fills: one for ``last``, its length for ``all``.
        lengths
            Per prompt of the batch, its number of tokens.
        """
        width = max(lengths)
        if self._position == "last":
            taken = [b * width + length - 1 for b, length in enumerate(lengths)]
            filled = list(rows)
        else:
            taken = [b * width + t for b, length in enumerate(lengths) for t in range(length)]
            filled = [row + t for row, length in zip(rows, lengths, strict=True) for t in range(length)]
        self._buffers, self._taken, self._rows = buffers, torch.tensor(taken), torch.tensor(filled)

    def _keep(self, stack: str, layer: int) -> _Hook:
        def keep(hidden: torch.Tensor) -> None:
            # OPT's MLP sees (batch * token, d_model): the flat view is right for both shapes.
            flat = hidden.reshape(-1, hidden.shape[-1])
            values = flat.index_select(0, self._taken.to(flat.device))
            self._buffers[stack][layer].index_copy_(0, self._rows, values.to("cpu", torch.float32))

        return keep


def _input_to(keep: _Hook) -> Callable[..., None]:
    def hook(_module: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        keep(args[0] if args else kwargs["hidden_states"])

    return hook


def _output_to(keep: _Hook) -> Callable[..., None]:
    def hook(_module: object, _args: object, output: Any) -> None:
        keep(output[0] if isinstance(output, tuple) else output)

    return hook


def last_logits(model: Any, batch: Sequence[Sequence[int]]) -> torch.Tensor:
    """Run a batch, right-padded, and return the logits after each prompt's last token, (batch, vocabulary).

    Padding stands to the right and is masked, so that a prompt's activations are those it has alone.
    """
    lengths = [len(ids) for ids in batch]
    inputs = torch.zeros((len(batch), max(lengths)), dtype=torch.int64)
    mask = torch.zeros_like(inputs)
    for row, ids in enumerate(batch):
        inputs[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
    device = model.device
    hidden = model.base_model(input_ids=inputs.to(device), attention_mask=mask.to(device), use_cache=False)[0]
    last = hidden[torch.arange(len(batch), device=device), torch.tensor(lengths, device=device) - 1]
    logits: torch.Tensor = model.get_output_embeddings()(last)
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    return logits if cap is None else torch.tanh(logits / cap) * cap


def readout(logits: torch.Tensor, answers: Sequence[int] | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the top-1 tokens, (batch,) int64, and the answers' log-probabilities, (batch,) float32 nats."""
    top1 = logits.argmax(dim=-1).cpu()
    if answers is None:
        return top1, None
    chosen = logits.gather(1, torch.tensor(answers, device=logits.device)[:, None])[:, 0]
    return top1, (chosen - logits.logsumexp(dim=-1)).float().cpu()


def require_usable(model: Any, longest: int, largest_id: int) -> None:
    """Refuse a model that can't give evidence, or prompts that it can't take.

    Raises
    ------
    ActivationsError
        If it is in training mode, isn't float32 or has no LM head, or the prompts don't fit it.
    """
    name = type(model).__name__
    if model.training:
        raise ActivationsError(
            f"{name} is in training mode: dropout would add noise", remedy="call model.eval() first"
        )
    kinds = {str(p.dtype).removeprefix("torch.") for p in model.parameters()}
    if kinds != {"float32"}:
        raise ActivationsError(
            f"{name} computes in {', '.join(sorted(kinds))}, wanted float32: half precision errs by some 3e-2",
            remedy='load the model with dtype="float32"',
        )
    if model.get_output_embeddings() is None:
        raise ActivationsError(f"{name} has no LM head", remedy="load it as AutoModelForCausalLM")
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and longest > limit:
        raise ActivationsError(f"the longest prompt has {longest} tokens, {name} takes {limit}")
    size = model.get_input_embeddings().num_embeddings
    if largest_id >= size:
        raise ActivationsError(
            f"token id {largest_id} is outside of {name}'s vocabulary of {size}",
            remedy="tokenise the prompts with this model's own tokenizer",
        )
