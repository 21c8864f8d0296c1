"""The parity gate: before anything is captured, the fast path must agree with transformer-lens.

The reference is a TransformerBridge on the raw weights, one prompt at a time and without padding; the fast
path runs the same prompts in padded batches. So one comparison covers the hooks' places, the padding and
the LM head. The bridge changes the model that it is given: it gets a copy of the module tree that shares
the weights.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from prereg.activations.capture.forward import Tap, last_logits
from prereg.activations.capture.plan import fill_batches
from prereg.activations.capture.sites import site_name, site_names
from prereg.errors import ParityError

if TYPE_CHECKING:
    from prereg.activations.capture.sites import Sites
    from prereg.activations.store.request import TokenizedPrompts

__all__ = [
    "IDENTITY_RTOL",
    "LOGITS_RTOL",
    "PARITY_PROMPTS",
    "PARITY_RTOL",
    "TERM_RTOL",
    "Parity",
    "check_parity",
]

PARITY_PROMPTS = 16
PARITY_RTOL = 1e-5
"""Largest |fast - bridge| / |bridge| of the stream at any layer of any prompt (Euclidean over d_model)."""
TERM_RTOL = 1e-4
"""The same for attn_out and mlp_out. A term can be small beside the values that it sums: the two attention
kernels, which add in another order, then differ by up to 7e-6 on a trained model."""
IDENTITY_RTOL = 1e-5
"""Largest |resid_pre + attn_out + mlp_out - next resid| / |next resid|."""
LOGITS_RTOL = 1e-4
"""Largest |fast - bridge| / |bridge| over the last token's logits."""


@dataclass(frozen=True, slots=True)
class Parity:
    """What the gate measured, as largest relative errors, and where the stream's was; None where undefined."""

    prompts: int
    resid: float
    resid_site: str
    terms: float | None
    identity: float | None
    logits: float

    def record(self) -> dict[str, Any]:
        """Return the figures as the manifest keeps them."""
        return {
            "reference": "transformer-lens TransformerBridge",
            "prompts": self.prompts,
            "resid_max_relative_error": self.resid,
            "resid_site": self.resid_site,
            "terms_max_relative_error": self.terms,
            "identity_max_relative_error": self.identity,
            "logits_max_relative_error": self.logits,
        }


def check_parity(model: Any, sites: Sites, prompts: TokenizedPrompts, token_budget: int) -> Parity:
    """Compare the fast path with the bridge on up to 16 prompts, spread over the lengths.

    Raises
    ------
    ParityError
        If the bridge can't be made, a site or the logits differ, or a residual identity does not hold:
        names the site, its layer and the largest relative error.
    """
    sample = [prompts.ids[i] for i in _spread(prompts)]
    with torch.inference_mode():
        ours, logits = _fast(model, sites, sample, token_budget)
        reference, wanted_logits = _bridge(model, sites, sample)
    errors = {stack: _compare(sites, stack, ours[stack], wanted) for stack, wanted in reference.items()}
    resid, where = errors.pop("resid")
    identity = _identity(sites, ours)
    error = _relative(logits, wanted_logits)
    if not error.max().item() <= LOGITS_RTOL:
        raise _refusal(type(model).__name__, "the last token's logits", error.max().item(), LOGITS_RTOL)
    terms = max((value for value, _ in errors.values()), default=None)
    return Parity(len(sample), resid, where, terms, identity, error.max().item())


def _spread(prompts: TokenizedPrompts) -> list[int]:
    lengths = [len(ids) for ids in prompts.ids]
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    count = min(PARITY_PROMPTS, len(order))
    return [order[round(k * (len(order) - 1) / max(count - 1, 1))] for k in range(count)]


def _fast(
    model: Any, sites: Sites, sample: Sequence[tuple[int, ...]], token_budget: int
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    buffers: dict[str, torch.Tensor] = {
        stack: torch.full((sites.n_layers + (stack == "resid"), len(sample), sites.d_model), math.nan)
        for stack in sites.stacks
    }
    logits: list[torch.Tensor] = [torch.empty(0)] * len(sample)
    lengths = [len(ids) for ids in sample]
    with Tap(sites, sites.stacks, "last") as tap:
        for batch in fill_batches(list(range(len(sample))), lengths, token_budget):
            tap.aim(buffers, batch, [lengths[i] for i in batch])
            for i, row in zip(batch, last_logits(model, [sample[i] for i in batch]), strict=True):
                logits[i] = row.cpu()
    return buffers, torch.stack(logits)


def _bridge(
    model: Any, sites: Sites, sample: Sequence[tuple[int, ...]]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    names = site_names(sites.stacks, sites.n_layers)
    before = _versions(model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bridge = _boot(model)
            seen, logits = [], []
            for ids in sample:
                # The ids go in as they are; given a string, the bridge would add a BOS token.
                output, cache = bridge.run_with_cache(
                    torch.tensor([ids], device=model.device), names_filter=list(names), logits_to_keep=1
                )
                logits.append(output[0, -1].cpu())
                seen.append({name: cache[name].reshape(-1, sites.d_model)[-1].cpu() for name in names})
    except Exception as error:
        raise ParityError(
            f"{type(model).__name__}: transformer-lens gives no reference ({type(error).__name__}: {error})",
            remedy="use an architecture that transformer-lens supports, in a version that supports it",
        ) from error
    if _versions(model) != before:
        raise ParityError(f"{type(model).__name__}: the reference changed the model's own weights")
    stacks: dict[str, torch.Tensor] = {
        stack: torch.stack(
            [torch.stack([one[name] for one in seen]) for name in site_names((stack,), sites.n_layers)]
        )
        for stack in sites.stacks
    }
    return stacks, torch.stack(logits)


def _boot(model: Any) -> Any:
    from transformer_lens.model_bridge import TransformerBridge

    # The parameters are shared (detached: a write would still show in their version), the rest is copied.
    shared = {id(p): torch.nn.Parameter(p.detach(), requires_grad=False) for p in model.parameters()}
    twin = copy.deepcopy(model, shared)
    # A model made from a configuration alone doesn't say what it is, and the bridge asks by this name.
    twin.config.architectures = [type(model).__name__]
    return TransformerBridge.boot_transformers(
        "prereg/parity", hf_model=twin, tokenizer=_stand_in(), device=str(model.device), dtype=torch.float32
    )


def _stand_in() -> Any:
    """Make a tokenizer that nothing will be tokenised with.

    Without one the bridge asks the hub, and one with a BOS token it loads again by name.
    """
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))  # noqa: S106 (not a password)
    special = "<unk>"
    return PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token=special, pad_token=special, eos_token=special
    )


def _versions(model: Any) -> list[int]:
    return [p._version for p in model.parameters() if not p.is_inference()]


def _relative(ours: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    distance = (ours - wanted).norm(dim=-1)
    # Zeros that agree are no error; zeros that don't give an infinite one.
    return torch.where(distance == 0, distance, distance / wanted.norm(dim=-1))


def _compare(sites: Sites, stack: str, ours: torch.Tensor, wanted: torch.Tensor) -> tuple[float, str]:
    limit = PARITY_RTOL if stack == "resid" else TERM_RTOL
    errors: list[float] = _relative(ours, wanted).amax(dim=1).tolist()
    for layer, error in enumerate(errors):
        if not error <= limit:
            site = site_name(stack, layer, sites.n_layers)
            raise _refusal(sites.family, f"{site} (layer {layer})", error, limit)
    worst = max(range(len(errors)), key=errors.__getitem__)
    return errors[worst], site_name(stack, worst, sites.n_layers)


def _identity(sites: Sites, ours: Mapping[str, torch.Tensor]) -> float | None:
    if sites.undefined is not None:
        return None
    resid = ours["resid"]
    errors = _relative(resid[:-1] + ours["attn_out"] + ours["mlp_out"], resid[1:])
    for layer, error in enumerate(errors.amax(dim=1).tolist()):
        if not error <= IDENTITY_RTOL:
            what = f"resid_pre + attn_out + mlp_out of block {layer} is not the stream that leaves it:"
            raise _refusal(sites.family, what, error, IDENTITY_RTOL)
    return errors.max().item()


def _refusal(name: str, what: str, error: float, limit: float) -> ParityError:
    return ParityError(
        f"{name}: {what}: largest relative error {error:.3g}, wanted at most {limit:g}; nothing was captured",
        remedy="look at the prompts (float32 itself errs by 1e-5 on a few garbled tokens); if they are sound, "
        "report this architecture with its versions of transformers and transformer-lens",
    )
