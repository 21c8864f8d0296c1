"""Gradients by hand against autograd."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from prereg.analysis.dictionaries.gradients import Gradients, Parameters, dense_gradients, quiet_sparse
from prereg.analysis.dictionaries.l1 import L1
from prereg.analysis.dictionaries.topk import TopK
from tests.analysis.dictionaries.worlds import SETTINGS

B, F, D = 40, 30, 9
Loss = Callable[[list[torch.Tensor], torch.Tensor], torch.Tensor]


@pytest.fixture
def start() -> tuple[Parameters, torch.Tensor]:
    """Parameters with nothing special about them, and rows."""
    quiet_sparse()
    g = torch.Generator().manual_seed(0)
    shapes = ((F, D), (F,), (F, D), (D,))
    return Parameters(*(torch.randn(s, generator=g) for s in shapes)), torch.randn(B, D, generator=g)


def by_autograd(p: Parameters, x: torch.Tensor, loss: Loss) -> list[torch.Tensor]:
    """Return the gradients of a loss written as one would on paper, in float64."""
    leaves = [t.double().requires_grad_() for t in p.all()]
    loss(leaves, x.double()).backward()
    return [t.grad for t in leaves if t.grad is not None]


def require_same(found: Gradients, wanted: list[torch.Tensor]) -> None:
    for mine, theirs in zip(found.all(), wanted, strict=True):
        assert torch.allclose(mine.double(), theirs, rtol=1e-4, atol=1e-5)


def pre_of(p: Parameters, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    centred = x - p.bias
    return centred, centred @ p.encoder.T + p.encoder_bias


def topk_loss(parts: list[torch.Tensor], x: torch.Tensor, k: int = SETTINGS.k) -> torch.Tensor:
    encoder, encoder_bias, decoder, bias = parts
    pre = (x - bias) @ encoder.T + encoder_bias
    values, columns = pre.topk(k, dim=1)
    codes = torch.zeros_like(pre).scatter(1, columns, values.relu())
    return (codes @ decoder + bias - x).square().sum() / len(x)


def test_topk_has_the_gradients_of_its_loss(start) -> None:
    """Sums over active entries alone are the whole gradient."""
    p, x = start
    found, counts, l0 = TopK(SETTINGS).gradients(p, x, *pre_of(p, x), np.array([], np.intp))
    require_same(found, by_autograd(p, x, topk_loss))
    assert counts.sum() == l0 <= SETTINGS.k * B


def test_features_chosen_below_zero_learn_nothing(start) -> None:
    """Where fewer than k activations are positive, the others are no activations."""
    p, x = start
    p.encoder_bias.sub_(6.0)
    found, counts, _ = TopK(SETTINGS).gradients(p, x, *pre_of(p, x), np.array([], np.intp))
    require_same(found, by_autograd(p, x, topk_loss))
    assert 0 < counts.sum() < SETTINGS.k * B


def test_dead_features_have_the_gradients_of_the_auxiliary_loss(start) -> None:
    """The dead learn what the living missed; what was missed is held fixed."""
    p, x = start
    dead = np.array([3, 8, 20, 21, 22, 23, 24, 25, 26, 27])
    weight, k = SETTINGS.auxiliary_weight, SETTINGS.auxiliary_k

    def loss(parts: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        encoder, encoder_bias, decoder, bias = parts
        pre = (x - bias) @ encoder.T + encoder_bias
        values, columns = pre.topk(SETTINGS.k, dim=1)
        codes = torch.zeros_like(pre).scatter(1, columns, values.relu())
        missed = (x - codes @ decoder - bias).detach()
        few = pre[:, dead]
        values, columns = few.topk(k, dim=1)
        help_ = torch.zeros_like(few).scatter(1, columns, values.relu()) @ decoder[dead]
        return topk_loss(parts, x) + weight * (missed - help_).square().sum() / len(x)

    found, _, _ = TopK(SETTINGS).gradients(p, x, *pre_of(p, x), dead)
    require_same(found, by_autograd(p, x, loss))


@pytest.mark.parametrize("shift", [0.0, -4.0], ids=["dense", "sparse"])
def test_l1_has_the_gradients_of_its_loss(start, shift: float) -> None:
    """With many active entries and with few, which go different ways."""
    p, x = start
    p.encoder_bias.add_(shift)
    rule = L1(SETTINGS, 3.0, x)
    rule.price = 0.7

    def loss(parts: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        encoder, encoder_bias, decoder, bias = parts
        codes = ((x - bias) @ encoder.T + encoder_bias).relu()
        return ((codes @ decoder + bias - x).square().sum() + 0.7 * codes.sum()) / len(x)

    centred, pre = pre_of(p, x)
    assert (float((pre > 0).float().mean()) < 0.25) == (shift < 0)
    found, _, _ = rule.gradients(p, x, centred, pre, np.array([], np.intp))
    require_same(found, by_autograd(p, x, loss))


def test_the_dense_way_is_the_sparse_way(start) -> None:
    """What other devices compute is what the CPU computes."""
    p, x = start
    centred, pre = pre_of(p, x)
    values, columns = pre.topk(SETTINGS.k, dim=1)
    codes = torch.zeros_like(pre).scatter(1, columns, values.relu())
    dense = dense_gradients(p, x, centred, codes)
    sparse, _, _ = TopK(SETTINGS).gradients(p, x, centred, pre, np.array([], np.intp))
    for one, other in zip(dense.all(), sparse.all(), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_price_rises_while_too_much_is_active_and_is_then_frozen(start) -> None:
    """The controller works over its share of the steps and no longer."""
    p, x = start
    rule = L1(SETTINGS, 1.0, x)
    rule.control(p, 0)
    risen = rule.price
    assert risen > SETTINGS.penalty_start
    rule.control(p, int(SETTINGS.control_share * SETTINGS.steps))
    assert rule.price == risen
    low = L1(SETTINGS, 1000.0, x)
    low.control(p, 0)
    assert low.price < SETTINGS.penalty_start
