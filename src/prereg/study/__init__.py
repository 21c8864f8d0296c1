"""Joins one protocol to its evidence, and answers."""

from __future__ import annotations

from prereg.study.records import ClaimResult, ContrastRecord, PermutationResult, Verdict
from prereg.study.study import Study

__all__ = ["ClaimResult", "ContrastRecord", "PermutationResult", "Study", "Verdict"]
