"""TopK: the k largest activations of a row are kept; features that never are get a loss of their own.

Gao et al. 2024, arXiv:2406.04093: sections 2.3 and A.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prereg.analysis.dictionaries.dictionary import largest
from prereg.analysis.dictionaries.gradients import (
    Active,
    Gradients,
    Parameters,
    dense_gradients,
    sparse_gradients,
)
from prereg.analysis.dictionaries.settings import DictionarySettings

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TopK"]


class TopK:
    """The choice of active features, and the auxiliary loss of dead ones.

    Parameters
    ----------
    settings
        The protocol's.
    """

    def __init__(self, settings: DictionarySettings) -> None:
        self.k = settings.k
        self.auxiliary_k = settings.auxiliary_k
        self.weight = settings.auxiliary_weight

    def gradients(
        self, p: Parameters, x: Tensor, centred: Tensor, pre: Tensor, dead: npt.NDArray[np.intp]
    ) -> tuple[Gradients, npt.NDArray[np.intp], float]:
        """Return the gradients, how often each feature was active, and the sum of L0 over rows."""
        if pre.device.type == "cpu":
            active = topk_active(pre.numpy(), self.k)
            found = sparse_gradients(p, x, centred, active)
            fired = active.columns[active.values > 0]
            counts = np.bincount(fired, minlength=active.n_features)
        else:
            codes = _dense_topk(pre, self.k)
            found = dense_gradients(p, x, centred, codes)
            counts = (codes > 0).sum(0).cpu().numpy()
        if len(dead) and self.weight:
            self._revive(found, p, centred, pre, dead)
        return found, counts, float(counts.sum())

    def _revive(
        self, found: Gradients, p: Parameters, centred: Tensor, pre: Tensor, dead: npt.NDArray[np.intp]
    ) -> None:
        """Add the gradients of ``weight/B sum_i |missed_i - sum of the largest dead features|^2``."""
        import torch

        which = torch.from_numpy(dead).to(pre.device)
        codes = _dense_topk(pre[:, which], min(self.auxiliary_k, len(dead)))
        directions = p.decoder[which]
        # What the live features missed is the target, and is held fixed: x - x_hat = -missed.
        G = (codes @ directions + found.missed) * (2.0 * self.weight / len(centred))
        slopes = (G @ directions.T) * (codes > 0)
        bias = slopes.sum(0)
        found.decoder.index_add_(0, which, codes.T @ G)
        found.encoder.index_add_(0, which, slopes.T @ centred)
        found.encoder_bias.index_add_(0, which, bias)
        found.bias.sub_(bias @ p.encoder[which])


def topk_active(pre: npt.NDArray[np.float32], k: int) -> Active:
    """Return each row's k largest entries; those that are not positive have the value 0."""
    rows = len(pre)
    # In pieces: the sort's own indices then stay in the cache.
    columns = np.concatenate([largest(pre[at : at + 256], k) for at in range(0, rows, 256)])
    values = np.maximum(np.take_along_axis(pre, columns, axis=1), np.float32(0)).ravel()
    starts = np.arange(0, rows * k + 1, k, dtype=np.int64)
    return Active(starts, columns.ravel(), values, pre.shape[1])


def _dense_topk(pre: Tensor, k: int) -> Tensor:
    import torch

    values, columns = torch.topk(pre, k, dim=1, sorted=False)
    return torch.zeros_like(pre).scatter_(1, columns, values.clamp_min(0))
