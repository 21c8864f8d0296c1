"""How often a registered gate errs, and how often it finds what is there: simulated before it is frozen."""

from __future__ import annotations

from prereg.calibration.calibrating import REPLICATIONS, SEED, calibrate, run_digest
from prereg.calibration.gates import Case, Gate, cases_of, gate_of
from prereg.calibration.records import (
    Calibration,
    CaseResult,
    Fault,
    GateRecord,
    Rate,
    false_refutations,
    read_calibration,
    verdict,
)
from prereg.calibration.sources import Plan, Source, plans_from_moments, plans_from_pilot

__all__ = [
    "REPLICATIONS",
    "SEED",
    "Calibration",
    "Case",
    "CaseResult",
    "Fault",
    "Gate",
    "GateRecord",
    "Plan",
    "Rate",
    "Source",
    "calibrate",
    "cases_of",
    "false_refutations",
    "gate_of",
    "plans_from_moments",
    "plans_from_pilot",
    "read_calibration",
    "run_digest",
    "verdict",
]
