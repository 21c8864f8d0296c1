"""The logit lens: what a model's own final norm and head read in a residual stream, at whatever depth.

The blocks are bypassed: each hands on the given stream, and the model does the rest as it always does, be it a norm, a
projection, a soft cap. nostalgebraist (2020), "interpreting GPT: the logit lens".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prereg.analysis.frame import Floats
from prereg.errors import AnalysisError

if TYPE_CHECKING:
    from prereg.activations.models import LoadedModel

__all__ = ["Readings", "read_stream"]


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """What the lens reads in each of r streams about the tokens that were asked.

    Parameters
    ----------
    log_probability
        Of the shape of the tokens, (r,) or (r, k), float64, nats.
    rank
        Of that shape, int64: how many tokens are likelier; 0 for the top one. A tie counts for the token.
    """

    log_probability: Floats
    rank: npt.NDArray[np.int64]


def read_stream(
    model: LoadedModel, stream: np.ndarray, tokens: np.ndarray, *, batch_rows: int = 256
) -> Readings:
    """Read streams as if they left the last block.

    Parameters
    ----------
    model
        The one they were captured from. It is as before afterwards.
    stream
        (r, d_model), raw units, such as ``activations.resid[l + 1]``: what block l hands on.
    tokens
        (r,), or (r, k) for k tokens each, whose probability is wanted, such as ``activations.answer_ids``.
    batch_rows
        Streams at a time. Batches of other shapes differ by float32 rounding.

    Returns
    -------
    Readings
        At ``resid[n_layers]`` they are the model's own output.

    Raises
    ------
    AnalysisError
        If shapes don't fit the model, there is no stream, or a token is outside of the vocabulary.
    """
    import torch

    from prereg.activations.capture.forward import torch_threads
    from prereg.activations.capture.sites import find_sites
    from prereg.analysis.interventions.continuation import handing_on, log_probabilities

    size = model.model.get_input_embeddings().num_embeddings
    tokens = np.asarray(tokens)
    fits = stream.ndim == 2 and stream.shape[1] == model.d_model and tokens.shape[:1] == stream.shape[:1]
    if not (fits and tokens.ndim in (1, 2) and tokens.size):
        raise AnalysisError(
            f"a stream of shape {stream.shape} and tokens of shape {tokens.shape}; wanted (r, {model.d_model}) and "
            "(r,) or (r, k), none of them 0"
        )
    if tokens.min() < 0 or tokens.max() >= size:
        raise AnalysisError(
            f"a token is outside of the vocabulary of {size}: {tokens.min()} to {tokens.max()}"
        )
    device, blocks = model.model.device, find_sites(model.model).blocks
    in_tuples = _hand_on_tuples(model, blocks[-1])
    chances, ranks = [], []
    with torch.inference_mode(), torch_threads(1):
        for first in range(0, len(stream), batch_rows):
            rows = slice(first, first + batch_rows)
            hidden = torch.as_tensor(np.array(stream[rows], np.float32), device=device)[:, None]
            wanted = torch.as_tensor(tokens[rows].reshape(len(hidden), -1), dtype=torch.int64, device=device)
            any_token = torch.zeros((len(hidden), 1), dtype=torch.int64, device=device)
            with handing_on(blocks, (hidden,) if in_tuples else hidden):
                logits = model.model(input_ids=any_token, use_cache=False).logits[:, -1]
            likelier = [(logits > one[:, None]).sum(dim=1) for one in logits.gather(1, wanted).T]
            ranks.append(torch.stack(likelier, dim=1).cpu().numpy())
            chances.append(log_probabilities(logits, wanted))
    shape = tokens.shape
    return Readings(np.concatenate(chances).reshape(shape), np.concatenate(ranks).reshape(shape))


def _hand_on_tuples(model: LoadedModel, block: object) -> bool:
    """Tell whether this architecture's blocks return the stream as the first of a tuple."""
    import torch

    seen: list[bool] = []
    handle = block.register_forward_hook(lambda *args: seen.append(isinstance(args[-1], tuple)))  # type: ignore[attr-defined]
    try:
        with torch.inference_mode():
            model.model(
                input_ids=torch.zeros((1, 1), dtype=torch.int64, device=model.model.device), use_cache=False
            )
    finally:
        handle.remove()
    return seen[-1]
