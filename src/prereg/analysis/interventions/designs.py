"""What is removed from a prompt's stream, and which number each removal counts towards.

Controls are our own definition. A random direction is isotropic and has the norm of what it stands for, prompt by
prompt. A matched feature is another active feature of the same prompt, candidate or not, whose contribution is
nearest in norm (absolute difference of logarithms, ties to the lower number). A matched group takes one such
feature for each active member, in order of rank, none of the group and none twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import blake3
import numpy as np

from prereg.analysis.frame import Floats, Indices
from prereg.analysis.interventions.settings import (
    CONTEXT,
    GROUP,
    MATCHED,
    RANDOM,
    InterventionSettings,
    feature_name,
)
from prereg.analysis.interventions.sources import Source

__all__ = ["Design", "Designer", "HeldOutDesigner", "TrainingDesigner", "column_names"]


@dataclass(slots=True)
class Design:
    """One prompt's removals at one update.

    Parameters
    ----------
    removed
        Vectors (d_model,), raw units; one row of the model's batch each.
    shares
        (row, column, weight): this row's effect counts so much towards that column.
    cases
        Columns that speak of this prompt.
    """

    removed: list[Floats] = field(default_factory=list)
    shares: list[tuple[int, int, float]] = field(default_factory=list)
    cases: set[int] = field(default_factory=set)

    def remove(self, vector: Floats) -> int:
        """Add a removal and return its row."""
        self.removed.append(vector)
        return len(self.removed) - 1

    def count(self, rows: Sequence[int], column: int) -> None:
        """Let a column be the mean effect of some rows."""
        self.shares += [(row, column, 1.0 / len(rows)) for row in rows]
        self.cases.add(column)


class Designer(Protocol):
    """Decides what is removed from each prompt."""

    @property
    def n_columns(self) -> int:
        """How many numbers it asks for."""

    def design(self, source: Source, prompt: int, name: str) -> Design:
        """Return the removals for a prompt, given its position and its name."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingDesigner:
    """Each feature of the pool where it is active, one column each."""

    pool: Indices

    @property
    def n_columns(self) -> int:
        """One a feature."""
        return len(self.pool)

    def design(self, source: Source, prompt: int, name: str) -> Design:
        """Remove each active feature alone."""
        del name
        made = Design()
        for column in np.flatnonzero(source.norms[prompt, self.pool] > 0.0):
            made.count([made.remove(source.contribution(prompt, self.pool[[column]]))], int(column))
        return made


def column_names(settings: InterventionSettings) -> tuple[str, ...]:
    """Return the held-out fits in the order of their columns, those of `CONTEXT` first."""
    tested = [GROUP, *(feature_name(rank) for rank in range(settings.candidates))]
    return (*CONTEXT, *(name + control for name in tested for control in ("", RANDOM, MATCHED)))


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutDesigner:
    """The tested features, the group, their controls, and the whole reconstruction.

    Parameters
    ----------
    features
        (m,) the update's candidates by rank.
    settings
        The protocol's.
    """

    features: Indices
    settings: InterventionSettings

    @property
    def n_columns(self) -> int:
        """One a fit."""
        return len(column_names(self.settings))

    def design(self, source: Source, prompt: int, name: str) -> Design:
        """Remove what is tested on this prompt, and the controls."""
        asked = _Asked(source, prompt, name, self.settings)
        # The column of `clean` is no effect: it is filled by who reads the prompt.
        asked.count([asked.together(asked.active)], CONTEXT.index("all_features"))
        asked.count([asked.made.remove(source.reconstruction[prompt])], CONTEXT.index("reconstruction"))
        asked.group(self.features[: self.settings.group], len(CONTEXT))
        for rank, feature in enumerate(self.features.tolist()):
            asked.feature(feature, len(CONTEXT) + 3 * (rank + 1))
        return asked.made


class _Asked:
    """What is asked about one prompt at one update, as it comes together.

    A tested fit's column is followed by those of its random and its matched control.
    """

    def __init__(self, source: Source, prompt: int, name: str, settings: InterventionSettings) -> None:
        self._source, self._prompt, self._name, self._settings = source, prompt, name, settings
        self._norms = source.norms[prompt]
        self._rows: dict[int, int] = {}
        self.active = source.active(prompt)
        self.made = Design()
        self.count = self.made.count

    def together(self, features: Indices) -> int:
        """Remove some features at once and return the row."""
        return self.made.remove(self._source.contribution(self._prompt, features))

    def feature(self, feature: int, column: int) -> None:
        """Remove one feature, where it is active; others in its place; random directions."""
        if not self._norms[feature] > 0.0:
            return
        row = self._alone(feature)
        self.count([row], column)
        self.count(self._random(row, self._settings.random_draws, feature), column + 1)
        near = _nearest(self._norms, feature, self.active[self.active != feature])
        if len(near):
            self.count([self._alone(int(one)) for one in near[: self._settings.matched_features]], column + 2)

    def group(self, top: Indices, column: int) -> None:
        """Remove the group's active members at once, where there are any; others; random directions."""
        members = top[self._norms[top] > 0.0]
        if not len(members):
            return
        row = self.together(members)
        self.count([row], column)
        # No feature has this number, so the group's directions are those of no feature.
        self.count(self._random(row, self._settings.group_draws, self._source.n_features), column + 1)
        stand_ins = self._stand_ins(members, np.setdiff1d(self.active, top))
        if stand_ins is not None:
            self.count([self.together(stand_ins)], column + 2)

    def _alone(self, feature: int) -> int:
        """Remove one feature and return the row; a feature that was removed before has one."""
        if feature not in self._rows:
            self._rows[feature] = self.together(np.array([feature]))
        return self._rows[feature]

    def _stand_ins(self, members: Indices, others: Indices) -> Indices | None:
        """Return one of `others` for each member, none twice; None where there aren't enough."""
        if len(others) < len(members):
            return None
        chosen: list[int] = []
        for member in members.tolist():
            chosen.append(int(_nearest(self._norms, member, np.setdiff1d(others, chosen))[0]))
        return np.array(chosen, dtype=np.intp)

    def _random(self, row: int, draws: int, which: int) -> list[int]:
        """Remove random directions of a row's norm; they depend on seed, update, prompt's name and feature alone."""
        vector = self.made.removed[row]
        words = np.frombuffer(blake3.blake3(self._name.encode()).digest()[:16], dtype="<u4").tolist()
        key = (self._source.update, which, *words)
        seed = np.random.SeedSequence(self._settings.random_seed, spawn_key=key)
        drawn = np.random.default_rng(seed).standard_normal((draws, len(vector)))
        scaled = drawn * (np.linalg.norm(vector) / np.linalg.norm(drawn, axis=1, keepdims=True))
        return [self.made.remove(one) for one in scaled]


def _nearest(norms: Floats, feature: int, others: Indices) -> Indices:
    """Return `others` by how near their norms are to that of `feature`."""
    # Rounded, so that twice and half as long are as far, as they are meant to be.
    distance = np.round(np.abs(np.log(norms[others]) - np.log(norms[feature])), 12)
    return others[np.lexsort((others, distance))]
