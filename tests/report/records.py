"""Verdict records made by hand, as `Verdict.as_record` gives them."""

from __future__ import annotations

from typing import Any

__all__ = ["record"]


def record(hypothesis: str = "H1", model: str = "smollm2-135m", **changes: Any) -> dict[str, Any]:
    """Return a supported verdict's record, with some keys changed."""
    contrast = {
        "label": "over the null",
        "updates": [4, 5, 6],
        "estimate": 0.61,
        "low": 0.58,
        "high": 0.64,
        "se": 0.015,
        "largest_influence": 0.05,
        "degenerate": False,
        "sensitivity": {"bca": [0.57, 0.63], "studentized": [0.575, None]},
    }
    return {
        "hypothesis": hypothesis,
        "model": model,
        "outcome": "supported",
        "reason": "the whole interval lies above the threshold",
        "claim": "A kernel fit on one depth band predicts the other bands at least half as well as its own.",
        "estimand": "mean over the whole stack of R2",
        "family": "primary",
        "direction": "greater",
        "threshold": 0.05,
        "units": "R2",
        "level": 0.95,
        "n_subjects": 112,
        "n_prompts": 280,
        "estimate": 0.61,
        "low": 0.58,
        "high": 0.64,
        "binds": "over the null",
        "contrasts": [contrast],
        "controls": [],
        "permutations": [],
        "published": {"verdict": "supported", "value": "0.65", "model": "pythia-410m", "note": None},
        "protocol_digest": "ab" * 32,
        "evidence": {},
        **changes,
    }
