"""The data-generating processes of the coverage study, each with its true value.

A process is what a measurement could look like: n independent units, and one or more ways to analyse them. An analysis
that forgets what is independent stands here too, to show what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prereg.inference import RatioTable, auroc_gap, crossed, iid, mean
from prereg.inference.statistics import WeightedStatistic
from prereg.inference.weight_plan import Design

Array = np.ndarray
Rng = np.random.Generator

TEMPLATES = 12


@dataclass(frozen=True, slots=True)
class Table:
    """An analysis by sums per unit: a contrast of ratios, on a plan of its units."""

    table: RatioTable
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Weighted:
    """An analysis by case weights: a statistic, and the design that draws its cases."""

    statistic: WeightedStatistic
    design: Design


@dataclass(frozen=True, slots=True)
class Process:
    """A process and its analyses.

    Attributes
    ----------
    name, title
        For the table and for the picture.
    truth
        The estimand's value in the population.
    draw
        From a generator and n to one sample, analysed: name of analysis to request.
    costly
        Whether an analysis works by case weights, so that fewer replicates are drawn.
    ideal
        Whether the ideal intervals are measured too, where there are any.
    """

    name: str
    title: str
    truth: float
    draw: Callable[[Rng, int], dict[str, Table | Weighted]]
    costly: bool = False
    ideal: bool = True


def _names(n: int) -> tuple[str, ...]:
    return tuple(f"{i:06d}" for i in range(n))


def _table(top: Array, bottom: Array) -> Table:
    n, k = (*top.shape, 1)[:2]
    return Table(RatioTable(_names(n), top, bottom, n), (1.0 / k,) * k)


def _mean_of(values: Callable[[Rng, int], Array]) -> Callable[[Rng, int], dict[str, Table | Weighted]]:
    return lambda rng, n: {"iid": _table(values(rng, n), np.ones(n))}


def _contaminated(rng: Rng, n: int) -> Array:
    """19 of 20 are N(0, 1), one is N(3, 10**2)."""
    return np.where(rng.random(n) < 0.05, rng.normal(3.0, 10.0, n), rng.normal(0.0, 1.0, n))


def _zero_inflated(rng: Rng, n: int) -> Array:
    """Four of five are 0, the rest exponential."""
    return np.where(rng.random(n) < 0.8, 0.0, rng.exponential(1.0, n))


def _gap_of_r2(rng: Rng, n: int, degrees: float, updates: int) -> Table:
    """Two predictors of y = u + e with t errors: D = SSE_b - SSE_a, T = y**2, u known to a up to 0.3, halved by b."""
    shape = (n, updates)
    u, e = rng.standard_normal(shape), rng.standard_t(degrees, shape)
    error_a, error_b = e - 0.3 * rng.standard_normal(shape), e + 0.5 * u
    # A prompt's size is common to its updates.
    size = np.exp(rng.standard_normal((n, 1))) if updates > 1 else 1.0
    return _table(size * (error_b**2 - error_a**2), size * (u + e) ** 2)


def _accuracy(rng: Rng, n: int) -> Array:
    """Right by a alone in 12%, by b alone in 6%."""
    at = rng.random(n)
    return np.where(at < 0.12, 1.0, np.where(at < 0.18, -1.0, 0.0))


def _areas(rng: Rng, n: int) -> dict[str, Table | Weighted]:
    """Two correlated scores of cases of which two of five are positive; at least two of each class."""
    while True:
        label = (rng.random(n) < 0.4).astype(float)
        if 2 <= label.sum() <= n - 2:
            break
    common = rng.standard_normal(n)
    a, b = (math.sqrt(0.5) * (common + rng.standard_normal(n)) for _ in range(2))
    return {"iid": Weighted(auroc_gap(a + 1.2 * label, b + 0.8 * label, label), iid(n))}


def _sizes(n: int) -> Array:
    """Cluster sizes: the quantiles of a geometric law of mean 5, so 1 to some 40."""
    at = (np.arange(n) + 0.5) / n
    return np.ceil(np.log1p(-at) / math.log(0.8)).astype(int)


def _clustered(icc: float) -> Callable[[Rng, int], dict[str, Table | Weighted]]:
    def draw(rng: Rng, n: int) -> dict[str, Table | Weighted]:
        sizes = _sizes(n)
        shared = np.repeat(rng.normal(0.0, math.sqrt(icc), n), sizes)
        rows = shared + rng.normal(0.0, math.sqrt(1.0 - icc), shared.size)
        sums = np.add.reduceat(rows, np.concatenate([[0], np.cumsum(sizes)[:-1]]))
        by_cluster = RatioTable(_names(n), sums, sizes.astype(float), rows.size)
        return {"by cluster": Table(by_cluster, (1.0,)), "rows as units": _table(rows, np.ones(rows.size))}

    return draw


def _crossed(rng: Rng, n: int) -> dict[str, Table | Weighted]:
    """Subjects by 12 templates: effects of subject (sd 1), template (0.5) and cell (1), new ones in every sample."""
    cells = rng.normal(0.0, 1.0, (n, 1)) + rng.normal(0.0, 0.5, (1, TEMPLATES))
    cells = cells + rng.normal(0.0, 1.0, (n, TEMPLATES))
    by_subject = RatioTable(_names(n), cells.sum(axis=1), np.full(n, float(TEMPLATES)), cells.size)
    return {
        "pigeonhole": Weighted(mean(cells.ravel()), _crossed_design(n)),
        "by subject only": Table(by_subject, (1.0,)),
    }


def _crossed_design(n: int) -> Design:
    subjects = [f"s{i:06d}" for i in range(n) for _ in range(TEMPLATES)]
    return crossed(subjects, [f"t{j:02d}" for j in range(TEMPLATES)] * n)


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


PROCESSES: tuple[Process, ...] = (
    Process("normal", "mean, normal", 0.0, _mean_of(lambda rng, n: rng.standard_normal(n))),
    Process("t3", "mean, t with 3 df", 0.0, _mean_of(lambda rng, n: rng.standard_t(3.0, n))),
    Process(
        "lognormal", "mean, lognormal", math.exp(0.5), _mean_of(lambda rng, n: np.exp(rng.standard_normal(n)))
    ),
    Process("contaminated", "mean, 5% contaminated", 0.15, _mean_of(_contaminated)),
    # With seven to ten values other than 0 one ideal interval takes up to some seconds.
    Process("zero_inflated", "mean, 80% zeros", 0.2, _mean_of(_zero_inflated), ideal=False),
    Process("r2_gap_t3", "R2 gap, t3 errors", 0.04, lambda rng, n: {"iid": _gap_of_r2(rng, n, 3.0, 1)}),
    Process(
        "r2_gap_updates",
        "R2 gap, mean of 4 updates",
        0.06,
        lambda rng, n: {"iid": _gap_of_r2(rng, n, 5.0, 4)},
    ),
    Process("accuracy_gap", "accuracy gap", 0.06, _mean_of(_accuracy)),
    Process(
        "auroc_gap",
        "AUROC gap",
        _normal_cdf(1.2 / math.sqrt(2.0)) - _normal_cdf(0.8 / math.sqrt(2.0)),
        _areas,
        costly=True,
    ),
    Process("icc_0.2", "clusters, ICC 0.2", 0.0, _clustered(0.2)),
    Process("icc_0.5", "clusters, ICC 0.5", 0.0, _clustered(0.5)),
    Process("crossed", "subjects x 12 templates", 0.0, _crossed, costly=True),
)
