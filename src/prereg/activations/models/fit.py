"""Whether config and weights speak of the same model: a name in one that the other lacks is refused.

transformers draws at random what the files lack, and drops what the config has no place for: a config of
fewer layers than the weights runs, silently, as another model.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prereg.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["require_fit"]

SHOWN = 5
HARMLESS = re.compile(
    r"(^|\.)(rotary_emb\.inv_freq|(attn|attention|self_attn)\.(bias|masked_bias)|position_ids)$"
)
"""Masks, positions and frequencies that older versions of transformers saved: they are computed, not trained."""


def require_fit(folder: Path, info: Mapping[str, Any]) -> None:
    """Refuse a model of which not every weight came from the files, or not every weight of these went in.

    Parameters
    ----------
    folder
        The model's files.
    info
        transformers' loading info.

    Raises
    ------
    ModelError
        Names the first few weights.
    """
    lacking = sorted({*map(str, info["missing_keys"]), *map(_name, info["mismatched_keys"])})
    if lacking:
        raise ModelError(
            f"{folder}: no weights for {_some(lacking)}: they would be drawn at random",
            remedy="the file is incomplete or of another shape than config.json: get both anew, from one place",
        )
    surplus = sorted(name for name in map(str, info["unexpected_keys"]) if not HARMLESS.search(name))
    if surplus:
        raise ModelError(
            f"{folder}: config.json has no place for {_some(surplus)}: they would be dropped",
            remedy="config.json is another model's (fewer layers, another architecture): get both anew, from one place",
        )


def _name(mismatch: object) -> str:
    return str(mismatch[0]) if isinstance(mismatch, tuple) else str(mismatch)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
