"""A claim about some candidate, decided under several truths from one set of replicates.

Moving every candidate's numerators by a multiple of its denominators moves its theta, and with it every replicate and
bound of its own; the standard errors, in the data and in each resample, stay. So the null statistics
``(theta* - theta) / s*`` stay too, and only the observed ones, ``(theta - c) / s``, are compared with them anew.
Replicates, maxT, bounds and rule are those of `prereg.inference.decide_some`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prereg.calibration.gates import Gate
from prereg.calibration.sums import Matrix
from prereg.inference import BootstrapPlan, Outcome, RatioTable
from prereg.inference.max_t import max_t
from prereg.inference.replicates import aligned_replicates
from prereg.inference.some import _Obstacles, _one_contrast, _own, _verdict
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
        self._contrasts = [_one_contrast(*pair) for pair in tables]
        self._values, self._errors = aligned_replicates(self._contrasts, plan)
        self._own = [_own(c, self._values[f], gate.level) for f, c in enumerate(self._contrasts)]
        own = range(len(self._own))
        self._obstacles = _Obstacles(
            tuple(f for f in own if self._own[f].speaking < gate.minimum_units),
            tuple(f for f in own if self._own[f].degenerate),
            tuple(f for f in own if self._own[f].undefined),
            gate.minimum_units,
        )
        untested = {*self._obstacles.too_few, *self._obstacles.degenerate}
        self._family = [f for f in own if f not in untested]

    def covers(self, values: Sequence[float]) -> list[bool]:
        """Tell of each candidate whether its own interval, not corrected for a choice, holds a value."""
        return [own.low <= value <= own.high for own, value in zip(self._own, values, strict=True)]

    def outcome(self, moved: Sequence[float]) -> Outcome:
        """Return what `decide_some` answers where each candidate's theta is moved by so much."""
        gate, family, by = self._gate, self._family, np.asarray(moved, dtype=np.float64)
        sign = -1.0 if gate.direction == "less" else 1.0
        tested = max_t(
            [replace(self._contrasts[f], estimate=self._contrasts[f].estimate + by[f]) for f in family],
            self._values[family] + by[family, None],
            self._errors[family],
            gate.threshold,
            sign,
            gate.alpha,
        )
        p = np.ones(by.size)
        p[family] = tested.adjusted_p
        obstacles = self._obstacles
        bound = sign * math.inf
        if not (obstacles.too_few or obstacles.degenerate or obstacles.undefined):
            highs = [own.high + by[f] for f, own in enumerate(self._own)]
            lows = [own.low + by[f] for f, own in enumerate(self._own)]
            bound = float(max(highs) if sign > 0.0 else min(lows))
        best = family[tested.loudest] if family else 0
        # The alpha that `decide_some` takes from the level.
        alpha = (1.0 - gate.level) / 2.0
        return _verdict(p, alpha, best, bound, gate.threshold, Direction(gate.direction), obstacles)[0]
