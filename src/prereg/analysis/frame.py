"""The frame of a measurement: which prompts train, which are held out, and whose mean each one has.

Rows are put in one canonical order (training prompts, then held-out ones, each sorted by prompt), so that
seeds, folds and sums do not depend on the order in which a protocol lists its prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.analysis.settings import Baseline
from prereg.errors import AnalysisError

__all__ = [
    "BASELINES",
    "Floats",
    "Frame",
    "Indices",
    "centre",
    "lay_out",
    "relative_difference",
    "square_norms",
    "training_power",
]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

BASELINES = ("template", "relation", "global")
"""Strata whose training means serve as baselines, from the most conservative to the least."""


VOID = 1e-9
"""Far below what float32 activations resolve (6e-8), far above float64 rounding (1e-16)."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The canonical order of n prompts and their strata.

    Parameters
    ----------
    rows
        (n,) positions in the activations: training prompts first, each side sorted by prompt.
    n_train
        How many of them train.
    baseline
        The stratum that fits are centred on.
    codes
        For each of `BASELINES`, (n,) stratum numbers in canonical order.
    names
        For each of `BASELINES`, the strata's names by number.
    subjects
        The n subjects in canonical order.
    """

    rows: Indices
    n_train: int
    baseline: Baseline
    codes: Mapping[str, Indices]
    names: Mapping[str, tuple[str, ...]]
    subjects: tuple[str, ...]

    @classmethod
    def of(cls, activations: Activations, baseline: Baseline) -> Frame:
        """Order the prompts of `activations` and number their strata.

        A template is one within its relation: two relations may use the same template name.

        Raises
        ------
        AnalysisError
            If a prompt stands twice, or a held-out prompt's stratum has no training prompt.
        """
        prompts = activations.prompts
        if len(set(prompts)) != len(prompts):
            twice = sorted({p for p in prompts if prompts.count(p) > 1})
            raise AnalysisError(
                f"prompts stand twice: {', '.join(twice[:3])}; wanted each prompt once",
                remedy="remove the repeated rows from the facts",
            )
        keys = [(bool(out), prompt) for out, prompt in zip(activations.held_out, prompts, strict=True)]
        rows = np.array(sorted(range(len(prompts)), key=keys.__getitem__), dtype=np.intp)
        labels = {
            "template": [
                f"{r}/{t}" for r, t in zip(activations.relations, activations.templates, strict=True)
            ],
            "relation": list(activations.relations),
            "global": ["all prompts"] * len(prompts),
        }
        names = {name: tuple(sorted(set(values))) for name, values in labels.items()}
        codes = {
            name: np.array([names[name].index(values[row]) for row in rows], dtype=np.intp)
            for name, values in labels.items()
        }
        n_train = len(prompts) - int(activations.held_out.sum())
        for name in BASELINES:
            _refuse_unsupported(name, codes[name], names[name], n_train)
        subjects = tuple(activations.subjects[row] for row in rows)
        return cls(rows, n_train, baseline, codes, names, subjects)

    @property
    def strata(self) -> Indices:
        """(n,) numbers of the strata that fits are centred on."""
        return self.codes[self.baseline]

    def training_counts(self, baseline: str) -> npt.NDArray[np.intp]:
        """Return how many training prompts each stratum of `baseline` has."""
        return np.bincount(self.codes[baseline][: self.n_train], minlength=len(self.names[baseline]))

    def stream(self, activations: Activations, layer: int) -> npt.NDArray[np.float32]:
        """Return v[layer] in canonical order, (n, d_model)."""
        return np.ascontiguousarray(activations.resid[layer][self.rows], dtype=np.float32)

    def totals(self, target: Floats) -> dict[str, Floats]:
        """Return ``sst.<baseline>`` for every baseline, (n_held_out,), of a raw (n, d_model) target."""
        return {
            f"sst.{name}": square_norms(centre(target, self.codes[name], self.n_train)[self.n_train :])
            for name in BASELINES
        }

    def table(
        self,
        activations: Activations,
        updates: Sequence[int],
        columns: Mapping[str, Floats],
        *,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> pa.Table:
        """Lay columns of shape (n_updates, n_held_out), canonical order, out as an evidence table.

        Rows are prompt by prompt in the activations' own order, updates ascending. NaN becomes null. With `among`,
        (n_held_out,) bool in canonical order, only the prompts it marks get rows; columns keep their shape.

        Raises
        ------
        AnalysisError
            If `among` marks no prompt.
        """
        held_out = self.rows[self.n_train :]
        order = np.argsort(held_out)
        if among is not None:
            order = order[among[order]]
            if not order.size:
                raise AnalysisError("no held-out prompt is left to lay out")
        laid_out = {name: values[:, order].T for name, values in columns.items()}
        return lay_out(activations, held_out[order], updates, laid_out)


def lay_out(
    activations: Activations, prompts: Indices, updates: Sequence[int], columns: Mapping[str, Floats]
) -> pa.Table:
    """Lay columns out as an evidence table: a row for each prompt and update, updates ascending within a prompt.

    Parameters
    ----------
    activations
        Whose prompts.
    prompts
        (n,) positions in them, in the table's order.
    updates
        k indices l.
    columns
        Name -> (n, k). NaN becomes null.
    """
    each = len(updates)
    names = {
        "prompt": activations.prompts,
        "subject": activations.subjects,
        "relation": activations.relations,
        "template": activations.templates,
    }
    data: dict[str, pa.Array] = {
        name: pa.array([values[i] for i in prompts for _ in range(each)], pa.string())
        for name, values in names.items()
    }
    data["update"] = pa.array(np.tile(np.array(updates, np.int16), len(prompts)), pa.int16())
    for name, values in columns.items():
        data[name] = pa.array(values.ravel(), pa.float64(), from_pandas=True)
    return pa.table(data)


def centre(values: Floats, codes: Indices, n_train: int) -> Floats:
    """Subtract from each row the training mean of its stratum.

    Parameters
    ----------
    values
        (n, d), the first `n_train` rows training.
    codes
        (n,) stratum numbers.
    """
    centred = np.array(values, dtype=np.float64)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        centred[members] -= centred[members[members < n_train]].mean(axis=0)
    return centred


def square_norms(values: Floats) -> Floats:
    """Return the squared length of each row."""
    norms: Floats = np.einsum("ij,ij->i", values, values)
    return norms


def training_power(values: Floats, centred: Floats, frame: Frame) -> float | None:
    """Return the mean squared length of the centred training rows; None where they don't vary.

    Values that are the same throughout a stratum leave rounding behind when their mean is removed. It is
    told from a regressor by its size: an RMS below `VOID` times that of the uncentred values.
    """
    power = float(square_norms(centred[: frame.n_train]).mean())
    raw = float(square_norms(values[: frame.n_train]).mean())
    return power if power > VOID**2 * raw else None


def relative_difference(found: Floats, wanted: Floats) -> float:
    """Return the largest difference of two ways to the same squares, relative to their mean."""
    scale = float(np.mean(wanted))
    difference = float(np.max(np.abs(found - wanted)))
    return difference / scale if scale > 0 else difference


def _refuse_unsupported(baseline: str, codes: Indices, names: tuple[str, ...], n_train: int) -> None:
    missing = sorted(set(codes[n_train:].tolist()) - set(codes[:n_train].tolist()))
    if missing:
        found = ", ".join(names[code] for code in missing[:5])
        raise AnalysisError(
            f"held-out prompts whose {baseline} has no training prompt: {found}; "
            "wanted a training mean for each",
            remedy="leave that template or relation out of the facts, or split the subjects anew",
        )
