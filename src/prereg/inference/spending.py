"""Alpha spending: how much of the error rate each look at new data may use up.

Whoever looks at k sets of data and reports the best makes up to k times the errors that were promised. A group-
sequential design says beforehand how many looks there may be, and spends alpha on them bit by bit.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, get_args

from prereg.errors import InferenceError
from prereg.inference._special import check_level, check_probability, normal_quantile

__all__ = ["SpendingFunction", "alpha_spent", "look_alphas", "look_level"]

SpendingFunction = Literal["obrien_fleming", "pocock"]
"""Named after the designs whose boundaries they come near to."""


def alpha_spent(t: float, alpha: float, function: SpendingFunction) -> float:
    """Return the part of `alpha` that may be spent up to information fraction `t`.

    Lan and DeMets (1983, doi:10.1093/biomet/70.3.659):

    - ``obrien_fleming``: ``2 (1 - Phi(z / sqrt(t)))`` with ``z = Phi^-1(1 - alpha/2)``; hardly anything early.
    - ``pocock``: ``alpha ln(1 + (e - 1) t)``; nearly even.

    Both rise from 0 to `alpha` at t = 1. The formulas are for one boundary. Software that offers a symmetric
    two-sided design gives each side ``alpha/2``; its figure is ``2 * alpha_spent(t, alpha / 2, function)``, which
    for O'Brien and Fleming's is less than ``alpha_spent(t, alpha, function)`` before t = 1, and for Pocock's the
    same.

    Parameters
    ----------
    t
        Share of the planned information that has been seen, in (0, 1].
    alpha
        Overall error rate, strictly between 0 and 1.
    function
        ``obrien_fleming`` or ``pocock``.

    Returns
    -------
    float
        Between 0 and `alpha`; exactly `alpha` at t = 1.

    Raises
    ------
    InferenceError
        If `t` or `alpha` is out of range, or there is no such function.

    Examples
    --------
    >>> from prereg.inference import alpha_spent
    >>> [round(alpha_spent(t, 0.05, "obrien_fleming"), 5) for t in (0.25, 0.5, 0.75, 1.0)]
    [9e-05, 0.00557, 0.02363, 0.05]
    >>> [round(alpha_spent(t, 0.05, "pocock"), 5) for t in (0.25, 0.5, 0.75, 1.0)]
    [0.01787, 0.03101, 0.0414, 0.05]
    """
    alpha = check_probability(alpha, "alpha")
    if isinstance(t, bool) or not isinstance(t, int | float) or not 0.0 < t <= 1.0:
        raise InferenceError(f"the information fraction is {t!r}; a number above 0 and at most 1 is wanted.")
    if function not in get_args(SpendingFunction):
        raise InferenceError(
            f"there is no spending function {function!r}; there are {', '.join(get_args(SpendingFunction))}."
        )
    if t == 1.0:
        return alpha
    if function == "pocock":
        return min(alpha, alpha * math.log1p((math.e - 1.0) * t))
    z = -normal_quantile(alpha / 2.0)
    # 2 (1 - Phi(x)) = erfc(x / sqrt 2), which keeps its digits where 1 - Phi(x) has none left.
    # Just below t = 1 rounding would pass alpha by a last digit.
    return min(alpha, math.erfc(z / math.sqrt(2.0 * t)))


def look_alphas(alpha: float, looks: int, function: SpendingFunction) -> tuple[float, ...]:
    """Return the alpha that each of `looks` equally spaced looks is tested at.

    Look k gets ``alpha_spent(k / looks) - alpha_spent((k - 1) / looks)``. The increments sum to `alpha`, so by
    the union bound the probability of any false claim over all looks is at most `alpha`, whatever the dependence
    between the looks: they may share data, or be of data that are not the fractions they were planned as.

    Lan and DeMets' exact boundary is laxer: it takes the increment as the probability of crossing now and not
    before, which needs the joint distribution of the looks (a Brownian motion's; see `look_boundaries`). Ours is
    conservative against it, most so at the last look. One look is tested at `alpha` itself.

    Parameters
    ----------
    alpha
        Overall error rate, strictly between 0 and 1.
    looks
        How many looks are planned, at least 1.
    function
        ``obrien_fleming`` or ``pocock``.

    Returns
    -------
    tuple of float
        `looks` numbers of at least 0. With many looks O'Brien and Fleming's first ones are so small that
        nothing can be claimed at them: of 20 looks the first is tested at 2e-18.

    Raises
    ------
    InferenceError
        If `alpha` is out of range, `looks` is no whole number of at least 1, or there is no such function.

    Examples
    --------
    >>> from prereg.inference import look_alphas
    >>> [round(a, 5) for a in look_alphas(0.05, 4, "obrien_fleming")]
    [9e-05, 0.00549, 0.01805, 0.02637]
    """
    if isinstance(looks, bool) or not isinstance(looks, int) or looks < 1:
        raise InferenceError(f"looks is {looks!r}; a whole number of at least 1 is wanted.")
    spent = [0.0, *(alpha_spent(k / looks, alpha, function) for k in range(1, looks + 1))]
    return tuple(after - before for before, after in pairwise(spent))


def look_level(level: float, planned: int, spending: SpendingFunction, look: int) -> float:
    """Return the two-sided level of the interval that decides at one look.

    `1 - 2 share`, share being the look's part (`look_alphas`) of `(1 - level) / 2`: the spending functions are of one
    boundary, and an interval has two, of which a claim crosses one. Past the last planned look the last one's share
    stands: alpha is spent by then, and what is claimed later isn't covered by it.

    Parameters
    ----------
    level
        Two-sided level that all looks together must keep, above 0.5.
    planned
        How many looks are planned, at least 1.
    spending
        ``obrien_fleming`` or ``pocock``.
    look
        Which look it is, from 1.

    Returns
    -------
    float
        At least `level`; `level` to rounding where one look is planned. An early look of O'Brien and Fleming's whose
        share is below some 5e-17 has the level 1.0 exactly, at which no interval exists: nothing can be claimed then.

    Raises
    ------
    InferenceError
        If `level` is out of range, `planned` or `look` is no whole number of at least 1, or there is no such function.

    Examples
    --------
    >>> from prereg.inference import look_level
    >>> [round(look_level(0.95, 3, "pocock", look), 4) for look in (1, 2, 3, 4)]
    [0.9774, 0.9845, 0.9882, 0.9882]
    """
    alpha = (1.0 - check_level(level)) / 2.0
    if isinstance(look, bool) or not isinstance(look, int) or look < 1:
        raise InferenceError(f"look is {look!r}; a whole number of at least 1 is wanted.")
    shares = look_alphas(alpha, planned, spending)
    return 1.0 - 2.0 * shares[min(look, planned) - 1]
