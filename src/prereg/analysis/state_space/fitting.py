"""Every fit of one kind of dictionary: its readouts, its states, and its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.frame import Floats
from prereg.analysis.nulls import stratum_permutations
from prereg.analysis.state_space.model import Bases, Stage, bases, readouts, recursions
from prereg.analysis.state_space.outputs import Ask, fit_outputs
from prereg.analysis.state_space.settings import StateSpaceSettings, readout_rank
from prereg.workers import Arrays, Task, Workers

__all__ = ["KindFits", "fit_kind"]


@dataclass(frozen=True, slots=True, eq=False)
class KindFits:
    """What was fit on one kind of dictionary.

    Parameters
    ----------
    read, outputs
        `read_out` and `fit_outputs` by update.
    own
        What the unshuffled states predict.
    main
        `recurse` for the registered n.
    columns
        For each fit of the evidence, the names in ``read`` or ``outputs`` whose squared errors it is the mean of.
    """

    read: Mapping[int, Arrays]
    outputs: Mapping[int, Arrays]
    own: Bases
    main: Arrays
    columns: Mapping[str, tuple[str, ...]]

    def errors(self, update: int, fit: str) -> Floats:
        """Return the squared errors of a fit, (n_held_out,), in the targets' units."""
        sources = {**self.outputs[update], **{f"readout.{k}": v for k, v in self.read[update].items()}}
        found: Floats = np.mean([sources[name] for name in self.columns[fit]], axis=0)
        return found


def fit_kind(
    stage: Stage, kind: Kind, settings: StateSpaceSettings, workers: Workers, *, lean: bool
) -> KindFits:
    """Fit one kind of dictionary; `lean` leaves out the grid and the null."""
    pairs = () if lean else settings.grid
    n, r = settings.state, settings.rank
    shape = stage.codes[kind].n_features, stage.targets[0].held_out.shape[1]
    ranks = {r, readout_rank(n, r, *shape)}
    ranks |= {rank for a, b in pairs for rank in (b, readout_rank(a, b, *shape))}
    read = readouts(stage, kind, settings, sorted(ranks), workers)
    permutations = (
        [] if lean else list(stratum_permutations(stage.frame, settings.shuffles, settings.shuffle_seed))
    )
    size = max([n, *(a for a, _ in pairs)])
    own, *shuffled = bases(stage, kind, settings, read, size, workers, [None, *permutations])
    wanted = {f"{kind}-n{a}": (own, a) for a in sorted({n, *(a for a, _ in pairs)})}
    wanted |= {f"{kind}-shuffle-{i}": (basis, n) for i, basis in enumerate(shuffled)}
    ran = recursions(stage, settings, wanted, workers, f"{kind} recursions")
    plan = [("ssm", f"{kind}-n{n}", r), ("ssm_full", f"{kind}-n{n}", None)]
    plan += [(f"ssm_n{a}_r{b}", f"{kind}-n{a}", b) for a, b in pairs]
    for i in range(len(shuffled)):
        plan += [
            (f"ssm_shuffled.{i}", f"{kind}-shuffle-{i}", r),
            (f"ssm_full_shuffled.{i}", f"{kind}-shuffle-{i}", None),
        ]
    tasks = [_outputs_task(stage, kind, settings, layer, read[layer], ran, plan) for layer in stage.updates]
    outputs = dict(zip(stage.updates, workers.map(tasks, f"{kind} outputs").values(), strict=True))
    columns: dict[str, tuple[str, ...]] = {
        "readout_rank": (f"readout.sse.{r}",),
        "readout_parameters": (f"readout.sse.{readout_rank(n, r, *shape)}",),
        "readout_full": ("readout.sse.full",),
    }
    for a, b in pairs:
        columns[f"readout_n{a}_r{b}"] = (f"readout.sse.{readout_rank(a, b, *shape)}",)
        columns[f"readout_r{b}"] = (f"readout.sse.{b}",)
    for name, _, _ in plan:
        fit = name.partition(".")[0]
        columns[fit] = (*columns.get(fit, ()), f"sse.{name}")
    return KindFits(read, outputs, own, ran[f"{kind}-n{n}"], columns)


def _outputs_task(
    stage: Stage,
    kind: Kind,
    settings: StateSpaceSettings,
    update: int,
    read: Arrays,
    ran: Mapping[str, Arrays],
    plan: list[tuple[str, str, int | None]],
) -> Task:
    return Task(
        f"outputs-{kind}-{update:03d}",
        fit_outputs,
        {
            "kernel": stage.codes[kind].kernels[update],
            "target": stage.targets[update - stage.first],
            "asks": tuple(Ask(name, ran[states]["states"][update], rank) for name, states, rank in plan),
            "readout": read["choice"],
            "readout_errors": {k.removeprefix("sse."): v for k, v in read.items() if k.startswith("sse.")},
            "strata": stage.strata,
            "subjects": stage.subjects,
            "penalties": settings.penalties,
            "weights": settings.state_weights,
        },
    )
