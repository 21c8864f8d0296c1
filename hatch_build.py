"""What the build adds to the wheel: the facts and the embedded model that `prereg new` starts a study from.

Only to a real wheel. In a checkout they lie under fixtures/ already, and an editable install that copied them would
leave a second folder `prereg` on the path, in which no module is.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FACTS = ("facts.csv", "SOURCES.md", "licences")
TINY = (
    "README.md",
    "config.json",
    "facts.csv",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


class Fixtures(BuildHookInterface[Any]):
    """Adds the fixtures, without what builds and trains them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, from the project's root, and where they go in the wheel."""
        if version == "standard":
            names = [*(f"facts/{name}" for name in FACTS), *(f"pythia-tiny/{name}" for name in TINY)]
            build_data["force_include"].update({f"fixtures/{n}": f"prereg/fixtures/{n}" for n in names})
