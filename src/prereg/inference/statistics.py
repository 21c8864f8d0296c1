"""Statistics as functions of case weights: what they are, and how to make one's own.

A bootstrap resample, a jackknife deletion and an infinitesimal change of the data are all the same thing, a vector of
case weights. A statistic that can be evaluated under weights can therefore have every interval. All statistics of two
arms are paired: a case carries both arms' numbers, and its weight moves both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from prereg.errors import InferenceError
from prereg.inference.case_sums import checked_weights
from prereg.inference.units import FloatArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["CustomStatistic", "Difference", "WeightedStatistic", "custom_statistic", "difference"]


class WeightedStatistic(Protocol):
    """A number theta computed from weighted cases.

    Statistics here don't change when all weights are multiplied by one number; `evaluate` of whole weights is the
    statistic of the cases repeated so often.
    """

    @property
    def n_units(self) -> int:
        """Number of cases that carry a weight: rows, or sums per unit. What is independent is the design's to say."""
        ...

    @property
    def smooth(self) -> bool:
        """Whether theta has a derivative in the weights that describes it nearby; a median has not."""
        ...

    @property
    def scale(self) -> float:
        """Size of the numbers behind theta, in its units, against which rounding is judged."""
        ...

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return theta under each row of weights, shapes (b, n_units) and (b,); nan where it is undefined."""
        ...

    def influence(self, weights: npt.ArrayLike) -> FloatArray | None:
        """Return the derivative of theta by each case's weight, at each row of weights, or None without a closed form.

        Shape (b, n_units). Weighted by the row's weights, a row's derivatives add up to 0.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """`theta = a - b` of two statistics on the same cases; see `difference`."""

    a: WeightedStatistic
    b: WeightedStatistic

    @property
    def n_units(self) -> int:
        """Number of cases."""
        return self.a.n_units

    @property
    def smooth(self) -> bool:
        """Whether both are."""
        return self.a.smooth and self.b.smooth

    @property
    def scale(self) -> float:
        """Sum of both scales."""
        return self.a.scale + self.b.scale

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return the difference under each row of weights; nan where either is undefined."""
        return self.a.evaluate(weights) - self.b.evaluate(weights)

    def influence(self, weights: npt.ArrayLike) -> FloatArray | None:
        """Return the difference of the influences, or None where either has no closed form."""
        left, right = self.a.influence(weights), self.b.influence(weights)
        return None if left is None or right is None else left - right


def difference(a: WeightedStatistic, b: WeightedStatistic) -> Difference:
    """Return `a - b`, paired: a case's weight moves both. Its influence is the difference of theirs.

    Parameters
    ----------
    a, b
        Statistics of the same cases in the same order.

    Raises
    ------
    InferenceError
        The two have different numbers of cases.

    Examples
    --------
    >>> from prereg.inference import mean
    >>> difference(mean([1.0, 2.0]), mean([0.0, 4.0])).evaluate([1, 1]).tolist()
    [-0.5]
    """
    if a.n_units != b.n_units:
        raise InferenceError(f"length mismatch: the statistics have {a.n_units} and {b.n_units} cases.")
    return Difference(a, b)


@dataclass(frozen=True, slots=True, eq=False)
class CustomStatistic:
    """A user's function of case weights; see `custom_statistic`."""

    function: Callable[[FloatArray], npt.ArrayLike]
    n_units: int
    smooth: bool
    scale: float

    def evaluate(self, weights: npt.ArrayLike) -> FloatArray:
        """Return the function's values, checked to be one for each row of weights."""
        matrix = checked_weights(weights, self.n_units)
        values = np.asarray(self.function(matrix))
        if values.dtype.kind not in "fiub" or values.shape != (matrix.shape[0],):
            raise InferenceError(
                f"the statistic returned {values.dtype} of shape {values.shape} for weights of shape {matrix.shape}; "
                f"real numbers of shape ({matrix.shape[0]},) are wanted."
            )
        return values.astype(np.float64)

    def influence(self, weights: npt.ArrayLike) -> None:  # noqa: ARG002
        """Return None: a function has no closed form, and is differentiated numerically."""
        return


def custom_statistic(
    function: Callable[[FloatArray], npt.ArrayLike], n_units: int, *, smooth: bool = True, scale: float = 0.0
) -> CustomStatistic:
    """Make a statistic of a function of case weights.

    Replicates are the same bits for every chunking only if the function computes each row by itself: a sum along the
    row does, a matrix product (`weights @ x`) need not.

    Parameters
    ----------
    function
        From weights of shape (b, n_units) to values of shape (b,); nan where it is undefined. Weights are counts in
        resamples, and 1 plus or minus 1/1024 for one unit where the derivative is taken.
    n_units
        Number of cases, at least 2.
    smooth
        False for a median, a rank of a mean, or anything else that a small change of weights may leave where it is:
        then neither delta-t nor BCa is to be had.
    scale
        Size of the numbers behind the value, in its units; differences below 1e-12 of it are rounding.

    Raises
    ------
    InferenceError
        Fewer than 2 cases; later, values of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> log_mean = custom_statistic(lambda w: np.log((w * x).sum(axis=1) / w.sum(axis=1)), 3)
    >>> log_mean.evaluate([[0, 0, 1]]).round(4).tolist()
    [1.3863]
    """
    if isinstance(n_units, bool) or not isinstance(n_units, int) or n_units < 2:
        raise InferenceError(f"n_units is {n_units!r}; an integer of at least 2 is wanted.")
    return CustomStatistic(function, n_units, smooth, scale)
