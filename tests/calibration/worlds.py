"""Small gates and worlds whose error rates are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prereg.calibration.gates import Case, Gate, cases_of
from prereg.calibration.populations import Streams
from prereg.calibration.sums import Sums
from prereg.inference import RatioTable


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
