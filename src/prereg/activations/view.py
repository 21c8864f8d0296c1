"""What an analysis sees of a store: the selected prompts, their split, and their residual stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prereg.errors import ActivationsError

__all__ = ["Activations", "Tokens", "UpdateSet"]

UpdateSet = tuple[int, ...]
"""Indices l of updates, ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The residual stream at every position of every captured prompt, whether the study asks it or not.

    Parameters
    ----------
    ids
        Token ids of the m captured prompts, as the model read them.
    subjects
        The m subjects they are about.
    stream
        (n_layers + 1, n_rows, d_model) float32, a memory map as a rule: prompt by prompt, position by position.
    selected
        (n,) int64: which captured prompt each prompt of the `Activations` is.

    Raises
    ------
    ActivationsError
        If lengths disagree, a prompt is empty, or a selected prompt was not captured.
    """

    ids: tuple[tuple[int, ...], ...]
    subjects: tuple[str, ...]
    stream: np.ndarray
    selected: np.ndarray

    def __post_init__(self) -> None:
        rows = sum(len(ids) for ids in self.ids)
        if (
            len(self.subjects) != len(self.ids)
            or not all(self.ids)
            or self.stream.ndim != 3
            or self.stream.shape[1] != rows
        ):
            raise ActivationsError(
                f"{len(self.ids)} captured prompts of {rows} tokens and {len(self.subjects)} subjects, but a stream "
                f"of shape {self.stream.shape}; wanted (n_layers + 1, n_tokens, d_model) and no empty prompt"
            )
        if self.selected.size and not (self.selected.min() >= 0 and self.selected.max() < len(self.ids)):
            raise ActivationsError(
                f"a selected prompt is none of the {len(self.ids)} that were captured: {self.selected.max()}"
            )

    @property
    def offsets(self) -> np.ndarray:
        """(m + 1,) int64: prompt p's tokens are rows ``offsets[p]`` to ``offsets[p + 1] - 1`` of the stream."""
        return np.concatenate([[0], np.cumsum([len(ids) for ids in self.ids])]).astype(np.int64)


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
    answers
        n strings, the fact's answer; empty where nobody asks for them.
    answer_ids
        (n,) int64, first token of the answer as it continues the prompt; None where nobody asks for them.
    tokens
        The other positions, where the study captures them; else None.

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
    answers: tuple[str, ...] = ()
    answer_ids: np.ndarray | None = None
    tokens: Tokens | None = None

    def __post_init__(self) -> None:
        n = len(self.prompts)
        lengths = {
            len(self.subjects),
            len(self.relations),
            len(self.templates),
            self.held_out.shape[0],
            len(self.answers) if self.answers else n,
            n if self.answer_ids is None else self.answer_ids.shape[0],
            n if self.tokens is None else self.tokens.selected.shape[0],
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
