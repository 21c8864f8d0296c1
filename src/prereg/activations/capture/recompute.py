"""Compute a sample of a store again, from the model, and compare: bytes may be intact and still be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prereg.activations.capture.run import unwrap
from prereg.activations.capture.sites import find_sites, site_name
from prereg.activations.store.request import STACKS
from prereg.errors import ActivationsError, StoreCorrupt

if TYPE_CHECKING:
    from prereg.activations.store.reader import Store
    from prereg.activations.store.request import Position, Stack, TokenizedPrompts

__all__ = ["RecomputeReport", "recompute"]

_FLOAT16_RTOL = 1e-3
# As in the parity gate: a term can be small beside the values that it sums.
_TERM_RTOL = 1e-4
_LOGPROB_ATOL = 1e-4


@dataclass(frozen=True, slots=True)
class RecomputeReport:
    """Which prompts were computed again, and the largest relative error over all their sites."""

    prompts: tuple[str, ...]
    max_relative_error: float
    max_logprob_error: float | None


def recompute(
    store: Store,
    loaded_or_model: Any,
    *,
    model_digest: str | None = None,
    sample: int = 16,
    seed: int = 0,
    rtol: float = 1e-5,
) -> RecomputeReport:
    """Run a random sample of the stored prompts again, each alone, and compare with the store.

    Parameters
    ----------
    store
        A finished store; it carries its own prompts.
    loaded_or_model
        The model that it was captured from.
    model_digest
        That model's identity; given, it must be the store's.
    sample
        Number of prompts, drawn without replacement under `seed`; all of them, if there are fewer.
    rtol
        Largest |again - stored| / |again| (Euclidean norms over d_model) per site and row. Not bits: the
        stored values come from other batch shapes. attn_out and mlp_out are held to 1e-4 at the least,
        a float16 store to 1e-3, its rounding.

    Raises
    ------
    ActivationsError
        If `sample` is below 1, or `model_digest` is not the store's.
    StoreCorrupt
        If a value differs: names the site, the prompt and the error.
    """
    from prereg.activations.capture.forward import torch_threads

    if sample < 1:
        raise ActivationsError(f"sample must be at least 1, found {sample}")
    wanted = store.manifest.key_fields["model"]
    if model_digest is not None and model_digest != wanted:
        raise ActivationsError(f"the store was captured from model {wanted}, this one is {model_digest}")
    prompts = store.prompts()
    n = len(prompts.ids)
    chosen = np.sort(np.random.default_rng(seed).choice(n, size=min(sample, n), replace=False))
    model = unwrap(loaded_or_model)
    check = _Check(store, prompts, float(rtol))
    with torch_threads(store.manifest.plan.threads):
        errors = [check.prompt(model, index) for index in chosen.tolist()]
    return RecomputeReport(
        tuple(prompts.prompt_ids[i] for i in chosen.tolist()),
        max(error for error, _ in errors),
        None if prompts.answer_ids is None else max(error for _, error in errors),
    )


class _Check:
    """The stored side of the comparison, opened once."""

    def __init__(self, store: Store, prompts: TokenizedPrompts, rtol: float) -> None:
        fields = store.manifest.key_fields
        self.prompts, self.n_layers = prompts, store.n_layers
        self.position: Position = "all" if fields["position"] == "all" else "last"
        self.limit = max(rtol, _FLOAT16_RTOL) if fields["dtype"] == "float16" else rtol
        self.asked: tuple[Stack, ...] = tuple(s for s in STACKS if store.manifest.array(s))
        self.stacks: dict[str, np.memmap] = {stack: store.stack(stack) for stack in self.asked}
        self.offsets, self.top1, self.logprob = store.offsets, store.top1, store.answer_logprob

    def prompt(self, model: Any, index: int) -> tuple[float, float]:
        """Return the largest relative error of one prompt's sites, and the error of its log-probability."""
        label = repr(self.prompts.prompt_ids[index])
        again, logits = self._run(model, self.prompts.ids[index])
        worst = 0.0
        for stack, values in again.items():
            errors = _relative(values, np.asarray(self.stacks[stack][:, self._rows(index)], np.float32))
            layer = int(errors.argmax())
            limit = self.limit if stack == "resid" else max(self.limit, _TERM_RTOL)
            if not errors[layer] <= limit:
                site = site_name(stack, layer, self.n_layers)
                raise _differs(f"{site} of prompt {label}", float(errors[layer]), limit, "relative")
            worst = max(worst, float(errors[layer]))
        # The logit of the stored token, not the token: two that tie to the last bits may change places.
        token = int(self.top1[index])
        gap = float(logits.max() - logits[token]) if 0 <= token < len(logits) else float("inf")
        if not gap <= _LOGPROB_ATOL:
            raise _differs(f"top1 of prompt {label}", gap, _LOGPROB_ATOL, "nats below the best")
        return worst, self._logprob_error(index, label, logits)

    def _logprob_error(self, index: int, label: str, logits: np.ndarray) -> float:
        if self.logprob is None or self.prompts.answer_ids is None:
            return 0.0
        again = logits[self.prompts.answer_ids[index]] - np.logaddexp.reduce(logits)
        error = abs(float(self.logprob[index] - again))
        if not error <= _LOGPROB_ATOL:
            raise _differs(f"answer_logprob of prompt {label}", error, _LOGPROB_ATOL, "nats")
        return error

    def _rows(self, index: int) -> slice:
        if self.position == "last":
            return slice(index, index + 1)
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    def _run(self, model: Any, ids: tuple[int, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        import torch

        from prereg.activations.capture.forward import Tap, last_logits

        rows = 1 if self.position == "last" else len(ids)
        buffers: dict[str, torch.Tensor] = {
            stack: torch.empty((len(a), rows, a.shape[2])) for stack, a in self.stacks.items()
        }
        with Tap(find_sites(model), self.asked, self.position) as tap, torch.inference_mode():
            tap.aim(buffers, [0], [len(ids)])
            logits = last_logits(model, [ids])[0].double().cpu().numpy()
        return {stack: buffer.numpy() for stack, buffer in buffers.items()}, logits


def _relative(again: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return per layer the largest relative error over the rows; NaN (a site of zeros) is within no limit."""
    distance = np.linalg.norm(again - stored, axis=-1)
    norms = np.linalg.norm(again, axis=-1)
    errors: np.ndarray = np.where(distance == 0, 0.0, distance / np.where(norms == 0, np.nan, norms)).max(
        axis=1
    )
    return errors


def _differs(what: str, found: float, limit: float, unit: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{what}: computed again it differs by {found:.3g} ({unit}), wanted at most {limit:g}",
        remedy="check that this is the model of the store; if it is, remove the store and capture again",
    )
