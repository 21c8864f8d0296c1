"""L1: every positive activation is kept, at a price that a controller sets until L0 is the wanted one.

The controller adds to the logarithm of the price a part of the error e = log(L0 / target) and a part of its change:
proportional and integral control. L0 follows the price only after tens of steps; the integral alone would swing.
L0 is counted at the readout position, where codes are used: matched over all tokens, L1 has another L0 there. Our own
definition; the decoder's rows keep unit length, so that the price can't be dodged by long directions (Bricken et al.
2023, "Towards Monosemanticity").
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

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

__all__ = ["L1"]

SPARSE_BELOW = 0.25
"""Share of active entries up to which visiting them alone is the faster way."""

LARGEST_STEP = math.log(2.0)
"""The most that one setting changes the price's logarithm by: a count of zero must not send it to zero."""


class L1:
    """The choice of active features, and the price of activation.

    Parameters
    ----------
    settings
        The protocol's.
    target
        Wanted mean L0 of the readout rows.
    readouts
        (n, d) the training rows at the readout position that the controller counts on.
    """

    def __init__(self, settings: DictionarySettings, target: float, readouts: Tensor) -> None:
        self.price = settings.penalty_start
        self.target = target
        self.readouts = readouts
        self.every = settings.control_every
        self.gain = settings.control_gain
        self.damping = settings.control_damping
        self._before: float | None = None
        self.last = math.floor(settings.control_share * settings.steps)

    def control(self, p: Parameters, step: int) -> None:
        """Set the price anew, where this is a step for it."""
        if step >= self.last or step % self.every:
            return
        pre = (self.readouts - p.bias) @ p.encoder.T + p.encoder_bias
        found = float((pre > 0).sum()) / len(pre)
        error = math.log(max(found, 1e-6) / self.target)
        change = error - (error if self._before is None else self._before)
        self._before = error
        move = self.gain * error + self.damping * change
        self.price *= math.exp(min(max(move, -LARGEST_STEP), LARGEST_STEP))

    def gradients(
        self, p: Parameters, x: Tensor, centred: Tensor, pre: Tensor, dead: npt.NDArray[np.intp]
    ) -> tuple[Gradients, npt.NDArray[np.intp], float]:
        """Return the gradients, how often each feature was active, and the sum of L0 over rows."""
        del dead
        share = float((pre > 0).sum()) / pre.numel()
        if pre.device.type == "cpu" and share < SPARSE_BELOW:
            active = positive_active(pre.numpy())
            counts = np.bincount(active.columns, minlength=active.n_features)
            return sparse_gradients(p, x, centred, active, self.price), counts, float(counts.sum())
        codes = pre.relu()
        counts = (codes > 0).sum(0).cpu().numpy()
        return dense_gradients(p, x, centred, codes, self.price), counts, float(counts.sum())


def positive_active(pre: npt.NDArray[np.float32]) -> Active:
    """Return every positive entry."""
    rows, columns = np.nonzero(pre > 0)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(pre)))]).astype(np.int64)
    return Active(starts, columns, pre[rows, columns], pre.shape[1])
