"""Which analyses this package has, by the name they have in a protocol. Importing this imports none of them.

Others' are found by `prereg.analysis.own`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType

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
    uses_dictionaries
        Whether its `measure` takes ``dictionaries``, a `Library` trained as ``[analyses.dictionaries]`` says.
    uses_model
        Whether its `measure` takes ``model``, the `LoadedModel` itself.
    every_update
        Whether its table has rows up to the model's last update, which shows how deep the model is.
    every_prompt
        Whether its table has rows for each held-out prompt, and for nothing else.
    digest
        Of all that it rests on, for a measurement's key; empty for this package's own: registrations pin its modules.
    """

    module: str
    settings: str
    lean_twin: bool = False
    uses_dictionaries: bool = False
    uses_model: bool = False
    every_update: bool = True
    every_prompt: bool = True
    digest: str = ""

    def load(self) -> ModuleType:
        """Return its module."""
        return importlib.import_module(self.module)


ANALYSES = {
    "updates": AnalysisSpec("prereg.analysis.updates", "UpdateSettings"),
    "kernels": AnalysisSpec("prereg.analysis.kernels", "KernelSettings", lean_twin=True),
    "band_kernels": AnalysisSpec("prereg.analysis.band_kernels", "BandKernelSettings"),
    "dictionaries": AnalysisSpec(
        "prereg.analysis.dictionaries", "DictionarySettings", uses_dictionaries=True
    ),
    "state_space": AnalysisSpec(
        "prereg.analysis.state_space", "StateSpaceSettings", lean_twin=True, uses_dictionaries=True
    ),
    "state_decoding": AnalysisSpec(
        "prereg.analysis.state_decoding",
        "StateDecodingSettings",
        uses_dictionaries=True,
        every_update=False,
        every_prompt=False,
    ),
    "interventions": AnalysisSpec(
        "prereg.analysis.interventions",
        "InterventionSettings",
        uses_dictionaries=True,
        uses_model=True,
        every_update=False,
    ),
    "identifiability": AnalysisSpec(
        "prereg.analysis.identifiability",
        "IdentifiabilitySettings",
        uses_dictionaries=True,
        every_update=False,
        every_prompt=False,
    ),
}
"""Analyses by the name they have in a protocol."""
