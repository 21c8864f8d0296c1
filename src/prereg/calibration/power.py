"""`prereg power`: how many independent units a gate needs to find what is expected.

Power is simulated in the world fitted to the pilot (its ``empirical`` one, or ``normal`` where only moments are
stated), at the gate's own interval and rule, with the same random numbers for every n: a larger sample begins with
the smaller one. The number is found by bisection from a first guess in closed form,

    n = ((z(1 - alpha) + z(power)) s / |theta - threshold|)**2

with s the standard error of one unit (for an equivalence z((1 + power)/2), and the margin as the distance). The guess
is reported too. Over several contrasts it is that of the most demanding one; of a claim about some candidate that of
the least demanding, at alpha over the number of candidates. Where units are crossed or nested it takes templates and
relations to grow with the subjects, which they don't. It is no more than a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Annotated, Any, Literal

from pydantic import Field

from prereg.calibration.records import Rate
from prereg.calibration.simulate import Answers, Trial, run_trials
from prereg.calibration.sources import Plan
from prereg.errors import StudyError
from prereg.inference import Outcome
from prereg.protocol.base import Closed
from prereg.workers import Workers

__all__ = ["LARGEST", "POWER_REPLICATIONS", "RESAMPLES", "PowerResult", "Probe", "closed_form", "power_of"]

LARGEST = 4_000
"""No larger number of units is tried unless it is asked for."""

POWER_REPLICATIONS = 400
RESAMPLES = 2_000
"""Resamples in each simulated data set; a registered plan of more only settles the bounds' third digit."""


class Probe(Closed):
    """Power at one number of units."""

    n_units: int
    power: Rate


class PowerResult(Closed):
    """What one gate needs.

    ``n_units`` is the least number tried whose simulated power reaches the wanted one, within about 2% of n; None
    where there is no such number, and ``reason`` says why.
    """

    hypothesis: str
    population: str
    wanted: Annotated[float, Field(gt=0.0, lt=1.0)]
    alpha: float
    expected: tuple[float, ...]
    pilot_units: int
    n_units: int | None
    power: Rate | None
    closed_form: int | None
    method: Literal["simulated, by bisection", "not found"]
    reason: str
    replications: int
    resamples: int
    probes: tuple[Probe, ...]

    def as_record(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return self.model_dump(mode="json")


def closed_form(plan: Plan, power: float) -> int | None:
    """Return the first guess at n, or None where the claim is false under its alternative."""
    gate, normal = plan.gate, NormalDist()
    if not plan.alternative.holds:
        return None
    some = gate.quantifier == "some"
    sides = power if gate.direction != "equivalence" else (1.0 + power) / 2.0
    alpha = gate.alpha / len(gate.labels) if some else gate.alpha
    points = normal.inv_cdf(1.0 - alpha) + normal.inv_cdf(sides)
    needs = []
    for value, error in zip(plan.alternative.values, plan.unit_errors, strict=True):
        away = gate.threshold - abs(value) if gate.direction == "equivalence" else abs(value - gate.threshold)
        if gate.passes(value):
            needs.append((points * error / away) ** 2)
    # The guess may be astronomical where the effect is next to nothing.
    return math.ceil(min(min(needs) if some else max(needs), 1e12))


def power_of(
    plan: Plan,
    power: float,
    *,
    seed: int,
    workers: Workers,
    replications: int = POWER_REPLICATIONS,
    resamples: int = RESAMPLES,
    largest: int = LARGEST,
) -> PowerResult:
    """Find the number of units at which a gate has the wanted power under its alternative.

    Parameters
    ----------
    plan
        The gate, its alternative and its worlds; the first of these is used.
    power
        Wanted P(supported), between 0 and 1 and above the gate's alpha.
    seed
        Of the simulation.
    workers
        Who simulates.
    replications
        Data sets for each number of units.
    resamples
        Bootstrap resamples in each; at most as many as are registered.
    largest
        No larger number of units is tried.

    Raises
    ------
    StudyError
        If the power or the largest number of units is out of range.
    """
    gate = plan.gate
    alpha = float(f"{gate.alpha:.12g}")  # 0.05 as it was registered, not as (1 - 0.9) / 2
    if not alpha < power < 1.0:
        raise StudyError(
            f"a power of {power!r} was asked of {gate.name}; a number above its alpha of {alpha:g} and below 1 "
            "is wanted",
            remedy="as in --power 0.8",
        )
    least = gate.minimum_units
    if largest < least:
        raise StudyError(
            f"at most {largest} units, but {gate.name} registers at least {least}",
            remedy=f"give --largest {least} or more",
        )
    guess = closed_form(plan, power)
    quick = replace(gate, replicates=min(resamples, gate.replicates))
    probes: dict[int, Rate] = {}

    def reaches(n: int) -> bool:
        if n not in probes:
            trial = Trial(quick, plan.populations[0], (plan.alternative,), n)
            label = f"{gate.name}: power at {n} units"
            answers: Answers = run_trials(
                [trial], replications=replications, seed=seed, workers=workers, label=label
            )[0]
            probes[n] = Rate.of(answers.counts(0)[Outcome.SUPPORTED], replications)
        return probes[n].share >= power

    found = None if guess is None else _least(reaches, least, largest, guess)
    return PowerResult(
        hypothesis=gate.name,
        population=plan.populations[0].name,
        wanted=power,
        alpha=alpha,
        expected=tuple(float(f"{value:.12g}") for value in plan.alternative.values),
        pilot_units=plan.n_units,
        n_units=found,
        power=None if found is None else probes[found],
        closed_form=guess,
        method="not found" if found is None else "simulated, by bisection",
        reason=_reason(guess, found, least, largest),
        replications=replications,
        resamples=quick.replicates,
        probes=tuple(Probe(n_units=n, power=rate) for n, rate in sorted(probes.items())),
    )


def _least(reaches: Callable[[int], bool], least: int, largest: int, guess: int) -> int | None:
    """Bracket from the guess by doubling and halving, then bisect to within 2%."""
    n = min(max(guess, least), largest)
    if reaches(n):
        high = n
        while high > least and reaches(max(least, high // 2)):
            high = max(least, high // 2)
        if high == least:
            return least
        low = max(least, high // 2)
    else:
        low = n
        while low < largest and not reaches(min(largest, 2 * low)):
            low = min(largest, 2 * low)
        if low == largest:
            return None
        high = min(largest, 2 * low)
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle
    return high


def _reason(guess: int | None, found: int | None, least: int, largest: int) -> str:
    if guess is None:
        return "the claim is false there"
    if found is None:
        return f"not reached with {largest}"
    return "least registered" if found == least else "bisected"
