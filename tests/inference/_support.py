"""Shared by the tests of inference: worked cases, small tables, other libraries' draws replayed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prereg.inference import ExplicitPlan, RatioTable

_FILE = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in _FILE["cases"]}


def labels(n: int) -> list[str]:
    """Return n sorted labels."""
    return [f"u{i:05d}" for i in range(n)]


def one_ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> RatioTable:
    """Build a table of one ratio whose rows are the units."""
    return RatioTable.from_rows(labels(np.size(numerator)), numerator, denominator)


def every_resample(n: int) -> ExplicitPlan:
    """Enumerate all n**n resamples of n units."""
    return ExplicitPlan(n, np.array(list(itertools.product(range(n), repeat=n))))


def number(value: float | str) -> float:
    """Read the file's spelling of nan and inf."""
    return float(value)


def random_ratio(n: int, seed: int = 0) -> RatioTable:
    """Build a table with a continuous numerator and denominator."""
    rng = np.random.default_rng(seed)
    return one_ratio(rng.normal(0.1, 1.0, n), rng.exponential(1.0, n))
