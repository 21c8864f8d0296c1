"""Family-wise error, false discoveries and power of the multiplicity methods, ten correlated gates on one plan.

Each gate claims that a mean is above 0. Its statistic is theta/se, its null distribution (theta* - theta)/se* on a plan
that all ten share, its p-value (b + 1)/(B + 1). Under the global null every rejection is an error; else three of ten
means are half a standard deviation above 0. Skewed data have their long tail below, which is the side that makes a
claim "above 0" too easy.

``python benchmarks/calibration/familywise.py [--trials N] [--seed S]``
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
from dataclasses import dataclass

import numpy as np
from common import RESULTS, SEED, plan_seed, share_cells, stream, write_rows
from svg import Panel, Series, write_panels

from prereg.inference import (
    BootstrapPlan,
    RatioTable,
    benjamini_hochberg,
    benjamini_yekutieli,
    hochberg,
    holm,
    monte_carlo_p_value,
    replicate,
    step_down_maxt,
)

ALPHA = 0.05
N_GATES = 10
N_TRUE = 3
EFFECT = 0.5
N_REPLICATES = 999
DATA = (("normal", 50), ("skewed", 50), ("skewed", 200))
RHOS = (0.0, 0.5, 0.9)
ADJUST = {
    "holm": holm,
    "hochberg": hochberg,
    "benjamini_hochberg": benjamini_hochberg,
    "benjamini_yekutieli": benjamini_yekutieli,
}
METHODS = ("unadjusted", *ADJUST, "step_down_maxt")
HEADER = (
    "data",
    "n",
    "rho",
    "true_effects",
    "method",
    "trials",
    "family_wise_error",
    "error_low",
    "error_high",
    "false_discovery_rate",
    "power",
    "seed",
)


@dataclass(slots=True)
class Tally:
    """Trials with any false rejection, and the sums of the two shares."""

    errors: int = 0
    false_share: float = 0.0
    found: int = 0


def draw(rng: np.random.Generator, data: str, n: int, rho: float) -> np.ndarray:
    """Return n units by ten gates of mean 0 and sd 1; rho is the correlation before any transformation."""
    z = math.sqrt(1.0 - rho) * rng.standard_normal((n, N_GATES))
    z += math.sqrt(rho) * rng.standard_normal((n, 1))
    if data == "normal":
        return z
    return -(np.exp(z) - math.exp(0.5)) / math.sqrt((math.e - 1.0) * math.e)


def adjusted(values: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return each method's adjusted p-values, shape (10,)."""
    n = values.shape[0]
    table = RatioTable(tuple(f"{i:04d}" for i in range(n)), values, np.ones_like(values), n)
    draws = replicate(table, np.eye(N_GATES), BootstrapPlan(n, N_REPLICATES, seed))
    observed = np.array([d.estimate / d.standard_error for d in draws])
    null = np.column_stack([(d.values - d.estimate) / d.standard_errors for d in draws])
    p = np.array([monte_carlo_p_value(float(t), null[:, j]) for j, t in enumerate(observed)])
    by_p = {name: adjust(p) for name, adjust in ADJUST.items()}
    return {"unadjusted": p, **by_p, "step_down_maxt": step_down_maxt(observed, null)}


def measure(data: str, n: int, rho: float, n_true: int, trials: int, seed: int) -> list[list[str]]:
    """Return the rows of one cell."""
    tallies = {method: Tally() for method in METHODS}
    place = (data, n, rho, n_true)
    rng = np.random.default_rng(stream(seed, *place))
    for trial in range(trials):
        values = draw(rng, data, n, rho)
        values[:, :n_true] += EFFECT
        for method, p in adjusted(values, plan_seed(seed, *place, trial)).items():
            rejected = p <= ALPHA
            false = int(rejected[n_true:].sum())
            tally = tallies[method]
            tally.errors += false > 0
            tally.false_share += false / max(1, int(rejected.sum()))
            tally.found += int(rejected[:n_true].sum())
    return [
        [
            data,
            str(n),
            str(rho),
            str(n_true),
            method,
            str(trials),
            *share_cells(t.errors, trials),
            f"{t.false_share / trials:.4f}",
            f"{t.found / (trials * n_true):.4f}" if n_true else "",
            str(seed),
        ]
        for method, t in tallies.items()
    ]


def draw_picture(rows: list[list[str]]) -> None:
    """Draw one panel for each kind of data and truth: family-wise error against rho."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for data, n, rho, n_true, method, _, error, *_ in rows:
        title = f"{data}, n = {n}, {'no effects' if n_true == '0' else n_true + ' true effects'}"
        point = (RHOS.index(float(rho)) + 1.0, float(error))
        panels.setdefault(title, {}).setdefault(method, []).append(point)
    write_panels(
        RESULTS / "familywise.svg",
        [
            Panel(t, tuple(Series(m, tuple(points)) for m, points in lines.items()))
            for t, lines in panels.items()
        ],
        title="Family-wise error of ten gates at 5%, by correlation",
        floor=0.0,
        top=0.6,
        line=ALPHA,
        x_label="rho",
        names=[str(rho) for rho in RHOS],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000, help="families a cell (default 2000)")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    rows: list[list[str]] = []
    for data, n in DATA:
        for n_true in (0, N_TRUE):
            for rho in RHOS:
                rows += measure(data, n, rho, n_true, options.trials, options.seed)
                print(f"{data}, n = {n}, {n_true} effects, rho = {rho}", flush=True)
    write_rows(RESULTS / "familywise.csv", HEADER, rows)
    draw_picture(rows)


if __name__ == "__main__":
    main()
