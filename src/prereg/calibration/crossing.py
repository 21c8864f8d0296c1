"""Worlds of two factors: subjects asked by templates, or within relations, both of them drawn anew.

A subject of the pilot is drawn with replacement, with its rows: which templates (relations) they are of, and their
denominators. Its residuals are forgotten. New ones are sums of effects, drawn with replacement from the pilot's
(`prereg.calibration.effects`):

crossed
    a subject's, a template's, a cell's where cells hold several rows, and the row's.
nested
    a relation's, a subject's within its relation, and the row's.

So a sample has the pilot's structure, and every effect has mean 0 whatever the rows are, so that theta of the world is
the pilot's exactly. The number of units is that of subjects; templates and relations are as many as in the
pilot (fewer where no drawn subject was asked by one), their effects new in each sample. A gate's minimum of units
counts what its design calls independent: the smaller side, or the relations.

empirical
    As above, each subject's rows scaled by a lognormal factor of log-sd 0.1.
heavy_tailed
    Each drawn effect times a number of Student's t on 3 degrees of freedom, of variance 1.
skewed
    As ``empirical``, of log-sd 0.75: few subjects carry much.

Approximations, all our own definitions: effects add up, do not depend on each other or on the denominators, and rows
differ in none but these; variances that are estimated as 0 are 0; which templates a subject is asked by has
nothing to do with its effect. A row that is silent about a ratio (D = 0) stays so, and has no residual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from prereg.calibration.effects import Codes, Effects, effects_of
from prereg.calibration.gates import Design
from prereg.calibration.populations import FIRST_FREE, JITTER, SKEW, Streams, labels, lognormal, t_radius
from prereg.calibration.sums import Matrix
from prereg.errors import InferenceError
from prereg.inference import crossed, nested
from prereg.inference.designs import Crossed, Nested

__all__ = ["DESIGN_KINDS", "DesignKind", "FromDesign", "Pilot", "Rows"]

DesignKind = Literal["empirical", "heavy_tailed", "skewed"]
DESIGN_KINDS: tuple[DesignKind, ...] = ("empirical", "heavy_tailed", "skewed")

_SUBJECTS = FIRST_FREE
_FIRST_FACTOR = FIRST_FREE + 1


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A sample before its rows are summed.

    Parameters
    ----------
    parts
        Each contrast's numerators, denominators, both (n_rows, n_ratios), and weights, (n_ratios,).
    subjects, groups
        Who a row is about, and its template or relation; length n_rows.
    """

    parts: tuple[tuple[Matrix, Matrix, Matrix], ...]
    subjects: tuple[str, ...]
    groups: tuple[str, ...]

    def design(self, kind: Design | None) -> Crossed | Nested:
        """Return how they are drawn, as `prereg.study.settling` has it."""
        if kind == "subject_by_template":
            return crossed(self.subjects, self.groups)
        return nested(self.groups, self.subjects)

    def require_variety(self) -> None:
        """Refuse what nothing can be inferred from.

        Raises
        ------
        InferenceError
            If there is one subject, template or relation only, or a ratio about which no row speaks.
        """
        if min(len(set(self.subjects)), len(set(self.groups))) < 2:
            raise InferenceError(
                "there is one subject, template or relation only: nothing to draw from",
                remedy="choose another pilot with --pilot MODEL",
            )
        if any(not (below.sum(axis=0) > 0.0).all() for _, below, _ in self.parts):
            raise InferenceError("no row speaks of some ratio: it has no value")


@dataclass(frozen=True, slots=True, eq=False)
class Pilot:
    """A pilot's rows, taken apart; see the module's text.

    Parameters
    ----------
    design
        Which two factors.
    rows
        The pilot's own.
    ratios
        R of each contrast, (n_ratios,).
    effects
        Of each contrast; factors in the order of `codes`.
    subject, group
        Level of each row.
    cells
        Whether cells of a crossed design hold several rows and so have an effect.
    """

    design: Design
    rows: Rows
    ratios: tuple[Matrix, ...]
    effects: tuple[Effects, ...]
    subject: Codes
    group: Codes
    cells: bool

    @classmethod
    def of(cls, design: Design, rows: Rows) -> Self:
        """Take a pilot's rows apart.

        Raises
        ------
        InferenceError
            If a factor has one level, or a contrast doesn't vary.
        """
        rows.require_variety()
        subject, group = _coded(rows.subjects), _coded(rows.groups)
        cell = _coded_pairs(subject, group)
        cells = len(np.unique(cell)) < len(cell)
        factors = [group, cell] if design == "subject_in_relation" else [subject, group, cell]
        if not cells:
            factors.pop()
        ratios, effects = [], []
        for numerator, denominator, weights in rows.parts:
            ratio = numerator.sum(axis=0) / denominator.sum(axis=0)
            residual = numerator - ratio * denominator
            found = effects_of(residual, denominator, weights, factors)
            if not sum(found.variances) > 1e-24 * float(((numerator / denominator.sum(axis=0)) ** 2).sum()):
                raise InferenceError(
                    "a contrast of the pilot doesn't vary: there is nothing to simulate",
                    remedy="choose another pilot with --pilot MODEL",
                )
            ratios.append(ratio)
            effects.append(found)
        return cls(design, rows, tuple(ratios), tuple(effects), subject, group, cells)

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return int(self.subject.max()) + 1

    @property
    def estimates(self) -> tuple[float, ...]:
        """Theta of each contrast."""
        return tuple(float(w @ r) for (_, _, w), r in zip(self.rows.parts, self.ratios, strict=True))

    def factors(self, subject: Codes, group: Codes) -> list[Codes]:
        """Return each row's levels in a sample of these subjects and groups, in the order of the effects."""
        cell = _coded_pairs(subject, group)
        first = [group] if self.design == "subject_in_relation" else [subject, group]
        return [*first, cell] if self.cells else first


@dataclass(frozen=True, slots=True, eq=False)
class FromDesign:
    """A world of two factors fitted to a pilot."""

    kind: DesignKind
    pilot: Pilot

    @property
    def name(self) -> str:
        """Its kind."""
        return self.kind

    @property
    def truth(self) -> tuple[float, ...]:
        """The pilot's estimates."""
        return self.pilot.estimates

    def sample(self, streams: Streams, n_units: int) -> Rows:
        """Return a fresh sample about `n_units` subjects.

        Raises
        ------
        InferenceError
            If nothing can be inferred from it.
        """
        pilot = self.pilot
        drawn = streams.of(_SUBJECTS).integers(0, pilot.n_subjects, size=n_units)
        order = np.argsort(pilot.subject, kind="stable")
        counts = np.bincount(pilot.subject)
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        who = np.repeat(np.arange(n_units), counts[drawn])
        within = np.arange(who.size) - np.repeat(np.cumsum(counts[drawn]) - counts[drawn], counts[drawn])
        source = order[first[drawn][who] + within]
        residuals = self._residuals(streams, who, pilot.group[source])
        scale = np.ones((who.size, 1))
        if self.kind != "heavy_tailed":
            scale = lognormal(streams, n_units, SKEW if self.kind == "skewed" else JITTER)[who, None]
        parts = []
        for (_, denominator, weights), ratio, residual in zip(
            pilot.rows.parts, pilot.ratios, residuals, strict=True
        ):
            below = denominator[source]
            parts.append((scale * (ratio * below + residual * (below > 0.0)), scale * below, weights))
        names = labels(n_units)
        found = Rows(tuple(parts), tuple(names[i] for i in who), tuple(pilot.rows.groups[i] for i in source))
        found.require_variety()
        return found

    def _residuals(self, streams: Streams, subject: Codes, group: Codes) -> list[Matrix]:
        """Draw each factor's effects and the rows', the same draws for every contrast."""
        pilot = self.pilot
        factors = [*pilot.factors(subject, group), np.arange(subject.size)]
        residuals = [np.zeros((subject.size, len(ratio))) for ratio in pilot.ratios]
        for k, codes in enumerate(factors):
            sources = [(*found.levels, found.rows)[k] for found in pilot.effects]
            purpose = _FIRST_FACTOR + 3 * k
            n_levels = int(codes.max()) + 1
            drawn = streams.of(purpose).integers(0, len(sources[0]), size=n_levels)
            factor = np.ones(n_levels)
            if self.kind == "heavy_tailed":
                normal = streams.of(purpose + 1).standard_normal(n_levels)
                factor = normal * t_radius(streams, n_levels, purpose + 2)
            for residual, source in zip(residuals, sources, strict=True):
                residual += (source[drawn] * factor[:, None])[codes]
        return residuals


def _coded(names: Sequence[str]) -> Codes:
    codes: Codes = np.unique(np.asarray(names), return_inverse=True)[1].astype(np.int64)
    return codes


def _coded_pairs(first: Codes, second: Codes) -> Codes:
    pairs = first * (int(second.max()) + 1) + second
    codes: Codes = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return codes
