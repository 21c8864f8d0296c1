"""A claim about some candidate, decided under several truths from one set of replicates.

Moving every candidate's numerators by a multiple of its denominators moves its theta, and with it every replicate and
bound of its own; the standard errors, in the data and in each resample, stay. So the null statistics
``(theta* - theta) / s*`` stay too, and only the observed ones, ``(theta - c) / s``, are compared with them anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from prereg.calibration.gates import Gate
from prereg.calibration.sums import Matrix
from prereg.inference import BootstrapPlan, Candidates, Outcome, RatioTable
from prereg.inference.verdict import Direction

__all__ = ["SomeCandidate"]


class SomeCandidate:
    """One data set's candidates, replicated.

    Parameters
    ----------
    gate
        Its rule; quantifier ``some``.
    tables
        Each candidate's table and weights.
    plan
        The gate's.

    Raises
    ------
    InferenceError
        As `decide_some`.
    """

    def __init__(self, gate: Gate, tables: Sequence[tuple[RatioTable, Matrix]], plan: BootstrapPlan) -> None:
        self._gate = gate
        self._candidates = Candidates.of(tables, plan, gate.level, gate.minimum_units)

    def covers(self, values: Sequence[float]) -> list[bool]:
        """Tell of each candidate whether its own interval, not corrected for a choice, holds a value."""
        return [own.low <= value <= own.high for own, value in zip(self._candidates.own, values, strict=True)]

    def outcome(self, moved: Sequence[float]) -> Outcome:
        """Return what `decide_some` answers where each candidate's theta is moved by so much."""
        there = self._candidates.moved(moved)
        return there.decide(self._gate.threshold, Direction(self._gate.direction)).outcome
