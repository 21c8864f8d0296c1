"""H2: whether one kernel, fit on a band of depth, predicts the other bands.

For each band a, one ridge map from delta[l-1..l-order] to delta[l] is fit on all its updates together: a
sample is a (training prompt, update) pair. Updates are centred by their own training stratum means and
divided by their own training RMS, so that a shared map is possible at all. It is evaluated on every band b,
relative to b's own training means: R2(a -> b) is the mean over b's updates of 1 - SSE / SST.
Definitions where the delta-stream paper's abstract leaves them open are our own.

Columns of the evidence, beside the identity columns
-----------------------------------------------------
``sse.<band>``, ``sst``, ``sst.template``, ``sst.relation``, ``sst.global``
    On every update of any band; in units of the update's training RMS squared.
``sse.raw_<band>``, ``sst.raw``
    The same fit at raw scale, where the largest updates of a band outweigh the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, Field, model_validator

from prereg.activations.view import Activations, UpdateSet
from prereg.analysis.band_fits import fit_band
from prereg.analysis.checks import (
    baseline_support,
    penalty_interior,
    rounding,
    subjects_apart,
    update_set,
)
from prereg.analysis.folds import subject_folds
from prereg.analysis.frame import BASELINES, Frame
from prereg.analysis.ridge import CHOICE_COLUMNS, Choice
from prereg.analysis.settings import Baseline, Folds, Name, Order, Penalties, Seed, Settings, Tolerance
from prereg.errors import AnalysisError
from prereg.evidence import Evidence
from prereg.workers import Arrays, Task, Workers

__all__ = ["BandKernelSettings", "fit_names", "measure"]


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) < 2 or len(set(names)) != len(names):
        raise ValueError(f"found bands {list(names)}, wanted at least two, each named once")
    return names


class BandKernelSettings(Settings):
    """What the protocol says about band kernels.

    Parameters
    ----------
    baseline
        Stratum whose training mean centres everything and gives ``sst``.
    bands
        Names of update sets, at least two, without a common update.
    order
        How many updates back the kernel looks.
    penalties
        Finite candidates relative to the mean squared length of a sample; the infinite one is added.
    edge_tolerance
        Cross-validated R2 that the last step to an end of the grid may gain before a check fails.
    folds, fold_seed
        Subject-grouped inner cross-validation.
    min_stratum_prompts
        Training prompts that every stratum must have.
    """

    baseline: Baseline
    bands: Annotated[tuple[Name, ...], AfterValidator(_distinct)]
    order: Order
    penalties: Penalties
    edge_tolerance: Tolerance
    folds: Folds
    fold_seed: Seed
    min_stratum_prompts: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _agree(self) -> BandKernelSettings:
        if len(self.penalties) < 3:
            raise ValueError("wanted at least three penalties: a shorter grid has no interior")
        return self


def fit_names(settings: BandKernelSettings) -> frozenset[str]:
    """Return the fits that `measure` makes under these settings: what a contrast may name."""
    return frozenset(settings.bands)


def measure(activations: Activations, settings: BandKernelSettings, workers: Workers) -> Evidence:
    """Fit one kernel a band and evaluate it on every band.

    Returns
    -------
    Evidence
        One row per held-out prompt and update of any band; side tables ``cross_band`` (fit_on,
        evaluated_on, r2, r2_raw) and ``fits``.

    Raises
    ------
    AnalysisError
        If a band is unknown, empty, overlaps another or begins before `order`; if an update doesn't vary;
        if a stratum has no training prompt or too few subjects.
    """
    bands = {
        name: update_set(activations, name, first=settings.order, setting="bands") for name in settings.bands
    }
    _refuse_overlap(bands)
    updates = sorted(layer for members in bands.values() for layer in members)
    frame = Frame.of(activations, settings.baseline)
    folds = subject_folds(frame, settings.folds, settings.fold_seed)
    first = updates[0] - settings.order
    stream = [frame.stream(activations, layer) for layer in range(first, updates[-1] + 2)]
    tasks = [
        Task(
            f"band-{name}",
            fit_band,
            {
                "band": members,
                "updates": tuple(updates),
                "first": first,
                "stream": stream,
                "frame": frame,
                "folds": folds,
                "order": settings.order,
                "penalties": settings.penalties,
            },
        )
        for name, members in bands.items()
    ]
    done = workers.map(tasks, "band kernels")
    results = dict(zip(bands, done.values(), strict=True))
    totals = next(iter(results.values()))
    columns = {name: totals[name] for name in ("sst", *(f"sst.{b}" for b in BASELINES), "sst.raw")}
    for name, result in results.items():
        columns |= {f"sse.{name}": result["sse"], f"sse.raw_{name}": result["sse_raw"]}
    checks = (
        penalty_interior(
            ((name, Choice.from_row(result["choice"])) for name, result in results.items()),
            settings.edge_tolerance,
        ),
        subjects_apart(frame, folds),
        baseline_support(frame, settings.min_stratum_prompts),
        rounding(max(float(np.max(result["rounding"])) for result in results.values())),
    )
    side = {
        "cross_band": _cross_band(columns, bands, updates),
        "fits": _fits_table(results),
    }
    return Evidence(frame.table(activations, updates, columns), side, checks)


def _refuse_overlap(bands: Mapping[str, UpdateSet]) -> None:
    owner: dict[int, str] = {}
    for name, members in bands.items():
        for layer in members:
            if layer in owner:
                raise AnalysisError(
                    f"bands: update {layer} is in both {owner[layer]!r} and {name!r}; wanted bands apart",
                    remedy=f"change [updates.{owner[layer]}] or [updates.{name}]",
                )
            owner[layer] = name


def _cross_band(
    columns: Mapping[str, np.ndarray], bands: Mapping[str, UpdateSet], updates: Sequence[int]
) -> pa.Table:
    rows = []
    for a in bands:
        for b, members in bands.items():
            at = [updates.index(layer) for layer in members]
            rows.append(
                {
                    "fit_on": a,
                    "evaluated_on": b,
                    "r2": _mean_r2(columns[f"sse.{a}"][at], columns["sst"][at]),
                    "r2_raw": _mean_r2(columns[f"sse.raw_{a}"][at], columns["sst.raw"][at]),
                }
            )
    return pa.Table.from_pylist(rows)


def _mean_r2(sse: np.ndarray, sst: np.ndarray) -> float | None:
    totals = sst.sum(axis=1)
    return float(np.mean(1.0 - sse.sum(axis=1) / totals)) if (totals > 0).all() else None


def _fits_table(results: Mapping[str, Arrays]) -> pa.Table:
    rows = []
    for name, result in results.items():
        for fit, choice in ((name, result["choice"]), (f"raw_{name}", result["choice_raw"])):
            rows.append({"fit": fit} | Choice.from_row(choice).as_record())
    return pa.Table.from_pylist(rows, schema=_FITS)


_FITS = pa.schema(
    [
        ("fit", pa.string()),
        *CHOICE_COLUMNS,
    ]
)
