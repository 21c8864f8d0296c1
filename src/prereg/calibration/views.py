"""A calibration as people look at it: one row for each gate, number of units and world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prereg.calibration.records import Calibration, CaseResult, Rate, verdict

__all__ = ["Line", "lines_of"]


@dataclass(frozen=True, slots=True)
class Line:
    """One gate in one world.

    Parameters
    ----------
    hypothesis, n_units, population, alpha
        Which.
    size
        P(supported) at the point of the null boundary where it is largest.
    power
        P(supported) under the alternative; None where the claim is false there.
    refuted
        P(refuted) under the alternative.
    coverage
        Of the worst contrast's interval.
    faulty
        Whether the size exceeds alpha beyond Monte Carlo error.
    """

    hypothesis: str
    n_units: int
    population: str
    alpha: float
    size: Rate
    power: Rate | None
    refuted: Rate
    coverage: Rate
    faulty: bool

    @property
    def head(self) -> tuple[str, int, float]:
        """What it shares with its gate's other worlds."""
        return self.hypothesis, self.n_units, self.alpha


def lines_of(calibration: Calibration) -> tuple[Line, ...]:
    """Return the rows, in the order of the results."""
    faults = {(f.hypothesis, f.n_units, f.population) for f in verdict(calibration)}
    alpha = {gate.hypothesis: gate.alpha for gate in calibration.gates}
    groups: dict[tuple[str, int, str], list[CaseResult]] = {}
    for result in calibration.results:
        groups.setdefault((result.hypothesis, result.n_units, result.population), []).append(result)
    return tuple(_line(key, group, alpha[key[0]], key in faults) for key, group in groups.items())


def _line(key: tuple[str, int, str], group: Sequence[CaseResult], alpha: float, faulty: bool) -> Line:
    nulls = [result for result in group if result.kind == "null"]
    expected = next(result for result in group if result.kind == "alternative")
    return Line(
        hypothesis=key[0],
        n_units=key[1],
        population=key[2],
        alpha=alpha,
        size=max((result.supported for result in nulls), key=lambda rate: rate.count),
        power=expected.supported if expected.holds else None,
        refuted=expected.refuted,
        coverage=expected.coverage,
        faulty=faulty,
    )
