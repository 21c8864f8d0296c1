"""Data: facts, prompts, models, captured activations and the stores that hold them."""

from __future__ import annotations
