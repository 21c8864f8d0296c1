"""H3: the depth-indexed linear state-space model over sparse sources, against readouts of the same update.

See `prereg.analysis.state_space.measuring`.
"""

from __future__ import annotations

from prereg.analysis.state_space.measuring import fit_names, measure
from prereg.analysis.state_space.settings import StateSpaceSettings

__all__ = ["StateSpaceSettings", "fit_names", "measure"]
