"""Side tables of the state path: energies of Markov parameters, half-lives and memory, with their intervals."""

from __future__ import annotations

import numpy as np

from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.folds import subject_folds
from prereg.analysis.frame import Floats
from prereg.analysis.ridge import Choice
from prereg.analysis.state_space.fitting import KindFits
from prereg.analysis.state_space.jackknife import kept_rows, replicate
from prereg.analysis.state_space.model import Stage
from prereg.analysis.state_space.path import energies, intervals, path_rows, profile, summary
from prereg.analysis.state_space.readout import finite_strength
from prereg.analysis.state_space.settings import StateSpaceSettings
from prereg.workers import Task, Workers

__all__ = ["state_path"]

PATHS = ("ssm", "ssm_full")
"""Fits whose C the path goes through; A and B are the same."""

Rows = list[dict[str, object]]


def state_path(
    stage: Stage, kind: Kind, fits: KindFits, settings: StateSpaceSettings, workers: Workers, *, lean: bool
) -> tuple[Rows, Rows]:
    """Return the rows of ``path`` and ``memory``; `lean` leaves out the intervals.

    Raises
    ------
    AnalysisError
        If `max_gap` reaches too far back, or there are fewer training subjects than jackknife groups.
    """
    earliest = next(
        (layer for layer, kernel in enumerate(stage.codes[kind].kernels) if kernel.any()), stage.last
    )
    replicates = [] if lean else _replicates(stage, kind, fits, settings, workers)
    path: Rows = []
    memory: Rows = []
    for k, fit in enumerate(PATHS):
        outputs = [fits.outputs[layer][f"outputs.{fit}"] for layer in stage.updates]
        found = energies(
            [o @ o.T for o in outputs], stage.first, list(fits.main["transitions"]), list(fits.main["drives"])
        )
        estimate, *others = [
            summary(profile(each, stage.first, earliest, settings.max_gap))
            for each in (found, *(r[k] for r in replicates))
        ]
        path += path_rows(fit, found, stage.first)
        memory += intervals(fit, estimate, others, settings.level)
    return path, memory


def _replicates(
    stage: Stage, kind: Kind, fits: KindFits, settings: StateSpaceSettings, workers: Workers
) -> list[Floats]:
    n_train = stage.frame.n_train
    groups = subject_folds(stage.frame, settings.jackknife_groups, settings.jackknife_seed)
    kernels = stage.codes[kind].kernels
    shared = {
        "kernels": tuple(np.ascontiguousarray(kernel[:n_train]) for kernel in kernels),
        "ahead": fits.own.ahead,
        "functionals": tuple(
            np.ascontiguousarray(f["functionals"][:, : settings.state]) for f in fits.own.found
        ),
        "targets": tuple(target.training for target in stage.targets),
        "first": stage.first,
        "strata": stage.strata,
        "folds": stage.folds,
        "choices": fits.main["choices"],
        "weights": fits.main["weights"],
        "strengths": tuple(
            finite_strength(Choice.from_row(fits.read[layer]["choice"]), settings.penalties, kernels[layer])
            for layer in stage.updates
        ),
        "output_weights": np.array(
            [[fits.outputs[layer][f"weight.{fit}"][0] for layer in stage.updates] for fit in PATHS]
        ),
        "ranks": (settings.rank, None),
    }
    tasks = [
        Task(
            f"jackknife-{kind}-{group:03d}",
            replicate,
            {**shared, "kept": kept_rows(groups, group, stage.strata, stage.folds)},
        )
        for group in range(settings.jackknife_groups)
    ]
    return [result["energies"] for result in workers.map(tasks, f"{kind} state path").values()]
