"""H1: whether an update is predictable from those before it, and beyond their running sum.

For each update l >= 1, ridge fits of delta[l] on its history delta[l-1..l-k], on the running sum v[l], on
both, and on histories that carry nothing. Squared errors are kept per held-out prompt; R2, the commonality
and nested splits, and every interval are computed from them later. Definitions where the delta-stream
paper's abstract leaves them open are our own.

Columns of the evidence, beside the identity columns
-----------------------------------------------------
``sst``, ``sst.template``, ``sst.relation``, ``sst.global``
    Squared distance of delta[l] from training means; ``sst`` is that of `KernelSettings.baseline`.
``sst.along``, ``sst.across``
    ``sst`` split along and across the prompt's own v[l]; sum(along) / sum(sst) is the split's ceiling.
``sse.history_<k>``, ``sse.running_sum``, ``sse.running_sum_history_<k>``
    The fits. ``sse.history_<k>.along`` and ``.across`` for the primary and the largest order.
``sse.shuffled_history_<p>``, ``sse.random_history_<p>``, ``sse.running_sum_shuffled_history_<p>``
    The nulls, at the primary order: means over draws, each draw with its own choice of penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from prereg.activations.view import Activations
from prereg.analysis.checks import (
    baseline_support,
    penalty_interior,
    rounding,
    subjects_apart,
    update_set,
)
from prereg.analysis.folds import subject_folds
from prereg.analysis.frame import BASELINES, Frame
from prereg.analysis.kernel_fits import FitPlan, fit_update
from prereg.analysis.nulls import stratum_permutations
from prereg.analysis.ridge import CHOICE_COLUMNS, Choice
from prereg.analysis.settings import (
    Baseline,
    Folds,
    Name,
    Order,
    Orders,
    Penalties,
    Seed,
    Settings,
    Tolerance,
    Weights,
)
from prereg.errors import AnalysisError
from prereg.evidence import Check, Evidence
from prereg.workers import Arrays, Task, Workers

__all__ = ["KernelSettings", "fit_names", "measure"]


class KernelSettings(Settings):
    """What the protocol says about kernels.

    Parameters
    ----------
    baseline
        Stratum whose training mean centres everything and gives ``sst``.
    updates
        Update set over which the chosen penalties must lie inside the grid.
    orders, joint_orders
        Orders of the history alone, and beside the running sum (some of `orders`).
    primary_order
        The order of nulls and directions; one of `joint_orders`.
    penalties
        Finite candidates relative to the kernel's mean diagonal; the infinite one is always added.
    history_weights
        Candidate weights of the history beside the running sum, chosen along with the penalty; 0 among them
        keeps the running sum's own fit a candidate.
    edge_tolerance
        Cross-validated R2 that the last step to an end of the grid may gain before a check fails.
    folds, fold_seed
        Subject-grouped inner cross-validation, the same folds for every fit and update.
    shuffles, shuffle_seed
        Refitted permutations of the history; at least 19, so that p = 0.05 can be reached.
    joint_shuffles
        How many of these permutations are also fit beside the running sum.
    random_draws, random_seed
        Gaussian histories.
    min_stratum_prompts
        Training prompts that every stratum must have.
    """

    baseline: Baseline
    updates: Name
    orders: Orders
    joint_orders: Orders
    primary_order: Order
    penalties: Penalties
    history_weights: Weights
    edge_tolerance: Tolerance
    folds: Folds
    fold_seed: Seed
    shuffles: Annotated[int, Field(ge=19)]
    shuffle_seed: Seed
    joint_shuffles: Annotated[int, Field(ge=1)]
    random_draws: Annotated[int, Field(ge=1)]
    random_seed: Seed
    min_stratum_prompts: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _agree(self) -> KernelSettings:
        if not set(self.joint_orders) <= set(self.orders):
            raise ValueError(f"joint_orders {self.joint_orders} are not all in orders {self.orders}")
        if self.primary_order not in self.joint_orders:
            raise ValueError(f"primary_order {self.primary_order} is not in {self.joint_orders}")
        if self.joint_shuffles > self.shuffles:
            raise ValueError(f"joint_shuffles {self.joint_shuffles} exceeds shuffles {self.shuffles}")
        if len(self.penalties) < 3:
            raise ValueError("wanted at least three penalties: a shorter grid has no interior")
        return self


def fit_names(settings: KernelSettings, *, twin: bool = False) -> frozenset[str]:
    """Return the fits that `measure` makes under these settings: what a contrast may name."""
    p = settings.primary_order
    names = {f"history_{k}" for k in (settings.joint_orders if twin else settings.orders)}
    names |= {"running_sum", *(f"running_sum_history_{k}" for k in settings.joint_orders)}
    if not twin:
        names |= {f"{null}_history_{p}" for null in ("shuffled", "random", "running_sum_shuffled")}
    return frozenset(names)


def measure(
    activations: Activations, settings: KernelSettings, workers: Workers, *, twin: bool = False
) -> Evidence:
    """Fit every update from 1 on.

    Parameters
    ----------
    activations
        The prompts and their residual stream.
    settings
        The protocol's.
    workers
        One task per update.
    twin
        True fits only what an untrained twin is compared by, the splits: the running sum, and the
        `joint_orders` alone and beside it; no nulls.

    Returns
    -------
    Evidence
        One row per held-out prompt and update; side tables ``fits`` and ``draws`` (the latter empty of
        rows for a twin).

    Raises
    ------
    AnalysisError
        If a stratum has no training prompt or too few subjects, or the model has fewer than two blocks.
    """
    if activations.n_layers < 2:
        raise AnalysisError(f"{activations.n_layers} block(s): an update needs one before it")
    gated = update_set(activations, settings.updates, first=1, setting="updates")
    frame = Frame.of(activations, settings.baseline)
    folds = subject_folds(frame, settings.folds, settings.fold_seed)
    plan = FitPlan(
        orders=settings.joint_orders if twin else settings.orders,
        joint_orders=settings.joint_orders,
        primary_order=settings.primary_order,
        penalties=settings.penalties,
        history_weights=settings.history_weights,
        joint_shuffles=settings.joint_shuffles,
        random_draws=settings.random_draws,
        random_seed=settings.random_seed,
        nulls=not twin,
    )
    draws = 0 if twin else settings.shuffles
    permutations = stratum_permutations(frame, draws, settings.shuffle_seed)
    stream = [frame.stream(activations, layer) for layer in range(activations.n_layers + 1)]
    updates = range(1, activations.n_layers)
    tasks = [
        Task(
            f"update-{layer:03d}" + ("-split" if twin else ""),
            fit_update,
            {
                "layer": layer,
                "stream": stream[max(0, layer - max(plan.orders)) : layer + 2],
                "frame": frame,
                "folds": folds,
                "permutations": permutations,
                "plan": plan,
            },
        )
        for layer in updates
    ]
    done = workers.map(tasks, "kernels")
    results = dict(zip(updates, done.values(), strict=True))
    columns = {
        name: np.stack([results[layer][name] for layer in updates])
        for name in results[1]
        if name.startswith(("sst", "sse."))
    }
    side = {"fits": _fits_table(results), "draws": _draws_table(results)}
    checks = (
        _interior(results, gated, settings),
        subjects_apart(frame, folds),
        baseline_support(frame, settings.min_stratum_prompts),
        *([] if twin else [rounding(max(float(r["rounding"][0]) for r in results.values()))]),
    )
    return Evidence(frame.table(activations, list(updates), columns), side, checks)


def _fit_names(result: Arrays) -> list[str]:
    return [
        name.removeprefix("sse.")
        for name in result
        if name.startswith("sse.") and not name.endswith((".along", ".across"))
    ]


def _interior(results: Mapping[int, Arrays], gated: tuple[int, ...], settings: KernelSettings) -> Check:
    chosen = [
        (f"{name.removeprefix('choice.')} at update {layer}", Choice.from_row(results[layer][name]))
        for layer in gated
        for name in results[layer]
        if name.startswith("choice.")
    ]
    return penalty_interior(chosen, settings.edge_tolerance)


def _fits_table(results: Mapping[int, Arrays]) -> pa.Table:
    rows = []
    for layer, result in results.items():
        for fit in _fit_names(result):
            row: dict[str, object] = {"update": layer, "fit": fit}
            choice = result.get(f"choice.{fit}")
            if choice is not None:
                row |= Choice.from_row(choice).as_record()
            if f"weight.{fit}" in result:
                row["history_weight"] = float(result[f"weight.{fit}"][0])
            for name in ("", *(f".{baseline}" for baseline in BASELINES)):
                row[f"r2{name}"] = _r2(result[f"sse.{fit}"], result[f"sst{name}"])
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=_FITS)


def _r2(sse: np.ndarray, sst: np.ndarray) -> float | None:
    total = float(sst.sum())
    return 1.0 - float(sse.sum()) / total if total > 0 else None


def _draws_table(results: Mapping[int, Arrays]) -> pa.Table:
    rows = [
        {
            "draw": draw,
            "update": layer,
            "fit": name.removeprefix("draws."),
            "sse": float(sse),
            "sst": float(result["sst"].sum()),
            "penalty": None if np.isinf(penalty) else float(penalty),
            "infinite": bool(np.isinf(penalty)),
        }
        for layer, result in results.items()
        for name in result
        if name.startswith("draws.")
        for draw, (sse, penalty) in enumerate(result[name])
    ]
    return pa.Table.from_pylist(rows, schema=_DRAWS)


_FITS = pa.schema(
    [
        ("update", pa.int16()),
        ("fit", pa.string()),
        *CHOICE_COLUMNS,
        ("history_weight", pa.float64()),
        ("r2", pa.float64()),
        *((f"r2.{baseline}", pa.float64()) for baseline in BASELINES),
    ]
)
"""Side table ``fits``. A penalty is null where it is infinite, or where draws chose one each."""

_DRAWS = pa.schema(
    [
        ("draw", pa.int32()),
        ("update", pa.int16()),
        ("fit", pa.string()),
        ("sse", pa.float64()),
        ("sst", pa.float64()),
        ("penalty", pa.float64()),
        ("infinite", pa.bool_()),
    ]
)
"""Side table ``draws``: squared errors summed over held-out prompts, per draw of a null."""
