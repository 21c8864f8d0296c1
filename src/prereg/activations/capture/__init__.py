"""Capture: run a model over prompts and keep what was asked of its stream. Torch is imported on use."""

from __future__ import annotations

from prereg.activations.capture.recompute import RecomputeReport, recompute
from prereg.activations.capture.run import capture
from prereg.activations.store import CaptureRequest, Store, TokenizedPrompts

__all__ = ["CaptureRequest", "RecomputeReport", "Store", "TokenizedPrompts", "capture", "recompute"]
