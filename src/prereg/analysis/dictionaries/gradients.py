"""Gradients of a dictionary's loss, written out by hand.

The loss of a batch of B rows x is ``(1/B) sum_i (|x_i - x_hat_i|^2 + price * sum_f z_if)`` with
``z = relu(pre)`` on the active entries, ``pre = (x - b) @ E.T + c`` and ``x_hat = z @ D + b``. With a share of a few
per cent active, only one of the five products of a step needs to be dense, the one that gives `pre`. The others visit
active entries alone: sums of weighted rows (``embedding_bag``) and sampled dot products (``sampled_addmm``).
Both ways give the same numbers up to rounding; the tests hold them against autograd.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Active", "Gradients", "Parameters", "dense_gradients", "quiet_sparse", "sparse_gradients"]


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """What is trained: encoder (F, d), its bias (F,), decoder (F, d) of unit rows, and the rows' bias (d,)."""

    encoder: Tensor
    encoder_bias: Tensor
    decoder: Tensor
    bias: Tensor

    def all(self) -> list[Tensor]:
        """Return the four tensors, in the order of `Gradients.all`."""
        return [self.encoder, self.encoder_bias, self.decoder, self.bias]


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """The loss's gradients, and what the rows' reconstruction missed: ``x_hat - x``, (B, d)."""

    encoder: Tensor
    encoder_bias: Tensor
    decoder: Tensor
    bias: Tensor
    missed: Tensor

    def all(self) -> list[Tensor]:
        """Return the four gradients, in the order of `Parameters.all`."""
        return [self.encoder, self.encoder_bias, self.decoder, self.bias]


@dataclass(frozen=True, slots=True, eq=False)
class Active:
    """The active entries of (B, F) codes, row by row: ``values[starts[i]:starts[i+1]]`` are row i's.

    An active value of 0 is a feature that was chosen but not positive: it adds nothing and learns nothing.
    """

    starts: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    n_features: int


def sparse_gradients(
    p: Parameters, x: Tensor, centred: Tensor, active: Active, price: float = 0.0
) -> Gradients:
    """Return the gradients from the active entries alone; on a CPU.

    Parameters
    ----------
    p
        The parameters.
    x, centred
        (B, d) rows, and rows less the bias.
    active
        The codes.
    price
        Of a unit of activation.
    """
    import torch
    from torch.nn.functional import embedding_bag

    B, F = len(x), active.n_features
    starts, columns = torch.from_numpy(active.starts), torch.from_numpy(active.columns)
    values = torch.from_numpy(active.values)
    missed = embedding_bag(columns, p.decoder, starts[:-1], mode="sum", per_sample_weights=values)
    missed += p.bias
    missed -= x
    G = missed * (2.0 / B)
    shape = torch.sparse_csr_tensor(starts, columns, values, (B, F), check_invariants=False)
    sampled = torch.sparse.sampled_addmm(shape, G, p.decoder.T, beta=0.0).values().numpy()
    if price:
        sampled = sampled + np.float32(price / B)
    sampled = sampled * (active.values > 0)

    # The same entries feature by feature: a stable sort by column keeps rows ascending, so sums have one order.
    order = np.argsort(active.columns.astype(np.uint16 if F <= 2**16 else np.int64), kind="stable")
    owner = np.repeat(np.arange(B), np.diff(active.starts))[order]
    counts = np.bincount(active.columns, minlength=F)
    bags = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)[:-1]]))
    rows = torch.from_numpy(owner)
    by_feature = torch.from_numpy(active.values[order])
    slopes = torch.from_numpy(sampled[order])
    decoder = embedding_bag(rows, G, bags, mode="sum", per_sample_weights=by_feature)
    encoder = embedding_bag(rows, centred, bags, mode="sum", per_sample_weights=slopes)
    summed = np.bincount(active.columns, weights=sampled, minlength=F).astype(np.float32)
    encoder_bias = torch.from_numpy(summed)
    return Gradients(encoder, encoder_bias, decoder, G.sum(0) - encoder_bias @ p.encoder, missed)


def dense_gradients(
    p: Parameters, x: Tensor, centred: Tensor, codes: Tensor, price: float = 0.0
) -> Gradients:
    """Return the gradients from (B, F) codes, zeros and all; on any device."""
    missed = codes @ p.decoder
    missed += p.bias
    missed -= x
    G = missed * (2.0 / len(x))
    slopes = G @ p.decoder.T
    if price:
        slopes += price / len(x)
    slopes *= codes > 0
    encoder_bias = slopes.sum(0)
    return Gradients(
        slopes.T @ centred, encoder_bias, codes.T @ G, G.sum(0) - encoder_bias @ p.encoder, missed
    )


@cache
def quiet_sparse() -> None:
    """Let torch say unheard, once in a process, that its sparse layout is in beta."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zero, one = torch.tensor([0, 1]), torch.tensor([0])
        torch.sparse_csr_tensor(zero, one, torch.ones(1), (1, 1), check_invariants=False)
