"""Which analyses there are, by the name they have in a protocol. Importing this imports none of them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANALYSES", "AnalysisSpec"]


@dataclass(frozen=True, slots=True)
class AnalysisSpec:
    """Where an analysis lives.

    Parameters
    ----------
    module, settings
        The module that has `measure`, and the name of the settings model in it.
    lean_twin
        Whether its `measure` takes ``twin=True``, which leaves out what only the trained model is asked.
    """

    module: str
    settings: str
    lean_twin: bool = False


ANALYSES = {
    "updates": AnalysisSpec("prereg.analysis.updates", "UpdateSettings"),
    "kernels": AnalysisSpec("prereg.analysis.kernels", "KernelSettings", lean_twin=True),
    "band_kernels": AnalysisSpec("prereg.analysis.band_kernels", "BandKernelSettings"),
}
"""Analyses by the name they have in a protocol."""
