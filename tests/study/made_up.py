"""Claims that mean nothing, with all that a claim must have."""

from __future__ import annotations

from prereg.protocol import Hypothesis


def claim(*contrasts: dict[str, object], **changes: object) -> Hypothesis:
    """Return a claim about these contrasts."""
    content = {
        "claim": "Something is there.",
        "evidence": "made_up",
        "estimand": "A mean of something.",
        "units": "nats",
        "direction": "greater",
        "threshold": 0.1,
        "rationale": "Made up for a test.",
        "family": "primary",
        "contrasts": contrasts,
    }
    return Hypothesis.model_validate(content | changes, strict=False)


def contrast(
    *terms: tuple[float, str], label: str = "c", updates: str = "late", **more: object
) -> dict[str, object]:
    """Return a contrast of these weights and fits."""
    return {"label": label, "updates": updates, "terms": [{"weight": w, "fit": f} for w, f in terms], **more}
