"""Claims that *some* candidate exceeds a threshold: shown by step-down maxT, refuted by every candidate's own bound.

"Some head's contribution exceeds 0.05" is the union of m claims. It is the mirror of what `decide_conjunction`
decides: here support takes one candidate out of m chances to err and is corrected; refutation takes all of them and is
not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prereg.errors import InferenceError
from prereg.inference._special import check_level
from prereg.inference.candidates import Candidates, SomeDecision
from prereg.inference.verdict import MINIMUM_UNITS, Direction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from prereg.inference.plan import ResamplingPlan
    from prereg.inference.ratios import RatioTable

__all__ = ["SomeDecision", "decide_some"]


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

    *Refuted* if every candidate's own upper bound lies strictly below c: the larger of the expanded percentile at
    `level` and the studentized bound, both from the plan. Of few units with a long tail a percentile misses what the
    sample doesn't hold, and the pivot's tail is longer. No correction is needed: the claim is wrongly refuted only
    if some theta_f exceeds c, and then that candidate's own bound must have erred, which has probability alpha however
    the candidates depend on each other (intersection-union; Berger 1982, doi:10.1080/00401706.1982.10487790). For the
    same reason the largest bound bounds the largest theta_f.

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
    replicated = Candidates.of(candidates, plan, level, min_units)
    return replicated.decide(threshold, side, constant_is_proof=constant_is_proof)


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
