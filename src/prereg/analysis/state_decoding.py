"""State decoding: whether the state says the answer before the update does.

A linear classifier reads the answer of a prompt from its state s[l], which knows the codes before update l and nothing
of update l; another reads it from the principal components of the codes z[l] of the update itself, as many as the
state has dimensions. Same training prompts, same stratum means, same classifier. The training prompts'
states are cross-fitted by subject, the held-out ones come from the recursion (`prereg.analysis.state_space`).

Candidates are the answers of one relation that have enough fresh training prompts, and a held-out prompt counts where
its answer is one of them. Our own definition: the paper's abstract says that the state wins at mid-depth, and no more.

Columns of the evidence, beside the identity columns: 1 where the answer was read off rightly, else 0
-------------------------------------------------------------------------------------------------------
``value.state``, ``value.pca``
    The state; the principal components of z[l] over all fresh training prompts, those the state was identified from.
``value.pca_within``
    Principal components over the training prompts of the relation's candidates only.
``value.codes``, ``value.running_sum``
    For context, not matched in dimension: all of z[l], and the running sum v[l].
``value.chance``
    The most frequent training answer, whatever the prompt.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from prereg.activations.view import Activations
from prereg.analysis.checks import penalty_interior
from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.frame import Floats, Indices
from prereg.analysis.state_space.candidates import Problem, candidates_table, problems_of, within
from prereg.analysis.state_space.discriminant import classify, principal, whitened
from prereg.analysis.state_space.model import (
    Stage,
    bases,
    chosen_penalties,
    model_checks,
    prepare,
    readouts,
    recursions,
    weights_reach,
)
from prereg.analysis.state_space.settings import StateModelSettings
from prereg.analysis.state_space.sources import Dictionaries, code_kernel
from prereg.analysis.threads import one_thread
from prereg.errors import AnalysisError
from prereg.evidence import Evidence
from prereg.workers import Arrays, Task, Workers

__all__ = ["FITS", "StateDecodingSettings", "fit_names", "measure"]

FITS = ("state", "pca", "pca_within", "codes", "running_sum", "chance")


class StateDecodingSettings(StateModelSettings):
    """What the protocol says about state decoding.

    Parameters
    ----------
    kind
        Kind of dictionary.
    relations
        Relations whose answers are read; those that the model's facts don't have are passed over.
    min_prompts
        Fresh training prompts that an answer needs to be a candidate.
    min_answers
        Candidates that a relation needs.
    """

    kind: Kind
    relations: tuple[Annotated[str, Field(min_length=1)], ...]
    min_prompts: Annotated[int, Field(ge=2)]
    min_answers: Annotated[int, Field(ge=2)]

    @field_validator("relations")
    @classmethod
    def _some(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if not values or len(set(values)) != len(values):
            raise ValueError(f"found {list(values)}, wanted at least one relation, each once")
        return values


def fit_names(settings: StateDecodingSettings, *, twin: bool = False) -> frozenset[str]:
    """Return the fits that `measure` makes: what a contrast may name. A twin's are the same."""
    del settings, twin
    return frozenset(FITS)


def measure(
    activations: Activations, settings: StateDecodingSettings, workers: Workers, *, dictionaries: Dictionaries
) -> Evidence:
    """Read answers from states and from codes, at every update from the first to the last of the registered set.

    Parameters
    ----------
    activations
        The prompts, with their answers.
    settings
        The protocol's.
    workers
        Tasks are updates, and one recursion.
    dictionaries
        The arm's library; what is missing is trained.

    Returns
    -------
    Evidence
        One row per update and held-out prompt whose answer is a candidate; side tables ``candidates`` and
        ``accuracy``.

    Raises
    ------
    AnalysisError
        If there are no answers, no named relation has enough candidates and a held-out prompt for them, or for the
        reasons of `prereg.analysis.state_space.measuring.measure`.
    """
    if not activations.answers:
        raise AnalysisError("state decoding needs the prompts' answers; these activations come without")
    stage = prepare(activations, settings, (settings.kind,), dictionaries, workers)
    problems = problems_of(stage, settings.relations, settings.min_prompts, settings.min_answers)
    read = readouts(stage, settings.kind, settings, (1,), workers)
    (own,) = bases(stage, settings.kind, settings, read, settings.state, workers)
    ran = recursions(stage, settings, {settings.kind: (own, settings.state)}, workers, "recursion")[
        settings.kind
    ]
    tasks = [
        Task(
            f"decode-{layer:03d}",
            decode,
            {
                "state": ran["states"][layer],
                "codes": stage.codes[settings.kind].kernels[layer],
                "running": code_kernel(
                    stage.frame.stream(stage.activations, layer).astype(np.float64), stage.frame
                ),
                "problems": problems,
                "strata": stage.frame.strata,
                "size": settings.state,
            },
        )
        for layer in stage.updates
    ]
    done = list(workers.map(tasks, "state decoding").values())
    columns = {f"value.{fit}": np.stack([result[fit] for result in done]) for fit in FITS}
    among = np.zeros(len(stage.frame.rows) - stage.frame.n_train, dtype=bool)
    for problem in problems:
        among[problem.rows[problem.n_train :] - stage.frame.n_train] = True
    chosen = [
        (f"{what} at update {layer}", choice)
        for what, layer, choice in chosen_penalties(stage, read, own, ran)
        if layer in stage.gated
    ]
    gains = [
        (f"state at update {layer}", float(gain))
        for layer, gain in enumerate(ran["weight_gains"], start=1)
        if layer in stage.gated
    ]
    return Evidence(
        stage.frame.table(stage.activations, list(stage.updates), columns, among=among),
        {"candidates": candidates_table(problems), "accuracy": _accuracy_table(stage, problems, columns)},
        (
            penalty_interior(chosen, settings.edge_tolerance),
            weights_reach(gains, settings.edge_tolerance),
            *model_checks(stage, settings),
        ),
    )


@one_thread
def decode(
    *,
    state: Floats,
    codes: Floats,
    running: Floats,
    problems: tuple[Problem, ...],
    strata: Indices,
    size: int,
) -> Arrays:
    """Read every problem's answers at one update.

    Parameters
    ----------
    state
        (n, n_state), canonical order.
    codes, running
        (n, n_train) kernels of z[l] and of v[l].
    problems
        What is to be told apart.
    strata
        (n,) numbers.
    size
        How many principal components.

    Returns
    -------
    Arrays
        For each of `FITS`, (n_held_out,): 1 where the answer was read off rightly; 0 too where a prompt isn't asked.
    """
    n_train = codes.shape[1]
    coordinates = {
        "state": whitened(state, n_train),
        "pca": whitened(principal(codes, size), n_train),
        "codes": principal(codes, n_train),
        "running_sum": principal(running, n_train),
        "chance": np.zeros((len(state), 0)),
    }
    results = {fit: np.zeros(len(state) - n_train) for fit in FITS}
    for problem in problems:
        out = problem.rows[problem.n_train :] - n_train
        for fit in FITS:
            if fit == "pca_within":
                found = whitened(principal(within(codes, problem, strata), size), problem.n_train)
            else:
                found = coordinates[fit][problem.rows]
            right = classify(
                found[: problem.n_train], problem.labels[: problem.n_train], found[problem.n_train :]
            )
            results[fit][out] = right == problem.labels[problem.n_train :]
    return results


def _accuracy_table(
    stage: Stage, problems: tuple[Problem, ...], columns: dict[str, npt.NDArray[np.float64]]
) -> pa.Table:
    rows = []
    for problem in problems:
        asked = problem.rows[problem.n_train :] - stage.frame.n_train
        for k, layer in enumerate(stage.updates):
            rates = {fit: float(columns[f"value.{fit}"][k, asked].mean()) for fit in FITS}
            rows.append({"relation": problem.relation, "update": layer} | rates)
    schema = [("relation", pa.string()), ("update", pa.int16()), *((fit, pa.float64()) for fit in FITS)]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))
