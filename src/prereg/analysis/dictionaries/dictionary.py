"""A sparse dictionary of one update, in the raw units of the residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.frame import Floats
from prereg.errors import AnalysisError

__all__ = ["Dictionary", "largest"]


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """Features of one layer's updates: a unit direction each, and how to read off their activation.

    It was trained on rows divided by `scale`; every method takes and gives raw units. With x = delta / scale:
    ``z = relu((x - bias) @ encoder.T + encoder_bias)``, of which TopK keeps the k largest in each row, and
    ``delta ~ scale * (z @ decoder + bias)``.

    Parameters
    ----------
    kind, k
        Which features of a row are active: the k largest positive ones, or for ``l1`` every positive one.
    encoder, decoder
        (F, d_model) float64; the decoder's rows have unit length.
    encoder_bias
        (F,) float64.
    bias
        (d_model,) float64, in scaled units.
    scale
        Raw units in one scaled unit.

    Raises
    ------
    AnalysisError
        If shapes disagree, a value is not finite, the scale is not above 0, or a direction has not unit length.
    """

    kind: Kind
    k: int
    encoder: Floats
    encoder_bias: Floats
    decoder: Floats
    bias: Floats
    scale: float

    def __post_init__(self) -> None:
        F, d = self.decoder.shape
        shapes = self.encoder.shape, self.encoder_bias.shape, self.bias.shape
        if shapes != ((F, d), (F,), (d,)) or not 0 < self.k < F:
            raise AnalysisError(
                f"a dictionary of {F} features of {d} values, k {self.k}, holds shapes {shapes}"
            )
        parts = (self.encoder, self.encoder_bias, self.decoder, self.bias, np.array([self.scale]))
        if not all(np.isfinite(part).all() for part in parts) or not self.scale > 0:
            raise AnalysisError(
                "a dictionary holds values that are not finite, or a scale that is not above 0"
            )
        if not np.allclose(np.linalg.norm(self.decoder, axis=1), 1.0, atol=1e-4):
            raise AnalysisError("a dictionary's directions have not unit length")

    @property
    def n_features(self) -> int:
        """F."""
        return int(self.decoder.shape[0])

    @property
    def d_model(self) -> int:
        """Values in a row."""
        return int(self.decoder.shape[1])

    @property
    def directions(self) -> Floats:
        """(F, d_model) unit rows."""
        return self.decoder

    def codes(self, delta: npt.NDArray[np.floating]) -> Floats:
        """Return the (n, F) activations of (n, d_model) raw updates, >= 0, in scaled units.

        Raises
        ------
        AnalysisError
            If `delta` has another width, or holds values that are not finite.
        """
        if delta.ndim != 2 or delta.shape[1] != self.d_model or not np.isfinite(delta).all():
            raise AnalysisError(f"wanted finite updates of shape (n, {self.d_model}), found {delta.shape}")
        codes = (delta / self.scale - self.bias) @ self.encoder.T
        codes += self.encoder_bias
        np.maximum(codes, 0.0, out=codes)
        if self.kind == "l1" or not len(codes):
            return codes
        kept = np.zeros_like(codes)
        chosen = largest(codes, self.k)
        np.put_along_axis(kept, chosen, np.take_along_axis(codes, chosen, axis=1), axis=1)
        return kept

    def decode(self, codes: Floats) -> Floats:
        """Return the (n, d_model) raw updates that (n, F) codes stand for, bias included."""
        self._check(codes)
        raw: Floats = (codes @ self.decoder + self.bias) * self.scale
        return raw

    def contribution(self, codes: Floats, features: Sequence[int] | npt.NDArray[np.integer]) -> Floats:
        """Return the (n, d_model) raw part of the named features: sum of z_f d_f, no bias.

        This is what an ablation subtracts from the stream; the scale is undone.
        """
        self._check(codes)
        chosen = np.asarray(features, dtype=np.intp)
        raw: Floats = (codes[:, chosen] @ self.decoder[chosen]) * self.scale
        return raw

    def _check(self, codes: Floats) -> None:
        if codes.ndim != 2 or codes.shape[1] != self.n_features:
            raise AnalysisError(f"wanted codes of shape (n, {self.n_features}), found {codes.shape}")


def largest(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.intp]:
    """Return (n, k) columns of each row's k largest values, ascending."""
    columns = np.argpartition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k :]
    columns.sort(axis=1)
    return columns
