"""Worlds in which the truth is known: units drawn so that every contrast has exactly one value in them.

Four are fitted to a pilot's per-unit sums (N, D), with residuals ``E = N - R D``. A draw is ``N = R D + E``, and
E has mean 0 whatever D is, so theta of the world is the pilot's. Moving it to another value is ``N' = N + c D``,
which moves estimate, replicates and bounds by the same amount and leaves every standard error as it is; so one
simulation serves every truth (see `prereg.calibration.answering`). Where theta is a weighted sum of ratios, each ratio
moves in proportion to its weight.

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

A unit is silent about a contrast where its D is 0, and then its N is 0 too. For contrasts that have silent units, heavy
tails are those of the units that speak, their residuals scaled to the same variance over all units (so residuals of
two contrasts that seldom speak together are less correlated than the pilot's); and ``clustered`` draws the number of
rows by itself, but D and residual of one row together, the latter about the mean of such ratios.

Where units are updates that a claim draws in blocks, neighbours are alike. Then units are blocks of the pilot's updates
in their order, of geometric length with the registered mean, one after the other (the stationary bootstrap, Politis
and Romano 1994, doi:10.1080/01621459.1994.10476870): the pilot's dependence within a block, none between two.
``heavy_tailed`` and ``skewed`` blocks have a factor each; there is no ``clustered``.

Where there is no pilot, units are a mean with the stated standard error: ``normal``, ``heavy_tailed`` (t on 3
degrees of freedom) and ``skewed`` (lognormal of log-sd 0.75, centred). All are our own definitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from prereg.calibration.sums import Matrix, Sums
from prereg.inference import RatioTable

__all__ = [
    "FIRST_FREE",
    "JITTER",
    "MOMENT_KINDS",
    "PILOT_KINDS",
    "SERIES_KINDS",
    "SKEW",
    "FromMoments",
    "FromPilot",
    "Population",
    "Streams",
    "Tables",
    "labels",
    "lognormal",
    "t_radius",
]

Tables = list[tuple[RatioTable, Matrix]]

PilotKind = Literal["empirical", "heavy_tailed", "skewed", "clustered"]
MomentKind = Literal["normal", "heavy_tailed", "skewed"]
PILOT_KINDS: tuple[PilotKind, ...] = ("empirical", "heavy_tailed", "skewed", "clustered")
SERIES_KINDS: tuple[PilotKind, ...] = ("empirical", "heavy_tailed", "skewed")
MOMENT_KINDS: tuple[MomentKind, ...] = ("normal", "heavy_tailed", "skewed")

JITTER = 0.1
"""Log-sd of the factors that make no two units quite alike."""
SKEW = 0.75
"""Log-sd of the factors that make units skewed."""
_DEGREES = 3.0
# One stream each, so that a world of more units begins with the same ones.
_UNITS, _SCALE, _RADIUS, _SIZES, _RESIDUALS, _NORMALS = range(6)
# Streams from here on belong to `prereg.calibration.crossing`.
FIRST_FREE = 6


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
    block_length: float | None = None
    """Mean number of neighbouring units that are drawn together; None: each by itself."""

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
        residual, denominator = self._draw(streams, n_units)
        found, done = [], 0
        for part in parts:
            columns = slice(done, done + part.ratios.size)
            bottom = denominator[:, columns]
            table = RatioTable(labels(n_units), part.ratios * bottom + residual[:, columns], bottom, n_units)
            found.append((table, part.weights))
            done = columns.stop
        return found

    def _draw(self, streams: Streams, n: int) -> tuple[Matrix, Matrix]:
        parts, pilot = self.sums.parts, self.sums.n_units
        residual = np.hstack([part.residual for part in parts])
        denominator = np.hstack([part.denominator for part in parts])
        speaking = np.hstack([part.speaking for part in parts])
        units = streams.of(_UNITS).integers(0, pilot, size=n)
        if self.block_length is not None:
            return self._series(streams, units, self.block_length, residual, denominator)
        if self.kind == "heavy_tailed":
            mix = streams.of(_NORMALS).standard_normal((n, pilot)) / math.sqrt(pilot)
            drawn = (mix @ residual) * t_radius(streams, n)[:, None]
            return drawn * _heard(denominator[units], speaking), denominator[units]
        if self.kind == "clustered":
            return self._clustered(streams, n, units, residual, denominator, speaking < 1.0)
        scale = lognormal(streams, n, JITTER if self.kind == "empirical" else SKEW)[:, None]
        return residual[units] * scale, denominator[units] * scale

    def _series(
        self,
        streams: Streams,
        starts: npt.NDArray[np.int64],
        block_length: float,
        residual: Matrix,
        denominator: Matrix,
    ) -> tuple[Matrix, Matrix]:
        n = starts.size
        begins = streams.of(_SIZES).random(n) < 1.0 / block_length
        begins[0] = True
        block = np.cumsum(begins) - 1
        first = np.flatnonzero(begins)[block]
        units = (starts[first] + np.arange(n) - first) % self.sums.n_units
        if self.kind == "heavy_tailed":
            factor = streams.of(_NORMALS).standard_normal(n) * t_radius(streams, n)
            return residual[units] * factor[block, None], denominator[units]
        scale = lognormal(streams, n, JITTER)
        if self.kind == "skewed":
            scale = lognormal(streams, n, SKEW)[block]
        return residual[units] * scale[:, None], denominator[units] * scale[:, None]

    def _clustered(
        self,
        streams: Streams,
        n: int,
        units: npt.NDArray[np.int64],
        residual: Matrix,
        denominator: Matrix,
        silent: npt.NDArray[np.bool_],
    ) -> tuple[Matrix, Matrix]:
        pilot, rows = self.sums.n_units, self.sums.rows.astype(np.float64)
        sizes = rows[streams.of(_SIZES).integers(0, pilot, size=n)][:, None]
        mean, below = residual / rows[:, None], denominator / rows[:, None]
        # Independent of the size, so it must have mean 0 by itself.
        others = (mean - mean.mean(axis=0))[streams.of(_RESIDUALS).integers(0, pilot, size=n)]
        if silent.any():
            # A residual that stays with its denominator has mean 0 beside it: about the ratio of row means.
            own = mean - below * (mean.mean(axis=0) / below.mean(axis=0))
            others = np.where(silent, own[units], others)
        return sizes * others, sizes * below[units]


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
            variance = math.expm1(SKEW**2)
            deviation = (lognormal(streams, n_units, SKEW) - 1.0) / math.sqrt(variance)
        else:
            deviation = streams.of(_NORMALS).standard_normal(n_units)
            if self.kind == "heavy_tailed":
                deviation = deviation * t_radius(streams, n_units)
        column = (self.unit_sd * deviation)[:, None]
        table = RatioTable(labels(n_units), column, np.ones_like(column), n_units)
        return [(table, np.ones(1))] * self.n_contrasts


def lognormal(streams: Streams, n: int, sd: float) -> Matrix:
    """Return factors of mean 1, shape (n,)."""
    return np.exp(sd * streams.of(_SCALE).standard_normal(n) - sd**2 / 2.0)


def t_radius(streams: Streams, n: int, purpose: int = _RADIUS) -> Matrix:
    """Return what turns normal vectors into those of Student's t with the same covariance, shape (n,)."""
    chi2 = streams.of(purpose).chisquare(_DEGREES, size=n)
    radius: Matrix = np.sqrt((_DEGREES - 2.0) / chi2)
    return radius


def _heard(denominator: Matrix, speaking: Matrix) -> Matrix:
    """Return factors that silence a residual where its denominator is 0, and keep its variance over all units."""
    heard: Matrix = (denominator > 0.0) / np.sqrt(speaking)
    return heard


@lru_cache(maxsize=4)
def labels(n: int) -> tuple[str, ...]:
    """Return names of units, sorted."""
    return tuple(f"u{i:07d}" for i in range(n))
