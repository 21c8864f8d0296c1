"""Units for a wanted power, against the formulas that hold for a normal mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.stats import norm

from prereg.calibration.cases import Case
from prereg.calibration.populations import FromMoments
from prereg.calibration.power import PowerResult, closed_form, power_of
from prereg.calibration.sources import Plan
from prereg.errors import StudyError
from prereg.workers import Workers
from tests.calibration.worlds import cases, gate


def plan(margin: float = 0.3) -> Plan:
    """Return an equivalence within a margin, of a mean whose units have sd 1."""
    made = gate(direction="equivalence", threshold=margin, level=0.9)
    return Plan(made, cases(made), (FromMoments("normal", 1.0, 1),), "R2", 50, (1.0,), "made up")


def ask(made: Plan, power: float = 0.8, **kwargs: int) -> PowerResult:
    return power_of(made, power, seed=1, workers=Workers(), replications=200, **kwargs)


def test_the_bisected_number_is_near_the_formula_s() -> None:
    """For two one-sided tests of a normal mean the closed form is right; 200 samples come within a fifth of it."""
    found = ask(plan())
    exact = ((norm.ppf(0.95) + norm.ppf(0.9)) / 0.3) ** 2
    assert found.closed_form == pytest.approx(exact, abs=1)
    assert found.n_units == pytest.approx(exact, rel=0.2)
    assert found.power is not None
    assert found.power.share >= 0.8
    below = [p for p in found.probes if found.n_units is not None and p.n_units < found.n_units]
    assert below
    assert all(p.power.share < 0.8 for p in below)


def test_a_large_effect_needs_no_more_than_is_registered() -> None:
    """Never less than the registered minimum, where fewer units are no answer."""
    found = ask(plan(margin=5.0))
    assert found.n_units == 10
    assert found.reason == "least registered"


def test_what_no_number_reaches_is_none() -> None:
    """Up to the largest that may be tried."""
    found = ask(plan(margin=0.05), largest=64)
    assert found.n_units is None
    assert found.power is None
    assert "not reached with 64" in found.reason


def test_a_claim_that_is_false_has_no_power() -> None:
    """Nothing is simulated for it."""
    made = plan()
    false = replace(made, cases=(*made.cases[:-1], Case("as in the pilot", "alternative", (0.4,), False)))
    assert closed_form(false, 0.8) is None
    found = ask(false)
    assert found.n_units is None
    assert found.probes == ()
    assert "the claim is false there" in found.reason


@pytest.mark.parametrize("power", [0.0, 0.05, 1.0, float("nan")])
def test_a_power_out_of_range_is_refused(power: float) -> None:
    """Below its alpha any sample would do."""
    with pytest.raises(StudyError, match="a power of"):
        ask(plan(), power)


def test_fewer_units_than_are_registered_are_refused() -> None:
    """They would never answer."""
    with pytest.raises(StudyError, match="registers at least 10"):
        ask(plan(), largest=9)
