"""How well each dictionary reconstructs held-out updates at the readout position.

Columns of the evidence, beside the identity columns
-----------------------------------------------------
``sst``, ``sst.template``, ``sst.relation``, ``sst.global``
    Squared distance of delta[l] from training means; ``sst`` is that of `DictionarySettings.baseline`.
``sse.<kind>_<seed>``
    Squared error of the reconstruction of delta[l] from its own codes, raw units.

Side tables: ``dictionaries``, one row each; ``training``, their curves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.analysis.checks import baseline_support, update_set
from prereg.analysis.dictionaries.library import Library, Wanted
from prereg.analysis.dictionaries.settings import DictionarySettings
from prereg.analysis.dictionaries.training import CURVE
from prereg.analysis.frame import Floats, Frame, square_norms
from prereg.errors import AnalysisError
from prereg.evidence import Check, Evidence
from prereg.workers import Workers

__all__ = ["measure"]

Row = dict[str, object]


def measure(
    activations: Activations, settings: DictionarySettings, workers: Workers, *, dictionaries: Library
) -> Evidence:
    """Train the arm's dictionaries where they are missing, and reconstruct held-out updates with them.

    Parameters
    ----------
    activations
        The prompts, their residual stream and its tokens.
    settings
        The protocol's.
    workers
        One task for each dictionary.
    dictionaries
        The arm's library, opened with the same settings.

    Returns
    -------
    Evidence
        One row per held-out prompt and update; side tables ``dictionaries`` and ``training``.

    Raises
    ------
    AnalysisError
        If the library was opened with other settings, or a stratum has no training prompt.
    """
    if dictionaries.settings != settings:
        raise AnalysisError(
            "the library of dictionaries was opened with other settings than those to measure with"
        )
    updates = update_set(activations, settings.updates, first=0, setting="updates")
    frame = Frame.of(activations, settings.baseline)
    wanted: list[Wanted] = [(k, s, u) for u in updates for s in settings.seeds for k in settings.kinds]
    dictionaries.ensure(wanted, workers)
    columns: dict[str, list[Floats]] = {}
    rows: list[Row] = []
    for update in updates:
        delta = activations.update(update)[frame.rows]
        totals = frame.totals(delta)
        held_out = delta[frame.n_train :]
        for name, values in {"sst": totals[f"sst.{settings.baseline}"], **totals}.items():
            columns.setdefault(name, []).append(values)
        for one in wanted:
            if one[2] == update:
                errors, row = _reconstruct(dictionaries, one, held_out, float(totals["sst.global"].sum()))
                columns.setdefault(f"sse.{one[0]}_{one[1]}", []).append(errors)
                rows.append(row)
    table = frame.table(activations, updates, {name: np.stack(each) for name, each in columns.items()})
    side = {
        "dictionaries": pa.Table.from_pylist(rows),
        "training": pa.Table.from_pylist(_curves(dictionaries, wanted)),
    }
    checks = (
        _fresh(activations, dictionaries),
        _alive(rows, settings),
        _explains(rows),
        baseline_support(frame, settings.min_stratum_prompts),
    )
    return Evidence(table, side, checks)


def _reconstruct(library: Library, one: Wanted, held_out: Floats, total: float) -> tuple[Floats, Row]:
    kind, seed, update = one
    dictionary, record = library.dictionary(*one), library.record(*one)
    codes = dictionary.codes(held_out)
    errors = square_norms(dictionary.decode(codes) - held_out)
    row: Row = {
        "kind": kind,
        "seed": seed,
        "update": update,
        "rows": record.n_rows,
        "duplicates": record.duplicates,
        "capped": record.capped,
        "dead": record.dead,
        "price": record.price,
        "l0_tokens": record.l0_tokens,
        "l0_readout": record.l0_readout,
        "l0_held_out": float((codes > 0).sum(axis=1).mean()),
        "explained": record.explained,
        "explained_held_out": 1.0 - float(errors.sum()) / total if total > 0 else None,
        "tensors": record.tensors,
    }
    return errors, row


def _curves(library: Library, wanted: Sequence[Wanted]) -> list[Row]:
    rows: list[Row] = []
    for one in wanted:
        names = dict(zip(("kind", "seed", "update"), one, strict=True))
        rows += [{**names, **dict(zip(CURVE, point, strict=True))} for point in library.record(*one).curve]
    return rows


def _fresh(activations: Activations, library: Library) -> Check:
    """Check that no dictionary was trained on the readout row of a prompt that counts as unseen."""
    fresh = library.fresh(activations)
    seen_held_out = int((activations.held_out & ~fresh).sum())
    tokens = activations.tokens
    readouts = np.array([]) if tokens is None else tokens.offsets[1:][tokens.selected[fresh]] - 1
    trained_on = int(np.isin(readouts, library.selection.rows).sum())
    detail = (
        f"{len(library.selection.rows)} rows of {library.selection.n_prompts} prompts train; {int(fresh.sum())} of "
        f"{len(fresh)} prompts are fresh, {trained_on} of them trained on; {seen_held_out} held-out prompts seen"
    )
    passed = tokens is not None and bool(fresh.any()) and trained_on == 0 and seen_held_out == 0
    return Check(name="fresh_prompts", passed=passed, detail=detail)


def _name(row: Row) -> str:
    return f"{row['kind']}, seed {row['seed']}, update {row['update']}"


def _alive(rows: Sequence[Row], settings: DictionarySettings) -> Check:
    worst = max(rows, key=lambda row: _number(row["dead"]))
    share = _number(worst["dead"])
    detail = (
        f"at most {share:.1%} of features are dead ({_name(worst)}), allowed {settings.max_dead_share:.1%}"
    )
    return Check(name="features_alive", passed=share <= settings.max_dead_share, detail=detail)


def _explains(rows: Sequence[Row]) -> Check:
    """Check that every dictionary reconstructs held-out updates better than the training mean does."""
    poor = [row for row in rows if not _number(row["explained_held_out"]) > 0]
    least = min(_number(row["explained_held_out"]) for row in rows)
    detail = f"{len(rows)} dictionaries, the least explained variance is {least:.3f}"
    if poor:
        detail += f"; not above 0: {'; '.join(map(_name, poor[:5]))}"
    return Check(name="dictionaries_explain", passed=not poor, detail=detail)


def _number(value: object) -> float:
    """Return a row's number; one that isn't there is NaN, which passes no check."""
    return float(value) if isinstance(value, int | float) else float("nan")
