"""The state path: how far the codes of one update reach, in numbers that no change of the state's basis moves.

The Markov parameter M[l, j] = C_l A_{l-1} ... A_{j+1} B_j carries z[j] into update l, l > j. Its energy is
|M[l, j] Sigma_j^(1/2)|^2 (Frobenius), Sigma_j the training covariance of z[j]: the mean squared length of what z[j]
adds to update l, in units of update l's training variance. States s -> T_l s, T_l invertible, leave it as it is.

E(g) is the mean energy over pairs of gap g = l - j. Every gap averages the same updates l: those for which the
largest gap still reaches an update whose codes vary. From E(1), ..., E(G):

- half-life by slope: log 2 / -b, with b the least-squares slope of log E(g) on g; that of the norm E(g)^(1/2) is
  twice it.
- half-life by interpolation: g* - 1, with g* the first gap at which E (or the norm), log-linear between gaps, is
  half of E(1); none where it isn't reached within G.
- memory: sum g E(g) / sum E(g), and the same weighted by norms; at least 1 by definition.

A, B and C are shrunken towards zero, and a long path holds more of them than a short one: with few prompts, or codes
that say little, memory comes out shorter than it is. The intervals are about the estimate that such a fit tends to.

Our own definitions: the paper's abstract says "halves per layer" and "memory of about 1.2 layers" and no more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import scipy.stats

from prereg.analysis.frame import Floats
from prereg.errors import AnalysisError

__all__ = ["MEMORY", "PATH", "QUANTITIES", "energies", "intervals", "path_rows", "profile", "summary"]

QUANTITIES = (
    "half_life_slope_energy",
    "half_life_slope_norm",
    "half_life_interpolated_energy",
    "half_life_interpolated_norm",
    "memory_energy",
    "memory_norm",
)

PATH = pa.schema(
    [
        ("fit", pa.string()),
        ("update", pa.int16()),
        ("source", pa.int16()),
        ("gap", pa.int16()),
        ("energy", pa.float64()),
    ]
)
"""Side table ``path``: l, j, l - j and the energy of M[l, j]."""

MEMORY = pa.schema(
    [
        ("fit", pa.string()),
        ("quantity", pa.string()),
        ("estimate", pa.float64()),
        ("se", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("level", pa.float64()),
        ("groups", pa.int16()),
    ]
)
"""Side table ``memory``, in updates. Null where a quantity, or one of its replicates, is not defined."""


def energies(
    outputs: Sequence[Floats], first: int, transitions: Sequence[Floats], drives: Sequence[Floats]
) -> Floats:
    """Return the energy of every Markov parameter.

    Parameters
    ----------
    outputs
        (n, n) each, C_l' C_l, for l = first, first + 1, ...
    first
        The first of these updates.
    transitions
        (n, n) each, for row vectors: s[l+1] = s[l] @ transitions[l] + ..., l = 0, 1, ...
    drives
        (n, n) each, B_j Sigma_j B_j', j = 0, 1, ...

    Returns
    -------
    Floats
        (n_outputs, last): column j of row i is that of M[first + i, j]; 0 where j >= l.
    """
    last = first + len(outputs) - 1
    found = np.zeros((len(outputs), last))
    for i, gram in enumerate(outputs):
        carried = gram
        for j in range(first + i - 1, -1, -1):
            found[i, j] = max(float(np.sum(drives[j] * carried)), 0.0)
            carried = transitions[j] @ carried @ transitions[j].T
    return found


def profile(found: Floats, first: int, earliest: int, max_gap: int) -> Floats:
    """Return E(1), ..., E(max_gap).

    Parameters
    ----------
    found
        As `energies` returns it.
    first
        The first update with targets.
    earliest
        The first update whose codes vary.
    max_gap
        G.

    Raises
    ------
    AnalysisError
        If no update has a source G before it.
    """
    last = first + len(found) - 1
    updates = range(max(first, earliest + max_gap), last + 1)
    if not updates:
        raise AnalysisError(
            f"max_gap {max_gap}: no update up to {last} has a source that far back; the first is {earliest}",
            remedy=f"lower `max_gap` to at most {max(last - earliest, 1)}",
        )
    return np.array(
        [np.mean([found[layer - first, layer - g] for layer in updates]) for g in range(1, max_gap + 1)]
    )


def summary(energy: Floats) -> dict[str, float | None]:
    """Return every quantity of `QUANTITIES` for E(1), ..., E(G); None where it is not defined."""
    if not energy.any():
        return dict.fromkeys(QUANTITIES)
    gaps = np.arange(1, len(energy) + 1)
    norm = np.sqrt(energy)
    slope = _slope_half_life(energy)
    return {
        "half_life_slope_energy": slope,
        "half_life_slope_norm": None if slope is None else 2.0 * slope,
        "half_life_interpolated_energy": _interpolated_half_life(energy),
        "half_life_interpolated_norm": _interpolated_half_life(norm),
        "memory_energy": float(gaps @ energy / energy.sum()),
        "memory_norm": float(gaps @ norm / norm.sum()),
    }


def _slope_half_life(energy: Floats) -> float | None:
    if not (energy > 0).all():
        return None
    gaps = np.arange(1, len(energy) + 1)
    slope = float(np.polyfit(gaps, np.log(energy), 1)[0])
    return math.log(2.0) / -slope if slope < 0 else None


def _interpolated_half_life(values: Floats) -> float | None:
    half = values[0] / 2.0
    below = np.flatnonzero(values <= half)
    if not values[0] > 0 or not below.size:
        return None
    after = int(below[0])
    if values[after] <= 0.0:
        # Nothing is left there: the logarithm has no end to go to. The line itself has.
        share = (values[after - 1] - half) / values[after - 1]
    else:
        share = math.log(values[after - 1] / half) / math.log(values[after - 1] / values[after])
    return after - 1 + float(share)


def intervals(
    fit: str, estimate: dict[str, float | None], replicates: Sequence[dict[str, float | None]], level: float
) -> list[dict[str, object]]:
    """Return rows of `MEMORY`: delete-a-group jackknife standard errors, and t intervals.

    Without replicates there is no interval. With G groups, se^2 = (G - 1) / G sum (replicate - estimate)^2, and t has
    G - 1 degrees of freedom (Kott 2001, Journal of Official Statistics 17, 521-526; Shao and Tu 1995, The Jackknife
    and Bootstrap, section 2.3).
    """
    groups = len(replicates)
    quantile = float(scipy.stats.t.ppf(0.5 + level / 2.0, groups - 1)) if groups > 1 else math.nan
    rows = []
    for name, value in estimate.items():
        row: dict[str, object] = {
            "fit": fit,
            "quantity": name,
            "level": level,
            "groups": groups,
            "estimate": value,
        }
        others = [r[name] for r in replicates]
        known = [o for o in others if o is not None]
        if value is not None and len(known) == groups > 1:
            se = math.sqrt((groups - 1) / groups * sum((o - value) ** 2 for o in known))
            row |= {"se": se, "low": value - quantile * se, "high": value + quantile * se}
        rows.append(row)
    return rows


def path_rows(fit: str, found: Floats, first: int) -> list[dict[str, object]]:
    """Return rows of `PATH`."""
    return [
        {"fit": fit, "update": layer, "source": j, "gap": layer - j, "energy": float(found[layer - first, j])}
        for layer in range(first, first + len(found))
        for j in range(layer)
    ]
