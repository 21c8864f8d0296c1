"""How often a registered gate errs, and how often it finds what is there: simulated before it is frozen."""

from __future__ import annotations

from prereg.calibration.calibrating import REPLICATIONS, SEED, calibrate, code_digest, gate_record, run_digest
from prereg.calibration.cases import Case, cases_of
from prereg.calibration.gates import Gate, gate_of
from prereg.calibration.parts import Part, Parts, Run, joined
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
    "Part",
    "Parts",
    "Plan",
    "Rate",
    "Run",
    "Source",
    "calibrate",
    "cases_of",
    "code_digest",
    "false_refutations",
    "gate_of",
    "gate_record",
    "joined",
    "plans_from_moments",
    "plans_from_pilot",
    "read_calibration",
    "run_digest",
    "verdict",
]
