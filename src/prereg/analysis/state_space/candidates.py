"""Which answers can be told apart: one classification problem for each relation with enough candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from prereg.analysis.frame import Floats, Indices
from prereg.analysis.state_space.jackknife import centred_square
from prereg.analysis.state_space.model import Stage
from prereg.errors import AnalysisError

__all__ = ["Problem", "candidates_table", "problems_of", "within"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One relation's classification problem.

    Parameters
    ----------
    relation
        Its name.
    answers
        The candidates, sorted; their positions are the labels.
    rows
        Canonical row numbers, training prompts first.
    n_train
        How many of them train.
    labels
        (n_rows,).
    """

    relation: str
    answers: tuple[str, ...]
    rows: Indices
    n_train: int
    labels: Indices


def problems_of(
    stage: Stage, relations_asked: Sequence[str], min_prompts: int, min_answers: int
) -> tuple[Problem, ...]:
    """Return the problems of those relations that have enough candidates and a held-out prompt for them.

    Parameters
    ----------
    stage
        The fresh prompts, with their answers.
    relations_asked
        Relations by name; those that aren't there are passed over.
    min_prompts
        Fresh training prompts that make an answer a candidate.
    min_answers
        Candidates that make a problem.

    Raises
    ------
    AnalysisError
        If there is no such relation.
    """
    relations = np.array(stage.activations.relations)[stage.frame.rows]
    answers = np.array(stage.activations.answers)[stage.frame.rows]
    training = np.arange(len(answers)) < stage.frame.n_train
    problems, found = [], []
    for relation in relations_asked:
        here = relations == relation
        counts = Counter(answers[here & training].tolist())
        names = tuple(sorted(a for a, count in counts.items() if count >= min_prompts))
        asked = here & np.isin(answers, names)
        held_out = int((asked & ~training).sum())
        found.append(f"{relation}: {len(names)} candidates, {held_out} held-out prompts")
        if len(names) >= min_answers and held_out:
            rows = np.flatnonzero(asked)
            labels = np.searchsorted(np.array(names), answers[rows]).astype(np.intp)
            problems.append(Problem(relation, names, rows, int((asked & training).sum()), labels))
    if not problems:
        raise AnalysisError(
            f"no relation has {min_answers} answers with {min_prompts} fresh training prompts each, "
            f"and a held-out prompt for them ({'; '.join(found)})",
            remedy="name other relations, or lower `min_prompts` or `min_answers` in [analyses.state_decoding]",
        )
    return tuple(problems)


def candidates_table(problems: Sequence[Problem]) -> pa.Table:
    """Return how many prompts each candidate has on either side."""
    rows = []
    for problem in problems:
        sides = problem.labels[: problem.n_train], problem.labels[problem.n_train :]
        counts = [np.bincount(side, minlength=len(problem.answers)) for side in sides]
        rows += [
            {"relation": problem.relation, "answer": a, "training": int(t), "held_out": int(h)}
            for a, t, h in zip(problem.answers, *counts, strict=True)
        ]
    schema = [
        ("relation", pa.string()),
        ("answer", pa.string()),
        ("training", pa.int32()),
        ("held_out", pa.int32()),
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def within(kernel: Floats, problem: Problem, strata: Indices) -> Floats:
    """Return the kernel of a problem's rows with its own training rows, centred by their stratum means."""
    train, out = problem.rows[: problem.n_train], problem.rows[problem.n_train :]
    cross = kernel[np.ix_(out, train)]
    codes = strata[train]
    square = kernel[np.ix_(train, train)]
    sizes = np.bincount(codes, minlength=int(strata.max()) + 1)
    share = (codes[:, None] == codes[None, :]) / sizes[codes][:, None]
    # A held-out prompt whose stratum has no candidate in training keeps the mean of all of the stratum's prompts.
    same = (strata[out][:, None] == codes[None, :]) / np.maximum(sizes[strata[out]], 1)[:, None]
    centred = cross - same @ square
    return np.concatenate([centred_square(square, np.arange(len(train)), codes), centred - centred @ share])
