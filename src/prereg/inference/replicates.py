"""Replicates of contrasts, with a standard error inside each, streamed over one plan.

All contrasts of all gates are stacked into one pass: drawing and counting cost far more than the sums.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.contrasts import Contrast, prepare
from prereg.inference.fixed_point import ProductLimbs, stack_limbs
from prereg.inference.plan import ResamplingPlan, merged_count_blocks
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from prereg.inference.ratios import RatioTable

__all__ = [
    "Replicates",
    "aligned_replicates",
    "check_plan",
    "distinct_columns",
    "replicate",
    "replicate_contrasts",
    "replicates_of_counts",
]

# Up to this many distinct denominators the squares are summed as products of columns by matrix product;
# beyond, the number of products outgrows the units and the influences are formed directly.
_PRODUCT_GROUPS = 6

# Sums that are evaluated together; sums are small, and a call costs more than its arithmetic.
_BATCH_ROWS = 1024

# Counts that wait for a batch: 2 MB of them, several times that while influences are formed.
_KEPT_COUNTS = 2**18

# A resample whose variance is below this share of the terms it is the difference of has none.
_ZERO_VARIANCE = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Replicates of one contrast.

    Attributes
    ----------
    estimate
        theta on the whole sample.
    standard_error
        Delta-method standard error on the whole sample.
    values
        theta in each defined resample, shape (b,).
    standard_errors
        Delta-method standard error recomputed in each defined resample, shape (b,); None if not asked.
        Exactly 0 where the resample holds no variation.
    n_undefined
        Resamples left out because a denominator summed to 0.
    """

    estimate: float
    standard_error: float
    values: FloatArray
    standard_errors: FloatArray | None
    n_undefined: int


def replicate(
    table: RatioTable, weights: npt.ArrayLike, plan: ResamplingPlan, *, standard_errors: bool = True
) -> tuple[Replicates, ...]:
    """Replicate each contrast of a table over a plan.

    Parameters
    ----------
    table
        Sums per unit.
    weights
        Shape (n_contrasts, n_ratios) or (n_ratios,).
    plan
        The draws; `plan.n_units` must be the table's.
    standard_errors
        Whether to recompute the standard error inside each resample, as studentized intervals and maxT
        tests need.

    Returns
    -------
    tuple of Replicates
        One per contrast; the same draws for all.

    Raises
    ------
    InferenceError
        Plan and table differ in the number of units, or the weights don't fit.
    """
    return replicate_contrasts(prepare(table, weights), plan, standard_errors=standard_errors)


def replicate_contrasts(
    contrasts: Sequence[Contrast], plan: ResamplingPlan, *, standard_errors: bool = True
) -> tuple[Replicates, ...]:
    """Replicate prepared contrasts, of one table or of several, in a single pass over the plan."""
    values, errors = aligned_replicates(contrasts, plan, standard_errors=standard_errors)
    return tuple(
        _collect(contrast, values[k], errors[k] if standard_errors else None)
        for k, contrast in enumerate(contrasts)
    )


def aligned_replicates(
    contrasts: Sequence[Contrast], plan: ResamplingPlan, *, standard_errors: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return theta and its standard error in every resample, both (n_contrasts, n_replicates).

    Column b is the same resample for all contrasts. theta is nan where a denominator is 0. Without standard errors
    the second array has no columns.
    """
    check_plan(contrasts, plan)
    engines = [_Engine(contrast, standard_errors=standard_errors) for contrast in contrasts]
    stacked = _Stack(engines, plan.n_draws)
    values = np.empty((len(engines), plan.n_replicates))
    errors = np.empty((len(engines), plan.n_replicates if standard_errors else 0))
    done = 0
    for sums, counts in _batches(plan, stacked, keep=any(e.needs_counts for e in engines)):
        rows = slice(done, done + sums.shape[0])
        for k, engine in enumerate(engines):
            values[k, rows], within = engine.evaluate(sums[:, stacked.places[k]], counts)
            if within is not None:
                errors[k, rows] = within
        done += sums.shape[0]
    return values, errors


def check_plan(contrasts: Sequence[Contrast], plan: ResamplingPlan) -> None:
    """Refuse no contrasts, and a plan for another number of units."""
    if not contrasts:
        raise InferenceError("no contrasts were given: there is nothing to resample.")
    for contrast in contrasts:
        if contrast.n_units != plan.n_units:
            raise InferenceError(
                f"length mismatch: the table has {contrast.n_units} units, the plan {plan.n_units}.",
                remedy="Draw a plan for this number of units: BootstrapPlan(n_units=table.n_units, ...).",
            )


def replicates_of_counts(contrast: Contrast, counts: FloatArray, n_draws: int) -> FloatArray:
    """Return theta for the resamples with these counts, (b, n_units) to (b,), the bits of `aligned_replicates`."""
    engine = _Engine(contrast, standard_errors=False)
    sums = stack_limbs(list(engine.columns()), n_draws).sums(counts)
    return engine.evaluate(sums, None)[0]


def distinct_columns(groups: Iterable[Iterable[FloatArray]]) -> tuple[list[FloatArray], list[list[int]]]:
    """Return each distinct column once, and for each group the places of its columns among them."""
    seen: dict[bytes, int] = {}
    unique: list[FloatArray] = []
    places: list[list[int]] = []
    for group in groups:
        place = []
        for column in group:
            # The digest stands for the column: a copy of its bytes would be as large.
            key = hashlib.blake2b(np.ascontiguousarray(column).data).digest()
            if key not in seen:
                seen[key] = len(unique)
                unique.append(column)
            place.append(seen[key])
        places.append(place)
    return unique, places


def _batches(
    plan: ResamplingPlan, stacked: _Stack, *, keep: bool
) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    """Yield the sums of many blocks at once, with their counts where an engine needs them."""
    sums: list[FloatArray] = []
    kept: list[FloatArray] = []
    for counts in merged_count_blocks(plan):
        sums.append(stacked.sums(counts))
        if keep:
            kept.append(counts)
        rows = sum(block.shape[0] for block in sums)
        if rows >= _BATCH_ROWS or sum(block.size for block in kept) >= _KEPT_COUNTS:
            yield np.vstack(sums), np.vstack(kept) if keep else None
            sums, kept = [], []
    if sums:
        yield np.vstack(sums), np.vstack(kept) if keep else None


def _collect(contrast: Contrast, values: FloatArray, errors: FloatArray | None) -> Replicates:
    defined = ~np.isnan(values)
    n_undefined = int(values.size - defined.sum())
    if n_undefined:
        values = values[defined]
        errors = None if errors is None else errors[defined]
    return Replicates(
        estimate=contrast.estimate,
        standard_error=contrast.standard_error(),
        values=values,
        standard_errors=errors,
        n_undefined=n_undefined,
    )


class _Stack:
    """Columns of several engines in one matrix, each distinct column once."""

    def __init__(self, engines: Sequence[_Engine], total_count: int) -> None:
        unique, self.places = distinct_columns(engine.columns() for engine in engines)
        self._limbs = stack_limbs(unique, total_count)

    def sums(self, counts: FloatArray) -> FloatArray:
        return self._limbs.sums(counts)


class _Engine:
    """Turns one contrast's sums in each resample into replicates and standard errors."""

    def __init__(self, contrast: Contrast, *, standard_errors: bool) -> None:
        self._contrast = contrast
        self._groups = contrast.n_groups
        self._upper = np.triu_indices(2 * self._groups)
        self._wanted = standard_errors
        self.needs_counts = standard_errors and self._groups > _PRODUCT_GROUPS
        if self.needs_counts:
            both = np.hstack([contrast.numerator, contrast.denominator])
            self._units = ProductLimbs.of(np.ascontiguousarray(both.T))
            self._largest = np.abs(both).max(axis=0)

    def columns(self) -> Iterator[FloatArray]:
        """Yield what is summed in each resample: numerators, denominators, and for standard errors their products."""
        both = (self._contrast.numerator, self._contrast.denominator)
        single = [column for part in both for column in part.T]
        yield from single
        if self._wanted and not self.needs_counts:
            yield from (single[i] * single[j] for i, j in zip(*self._upper, strict=True))

    def _quotients(self, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (N*/D*, 1/D*) per group, nan where D* is 0."""
        bottom = sums[:, self._groups : 2 * self._groups]
        inverse = np.full_like(bottom, np.nan)
        np.divide(1.0, bottom, out=inverse, where=bottom > 0.0)
        return sums[:, : self._groups] * inverse, inverse

    def evaluate(self, sums: FloatArray, counts: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Return theta (nan where undefined) and `sqrt(sum_i count_i psi*_i**2)` in each resample."""
        quotient, inverse = self._quotients(sums)
        values = self._contrast.estimate + _row_sums(quotient)
        if not self._wanted:
            return values, None
        coefficients = np.hstack([inverse, -quotient * inverse])
        if counts is None or not self.needs_counts:
            return values, self._from_products(coefficients, sums[:, 2 * self._groups :])
        return values, self._from_influence(coefficients, counts)

    def _from_products(self, coefficients: FloatArray, products: FloatArray) -> FloatArray:
        """Expand the square: every psi*_i**2 is a quadratic form in that unit's columns."""
        left, right = self._upper
        terms = coefficients[:, left] * coefficients[:, right] * products
        terms *= np.where(left == right, 1.0, 2.0)
        variance = _row_sums(terms)
        variance[variance <= _ZERO_VARIANCE * _row_sums(np.abs(terms))] = 0.0
        return np.sqrt(variance)

    def _from_influence(self, coefficients: FloatArray, counts: FloatArray) -> FloatArray:
        """Form psi* for every unit, then square; by a product that is the same on every machine."""
        psi = self._units.times(coefficients)
        variance: FloatArray = (counts * psi * psi).sum(axis=1)
        # Rounding of psi is some share of its largest terms, so of the variance the square of that.
        size = np.abs(coefficients) @ self._largest
        variance[variance <= self._units.error**2 * counts.sum(axis=1) * size**2] = 0.0
        return np.sqrt(variance)


def _row_sums(matrix: FloatArray) -> FloatArray:
    """Add columns one after another: an order that no vector unit changes."""
    total = matrix[:, 0].copy()
    for k in range(1, matrix.shape[1]):
        total += matrix[:, k]
    return total
