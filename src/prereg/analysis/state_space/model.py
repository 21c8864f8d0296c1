"""The stages of a state-space fit, as tasks: readouts, bases, recursions.

Shared by everything that asks something of a state. Readouts and bases are independent between updates; a recursion
is one task from the first update to the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prereg.activations.view import Activations, UpdateSet
from prereg.analysis.checks import baseline_support, subjects_apart, update_set
from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.folds import subject_folds
from prereg.analysis.frame import Floats, Frame, Indices
from prereg.analysis.ridge import Choice
from prereg.analysis.state_space.identification import identify, past_kernel, window
from prereg.analysis.state_space.readout import read_out
from prereg.analysis.state_space.recursion import recurse
from prereg.analysis.state_space.settings import StateModelSettings
from prereg.analysis.state_space.sources import Codes, Dictionaries, Target, fresh_part, read_codes, target_of
from prereg.evidence import Check
from prereg.workers import Arrays, Task, Workers

__all__ = [
    "Bases",
    "Stage",
    "bases",
    "chosen_penalties",
    "model_checks",
    "prepare",
    "readouts",
    "recursions",
    "weights_reach",
]


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What every stage of one arm shares.

    Parameters
    ----------
    activations
        The fresh prompts.
    frame
        Their canonical order.
    gated
        The registered updates.
    first, last
        Updates from `first` to `last` have targets; those from 0 to `last` are sources.
    folds, subjects
        (n_train,) numbers: cross-fitting folds, and who a prompt is about.
    targets
        Of updates first, ..., last.
    codes
        By kind.
    n_training
        How many training prompts there were, fresh or not.
    """

    activations: Activations
    frame: Frame
    gated: UpdateSet
    first: int
    last: int
    folds: Indices
    subjects: Indices
    targets: tuple[Target, ...]
    codes: Mapping[Kind, Codes]
    n_training: int

    @property
    def strata(self) -> Indices:
        """(n_train,) numbers of the training prompts' strata."""
        return self.frame.strata[: self.frame.n_train]

    @property
    def updates(self) -> range:
        """Updates with targets."""
        return range(self.first, self.last + 1)

    def ahead(self, update: int) -> int:
        """Return the first update that the state at `update` is to predict."""
        return max(update, self.first)


def prepare(
    activations: Activations,
    settings: StateModelSettings,
    kinds: Sequence[Kind],
    dictionaries: Dictionaries,
    workers: Workers,
) -> Stage:
    """Train the dictionaries that are missing, encode the fresh prompts, and centre everything.

    Raises
    ------
    AnalysisError
        If the update set begins before 1 or lies outside the model, or the fresh prompts are too few.
    """
    gated = update_set(activations, settings.updates, first=1, setting="updates")
    first, last = min(gated), max(gated)
    fresh = fresh_part(activations, dictionaries)
    frame = Frame.of(fresh, settings.baseline)
    folds = subject_folds(frame, settings.folds, settings.fold_seed)
    seed = settings.dictionary_seed
    dictionaries.ensure([(kind, seed, layer) for kind in kinds for layer in range(last + 1)], workers)
    training = frame.subjects[: frame.n_train]
    number = {name: i for i, name in enumerate(sorted(set(training)))}
    return Stage(
        activations=fresh,
        frame=frame,
        gated=gated,
        first=first,
        last=last,
        folds=folds,
        subjects=np.array([number[s] for s in training], dtype=np.intp),
        targets=tuple(target_of(fresh.update(layer)[frame.rows], frame) for layer in range(first, last + 1)),
        codes={kind: read_codes(fresh, frame, dictionaries, kind, seed, last) for kind in kinds},
        n_training=int((~activations.held_out).sum()),
    )


def readouts(
    stage: Stage, kind: Kind, settings: StateModelSettings, ranks: Sequence[int], workers: Workers
) -> dict[int, Arrays]:
    """Return `read_out` of every update with targets."""
    tasks = [
        Task(
            f"readout-{kind}-{layer:03d}",
            read_out,
            {
                "kernel": stage.codes[kind].kernels[layer],
                "target": target,
                "strata": stage.strata,
                "subjects": stage.subjects,
                "penalties": settings.penalties,
                "ranks": tuple(sorted(set(ranks))),
            },
        )
        for layer, target in zip(stage.updates, stage.targets, strict=True)
    ]
    return dict(zip(stage.updates, workers.map(tasks, f"{kind} readouts").values(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Bases:
    """What the states of one kind have to predict, and from which codes.

    Parameters
    ----------
    kernels
        (n, n_train) of the sources z[0], ..., z[last - 1], shuffled where a null is wanted.
    ahead
        (n_train, n_train) kernel partialled out of each step, never shuffled.
    found
        `identify` of s[1], ..., s[last].
    """

    kernels: tuple[Floats, ...]
    ahead: tuple[Floats, ...]
    found: tuple[Arrays, ...]


def bases(
    stage: Stage,
    kind: Kind,
    settings: StateModelSettings,
    read: Mapping[int, Arrays],
    size: int,
    workers: Workers,
    permutations: Sequence[Indices | None] = (None,),
) -> list[Bases]:
    """Identify what states predict at every update, from past codes that keep their prompts or change them.

    A permuted past is another prompt's throughout: the same permutation at every update. Codes of the update
    itself, and of those ahead, stay where they are.
    """
    n_train = stage.frame.n_train
    own = stage.codes[kind].kernels
    ahead = tuple(own[stage.ahead(layer)][:n_train] for layer in range(1, stage.last + 1))
    future = [
        sum((read[m]["gram"] for m in window(layer, stage.first, stage.last, settings.horizon)), np.zeros(()))
        for layer in range(1, stage.last + 1)
    ]
    sources = [own if p is None else tuple(k[p][:, p[:n_train]] for k in own) for p in permutations]
    tasks = [
        Task(
            f"basis-{kind}-{'own' if permutation is None else f'shuffle-{i}'}-{layer:03d}",
            identify,
            {
                "past": past_kernel(kernels, layer),
                "ahead": ahead[layer - 1],
                "future": future[layer - 1],
                "strata": stage.strata,
                "subjects": stage.subjects,
                "penalties": settings.penalties,
                "size": size,
            },
        )
        for i, (kernels, permutation) in enumerate(zip(sources, permutations, strict=True))
        for layer in range(1, stage.last + 1)
    ]
    found = list(workers.map(tasks, f"{kind} states").values())
    each = stage.last
    return [
        Bases(kernels[:each], ahead, tuple(found[i * each : (i + 1) * each]))
        for i, kernels in enumerate(sources)
    ]


def recursions(
    stage: Stage,
    settings: StateModelSettings,
    wanted: Mapping[str, tuple[Bases, int]],
    workers: Workers,
    label: str,
) -> dict[str, Arrays]:
    """Return `recurse` for each named pair of bases and a state's dimension."""
    tasks = [
        Task(
            f"recursion-{name}",
            recurse,
            {
                "kernels": basis.kernels,
                "ahead": basis.ahead,
                "functionals": tuple(f["functionals"][:, :size] for f in basis.found),
                "strata": stage.strata,
                "subjects": stage.subjects,
                "folds": stage.folds,
                "penalties": settings.penalties,
                "weights": settings.state_weights,
            },
        )
        for name, (basis, size) in wanted.items()
    ]
    return dict(zip(wanted, workers.map(tasks, label).values(), strict=True))


def chosen_penalties(
    stage: Stage, read: Mapping[int, Arrays], own: Bases, ran: Arrays
) -> Iterator[tuple[str, int, Choice]]:
    """Yield what was chosen for, at which update, and the choice: readouts, bases and steps of the recursion."""
    for layer in stage.updates:
        yield "readout", layer, Choice.from_row(read[layer]["choice"])
    for i in range(stage.last):
        yield "basis", i + 1, Choice.from_row(own.found[i]["choice"])
        yield "state", i + 1, Choice.from_row(ran["choices"][i])


def weights_reach(gains: Iterable[tuple[str, float]], tolerance: float) -> Check:
    """Check that the grid of state weights did not end too early.

    Parameters
    ----------
    gains
        Pairs of a fit's name and its `Chosen.weight_gain`.
    tolerance
        In units of cross-validated R2.
    """
    pairs = list(gains)
    early = [f"{name} gained {gain:.2g}" for name, gain in pairs if not gain <= tolerance]
    detail = (
        f"{len(pairs)} weights, {len(early)} of them the largest and still gaining more than {tolerance:g}"
    )
    if early:
        detail += f": {'; '.join(early[:5])}"
    return Check(name="state_weights_reach", passed=bool(pairs) and not early, detail=detail)


def model_checks(stage: Stage, settings: StateModelSettings) -> tuple[Check, ...]:
    """Check subjects and strata, and tell how many training prompts were left that no dictionary had seen."""
    left, subjects = stage.frame.n_train, len(np.unique(stage.subjects))
    detail = (
        f"{left} of {stage.n_training} training prompts, of {subjects} subjects, were seen by no dictionary"
    )
    return (
        subjects_apart(stage.frame, stage.folds),
        baseline_support(stage.frame, settings.min_stratum_prompts),
        Check(name="codes_unseen", passed=left > 0, detail=detail),
    )
