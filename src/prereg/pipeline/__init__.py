"""From a protocol and a model's name to evidence: fetch, capture, measure, each only where it is missing.

The stages are addressed by what they depend on. A finished one is found again and never repeated; an
interrupted one resumes; two runs at once wait for each other. Nothing heavy is imported until a
stage must really run, so that reading finished evidence needs neither torch nor a model.
"""

from __future__ import annotations

from prereg.pipeline.options import RunOptions, default_cache
from prereg.pipeline.pipeline import Pipeline, arms_of
from prereg.pipeline.revisions import pinned_models

__all__ = ["Pipeline", "RunOptions", "arms_of", "default_cache", "pinned_models"]
