"""All fits to one update: history, running sum, both, and histories that carry nothing.

Each block of regressors (delta[l-1], delta[l-2], ..., and v[l]) is centred by training stratum means and
divided by its training RMS, so that a kernel is a plain sum of its blocks' Gram matrices and no block
counts for more because its norm is larger. Our own definition.

A history beside the running sum gets a weight, chosen together with the penalty by cross-validation (banded
ridge; Nunez-Elizalde, Huth and Gallant 2019, doi:10.1016/j.neuroimage.2019.04.012). At a fixed equal weight the
single penalty makes a useless block cost the useful one dearly, and R2(both) - R2(running sum) would fall
below zero for reasons of regularisation alone; the weight 0 keeps the running sum's own fit as a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prereg.analysis.directional import split_along
from prereg.analysis.frame import (
    Floats,
    Frame,
    Indices,
    centre,
    relative_difference,
    square_norms,
    training_power,
)
from prereg.analysis.nulls import gaussian_kernel, shuffled_errors
from prereg.analysis.ridge import Choice, Ridge, choose
from prereg.analysis.settings import Order, Orders, Penalties, Seed, Weights
from prereg.analysis.threads import one_thread
from prereg.workers import Arrays

__all__ = ["FitPlan", "block_kernel", "fit_update"]


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Which fits an arm needs, and how a penalty is chosen.

    Parameters
    ----------
    orders, joint_orders, primary_order
        Orders of the history alone, of the history beside the running sum, and of nulls and directions.
    penalties
        Relative finite candidates.
    history_weights
        Candidate weights of the history's kernel beside the running sum's.
    joint_shuffles, random_draws, random_seed
        Draws of the nulls that need a new decomposition each.
    nulls
        False leaves every null out.
    """

    orders: Orders
    joint_orders: Orders
    primary_order: Order
    penalties: Penalties
    history_weights: Weights
    joint_shuffles: int
    random_draws: int
    random_seed: Seed
    nulls: bool


@one_thread
def fit_update(
    *,
    layer: int,
    stream: Sequence[np.ndarray],
    frame: Frame,
    folds: Indices,
    permutations: Indices,
    plan: FitPlan,
) -> Arrays:
    """Measure every fit of `plan` on one update.

    One BLAS thread, here as in a worker process: sums then have one order, whatever `jobs` is.

    Parameters
    ----------
    layer
        l >= 1; a history of order k uses delta[l-j], j = 1..min(k, l).
    stream
        v[first], ..., v[l+1] in canonical order, (n, d_model) each; ``first = l + 2 - len(stream)``.
    frame, folds
        The prompts, and the training prompts' folds.
    permutations
        (draws, n), shared by all updates; unused without nulls.
    plan
        What to fit.

    Returns
    -------
    Arrays
        ``sse.<fit>``, ``sse.<fit>.along|across`` and ``sst...`` (n_held_out,); ``choice.<fit>``
        as `Choice.as_row`; ``weight.<fit>`` (1,) for the joint fits; ``draws.<fit>`` (draws, 2) with the summed SSE and
        the penalty of each draw; ``rounding`` (1,).
    """
    resid = [np.asarray(v, dtype=np.float64) for v in stream]
    work = _Update(frame, folds, plan, resid[-1] - resid[-2], resid[-2])
    running_sum = block_kernel(resid[-2], frame)
    histories = _history_kernels(resid[:-1], layer, frame, plan.orders)
    for k in plan.orders:
        work.fit(f"history_{k}", histories[min(k, layer)], directions=k in _directed(plan))
    work.fit("running_sum", running_sum)
    for k in plan.joint_orders:
        work.fit_beside(f"running_sum_history_{k}", running_sum, histories[min(k, layer)])
    if plan.nulls:
        history = histories[min(plan.primary_order, layer)]
        work.shuffle(history, permutations)
        work.randomise(history)
        work.shuffle_beside(running_sum, history, permutations[: plan.joint_shuffles])
    return work.results


class _Update:
    """One update's targets, and the results gathered so far."""

    def __init__(self, frame: Frame, folds: Indices, plan: FitPlan, target: Floats, running: Floats) -> None:
        self.frame, self.folds, self.plan = frame, folds, plan
        self.n_train = frame.n_train
        self.targets = centre(target, frame.strata, frame.n_train)
        self.running = running[frame.n_train :]
        self.results: dict[str, np.ndarray] = dict(frame.totals(target))
        self.results["sst"] = square_norms(self.targets[self.n_train :])
        self._solved: dict[str, tuple[Choice, Floats]] = {}
        along, across = split_along(self.targets[self.n_train :], self.running)
        self.results |= {"sst.along": along, "sst.across": across}

    def fit(self, name: str, kernel: Floats, *, directions: bool = False) -> None:
        """Fit one kernel, (n, n_train), and keep its held-out squared errors."""
        choice, missed = self._solve(kernel)
        self._solved[name] = choice, missed
        self.results[f"sse.{name}"] = square_norms(missed)
        self.results[f"choice.{name}"] = choice.as_row()
        if directions:
            along, across = split_along(missed, self.running)
            self.results |= {f"sse.{name}.along": along, f"sse.{name}.across": across}

    def fit_beside(self, name: str, running_sum: Floats, history: Floats) -> None:
        """Fit the history beside the running sum, which was fit alone before."""
        weight, choice, missed = self._solve_beside(running_sum, history)
        self.results[f"sse.{name}"] = square_norms(missed)
        self.results[f"choice.{name}"] = choice.as_row()
        self.results[f"weight.{name}"] = np.array([weight])

    def shuffle(self, kernel: Floats, permutations: Indices) -> None:
        """Fit the shuffled history, and check the quadratic forms against plain residuals."""
        ridge, cross = self._ridge(kernel), kernel[self.n_train :]
        same = np.arange(len(kernel), dtype=np.intp)[None, :]
        errors, choices = shuffled_errors(
            ridge, cross, self.targets, np.concatenate([same, permutations]), self.plan.penalties
        )
        # The first "permutation" moved nothing: it must give the real fit again.
        real = self.results[f"sse.history_{self.plan.primary_order}"]
        self.results["rounding"] = np.array([relative_difference(errors[0], real)])
        self._keep_draws(f"shuffled_history_{self.plan.primary_order}", errors[1:], choices[1:])

    def randomise(self, kernel: Floats) -> None:
        """Fit Gaussian histories of the real one's covariance."""
        kernels = (
            gaussian_kernel(kernel[: self.n_train], self.frame, self.plan.random_seed, draw)
            for draw in range(self.plan.random_draws)
        )
        solved = [self._solve(k) for k in kernels]
        errors = np.stack([square_norms(missed) for _, missed in solved])
        name = f"random_history_{self.plan.primary_order}"
        self._keep_draws(name, errors, [choice for choice, _ in solved])

    def shuffle_beside(self, running_sum: Floats, history: Floats, permutations: Indices) -> None:
        """Fit the true running sum beside a shuffled history: what the larger fit alone changes."""
        solved = [self._solve_beside(running_sum, history[p][:, p[: self.n_train]]) for p in permutations]
        errors = np.stack([square_norms(missed) for _, _, missed in solved])
        name = f"running_sum_shuffled_history_{self.plan.primary_order}"
        self._keep_draws(name, errors, [choice for _, choice, _ in solved])

    def _ridge(self, kernel: Floats) -> Ridge:
        return Ridge.of(kernel[: self.n_train], self.frame.strata[: self.n_train], self.folds)

    def _solve(self, kernel: Floats) -> tuple[Choice, Floats]:
        ridge = self._ridge(kernel)
        training = self.targets[: self.n_train]
        choice = choose(ridge.cv_errors(training, self.plan.penalties), self.plan.penalties)
        predicted = kernel[self.n_train :] @ ridge.coefficients(training, choice.penalty)
        return choice, self.targets[self.n_train :] - predicted

    def _solve_beside(self, running_sum: Floats, history: Floats) -> tuple[float, Choice, Floats]:
        """Return the weight of least cross-validation error (of equals, the smallest), and its fit."""
        solved = [
            (
                weight,
                *(self._solve(running_sum + weight * history) if weight else self._solved["running_sum"]),
            )
            for weight in self.plan.history_weights
        ]
        return max(solved, key=lambda candidate: candidate[1].cv_r2)

    def _keep_draws(self, name: str, errors: Floats, choices: Sequence[Choice]) -> None:
        self.results[f"sse.{name}"] = errors.mean(axis=0)
        penalties = np.array([choice.penalty for choice in choices])
        self.results[f"draws.{name}"] = np.stack([errors.sum(axis=1), penalties], axis=1)


def block_kernel(block: Floats, frame: Frame) -> Floats:
    """Return the (n, n_train) kernel of one block of regressors, centred and of unit training RMS.

    A block that is constant within strata up to rounding, as v[0] is where templates end in one token,
    gives zeros: dividing by its RMS would turn rounding into a regressor.
    """
    centred = centre(block, frame.strata, frame.n_train)
    power = training_power(block, centred, frame)
    if power is None:
        return np.zeros((len(block), frame.n_train))
    kernel: Floats = centred @ centred[: frame.n_train].T / power
    # Exactly symmetric where it is square: the decomposition reads one triangle only.
    square = kernel[: frame.n_train]
    kernel[: frame.n_train] = (square + square.T) / 2
    return kernel


def _history_kernels(resid: Sequence[Floats], layer: int, frame: Frame, orders: Orders) -> dict[int, Floats]:
    kernels: dict[int, Floats] = {}
    total = np.zeros((len(frame.rows), frame.n_train))
    for j in range(1, min(max(orders), layer) + 1):
        total = total + block_kernel(resid[-j] - resid[-j - 1], frame)
        kernels[j] = total
    return kernels


def _directed(plan: FitPlan) -> set[int]:
    return {plan.primary_order, max(plan.orders)}
