"""The readout token's way through the later blocks, with its residual stream altered on the way.

The prefix of a prompt is read once and its keys and values are kept. An intervention after block l at the
readout position leaves the prefix as it is, so only the readout token is sent on, through blocks l+1 to L-1,
the final norm and the head. It is the model's own forward pass on one token: positions, masks, norms and soft
caps are its own. Blocks 0 to l are replaced meanwhile by one that hands on the altered stream. Prompts of one
length go together, so nothing is padded. Our own definition; equal to a whole forward pass with a hook to rounding.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from prereg.activations.capture.sites import find_sites
from prereg.analysis.frame import Floats, Indices
from prereg.errors import AnalysisError

__all__ = ["Continuation", "Hands", "Readout", "handing_on", "log_probabilities"]


@dataclass(frozen=True, slots=True, eq=False)
class Readout:
    """b prompts of one length, read by the model as they are.

    Parameters
    ----------
    tokens
        (b, 1) the readout tokens.
    answers
        (b,) the answers' tokens.
    prefix
        Keys and values of the tokens before them.
    after
        For each wanted update l, (b, d_model): v[l+1] of the readout token.
    in_tuples
        Whether this architecture's blocks return the stream as the first of a tuple.
    log_probability
        (b,) of the answer, nats.
    """

    tokens: torch.Tensor
    answers: torch.Tensor
    prefix: Any
    after: Mapping[int, torch.Tensor]
    in_tuples: bool
    log_probability: Floats


class Continuation:
    """A causal language model whose readout token can be stopped after a block, altered, and sent on.

    Parameters
    ----------
    model
        A transformers causal language model in eval mode. It is as before after each call.
    batch_rows
        The largest number of altered streams that go through it together.
    """

    def __init__(self, model: Any, batch_rows: int) -> None:
        self._model = model
        self._blocks = find_sites(model).blocks
        self._batch_rows = batch_rows
        # transformers 5 renamed it on the way; the old name still works there, with a warning.
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    @property
    def n_layers(self) -> int:
        """Number of blocks."""
        return len(self._blocks)

    def read(self, ids: Sequence[Sequence[int]], answers: Sequence[int], updates: Sequence[int]) -> Readout:
        """Read prompts of one length.

        Parameters
        ----------
        ids
            Token ids of b prompts.
        answers
            The b answers' tokens.
        updates
            After which blocks the stream is kept.

        Raises
        ------
        AnalysisError
            If lengths differ, or a prompt is empty.
        """
        if len({len(one) for one in ids}) != 1 or not ids[0]:
            raise AnalysisError(
                f"prompts of {sorted({len(one) for one in ids})} tokens; wanted one length, above 0"
            )
        device = self._model.device
        tokens = torch.tensor([list(one) for one in ids], device=device)
        wanted = torch.tensor(list(answers), device=device)
        with torch.inference_mode():
            prefix = self._read_prefix(tokens[:, :-1])
            outputs: dict[int, Any] = {}
            with self._listening(updates, outputs):
                logits = self._send(tokens[:, -1:], _rows_of(prefix, None, 0))
            after = {update: _hidden(output)[:, -1].clone() for update, output in outputs.items()}
            in_tuples = any(isinstance(output, tuple) for output in outputs.values())
            log_probability = _log_probability(logits, wanted)
        return Readout(tokens[:, -1:], wanted, prefix, after, in_tuples, log_probability)

    def resume(self, readout: Readout, update: int, owners: Indices, removed: Floats) -> Floats:
        """Send altered streams on from behind block `update`.

        Parameters
        ----------
        readout
            From `read`, with `update` among those kept.
        update
            l: what is altered is v[l+1].
        owners
            (r,) whose stream each row alters.
        removed
            (r, d_model) what is subtracted from it, raw units.

        Returns
        -------
        Floats
            (r,) log-probability of the answer, nats.
        """
        parts = [
            self._resume_batch(
                readout,
                update,
                owners[first : first + self._batch_rows],
                removed[first : first + self._batch_rows],
            )
            for first in range(0, len(owners), self._batch_rows)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def whole_pass(self, ids: Sequence[int], answer: int, update: int, removed: Floats) -> float:
        """Return the same number for one prompt by a whole forward pass with a hook, without any cache."""

        def alter(_module: object, _args: object, output: Any) -> Any:
            hidden = _hidden(output).clone()
            hidden[:, -1] -= torch.as_tensor(removed, dtype=hidden.dtype, device=hidden.device)
            return _as_output(hidden, output)

        tokens = torch.tensor([list(ids)], device=self._model.device)
        handle = self._blocks[update].register_forward_hook(alter)
        try:
            with torch.inference_mode():
                logits = self._model(input_ids=tokens, use_cache=False).logits[:, -1]
        finally:
            handle.remove()
        return float(_log_probability(logits, torch.tensor([answer], device=self._model.device))[0])

    def _resume_batch(self, readout: Readout, update: int, owners: Indices, removed: Floats) -> Floats:
        device = self._model.device
        rows = torch.as_tensor(owners, dtype=torch.int64, device=device)
        with torch.inference_mode():
            before = readout.after[update].index_select(0, rows)
            stream = before - torch.as_tensor(removed, device=device).to(before.dtype)
            cache = _rows_of(readout.prefix, rows, update + 1)
            with self._from_behind(update, stream, readout.in_tuples):
                logits = self._send(readout.tokens.index_select(0, rows), cache)
            return _log_probability(logits, readout.answers.index_select(0, rows))

    def _read_prefix(self, tokens: torch.Tensor) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache(config=self._model.config.get_text_config())
        if tokens.shape[1]:
            self._model.base_model(input_ids=tokens, use_cache=True, **{self._cache_name: cache})
        return cache

    def _send(self, tokens: torch.Tensor, cache: Any) -> torch.Tensor:
        output = self._model(input_ids=tokens, use_cache=True, **{self._cache_name: cache})
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    @contextlib.contextmanager
    def _listening(self, updates: Sequence[int], outputs: dict[int, Any]) -> Iterator[None]:
        def listener(update: int) -> Callable[..., None]:
            def keep(_module: object, _args: object, output: Any) -> None:
                outputs[update] = output

            return keep

        handles = [self._blocks[update].register_forward_hook(listener(update)) for update in updates]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextlib.contextmanager
    def _from_behind(self, update: int, stream: torch.Tensor, in_tuples: bool) -> Iterator[None]:
        """Let blocks 0 to `update` hand on `stream`, (b, d_model), whatever they are given."""
        hidden = stream[:, None]
        with handing_on(self._blocks[: update + 1], (hidden,) if in_tuples else hidden):
            yield


@contextlib.contextmanager
def handing_on(blocks: Sequence[Any], output: Any) -> Iterator[None]:
    """Let blocks return `output`, whatever they are given; afterwards they are as before."""

    def hand_on(*_args: object, **_kwargs: object) -> Any:
        return output

    replaced = [(block, block.__dict__.get("forward")) for block in blocks]
    try:
        for block, _ in replaced:
            block.forward = hand_on
        yield
    finally:
        for block, own in replaced:
            if own is None:
                block.__dict__.pop("forward", None)
            else:
                block.forward = own


class Hands:
    """A continuation for each thread that asks: their blocks are replaced at different times, their weights are shared.

    Threads of one OpenMP thread each keep every core busy where a product spread over the cores would wait for the
    slowest of them, and sums have one order, whatever the number of threads is.

    Parameters
    ----------
    model, batch_rows
        As for `Continuation`. The model itself is never altered.
    """

    def __init__(self, model: Any, batch_rows: int) -> None:
        self._model, self._batch_rows = model, batch_rows
        self._own = threading.local()
        self._lock = threading.Lock()

    @property
    def mine(self) -> Continuation:
        """The calling thread's."""
        if not hasattr(self._own, "way"):
            with self._lock:
                twin = copy.deepcopy(self._model, {id(p): p for p in self._model.parameters()})
            self._own.way = Continuation(twin, self._batch_rows)
        way: Continuation = self._own.way
        return way


def _rows_of(prefix: Any, rows: torch.Tensor | None, first: int) -> Any:
    """Return a cache of its own for one pass, with these rows of the prefix; None takes all of them.

    A pass adds to the cache that it is given, by new tensors in place of the old ones, so a shallow copy of each
    layer keeps the prefix as it is. Layers below `first` are not computed, only asked for their length.
    """
    cache = copy.copy(prefix)
    cache.layers = [copy.copy(layer) for layer in prefix.layers]
    for layer in cache.layers[first:]:
        if rows is not None and layer.get_seq_length() > 0:
            layer.keys = layer.keys.index_select(0, rows)
            layer.values = layer.values.index_select(0, rows)
    return cache


def _hidden(output: Any) -> torch.Tensor:
    hidden: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return hidden


def _as_output(hidden: torch.Tensor, like: Any) -> Any:
    return (hidden, *like[1:]) if isinstance(like, tuple) else hidden


def _log_probability(logits: torch.Tensor, answers: torch.Tensor) -> Floats:
    """Return the answers' log-probabilities, (r,) float64."""
    return log_probabilities(logits, answers[:, None])[:, 0]


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> Floats:
    """Return the log-probabilities of k tokens each, (r, vocabulary) and (r, k) to (r, k) float64, nats.

    The largest logit is subtracted first and the exponentials are summed in float64: a difference of two such numbers
    is then good to what float32 logits are.
    """
    shifted = logits.float() - logits.amax(dim=-1, keepdim=True).float()
    chosen = shifted.gather(1, tokens).double()
    found: Floats = (
        (chosen - shifted.exp_().sum(dim=-1, dtype=torch.float64, keepdim=True).log()).cpu().numpy()
    )
    return found
