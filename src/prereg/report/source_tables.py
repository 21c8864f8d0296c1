"""Figure tables of a study of sparse sources: gains of a state, its path, causal effects, and dictionaries.

As in `figure_tables`: computed from verified evidence and from nothing else; sums over held-out prompts in the order of
their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prereg.inference import BootstrapPlan, RatioTable, intervals
from prereg.study.frames import Frame, frame_of
from prereg.tabular import Cell, csv_bytes

if TYPE_CHECKING:
    from prereg.evidence import Evidence

__all__ = ["SOURCE_TABLES", "source_tables"]

FloatArray = npt.NDArray[np.float64]

LEVEL = 0.95
"""Of the bounds beside an effect."""

SOURCE_TABLES: dict[str, tuple[str, ...]] = {
    "ssm_gain_by_update.csv": ("arm", "update", "depth", "comparison", "gain"),
    "ssm_grid.csv": ("arm", "updates", "state", "rank", "ssm", "readout_parameters", "readout_rank"),
    "state_path.csv": ("arm", "fit", "gap", "energy", "pairs"),
    "state_memory.csv": ("arm", "fit", "quantity", "estimate", "se", "low", "high", "level", "groups"),
    "state_decoding.csv": ("update", "depth", "reader", "accuracy", "prompts"),
    "causal_effects.csv": (
        "update", "feature", "fit", "effect", "low", "high", "random", "matched", "prompts", "subjects",
        "training_effect",
    ),
    "causal_context.csv": ("update", "fit", "mean", "prompts"),
    "dictionary_stability.csv": (
        "update", "depth", "kind", "pair", "cosine", "share", "cosine_all", "share_all", "null_cosine",
    ),
    "dictionaries.csv": (
        "arm", "kind", "seed", "update", "rows", "duplicates", "capped", "dead", "price", "l0_tokens", "l0_readout",
        "l0_held_out", "explained", "explained_held_out", "tensors",
    ),
    "dictionary_training.csv": ("arm", "kind", "seed", "update", "step", "loss", "explained", "l0", "dead"),
}  # fmt: skip
"""Every table by file name, and its columns.

``depth`` is update / L. ``gain`` is a difference of held-out R2, the comparison says between what. ``energy`` is the
mean over pairs of layers of what a source adds to an update that many blocks on, a share of the update's variance;
memory and half-lives are in blocks, with jackknife intervals over training subjects. ``effect``, ``random`` and
``matched`` are nats of the answer's log-probability that are lost without the feature, without a random direction of
the same norm, and without another active feature of about that norm, means over the held-out prompts on which the
feature is active; ``low`` and ``high`` bound the effect by delta-t over subjects at level 0.95, each by itself.
``cosine`` is the mean over matched pairs of live features, ``share`` that of pairs above the registered cosine;
``_all`` counts dead features too. ``explained`` is a dictionary's explained variance on its own rows.
"""

COMPARISONS = {
    "rank matched": ("ssm", "readout_rank"),
    "parameter matched": ("ssm", "readout_parameters"),
    "full feedthrough": ("ssm_full", "readout_full"),
    "shuffled past": ("ssm_shuffled", "readout_rank"),
    "rank matched, l1": ("l1_ssm", "l1_readout_rank"),
    "parameter matched, l1": ("l1_ssm", "l1_readout_parameters"),
    "full feedthrough, l1": ("l1_ssm_full", "l1_readout_full"),
}
"""Which fit is compared with which."""


def source_tables(evidence: Mapping[tuple[str, str], Evidence]) -> dict[str, bytes]:
    """Return the bytes of every table that the evidence has something for.

    Parameters
    ----------
    evidence
        (analysis, arm) -> verified evidence.
    """
    of = {
        analysis: {arm: e for (a, arm), e in evidence.items() if a == analysis}
        for analysis in ("state_space", "state_decoding", "interventions", "identifiability", "dictionaries")
    }
    states = of["state_space"].items()
    trained = of["dictionaries"].items()
    rows: dict[str, list[dict[str, Cell]]] = {
        "ssm_gain_by_update.csv": [row for arm, e in states for row in _gains(arm, e)],
        "ssm_grid.csv": [row for arm, e in states for row in _grid(arm, e)],
        "state_path.csv": [row for arm, e in states for row in _path(arm, e)],
        "state_memory.csv": [row for arm, e in states for row in _side(arm, e, "memory")],
        "state_decoding.csv": [row for e in of["state_decoding"].values() for row in _decoding(e)],
        "causal_effects.csv": [row for e in of["interventions"].values() for row in _effects(e)],
        "causal_context.csv": [row for e in of["interventions"].values() for row in _context(e)],
        "dictionary_stability.csv": [row for e in of["identifiability"].values() for row in _stability(e)],
        "dictionaries.csv": [row for arm, e in trained for row in _side(arm, e, "dictionaries")],
        "dictionary_training.csv": [row for arm, e in trained for row in _side(arm, e, "training")],
    }
    return {name: csv_bytes(SOURCE_TABLES[name], found) for name, found in rows.items() if found}


def _gains(arm: str, evidence: Evidence) -> Iterable[dict[str, Cell]]:
    frame, n_layers = frame_of(evidence, arm), _depth(evidence)
    for comparison, (fit, other) in COMPARISONS.items():
        if {fit, other} <= set(frame.fits):
            for update in frame.updates:
                yield {
                    "arm": arm,
                    "update": update,
                    "depth": update / n_layers,
                    "comparison": comparison,
                    "gain": _mean(frame, fit, (update,)) - _mean(frame, other, (update,)),
                }


def _grid(arm: str, evidence: Evidence) -> Iterable[dict[str, Cell]]:
    """Lay out R2 over the measured updates for each registered pair of state dimension and rank."""
    frame = frame_of(evidence, arm)
    for fit in frame.fits:
        size = fit.removeprefix("ssm_n").partition("_r")
        if not (fit.startswith("ssm_n") and size[0].isdigit() and size[2].isdigit()):
            continue
        pair = f"n{size[0]}_r{size[2]}"
        yield {
            "arm": arm,
            "updates": "measured",
            "state": int(size[0]),
            "rank": int(size[2]),
            "ssm": _mean(frame, fit, frame.updates),
            "readout_parameters": _mean(frame, f"readout_{pair}", frame.updates),
            "readout_rank": _mean(frame, f"readout_r{size[2]}", frame.updates),
        }


def _path(arm: str, evidence: Evidence) -> Iterable[dict[str, Cell]]:
    table = evidence.side.get("path")
    if table is None:
        return
    energies: dict[tuple[str, int], list[float]] = {}
    for row in table.to_pylist():
        energies.setdefault((row["fit"], row["gap"]), []).append(row["energy"])
    for (fit, gap), found in sorted(energies.items()):
        yield {"arm": arm, "fit": fit, "gap": gap, "energy": float(np.mean(found)), "pairs": len(found)}


def _decoding(evidence: Evidence) -> Iterable[dict[str, Cell]]:
    frame, n_layers = frame_of(evidence, "state_decoding"), _depth(evidence)
    for reader in frame.fits:
        for update in frame.updates:
            yield {
                "update": update,
                "depth": update / n_layers,
                "reader": reader,
                "accuracy": _mean(frame, reader, (update,)),
                "prompts": len(frame.prompts),
            }


def _effects(evidence: Evidence) -> Iterable[dict[str, Cell]]:
    frame = frame_of(evidence, "interventions")
    for row in evidence.side["candidates"].to_pylist():
        update, fit = row["update"], row["fit"]
        above, below = frame.ratio(fit, None, (update,))
        asked = float(below.sum()) > 0.0
        low, high = _bounds(frame, above, below) if asked else (None, None)
        yield {
            "update": update,
            "feature": row["feature"],
            "fit": fit,
            **{
                name: _mean(frame, fit + ending, (update,)) if asked else None
                for name, ending in (("effect", ""), ("random", "_random"), ("matched", "_matched"))
            },
            "low": low,
            "high": high,
            "prompts": row["held_out_prompts"],
            "subjects": row["held_out_subjects"],
            "training_effect": row["training_effect"],
        }


def _bounds(frame: Frame, above: FloatArray, below: FloatArray) -> tuple[float, float]:
    """Return the delta-t interval of a mean over subjects; it draws nothing, whatever the plan."""
    table = RatioTable.from_rows(frame.subjects, above, below)
    plan = BootstrapPlan(table.n_units, 64, 0)
    (found,) = intervals(table, [1.0], plan, LEVEL, methods=("delta_t",))
    interval = found.interval("delta_t", LEVEL)
    return interval.low, interval.high


def _context(evidence: Evidence) -> Iterable[dict[str, Cell]]:
    """Lay out what is asked of every prompt, and of the group."""
    frame = frame_of(evidence, "interventions")
    for update in frame.updates:
        for fit in frame.fits:
            if not fit.startswith("feature_"):
                above, below = frame.ratio(fit, None, (update,))
                if below.sum() > 0.0:
                    mean = float(above.sum() / below.sum())
                    yield {"update": update, "fit": fit, "mean": mean, "prompts": int(below.sum())}


def _stability(evidence: Evidence) -> Iterable[dict[str, Cell]]:
    frame, n_layers = frame_of(evidence, "identifiability"), _depth(evidence)
    kinds = sorted(
        f.removesuffix("_cosine") for f in frame.fits if f.endswith("_cosine") and f != "null_cosine"
    )
    for kind in kinds:
        for row, pair in enumerate(frame.prompts):
            for update in frame.updates:
                yield {
                    "update": update,
                    "depth": update / n_layers,
                    "kind": kind,
                    "pair": pair,
                    **{
                        name: float(frame.any(f"value.{kind}_{name}", (update,))[row, 0])
                        for name in ("cosine", "share", "cosine_all", "share_all")
                    },
                    "null_cosine": float(frame.any("value.null_cosine", (update,))[row, 0]),
                }


def _side(arm: str, evidence: Evidence, name: str) -> Iterable[dict[str, Cell]]:
    table = evidence.side.get(name)
    return [] if table is None else [{"arm": arm, **row} for row in table.to_pylist()]


def _mean(frame: Frame, fit: str, updates: tuple[int, ...]) -> float:
    """Return the mean over updates of a fit's number: R2, or the mean of its value."""
    above, below = frame.ratio(fit, None, updates)
    return float(np.mean(above.sum(axis=0) / below.sum(axis=0)))


def _depth(evidence: Evidence) -> int:
    if evidence.provenance is None:
        raise ValueError("evidence without provenance can't be reported")
    return evidence.provenance.n_layers
