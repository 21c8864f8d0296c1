"""H4: the causal test, with its controls. What an intervention is and which columns it gives: `measuring`."""

from __future__ import annotations

from prereg.analysis.interventions.measuring import measure
from prereg.analysis.interventions.settings import InterventionSettings, fit_names

__all__ = ["InterventionSettings", "fit_names", "measure"]
