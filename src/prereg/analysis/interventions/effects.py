"""Effects on a chunk of prompts: the answer's log-probability as it is, less that with something removed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from prereg.analysis.frame import Indices
from prereg.analysis.interventions.designs import Designer
from prereg.analysis.interventions.sources import Prompts, Source
from prereg.workers import Arrays

if TYPE_CHECKING:
    from prereg.analysis.interventions.continuation import Continuation, Hands, Readout

__all__ = ["chunks", "effects"]

CHUNK = 16
"""Prompts a task. What is redone after an interruption, and what is read at once, is no more than that."""


def chunks(prompts: Prompts, chosen: Indices) -> list[Indices]:
    """Cut prompts into tasks, by length, those of one length by name, so that many can go together."""
    order = sorted(chosen.tolist(), key=lambda p: (len(prompts.ids[p]), prompts.names[p]))
    return [np.array(order[first : first + CHUNK], dtype=np.intp) for first in range(0, len(order), CHUNK)]


def effects(
    *,
    hands: Hands,
    prompts: Prompts,
    chunk: Indices,
    sources: Sequence[Source],
    designers: Mapping[int, Designer],
) -> Arrays:
    """Measure what each designer asks for at each update.

    Parameters
    ----------
    hands
        The model, for whichever thread this is.
    prompts
        All of them.
    chunk
        (c,) positions of those to measure.
    sources
        One an update.
    designers
        By update.

    Returns
    -------
    Arrays
        ``clean`` (c,) nats; and for each update ``values.<l>`` (n_columns, c) effects in nats, positive where what
        was removed had helped; ``cases.<l>`` (n_columns, c) 0 or 1; ``stream.<l>`` (c,) distance of v[l+1] here from
        v[l+1] as captured, relative to its norm.
    """
    way = hands.mine
    found: dict[str, np.ndarray] = {"clean": np.zeros(len(chunk))}
    for source in sources:
        shape = (designers[source.update].n_columns, len(chunk))
        found[f"values.{source.update}"] = np.zeros(shape)
        found[f"cases.{source.update}"] = np.zeros(shape)
        found[f"stream.{source.update}"] = np.zeros(len(chunk))
    for places in _of_one_length(prompts, chunk):
        group = chunk[places]
        readout = way.read(
            [prompts.ids[p] for p in group],
            [prompts.answers[p] for p in group],
            [source.update for source in sources],
        )
        found["clean"][places] = readout.log_probability
        for source in sources:
            _fill(found, way, readout, source, designers[source.update], prompts, chunk, places)
    return found


def _of_one_length(prompts: Prompts, chunk: Indices) -> Iterator[Indices]:
    def length(place: int) -> int:
        return len(prompts.ids[chunk[place]])

    for _, places in itertools.groupby(sorted(range(len(chunk)), key=length), key=length):
        yield np.array(list(places), dtype=np.intp)


def _fill(
    found: Mapping[str, np.ndarray],
    way: Continuation,
    readout: Readout,
    source: Source,
    designer: Designer,
    prompts: Prompts,
    chunk: Indices,
    places: Indices,
) -> None:
    update = source.update
    group = chunk[places]
    designs = [designer.design(source, int(p), prompts.names[p]) for p in group]
    sizes = [len(design.removed) for design in designs]
    owners = np.repeat(np.arange(len(group)), sizes)
    removed = [vector for design in designs for vector in design.removed]
    if removed:
        moved = readout.log_probability[owners] - way.resume(readout, update, owners, np.stack(removed))
        first = np.cumsum([0, *sizes[:-1]])
        for place, start, design in zip(places, first, designs, strict=True):
            for row, column, weight in design.shares:
                found[f"values.{update}"][column, place] += weight * moved[start + row]
            found[f"cases.{update}"][sorted(design.cases), place] = 1.0
    captured = source.after[group].astype(np.float64)
    here = readout.after[update].double().cpu().numpy()
    found[f"stream.{update}"][places] = np.linalg.norm(here - captured, axis=1) / np.linalg.norm(
        captured, axis=1
    )
