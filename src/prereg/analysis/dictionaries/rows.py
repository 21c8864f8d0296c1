"""Which token rows train dictionaries, and in which form.

Dictionaries see every position but the first of some captured prompts: those of a registered share of the training
subjects, and those of subjects that the study does not ask about. Never a held-out subject's, and never one of the
other training subjects', on whom later fits are made: a dictionary reconstructs the rows it was trained on better than
others, so codes are read where it was not trained (`Selection.fresh`).

The first position carries massive activations (Sun et al. 2024, arXiv:2402.17762), and so do a few later rows: lengths
are capped. Prompts share beginnings: in a causal model the same tokens so far give the same row, so of rows with one
prefix one is kept. Our own definition.
"""

from __future__ import annotations

from dataclasses import dataclass

import blake3
import numpy as np
import numpy.typing as npt

from prereg.activations.view import Activations, Tokens
from prereg.analysis.dictionaries.settings import DictionarySettings
from prereg.analysis.frame import Floats
from prereg.errors import AnalysisError

__all__ = ["Rows", "Selection", "rows_digest", "scaled_rows", "select_rows", "tokens_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The rows of the token stream that dictionaries are trained on.

    Parameters
    ----------
    rows
        (n_rows,) int64 positions in ``tokens.stream``, ascending.
    readout
        (n_rows,) bool: the row is some training prompt's last token.
    fresh
        (n,) bool, one for each prompt of the activations: no dictionary has seen it, nor anything of its subject.
    n_prompts, duplicates
        Prompts that rows came from, and rows that were left out since another one has the same prefix.
    """

    rows: npt.NDArray[np.int64]
    readout: npt.NDArray[np.bool_]
    fresh: npt.NDArray[np.bool_]
    n_prompts: int
    duplicates: int


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One update's training rows.

    Parameters
    ----------
    values
        (n_rows, d_model) float32: capped, divided by `scale`.
    mean
        (d_model,) float64, of `values`.
    scale
        Root mean square, over rows and dimensions, of what remains of the capped rows after their mean.
    capped
        Share of rows that were shortened.
    """

    values: npt.NDArray[np.float32]
    mean: Floats
    scale: float
    capped: float


def tokens_of(activations: Activations) -> Tokens:
    """Return the activations' tokens.

    Raises
    ------
    AnalysisError
        If only the readout position was captured.
    """
    if activations.tokens is None:
        raise AnalysisError(
            "only the readout position was captured; dictionaries are trained on all token positions",
            remedy='set `position = "all"` in the protocol\'s [capture]',
        )
    return activations.tokens


def select_rows(activations: Activations, settings: DictionarySettings) -> Selection:
    """Choose the token rows that dictionaries may see.

    Subjects are sorted before `share_seed` draws from them: the order of prompts doesn't matter.

    Raises
    ------
    AnalysisError
        If there are no token rows, fewer than a batch, or the share leaves one side without a subject.
    """
    tokens = tokens_of(activations)
    seen = _seen_subjects(activations, settings)
    study = set(activations.subjects)
    fresh = np.array([subject not in seen for subject in activations.subjects])
    eligible = [p for p, subject in enumerate(tokens.subjects) if subject in seen or subject not in study]
    readouts = {tokens.ids[p] for p in eligible}
    # A prompt of another subject may begin with all of a fresh prompt: that row is the fresh prompt's own readout.
    taken = {tokens.ids[p] for p, new in zip(tokens.selected.tolist(), fresh, strict=True) if new}
    rows, readout, duplicates = [], [], 0
    known: set[tuple[int, ...]] = set()
    offsets = tokens.offsets.tolist()
    for p in eligible:
        ids = tokens.ids[p]
        for position in range(1, len(ids)):
            prefix = ids[: position + 1]
            if prefix in known or prefix in taken:
                duplicates += prefix in known
                continue
            known.add(prefix)
            rows.append(offsets[p] + position)
            readout.append(prefix in readouts)
    if len(rows) < settings.batch or not any(readout):
        raise AnalysisError(
            f"{len(eligible)} prompts give {len(rows)} different token rows, {sum(readout)} of them readouts, to "
            f"train dictionaries on; wanted at least one batch of {settings.batch}, readouts among them",
            remedy="raise `share`, lower `batch`, or add subjects to the facts",
        )
    return Selection(np.array(rows, np.int64), np.array(readout), fresh, len(eligible), duplicates)


def _seen_subjects(activations: Activations, settings: DictionarySettings) -> set[str]:
    pairs = zip(activations.subjects, activations.held_out, strict=True)
    training = sorted({subject for subject, out in pairs if not out})
    count = round(settings.share * len(training))
    if not 0 < count < len(training):
        raise AnalysisError(
            f"a share of {settings.share:g} of {len(training)} training subjects is {count}; wanted at least one "
            "subject for dictionaries, and one that they have not seen",
            remedy="change `share`, or add subjects to the facts",
        )
    order = np.random.default_rng([settings.share_seed, 4]).permutation(len(training))
    return {training[i] for i in order[:count]}


def scaled_rows(stream: np.ndarray, rows: npt.NDArray[np.int64], layer: int, norm_cap: float) -> Rows:
    """Return one update's training rows, capped and scaled.

    Parameters
    ----------
    stream
        (n_layers + 1, n_tokens, d_model).
    rows
        Which tokens.
    layer
        l of delta[l] = v[l+1] - v[l].
    norm_cap
        In median lengths.

    Raises
    ------
    AnalysisError
        If a value is not finite, or all rows are the same.
    """
    delta = stream[layer + 1][rows].astype(np.float64) - stream[layer][rows].astype(np.float64)
    if not np.isfinite(delta).all():
        raise AnalysisError(f"update {layer}: token rows hold NaN or infinite values")
    lengths = np.linalg.norm(delta, axis=1)
    limit = norm_cap * float(np.median(lengths))
    long = lengths > limit
    delta[long] *= (limit / lengths[long])[:, None]
    mean = delta.mean(axis=0)
    scale = float(np.sqrt(np.mean((delta - mean) ** 2)))
    if not scale > 0:
        raise AnalysisError(
            f"update {layer}: all {len(rows)} token rows are the same, there is nothing to learn"
        )
    return Rows((delta / scale).astype(np.float32), mean / scale, scale, float(long.mean()))


def rows_digest(stream: np.ndarray, selection: Selection, layer: int) -> str:
    """Return the blake3 digest (32 hex characters) of one update's training rows and of which are readouts."""
    hasher = blake3.blake3()
    for part in (selection.rows, selection.readout, *(stream[i][selection.rows] for i in (layer, layer + 1))):
        hasher.update(f"{part.dtype}{part.shape}".encode())
        hasher.update(np.ascontiguousarray(part).tobytes())
    return hasher.hexdigest(length=16)
