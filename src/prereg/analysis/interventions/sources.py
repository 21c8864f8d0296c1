"""What an intervention takes from an update: the dictionary's features as they stand on each prompt, in raw units."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from prereg.activations.view import Activations
from prereg.analysis.dictionaries import Dictionary, Library
from prereg.analysis.frame import Floats, Frame
from prereg.errors import AnalysisError

__all__ = ["Prompts", "Source"]


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """The n prompts in canonical order, as the model reads them.

    Parameters
    ----------
    names, subjects
        Who they are.
    ids
        Token ids.
    answers
        First token of each answer.
    fresh_training
        Positions of training prompts that no dictionary has seen, ascending.
    held_out
        Positions of held-out prompts, ascending.
    """

    names: tuple[str, ...]
    subjects: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    answers: tuple[int, ...]
    fresh_training: npt.NDArray[np.intp]
    held_out: npt.NDArray[np.intp]

    @classmethod
    def of(cls, activations: Activations, frame: Frame, library: Library) -> Prompts:
        """Gather them.

        Raises
        ------
        AnalysisError
            If token ids or answers were not captured, a dictionary has seen a held-out prompt, or all training ones.
        """
        tokens, answers = activations.tokens, activations.answer_ids
        if tokens is None or answers is None:
            raise AnalysisError(
                "interventions need each prompt's token ids and its answer's first token, which these activations lack",
                remedy='set position = "all" under [capture] in the protocol',
            )
        fresh = library.fresh(activations)[frame.rows]
        sides = np.arange(len(frame.rows))
        held_out, training = sides[frame.n_train :], sides[: frame.n_train]
        if not fresh[held_out].all():
            raise AnalysisError(
                f"{int((~fresh[held_out]).sum())} of {len(held_out)} held-out prompts were among those that the "
                "dictionaries were trained on; wanted none"
            )
        if not fresh[training].any():
            raise AnalysisError(
                f"the dictionaries have seen all of the {len(training)} training prompts: none is left to choose "
                "features on",
                remedy="train the dictionaries on fewer of the training subjects",
            )
        return cls(
            names=tuple(activations.prompts[row] for row in frame.rows),
            subjects=frame.subjects,
            ids=tuple(tokens.ids[tokens.selected[row]] for row in frame.rows),
            answers=tuple(int(answers[row]) for row in frame.rows),
            fresh_training=training[fresh[training]],
            held_out=held_out,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One update's features on the n prompts, canonical order, everything in raw residual units.

    Parameters
    ----------
    update
        l.
    after
        (n, d_model) float32, v[l+1] as it was captured.
    codes
        (n, F).
    atoms
        (F, d_model): what one unit of each code adds to the reconstruction.
    reconstruction
        (n, d_model), the dictionary's bias included.
    """

    update: int
    after: npt.NDArray[np.float32]
    codes: Floats
    atoms: Floats
    reconstruction: Floats
    norms: Floats = field(init=False)
    """(n, F): Euclidean norm of each feature's contribution; 0 where it isn't active."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "norms", self.codes * np.linalg.norm(self.atoms, axis=1))

    @classmethod
    def of(cls, activations: Activations, frame: Frame, dictionary: Dictionary, update: int) -> Source:
        """Encode one update of every prompt.

        Raises
        ------
        AnalysisError
            If a code is negative or not finite.
        """
        codes = dictionary.codes(activations.update(update)[frame.rows])
        if not (np.isfinite(codes).all() and (codes >= 0.0).all()):
            raise AnalysisError(f"update {update}: the dictionary gave a code that is negative or not finite")
        width = dictionary.n_features
        # A contribution is linear in the codes, so unit codes give each feature's own direction and scale.
        atoms = dictionary.contribution(np.eye(width), np.arange(width))
        return cls(update, frame.stream(activations, update + 1), codes, atoms, dictionary.decode(codes))

    @property
    def n_features(self) -> int:
        """Width F."""
        return int(self.atoms.shape[0])

    def active(self, prompt: int) -> npt.NDArray[np.intp]:
        """Return the features that contribute to a prompt's update, ascending."""
        return np.flatnonzero(self.norms[prompt] > 0.0)

    def contribution(self, prompt: int, features: npt.NDArray[np.intp]) -> Floats:
        """Return (d_model,): what these features add to a prompt's update."""
        total: Floats = self.codes[prompt, features] @ self.atoms[features]
        return total
