"""The directional split."""

from __future__ import annotations

import numpy as np
import pytest

from prereg.analysis.directional import split_along
from prereg.errors import AnalysisError


def test_the_parts_are_the_component_along_and_the_rest() -> None:
    """By hand: (3, 4) along (2, 0) has 9 along and 16 across."""
    along, across = split_along(np.array([[3.0, 4.0], [3.0, 4.0]]), np.array([[2.0, 0.0], [3.0, 4.0]]))

    np.testing.assert_allclose(along, [9.0, 25.0])
    np.testing.assert_allclose(across, [16.0, 0.0], atol=1e-28)


def test_the_parts_add_up() -> None:
    """Pythagoras holds to rounding error for any direction."""
    rng = np.random.default_rng(0)
    values, direction = rng.standard_normal((2, 50, 9))

    along, across = split_along(values, 1e6 * direction)

    np.testing.assert_allclose(along + across, np.sum(values**2, axis=1), rtol=1e-13)


@pytest.mark.parametrize("bad", [0.0, np.nan])
def test_a_direction_without_length_is_refused(bad: float) -> None:
    """No direction, no split: not a division by zero."""
    with pytest.raises(AnalysisError, match="length zero"):
        split_along(np.ones((2, 3)), np.array([[1.0, 0.0, 0.0], [bad, 0.0, 0.0]]))
