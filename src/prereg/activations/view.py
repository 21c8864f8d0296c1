"""What an analysis sees of a store: the selected prompts, their split, and their residual stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prereg.errors import ActivationsError

__all__ = ["Activations", "UpdateSet"]

UpdateSet = tuple[int, ...]
"""Indices l of updates, ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class Activations:
    """The residual stream of n prompts at the readout position, in the protocol's order.

    Parameters
    ----------
    prompts, subjects, relations, templates
        Tuples of n strings. ``templates`` names a template within its relation.
    held_out
        (n,) bool; no subject stands on both sides.
    resid
        (n_layers + 1, n, d_model) float32: ``resid[l]`` is v[l], the stream entering block l;
        ``resid[n_layers]`` leaves the last block, before the final norm.
    update_sets
        The protocol's named sets of updates, resolved for this model's depth.

    Raises
    ------
    ActivationsError
        If shapes disagree, a value is not finite, a side is empty, or a subject is on both sides.
    """

    prompts: tuple[str, ...]
    subjects: tuple[str, ...]
    relations: tuple[str, ...]
    templates: tuple[str, ...]
    held_out: np.ndarray
    resid: np.ndarray
    update_sets: dict[str, UpdateSet]

    def __post_init__(self) -> None:
        n = len(self.prompts)
        lengths = {
            len(self.subjects),
            len(self.relations),
            len(self.templates),
            self.held_out.shape[0],
        }
        if lengths != {n} or self.resid.ndim != 3 or self.resid.shape[1] != n:
            raise ActivationsError(
                f"{n} prompts, but labels of lengths {sorted(lengths)} and a stream of shape "
                f"{self.resid.shape}; wanted (n_layers + 1, n, d_model)"
            )
        if n == 0 or self.held_out.all() or not self.held_out.any():
            raise ActivationsError(
                f"of {n} prompts, {int(self.held_out.sum())} are held out: a side is empty"
            )
        if not np.isfinite(self.resid).all():
            raise ActivationsError("the residual stream holds NaN or infinite values")
        out = {s for s, h in zip(self.subjects, self.held_out, strict=True) if h}
        both = sorted(out & {s for s, h in zip(self.subjects, self.held_out, strict=True) if not h})
        if both:
            raise ActivationsError(f"subjects on both sides of the split: {', '.join(both[:5])}")

    @property
    def n_layers(self) -> int:
        """Number of blocks L, and of updates."""
        return int(self.resid.shape[0]) - 1

    def update(self, layer: int) -> np.ndarray:
        """Return delta[layer] = v[layer+1] - v[layer], (n, d_model) float64."""
        delta: np.ndarray = self.resid[layer + 1].astype(np.float64) - self.resid[layer].astype(np.float64)
        return delta
