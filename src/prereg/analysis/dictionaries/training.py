"""Training one dictionary: the same seed gives the same bits.

The encoder starts as the decoder's transpose, the bias as the rows' mean; Adam (Kingma and Ba 2015, arXiv:1412.6980)
with a rate that falls at the end; the decoder's rows keep unit length, and their gradient is first projected off them.
Random numbers are drawn on the CPU, whatever the device. Both kinds start from the same directions and see the same
batches under one seed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prereg.analysis.dictionaries.dictionary import Dictionary
from prereg.analysis.dictionaries.gradients import Parameters, quiet_sparse
from prereg.analysis.dictionaries.l1 import L1
from prereg.analysis.dictionaries.rows import Rows
from prereg.analysis.dictionaries.settings import DictionarySettings, Kind
from prereg.analysis.dictionaries.topk import TopK
from prereg.analysis.frame import Floats
from prereg.errors import AnalysisError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CURVE", "Trained", "one_torch_thread", "train"]

CURVE = ("step", "loss", "explained", "l0", "dead")
"""Columns of a training curve: of that step's batch, but for `dead`, the features not active for `dead_after` steps."""

POINTS = 20
READOUTS = 256
"""Points of a curve, and the most readout rows that the controller counts on."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A dictionary, how it came about, and L1's final price (0 for TopK)."""

    dictionary: Dictionary
    curve: Floats
    price: float


@contextlib.contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch work with one thread: sums then have one order, here as in a worker."""
    import torch

    quiet_sparse()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    rows: Rows,
    readout: npt.NDArray[np.bool_],
    settings: DictionarySettings,
    *,
    kind: Kind,
    seed: int,
    layer: int,
    target: float | None = None,
    device: str = "cpu",
) -> Trained:
    """Train one dictionary.

    Parameters
    ----------
    rows
        Capped and scaled.
    readout
        (n_rows,) bool, the rows at the readout position.
    settings
        The protocol's.
    kind, seed, layer
        Which dictionary.
    target
        For L1, the L0 at the readout position that TopK has.
    device
        Where torch works.

    Raises
    ------
    AnalysisError
        If L1 has no target, or training diverged.
    """
    import torch

    values = torch.from_numpy(rows.values).to(device)
    generator = np.random.default_rng([seed, 5, layer])
    p = _start(rows, settings.width, generator, device)
    order = _order(len(values), settings, generator)
    rule: TopK | L1
    if kind == "topk":
        rule = TopK(settings)
    elif target is None or not target > 0:
        raise AnalysisError(f"L1 is matched to TopK's L0 at the readout position; found a target of {target}")
    else:
        rule = L1(settings, target, values[torch.from_numpy(_some_readouts(readout, generator)).to(device)])
    with one_torch_thread(), torch.no_grad():
        curve = _descend(p, rule, values, order, rows, settings)
    parts = [t.cpu().numpy().astype(np.float64) for t in p.all()]
    if not all(np.isfinite(part).all() for part in parts):
        raise AnalysisError(
            f"update {layer}: training the {kind} dictionary of seed {seed} diverged",
            remedy="lower `learning_rate`",
        )
    encoder, encoder_bias, decoder, bias = parts
    dictionary = Dictionary(kind, settings.k, encoder, encoder_bias, decoder, bias, rows.scale)
    return Trained(dictionary, curve, rule.price if isinstance(rule, L1) else 0.0)


def _start(rows: Rows, width: int, generator: np.random.Generator, device: str) -> Parameters:
    import torch

    directions = generator.standard_normal((width, rows.values.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    decoder = torch.from_numpy(directions.astype(np.float32)).to(device)
    bias = torch.from_numpy(rows.mean.astype(np.float32)).to(device)
    return Parameters(decoder.clone(), torch.zeros(width, device=device), decoder, bias)


def _order(n: int, settings: DictionarySettings, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return (steps, batch) rows: every row once before any comes again."""
    wanted = settings.steps * settings.batch
    rounds = [generator.permutation(n) for _ in range(-(-wanted // n))]
    return np.concatenate(rounds)[:wanted].reshape(settings.steps, settings.batch).astype(np.int64)


def _some_readouts(readout: npt.NDArray[np.bool_], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    return generator.permutation(np.flatnonzero(readout))[:READOUTS].astype(np.int64)


def _descend(
    p: Parameters,
    rule: TopK | L1,
    values: Tensor,
    order: npt.NDArray[np.int64],
    rows: Rows,
    settings: DictionarySettings,
) -> Floats:
    import torch

    device = values.device
    optimiser = torch.optim.Adam(p.all(), lr=settings.learning_rate, fused=True)
    group = optimiser.param_groups[0]
    mean = torch.from_numpy(rows.mean.astype(np.float32)).to(device)
    batches = torch.from_numpy(order).to(device)
    pre = torch.empty((settings.batch, settings.width), device=device)
    last = np.zeros(settings.width, dtype=np.int64)
    flat_until = settings.steps * (1.0 - settings.decay_share)
    noted = {round(x) for x in np.linspace(0, settings.steps - 1, min(POINTS, settings.steps))}
    curve = []
    for step in range(settings.steps):
        x = values[batches[step]]
        if isinstance(rule, L1):
            rule.control(p, step)
        centred = x - p.bias
        torch.addmm(p.encoder_bias, centred, p.encoder.T, out=pre)
        dead = np.flatnonzero(step - last > settings.dead_after)
        found, counts, l0 = rule.gradients(p, x, centred, pre, dead)
        last[counts > 0] = step
        if step in noted:
            missed = float(found.missed.square().sum())
            total = float((x - mean).square().sum())
            paid = rule.price * float(pre.relu().sum()) / len(x) if isinstance(rule, L1) else 0.0
            curve.append(
                (step, missed / len(x) + paid, 1 - missed / total, l0 / len(x), len(dead) / settings.width)
            )
        found.decoder.sub_((found.decoder * p.decoder).sum(1, keepdim=True) * p.decoder)
        left = (settings.steps - step) / (settings.steps - flat_until)
        group["lr"] = settings.learning_rate * min(1.0, left)
        for parameter, gradient in zip(p.all(), found.all(), strict=True):
            parameter.grad = gradient
        optimiser.step()
        p.decoder.div_(torch.linalg.vector_norm(p.decoder, dim=1, keepdim=True))
    return np.array(curve, dtype=np.float64)
