"""Worlds in which the truth is known: units drawn so that every contrast has exactly one value in them.

Four are fitted to a pilot's per-unit sums (N, D), with residuals ``E = N - R D``. A draw is ``N = R D + E``, and
E has mean 0 whatever D is, so theta of the world is the pilot's. Moving it to another value is ``N' = N + c D``,
which moves estimate, replicates and bounds by the same amount and leaves every standard error as it is; so one
simulation serves every truth (see `prereg.calibration.simulate`).

empirical
    Units of the pilot with replacement, each scaled by a lognormal factor of sd 0.1: smoothed, so that no two are
    quite alike.
heavy_tailed
    Residuals of the pilot's covariance with the radial part of Student's t on 3 degrees of freedom, scaled to unit
    variance, independent of D; D from the pilot.
skewed
    Units of the pilot scaled by a lognormal factor of log-sd 0.75: few units carry much.
clustered
    A unit's number of rows, its mean denominator and its mean residual drawn from the pilot independently: clusters
    of unequal size whose rows share their residual entirely.

Where there is no pilot, units are a mean with the stated standard error: ``normal``, ``heavy_tailed`` (t on 3
degrees of freedom) and ``skewed`` (lognormal of log-sd 0.75, centred). All are our own definitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np

from prereg.calibration.sums import Matrix, Sums
from prereg.inference import RatioTable

__all__ = ["MOMENT_KINDS", "PILOT_KINDS", "FromMoments", "FromPilot", "Population", "Streams"]

Tables = list[tuple[RatioTable, Matrix]]

PilotKind = Literal["empirical", "heavy_tailed", "skewed", "clustered"]
MomentKind = Literal["normal", "heavy_tailed", "skewed"]
PILOT_KINDS: tuple[PilotKind, ...] = ("empirical", "heavy_tailed", "skewed", "clustered")
MOMENT_KINDS: tuple[MomentKind, ...] = ("normal", "heavy_tailed", "skewed")

_JITTER = 0.1
_SKEW = 0.75
_DEGREES = 3.0
# One stream each, so that a world of more units begins with the same ones.
_UNITS, _SCALE, _RADIUS, _SIZES, _RESIDUALS, _NORMALS = range(6)


@dataclass(frozen=True, slots=True)
class Streams:
    """Random numbers of one simulated data set; the same for every gate, so that their noise is shared."""

    seed: int
    replication: int

    def of(self, purpose: int) -> np.random.Generator:
        """Return the numbers for one purpose."""
        key = np.random.SeedSequence(self.seed, spawn_key=(self.replication, purpose))
        return np.random.Generator(np.random.PCG64(key))


class Population(Protocol):
    """A world to draw data from."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        ...

    @property
    def truth(self) -> tuple[float, ...]:
        """Theta of each contrast in it."""
        ...

    def tables(self, streams: Streams, n_units: int) -> Tables:
        """Return each contrast's table and weights on a fresh sample."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FromPilot:
    """A world fitted to a pilot; see the module's text."""

    kind: PilotKind
    sums: Sums

    @property
    def name(self) -> str:
        """Its kind."""
        return self.kind

    @property
    def truth(self) -> tuple[float, ...]:
        """The pilot's estimates."""
        return self.sums.estimates

    def tables(self, streams: Streams, n_units: int) -> Tables:
        """Return each contrast's table and weights on a fresh sample of `n_units` units."""
        parts = self.sums.parts
        residual = np.hstack([part.residual for part in parts])
        denominator = np.hstack([part.denominator for part in parts])
        residual, denominator = self._draw(streams, n_units, residual, denominator)
        found, done = [], 0
        for part in parts:
            columns = slice(done, done + part.ratios.size)
            bottom = denominator[:, columns]
            table = RatioTable(_labels(n_units), part.ratios * bottom + residual[:, columns], bottom, n_units)
            found.append((table, part.weights))
            done = columns.stop
        return found

    def _draw(self, streams: Streams, n: int, residual: Matrix, denominator: Matrix) -> tuple[Matrix, Matrix]:
        pilot = self.sums.n_units
        units = streams.of(_UNITS).integers(0, pilot, size=n)
        if self.kind == "heavy_tailed":
            mix = streams.of(_NORMALS).standard_normal((n, pilot)) / math.sqrt(pilot)
            return (mix @ residual) * _t_radius(streams, n)[:, None], denominator[units]
        if self.kind == "clustered":
            rows = self.sums.rows.astype(np.float64)
            sizes = rows[streams.of(_SIZES).integers(0, pilot, size=n)][:, None]
            mean = residual / rows[:, None]
            # Independent of the size, so it must have mean 0 by itself.
            mean = mean - mean.mean(axis=0)
            others = streams.of(_RESIDUALS).integers(0, pilot, size=n)
            return sizes * mean[others], sizes * (denominator / rows[:, None])[units]
        scale = _lognormal(streams, n, _JITTER if self.kind == "empirical" else _SKEW)[:, None]
        return residual[units] * scale, denominator[units] * scale


@dataclass(frozen=True, slots=True)
class FromMoments:
    """A world of which only a standard error is stated; theta is 0.

    Parameters
    ----------
    kind
        Shape of a unit's deviation.
    unit_sd
        Standard deviation of one unit: the stated standard error times the root of the stated number of units.
    n_contrasts
        Contrasts, all of them the same mean: the dependence under which a conjunction errs most.
    """

    kind: MomentKind
    unit_sd: float
    n_contrasts: int

    @property
    def name(self) -> str:
        """Its kind."""
        return self.kind

    @property
    def truth(self) -> tuple[float, ...]:
        """No effect."""
        return (0.0,) * self.n_contrasts

    def tables(self, streams: Streams, n_units: int) -> Tables:
        """Return each contrast's table and weights on a fresh sample of `n_units` units."""
        if self.kind == "skewed":
            variance = math.expm1(_SKEW**2)
            deviation = (_lognormal(streams, n_units, _SKEW) - 1.0) / math.sqrt(variance)
        else:
            deviation = streams.of(_NORMALS).standard_normal(n_units)
            if self.kind == "heavy_tailed":
                deviation = deviation * _t_radius(streams, n_units)
        column = (self.unit_sd * deviation)[:, None]
        table = RatioTable(_labels(n_units), column, np.ones_like(column), n_units)
        return [(table, np.ones(1))] * self.n_contrasts


def _lognormal(streams: Streams, n: int, sd: float) -> Matrix:
    """Return factors of mean 1, shape (n,)."""
    return np.exp(sd * streams.of(_SCALE).standard_normal(n) - sd**2 / 2.0)


def _t_radius(streams: Streams, n: int) -> Matrix:
    """Return what turns normal vectors into those of Student's t with the same covariance, shape (n,)."""
    chi2 = streams.of(_RADIUS).chisquare(_DEGREES, size=n)
    radius: Matrix = np.sqrt((_DEGREES - 2.0) / chi2)
    return radius


@lru_cache(maxsize=4)
def _labels(n: int) -> tuple[str, ...]:
    return tuple(f"u{i:07d}" for i in range(n))
