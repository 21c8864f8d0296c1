"""Size of tests that refit against tests that hold the fit fixed, both at 5% under a true null.

Selection: twenty fits, each a regression on one of twenty correlated features that know nothing of the target; the best
on the held-out items is reported. The claim is "it explains some variance".

Two trainings: one algorithm (ridge on random features), trained twice. The claim is "the two differ".

``python benchmarks/calibration/refit.py [--trials N] [--seed S]``
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
from functools import partial

import numpy as np
from common import RESULTS, SEED, plan_seed, share_cells, stream, write_rows
from svg import Panel, Series, write_panels

from prereg.inference import (
    BootstrapPlan,
    RatioTable,
    enumeration_p_value,
    intervals,
    monte_carlo_p_value,
    sign_flips,
)

ALPHA = 0.05
N_FITS = 20
N_TRAIN = N_HELD_OUT = 100
N_PERMUTATIONS = 199
N_REPLICATES = 999
N_SEEDS = 10
HEADER = ("null", "test", "trials", "size", "size_low", "size_high", "seed")


def gap_table(top: np.ndarray, bottom: np.ndarray) -> RatioTable:
    return RatioTable(tuple(f"{i:04d}" for i in range(top.size)), top, bottom, top.size)


def bounds(table: RatioTable, level: float, seed: int, method: str) -> tuple[float, float]:
    plan = BootstrapPlan(table.n_units, N_REPLICATES, seed)
    (result,) = intervals(table, [1.0], plan, level, methods=(method,))
    found = result.interval(method, level)
    return found.low, found.high


def held_out_gaps(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit each feature on the first half, score it on the second against the training mean.

    `y` has shape (b, items). Returns the gaps in explained variance, shape (b, fits), and the predictions' squared
    errors less the mean's, shape (b, held-out items, fits), negated: above 0 where the fit is better.
    """
    train, test = x[:N_TRAIN], x[N_TRAIN:]
    middle = train.mean(axis=0)
    base = y[:, :N_TRAIN].mean(axis=1)
    slope = (y[:, :N_TRAIN] - base[:, None]) @ (train - middle) / ((train - middle) ** 2).sum(axis=0)
    left = y[:, N_TRAIN:] - base[:, None]
    better = left[:, :, None] ** 2 - (left[:, :, None] - slope[:, None, :] * (test - middle)) ** 2
    return better.sum(axis=1) / (left**2).sum(axis=1)[:, None], better


def selection_trial(rng: np.random.Generator, seed: int) -> dict[str, bool]:
    """Return which tests reject, for the best of twenty fits to noise."""
    n = N_TRAIN + N_HELD_OUT
    x = math.sqrt(0.5) * (rng.standard_normal((n, N_FITS)) + rng.standard_normal((n, 1)))
    y = rng.standard_normal(n)
    gaps, better = held_out_gaps(x, y[None, :])
    best = int(gaps[0].argmax())
    total = (y[N_TRAIN:] - y[:N_TRAIN].mean()) ** 2
    low, _ = bounds(gap_table(better[0, :, best], total), 1.0 - 2.0 * ALPHA, seed, "expanded_percentile")
    # The same without selection: a fit that was named beforehand.
    named, _ = bounds(gap_table(better[0, :, 0], total), 1.0 - 2.0 * ALPHA, seed, "expanded_percentile")
    shuffled = np.stack([rng.permutation(y) for _ in range(N_PERMUTATIONS)])
    refitted = held_out_gaps(x, shuffled)[0]
    return {
        "item bootstrap, best of 20 fits": low > 0.0,
        "item bootstrap, one fit named beforehand": named > 0.0,
        "refit permutation, selection left out": monte_carlo_p_value(gaps[0, best], refitted[:, best])
        <= ALPHA,
        "refit permutation, selection inside": monte_carlo_p_value(gaps[0, best], refitted.max(axis=1))
        <= ALPHA,
    }


def training_trial(rng: np.random.Generator, seed: int, n_held_out: int = N_HELD_OUT) -> dict[str, bool]:
    """Return which tests find a difference between trainings of one algorithm."""
    n, d = N_TRAIN + n_held_out, 5
    x = rng.standard_normal((n, d))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.5 * rng.standard_normal(n)
    errors = np.stack([_train(rng, x, y) for _ in range(2 * N_SEEDS)]).reshape(2, N_SEEDS, -1)
    total = (y[N_TRAIN:] - y[:N_TRAIN].mean()) ** 2
    one = gap_table(errors[1, 0] - errors[0, 0], total)
    gaps = (errors[1] - errors[0]).sum(axis=1) / total.sum()
    by_seed = gap_table(gaps, np.ones(N_SEEDS))
    excluded = {}
    for method in ("expanded_percentile", "delta_t"):
        low, high = bounds(by_seed, 1.0 - ALPHA, seed, method)
        excluded[f"ten seeds as units, {method}"] = low > 0.0 or high < 0.0
    low, high = bounds(one, 1.0 - ALPHA, seed, "expanded_percentile")
    flips = sign_flips(N_SEEDS) @ gaps / N_SEEDS
    return {
        "item bootstrap, one training each": low > 0.0 or high < 0.0,
        **excluded,
        "ten seeds as units, sign flips": enumeration_p_value(float(flips[0]), flips, "two_sided") <= ALPHA,
    }


def _train(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Train once, with fresh random features; return squared errors on the held-out items."""
    features = np.maximum(0.0, x @ rng.standard_normal((x.shape[1], 30)) + rng.standard_normal(30))
    train = features[:N_TRAIN]
    base = y[:N_TRAIN].mean()
    weights = np.linalg.solve(train.T @ train + np.eye(30), train.T @ (y[:N_TRAIN] - base))
    return (y[N_TRAIN:] - base - features[N_TRAIN:] @ weights) ** 2


NULLS = {
    "selection among 20 fits": selection_trial,
    "two trainings, 100 held-out items": training_trial,
    "two trainings, 1000 held-out items": partial(training_trial, n_held_out=1000),
}


def measure(null: str, trials: int, seed: int) -> list[list[str]]:
    """Return one row for each test."""
    rng = np.random.default_rng(stream(seed, null))
    rejections: dict[str, int] = {}
    for trial in range(trials):
        for test, rejects in NULLS[null](rng, plan_seed(seed, null, trial)).items():
            rejections[test] = rejections.get(test, 0) + bool(rejects)
    return [
        [null, test, str(trials), *share_cells(count, trials), str(seed)]
        for test, count in rejections.items()
    ]


def draw_picture(rows: list[list[str]]) -> None:
    """Draw each test's size as a point, one panel for each null."""
    panels = []
    for null in NULLS:
        mine = [row for row in rows if row[0] == null]
        series = [Series(row[1], ((k + 1.0, float(row[3])),)) for k, row in enumerate(mine)]
        panels.append(Panel(null, tuple(series)))
    write_panels(
        RESULTS / "refit.svg",
        panels,
        title="Rejections of a true null at 5%",
        floor=0.0,
        top=0.6,
        line=ALPHA,
        x_label="test",
        names=["1", "2", "3", "4"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=4000, help="trials of each null (default 4000)")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    rows = [row for null in NULLS for row in measure(null, options.trials, options.seed)]
    write_rows(RESULTS / "refit.csv", HEADER, rows)
    draw_picture(rows)


if __name__ == "__main__":
    main()
