"""Small gates and worlds whose error rates are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prereg.calibration.cases import Case, cases_of
from prereg.calibration.crossing import Pilot, Rows
from prereg.calibration.gates import Design, Gate
from prereg.calibration.populations import Streams
from prereg.calibration.sums import Sums
from prereg.inference import RatioTable
from prereg.protocol import read_protocol


def gate(**changes: Any) -> Gate:
    """Return a gate of one contrast, above 0.1, at 95%."""
    given: dict[str, Any] = {
        "name": "H1",
        "direction": "greater",
        "threshold": 0.1,
        "labels": ("gap",),
        "level": 0.95,
        "interval": "expanded_percentile",
        "replicates": 1_000,
        "seed": 5,
        "minimum_units": 10,
    }
    return Gate(**{**given, **changes})


def sums(n_units: int = 40, n_contrasts: int = 2, n_ratios: int = 3) -> Sums:
    """Return a pilot's sums: unequal units, contrasts that share their noise, theta near 0.3 and 0.4."""
    rng = np.random.default_rng(3)
    rows = rng.integers(1, 6, n_units)
    bottom = rows[:, None] * rng.uniform(0.5, 2.0, (n_units, n_ratios))
    noise = 0.3 * rng.standard_normal((n_units, n_ratios))
    units = [f"s{i:03d}" for i in range(n_units)]
    tables = []
    for c in range(n_contrasts):
        own = 0.3 + 0.1 * c + noise + 0.1 * rng.standard_normal((n_units, n_ratios))
        tables.append((RatioTable.from_rows(units, own * bottom, bottom), np.full(n_ratios, 1.0 / n_ratios)))
    return Sums.of(tables, rows)


def promised(**changes: Any) -> Gate:
    """Return a gate with the claim and the methods that `settle` wants, as changed."""
    made = gate(**changes)
    protocol = read_protocol(Path(__file__).parents[1] / "data").protocol
    claim = protocol.hypotheses["H1"].model_copy(
        update={
            "direction": made.direction,
            "threshold": made.threshold,
            "quantifier": made.quantifier,
            "unit": "update" if made.block_length else None,
            "block_length": made.block_length,
        }
    )
    spec = protocol.inference.model_copy(
        update={
            "unit": made.design or "subject",
            "replicates": made.replicates,
            "seed": made.seed,
            "minimum_units": made.minimum_units,
        }
    )
    return replace(made, promise=(claim, spec))


def candidates(n_units: int = 60, n: int = 5, silent: float = 0.4, best: float = 0.3) -> Sums:
    """Return sums of candidates about which some units are silent: thetas near 0, the third one's near `best`."""
    rng = np.random.default_rng(8)
    units = [f"s{i:03d}" for i in range(n_units)]
    tables = []
    for f in range(n):
        speaks = (rng.random((n_units, 1)) > silent) * rng.integers(1, 4, (n_units, 1))
        own = (best if f == 2 else 0.02 * f) + 0.4 * rng.standard_normal((n_units, 1))
        tables.append((RatioTable.from_rows(units, own * speaks, speaks), np.ones(1)))
    return Sums.of(tables, rng.integers(1, 5, n_units))


def two_factors(
    design: Design,
    n_subjects: int = 40,
    n_groups: int = 12,
    sd: tuple[float, float, float] = (0.3, 0.2, 0.2),
    mean: float = 0.2,
    each: int = 4,
) -> Pilot:
    """Return a pilot in which subjects are asked by some templates, or within some relations, unbalanced.

    `sd` is of the subjects' effects, the templates' (relations'), and the rows'. Two ratios, one of them noisier.
    """
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(n_subjects), rng.integers(1, 2 * each, n_subjects))
    group = rng.integers(0, n_groups, who.size)
    effect = sd[0] * rng.standard_normal(n_subjects)[who] + sd[1] * rng.standard_normal(n_groups)[group]
    rows = effect[:, None] + sd[2] * rng.standard_normal((who.size, 2)) * [1.0, 1.5] + mean
    below = np.ones_like(rows)
    part = (rows * below, below, np.full(2, 0.5))
    return Pilot.of(design, Rows((part,), tuple(f"s{i:03d}" for i in who), tuple(f"t{g:02d}" for g in group)))


def cases(made: Gate, *estimates: float) -> tuple[Case, ...]:
    """Return a gate's truths."""
    return cases_of(made, estimates or None)


@dataclass(frozen=True)
class Clustered:
    """Rows in clusters of five that share all their noise, handed over as if each row were a unit of its own."""

    as_units: bool
    name: str = "clustered"
    truth: tuple[float, ...] = (0.3,)

    def tables(self, streams: Streams, n_units: int) -> list[tuple[RatioTable, npt.NDArray[np.float64]]]:
        values = np.repeat(0.3 + streams.of(0).standard_normal(-(-n_units // 5)), 5)[:n_units]
        labels = [f"c{i if self.as_units else i // 5:04d}" for i in range(n_units)]
        return [(RatioTable.of_means(labels, values), np.ones(1))]
