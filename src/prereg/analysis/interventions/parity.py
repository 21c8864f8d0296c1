"""The continuation against whole forward passes, on some held-out prompts of the very measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prereg.analysis.frame import Floats, Indices
from prereg.analysis.interventions.sources import Prompts, Source
from prereg.evidence import Check

if TYPE_CHECKING:
    from prereg.analysis.interventions.continuation import Continuation

__all__ = ["STREAM_TOLERANCE", "Compared", "compare", "parity_check", "parity_table", "stream_check"]

STREAM_TOLERANCE = 1e-3
"""Largest relative distance of a stream computed now from the captured one: a store in float16 rounds by 5e-4."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One log-probability (nats) by both ways; `removed` names the fit whose vector was removed."""

    update: int
    prompt: str
    removed: str
    continued: float
    whole: float


def compare(
    way: Continuation,
    prompts: Prompts,
    sources: Sequence[Source],
    values: Mapping[str, Floats],
    wanted: int,
) -> list[Compared]:
    """Repeat some numbers of the measurement by a whole forward pass each.

    Parameters
    ----------
    way, prompts, sources
        What was measured.
    values
        ``clean`` and ``reconstruction``, (n_updates, n_held_out), as they go into the evidence.
    wanted
        How many prompts, spread evenly over the held-out ones; all where there are fewer.
    """
    last = len(prompts.held_out) - 1
    places: Indices = np.unique(np.linspace(0, last, min(wanted, last + 1)).round().astype(np.intp))
    found = []
    for index, source in enumerate(sources):
        for place in places:
            at = int(prompts.held_out[place])
            clean = float(values["clean"][index, place])
            for removed, vector, continued in (
                ("clean", np.zeros_like(source.reconstruction[at]), clean),
                (
                    "reconstruction",
                    source.reconstruction[at],
                    clean - float(values["reconstruction"][index, place]),
                ),
            ):
                whole = way.whole_pass(prompts.ids[at], prompts.answers[at], source.update, vector)
                found.append(Compared(source.update, prompts.names[at], removed, continued, whole))
    return found


def parity_check(compared: Sequence[Compared], tolerance: float) -> Check:
    """Check that the two ways agree to the registered tolerance, nats."""
    differences = [abs(one.continued - one.whole) for one in compared]
    worst = max(differences, default=float("nan"))
    return Check(
        name="continuation_parity",
        passed=worst <= tolerance,
        detail=f"{len(compared)} log-probabilities of {len({one.prompt for one in compared})} prompts, largest "
        f"difference from a whole forward pass {worst:.1e} nats, allowed {tolerance:g}",
    )


def stream_check(distances: Floats) -> Check:
    """Check that the model met the prompts that the dictionaries' codes are of.

    Parameters
    ----------
    distances
        Of v[l+1] computed now from v[l+1] as captured, relative to its norm.
    """
    worst = float(distances.max())
    return Check(
        name="stream_recomputed",
        passed=worst <= STREAM_TOLERANCE,
        detail=f"{distances.size} streams computed again, largest relative distance from the captured ones "
        f"{worst:.1e}, allowed {STREAM_TOLERANCE:g}",
    )


def parity_table(compared: Sequence[Compared]) -> pa.Table:
    """Lay the comparison out."""
    rows = [
        {
            "update": one.update,
            "prompt": one.prompt,
            "removed": one.removed,
            "continued": one.continued,
            "whole": one.whole,
        }
        for one in compared
    ]
    return pa.Table.from_pylist(rows, schema=_PARITY)


_PARITY = pa.schema(
    [
        ("update", pa.int16()),
        ("prompt", pa.string()),
        ("removed", pa.string()),
        ("continued", pa.float64()),
        ("whole", pa.float64()),
    ]
)
