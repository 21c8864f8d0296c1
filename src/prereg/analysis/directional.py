"""The directional split: what of a target, and of its error, lies along the prompt's running sum."""

from __future__ import annotations

import numpy as np

from prereg.analysis.frame import Floats, square_norms
from prereg.errors import AnalysisError

__all__ = ["split_along"]


def split_along(values: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Split each row's squared length into the part along its direction and the part across it.

    The direction is the prompt's own running sum v[l], uncentred, scaled to unit length. The two parts are
    computed from the two components, so that their sum is a check on rounding and not a definition. As
    shares of the *total* SST, the explained parts add up to R2 (Pythagoras). Our own definition.

    Parameters
    ----------
    values
        (n, d): centred targets, or errors.
    direction
        (n, d): v[l].

    Returns
    -------
    along, across
        (n,) each.

    Raises
    ------
    AnalysisError
        If a direction has no length.
    """
    lengths = np.sqrt(square_norms(direction))
    if not (lengths > 0).all():
        raise AnalysisError(
            f"{int(np.sum(~(lengths > 0)))} prompts have a residual stream of length zero; "
            "wanted a direction for each"
        )
    unit = direction / lengths[:, None]
    component = np.einsum("ij,ij->i", values, unit)
    return component**2, square_norms(values - component[:, None] * unit)
