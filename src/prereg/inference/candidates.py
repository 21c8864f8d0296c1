"""Candidates of a search, replicated on one plan: what maxT, their own bounds and the rule make of them.

The statistics are studentized, so a truth that moves some candidates moves their theta and bounds alone: one set of
replicates decides the claim under as many truths as are wanted (see `Candidates.moved`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from prereg.errors import InferenceError
from prereg.inference._special import normal_quantile
from prereg.inference.contrasts import Contrast, prepare
from prereg.inference.formulas import expanded_tail, type7_quantile, without_variation
from prereg.inference.max_t import max_t, studentized
from prereg.inference.replicates import aligned_replicates
from prereg.inference.units import FloatArray
from prereg.inference.verdict import Direction, Outcome, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from prereg.inference.plan import ResamplingPlan
    from prereg.inference.ratios import RatioTable

__all__ = ["Candidates", "OwnBounds", "SomeDecision"]

_POWER = 0.8


@dataclass(frozen=True, slots=True)
class SomeDecision:
    """The verdict on "at least one of m candidates", with the numbers that decided it.

    Attributes
    ----------
    outcome
        supported, refuted, inconclusive or invalid.
    best
        Position of the candidate that speaks loudest for the claim: the largest studentized statistic among the
        testable ones; the most extreme estimate where none is testable.
    estimate, low, high
        theta of that candidate and its own interval at `level`, not corrected for having been chosen.
    adjusted_p
        One per candidate, in the order given; 1 for one that can't be tested.
    alpha
        One-sided error rate of both directions, `(1 - level) / 2`.
    equivalence_bound
        What no candidate exceeds, at one-sided confidence `1 - alpha`: the largest upper bound ("less": the smallest
        lower bound). Infinite where some candidate can't be bounded.
    mde, mde_smallest, mde_largest
        The least distance from the threshold that the test would have found with power 0.8, for a candidate with the
        median, the smallest and the largest standard error among the testable ones; inf where none is testable.
    critical
        The 1 - alpha point of the largest null statistic, which one candidate's statistic must pass.
    too_few, degenerate, undefined
        Positions of candidates about which fewer than `min_units` units speak; that don't vary; that have resamples
        without a denominator.
    n_candidates
        m.
    level
        Two-sided level.
    reason
        One line in words.
    """

    outcome: Outcome
    best: int
    estimate: float
    low: float
    high: float
    adjusted_p: tuple[float, ...]
    alpha: float
    equivalence_bound: float
    mde: float
    mde_smallest: float
    mde_largest: float
    critical: float
    too_few: tuple[int, ...]
    degenerate: tuple[int, ...]
    undefined: tuple[int, ...]
    n_candidates: int
    level: float
    reason: str


@dataclass(frozen=True, slots=True)
class OwnBounds:
    """What one candidate's own replicates say: its interval, and what keeps it from deciding.

    Attributes
    ----------
    low, high
        Expanded percentile, widened for the units that speak.
    floor, ceiling
        The outer of these and the studentized bounds: what refuting rests on.
    speaking
        Units with a denominator above 0, counted for the ratio with fewest.
    degenerate
        Whether neither the units nor the replicates vary.
    undefined
        Whether a resample has no denominator.
    """

    low: float
    high: float
    floor: float
    ceiling: float
    speaking: int
    degenerate: bool
    undefined: bool


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """m candidates and their B replicates on one plan; made by `Candidates.of`.

    Attributes
    ----------
    contrasts
        One for each candidate.
    values, errors
        theta* and s* of each candidate in each resample, shape (m, B); nan where a denominator is 0.
    own
        Each candidate's own interval at `level`, and what keeps it from deciding.
    level
        Two-sided.
    min_units
        Units that must speak about a candidate.
    """

    contrasts: tuple[Contrast, ...]
    values: FloatArray
    errors: FloatArray
    own: tuple[OwnBounds, ...]
    level: float
    min_units: int

    @classmethod
    def of(
        cls,
        candidates: Sequence[tuple[RatioTable, npt.ArrayLike]],
        plan: ResamplingPlan,
        level: float,
        min_units: int,
    ) -> Self:
        """Replicate candidates; parameters as of `decide_some`, which checks them.

        Raises
        ------
        InferenceError
            Weights of several contrasts, or a plan for another number of units.
        """
        contrasts = tuple(_one_contrast(table, weights) for table, weights in candidates)
        values, errors = aligned_replicates(contrasts, plan)
        own = tuple(_own(contrast, values[f], errors[f], level) for f, contrast in enumerate(contrasts))
        return cls(contrasts, values, errors, own, level, min_units)

    def moved(self, by: Sequence[float]) -> Self:
        """Return the same candidates where theta_f is by[f] larger: of ``N + by[f] D`` in place of N.

        Replicates and bounds move along; standard errors, in the data and in each resample, stay.
        """
        return replace(
            self,
            contrasts=tuple(
                replace(c, estimate=c.estimate + shift) for c, shift in zip(self.contrasts, by, strict=True)
            ),
            values=self.values + np.asarray(by, dtype=np.float64)[:, None],
            own=tuple(
                replace(
                    o,
                    low=o.low + shift,
                    high=o.high + shift,
                    floor=o.floor + shift,
                    ceiling=o.ceiling + shift,
                )
                for o, shift in zip(self.own, by, strict=True)
            ),
        )

    def decide(
        self, threshold: float, direction: Direction, *, constant_is_proof: bool = False
    ) -> SomeDecision:
        """Decide the claim that some candidate lies beyond a threshold, by the rule that `decide_some` states."""
        own, contrasts = self.own, self.contrasts
        alpha = (1.0 - self.level) / 2.0
        too_few = tuple(f for f, each in enumerate(own) if each.speaking < self.min_units)
        degenerate = tuple(f for f, each in enumerate(own) if each.degenerate)
        undefined = tuple(f for f, each in enumerate(own) if each.undefined)
        family = [f for f in range(len(own)) if f not in too_few and f not in degenerate]
        sign = 1.0 if direction is Direction.GREATER else -1.0
        tested = max_t(
            [contrasts[f] for f in family], self.values[family], self.errors[family], threshold, sign, alpha
        )
        p = np.ones(len(contrasts))
        p[family] = tested.adjusted_p
        unbounded = {*too_few, *undefined, *(() if constant_is_proof else degenerate)}
        bound = sign * math.inf
        if not unbounded:
            bound = max(each.ceiling for each in own) if sign > 0.0 else min(each.floor for each in own)
        most = max(range(len(own)), key=lambda f: sign * contrasts[f].estimate)
        best = family[tested.loudest] if family else most
        obstacles = _Obstacles(too_few, () if constant_is_proof else degenerate, undefined, self.min_units)
        outcome, reason = _verdict(p, alpha, best, bound, threshold, direction, obstacles)
        errors = [contrasts[f].standard_error() for f in family] or [math.inf]
        factor = tested.critical + normal_quantile(_POWER)
        return SomeDecision(
            outcome=outcome,
            best=best,
            estimate=contrasts[best].estimate,
            low=own[best].low,
            high=own[best].high,
            adjusted_p=tuple(p.tolist()),
            alpha=alpha,
            equivalence_bound=bound,
            mde=factor * float(np.median(errors)),
            mde_smallest=factor * min(errors),
            mde_largest=factor * max(errors),
            critical=tested.critical,
            too_few=too_few,
            degenerate=degenerate,
            undefined=undefined,
            n_candidates=len(contrasts),
            level=self.level,
            reason=reason,
        )


@dataclass(frozen=True, slots=True)
class _Obstacles:
    """Candidates that can't be bounded, by reason."""

    too_few: tuple[int, ...]
    degenerate: tuple[int, ...]
    undefined: tuple[int, ...]
    min_units: int

    def words(self) -> str:
        """Return what stands in the way of refuting, empty where nothing does."""
        parts = (
            (self.too_few, f"fewer than {self.min_units} units speak about"),
            (self.degenerate, "no variation in"),
            (self.undefined, "undefined resamples of"),
        )
        return "; ".join(f"{text} candidate {', '.join(map(str, which))}" for which, text in parts if which)


def _one_contrast(table: RatioTable, weights: npt.ArrayLike) -> Contrast:
    contrasts = prepare(table, weights)
    if len(contrasts) == 1:
        return contrasts[0]
    raise InferenceError(f"a candidate has {len(contrasts)} contrasts; one is wanted.")


def _own(contrast: Contrast, values: FloatArray, errors: FloatArray, level: float) -> OwnBounds:
    """Return a candidate's expanded percentile interval, for the units that speak about it, and its obstacles."""
    ordered = np.sort(values[~np.isnan(values)])
    speaking = int((contrast.denominator > 0.0).sum(axis=0).min())
    undefined = ordered.size < values.size
    if ordered.size == 0 or without_variation(contrast, ordered):
        theta = contrast.estimate
        return OwnBounds(theta, theta, theta, theta, speaking, True, undefined)
    tail = expanded_tail(level, max(2, speaking))
    low, high = type7_quantile(ordered, tail), type7_quantile(ordered, 1.0 - tail)
    pivots = np.sort(studentized(contrast, values, errors)[~np.isnan(values)])
    theta, error, alpha = contrast.estimate, contrast.standard_error(), (1.0 - level) / 2.0
    # Of a few units with a long tail the percentile misses what the sample doesn't hold; the pivot's tail is longer.
    floor = min(low, theta - type7_quantile(pivots, 1.0 - alpha) * error)
    ceiling = max(high, theta - type7_quantile(pivots, alpha) * error)
    return OwnBounds(low, high, floor, ceiling, speaking, False, undefined)


def _verdict(
    p: FloatArray,
    alpha: float,
    best: int,
    bound: float,
    threshold: float,
    side: Direction,
    obstacles: _Obstacles,
) -> tuple[Outcome, str]:
    smallest, limit = float(p.min()), f"{threshold:.4g}"
    above, below = ("above", "below") if side is Direction.GREATER else ("below", "above")
    # `decide` refutes the claimed side; a bound of inf decides nothing.
    refuted = decide(bound, bound, threshold, side) is Outcome.REFUTED
    if smallest <= alpha and not refuted:
        shown = int((p <= alpha).sum())
        return Outcome.SUPPORTED, (
            f"{shown} of {p.size} candidates shown {above} {limit}, candidate {best} with adjusted p {smallest:.3g}"
        )
    if smallest <= alpha:
        return (
            Outcome.INCONCLUSIVE,
            f"adjusted p {smallest:.3g} and the bound {bound:.4g} contradict each other",
        )
    if obstacles.degenerate:
        return Outcome.INVALID, f"none shown {above} {limit}, and {obstacles.words()}: no inference"
    if refuted:
        return Outcome.REFUTED, f"all {p.size} candidates lie {below} {limit}: no bound passes {bound:.4g}"
    unproven = f"smallest adjusted p {smallest:.3g}, more than {alpha:.4g}"
    if obstacles.words():
        return Outcome.INCONCLUSIVE, f"{unproven}; not refutable: {obstacles.words()}"
    return Outcome.INCONCLUSIVE, f"{unproven}; the largest bound {bound:.4g} does not exclude {limit}"
