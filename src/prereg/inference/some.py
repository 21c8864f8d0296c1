"""Claims that *some* candidate exceeds a threshold: shown by step-down maxT, refuted by every candidate's own bound.

"Some head's contribution exceeds 0.05" is the union of m claims. It is the mirror of what `decide_conjunction`
decides: here support takes one candidate out of m chances to err and is corrected; refutation takes all of them and is
not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference._special import check_level, normal_quantile
from prereg.inference.contrasts import Contrast, prepare
from prereg.inference.formulas import expanded_tail, type7_quantile, without_variation
from prereg.inference.max_t import max_t
from prereg.inference.replicates import aligned_replicates
from prereg.inference.units import FloatArray
from prereg.inference.verdict import MINIMUM_UNITS, Direction, Outcome, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from prereg.inference.plan import ResamplingPlan
    from prereg.inference.ratios import RatioTable

__all__ = ["SomeDecision", "decide_some"]

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


def decide_some(
    candidates: Sequence[tuple[RatioTable, npt.ArrayLike]],
    plan: ResamplingPlan,
    threshold: float,
    direction: str,
    level: float = 0.95,
    *,
    min_units: int = MINIMUM_UNITS,
    constant_is_proof: bool = False,
) -> SomeDecision:
    """Decide a claim that *at least one* of m candidates exceeds a threshold.

    With alpha = (1 - level)/2 (an interval has two boundaries, a claim crosses one), theta_f the candidates' contrasts,
    s_f their delta-method standard errors, and stars for resamples:

    *Supported* if some step-down maxT p-value (Westfall and Young 1993, algorithm 4.1; Romano and Wolf 2005,
    doi:10.1198/016214504000000539, for the studentized bootstrap) is at most alpha. The statistics are
    `t_f = (theta_f - c) / s_f`, the null replicates `(theta*_f - theta_f) / s*_f` on the one plan, so that the
    candidates' dependence is kept. The test is against c: against 0, enough units would find an effect of any size.

    *Refuted* if every candidate's own upper bound (expanded percentile at `level`, from the same plan) lies strictly
    below c. No correction is needed: the claim is wrongly refuted only if some theta_f exceeds c, and then that
    candidate's own bound must have erred, which has probability alpha however the candidates depend on each other
    (intersection-union; Berger 1982, doi:10.1080/00401706.1982.10487790). For the same reason the largest bound bounds
    the largest theta_f.

    Anything else is inconclusive. "less" mirrors it.

    What can't be tested can't decide. A unit speaks about a candidate if its denominator is above 0 (in every ratio of
    the contrast, counted for the worst). With fewer than `min_units` such units a candidate is neither shown nor
    bounded: it leaves the family of tests (what is never claimed can't be a false claim; the choice looks at
    denominators only) and makes refuting impossible. A resample in which a candidate's denominator is 0 counts
    against every claim: its null statistic is +inf, so p can only rise; and as `decide_conjunction` rests nothing on
    an interval of such resamples, that candidate is not bounded. A candidate without variation has no statistic: it is
    never shown; unless another is shown the verdict is invalid, as `decide_conjunction`'s. With `constant_is_proof` it
    is bounded by its one value.

    Where some units are silent about a candidate, its expanded percentile is widened for the units that speak.

    Parameters
    ----------
    candidates
        Pairs (table, weights), weights one contrast of shape (n_ratios,); all tables on the same units.
    plan
        The draws, for that number of units; at least `1/alpha - 1` replicates.
    threshold
        c, finite, in the units of theta.
    direction
        "greater" or "less". An equivalence claim about some candidate is two claims; it isn't decided here.
    level
        Two-sided level, above 0.5.
    min_units
        At least 10.
    constant_is_proof
        Whether a candidate without variation is bounded by its value. For parts known to be exactly constant, such as
        a head whose output is masked.

    Returns
    -------
    SomeDecision

    Raises
    ------
    InferenceError
        No candidates, different units, weights of several contrasts, a direction, threshold or level out of range,
        too few replicates for any p-value to reach alpha, or `min_units` below 10.

    Examples
    --------
    >>> import numpy as np
    >>> from prereg.inference import BootstrapPlan, RatioTable, decide_some
    >>> effects = np.random.default_rng(0).normal([0.0, 0.3, 0.0], 0.5, size=(40, 3))
    >>> table = RatioTable.of_means([f"subject {i:02d}" for i in range(40)], effects)
    >>> heads = [(table, row) for row in np.eye(3)]
    >>> found = decide_some(heads, BootstrapPlan(40, 999, seed=1), threshold=0.05, direction="greater")
    >>> found.outcome.value, found.best, [p <= 0.025 for p in found.adjusted_p]
    ('supported', 1, [False, True, False])
    """
    side = _side(direction)
    alpha = (1.0 - check_level(level)) / 2.0
    _check(candidates, plan, threshold, alpha, min_units)
    contrasts = [_one_contrast(table, weights) for table, weights in candidates]
    values, replicated = aligned_replicates(contrasts, plan)
    own = [_own(contrast, values[f], level) for f, contrast in enumerate(contrasts)]
    too_few = tuple(f for f, each in enumerate(own) if each.speaking < min_units)
    degenerate = tuple(f for f, each in enumerate(own) if each.degenerate)
    undefined = tuple(f for f, each in enumerate(own) if each.undefined)
    family = [f for f in range(len(own)) if f not in too_few and f not in degenerate]
    sign = 1.0 if side is Direction.GREATER else -1.0
    tested = max_t([contrasts[f] for f in family], values[family], replicated[family], threshold, sign, alpha)
    p = np.ones(len(contrasts))
    p[family] = tested.adjusted_p
    unbounded = {*too_few, *undefined, *(() if constant_is_proof else degenerate)}
    bound = sign * math.inf
    if not unbounded:
        bound = max(each.high for each in own) if sign > 0.0 else min(each.low for each in own)
    most = max(range(len(own)), key=lambda f: sign * contrasts[f].estimate)
    best = family[tested.loudest] if family else most
    obstacles = _Obstacles(too_few, () if constant_is_proof else degenerate, undefined, min_units)
    outcome, reason = _verdict(p, alpha, best, bound, threshold, side, obstacles)
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
        level=level,
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


def _side(direction: str) -> Direction:
    if direction in (Direction.GREATER, Direction.LESS):
        return Direction(direction)
    raise InferenceError(
        f"direction is {direction!r}; 'greater' or 'less' is wanted of a claim about some candidate.",
        remedy="That every candidate is equivalent is decide_conjunction's question.",
    )


def _check(
    candidates: Sequence[tuple[RatioTable, npt.ArrayLike]],
    plan: ResamplingPlan,
    threshold: float,
    alpha: float,
    min_units: int,
) -> None:
    if not candidates:
        raise InferenceError("no candidates: a claim about some of none is false of anything.")
    if isinstance(threshold, bool) or not math.isfinite(threshold):
        raise InferenceError(f"threshold is {threshold!r}; a finite number is wanted.")
    if isinstance(min_units, bool) or not isinstance(min_units, int) or min_units < MINIMUM_UNITS:
        raise InferenceError(f"min_units is {min_units!r}; at least {MINIMUM_UNITS} is wanted.")
    if not 1.0 / (plan.n_replicates + 1.0) <= alpha:
        raise InferenceError(
            f"{plan.n_replicates} replicates: no p-value can reach {alpha:.4g}.",
            remedy=f"Draw at least {math.ceil(1.0 / alpha)} replicates.",
        )
    first = candidates[0][0].units
    for f, (table, _) in enumerate(candidates):
        if table.units != first:
            raise InferenceError(
                f"candidate {f} is measured on other units than candidate 0; a resample draws units for all.",
                remedy="Give a unit that is silent about a candidate the numerator 0 and the denominator 0.",
            )


def _one_contrast(table: RatioTable, weights: npt.ArrayLike) -> Contrast:
    contrasts = prepare(table, weights)
    if len(contrasts) == 1:
        return contrasts[0]
    raise InferenceError(f"a candidate has {len(contrasts)} contrasts; one is wanted.")


@dataclass(frozen=True, slots=True)
class _Own:
    """What one candidate's own replicates say: its interval, and what keeps it from deciding."""

    low: float
    high: float
    speaking: int
    degenerate: bool
    undefined: bool


def _own(contrast: Contrast, values: FloatArray, level: float) -> _Own:
    """Return a candidate's expanded percentile interval, for the units that speak about it, and its obstacles."""
    ordered = np.sort(values[~np.isnan(values)])
    speaking = int((contrast.denominator > 0.0).sum(axis=0).min())
    undefined = ordered.size < values.size
    if ordered.size == 0 or without_variation(contrast, ordered):
        return _Own(contrast.estimate, contrast.estimate, speaking, True, undefined)
    tail = expanded_tail(level, max(2, speaking))
    low, high = type7_quantile(ordered, tail), type7_quantile(ordered, 1.0 - tail)
    return _Own(low, high, speaking, False, undefined)


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
