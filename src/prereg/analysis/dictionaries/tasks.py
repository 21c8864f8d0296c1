"""One dictionary, from the token stream to its file: what a worker does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prereg.analysis.dictionaries.files import Record, write_dictionary
from prereg.analysis.dictionaries.rows import Selection, scaled_rows
from prereg.analysis.dictionaries.settings import DictionarySettings
from prereg.analysis.dictionaries.training import train
from prereg.analysis.threads import one_thread
from prereg.workers import Arrays

__all__ = ["train_one"]


@one_thread
def train_one(
    *,
    folder: Path,
    stream: np.ndarray,
    selection: Selection,
    settings: DictionarySettings,
    origin: dict[str, Any],
    key: str,
    target: float | None,
) -> Arrays:
    """Train one dictionary and write it; what is returned only says so.

    Parameters
    ----------
    folder
        Where it is written.
    stream, selection
        The token stream, and which of its rows train.
    settings
        The protocol's.
    origin
        The fields of its `Record` that say where it comes from: all that its bits depend on.
    key
        Their digest, and the file's name.
    target
        For L1, the L0 at the readout position that TopK has.
    """
    kind, seed, update = origin["kind"], origin["seed"], origin["update"]
    rows = scaled_rows(stream, selection.rows, update, settings.norm_cap)
    trained = train(
        rows,
        selection.readout,
        settings,
        kind=kind,
        seed=seed,
        layer=update,
        target=target,
        device=origin["device"],
    )
    raw = rows.values.astype(np.float64) * rows.scale
    codes = trained.dictionary.codes(raw)
    missed = float(np.sum((trained.dictionary.decode(codes) - raw) ** 2))
    spread = float(np.sum((raw - rows.mean * rows.scale) ** 2))
    active = codes > 0
    record = Record(
        key=key,
        **origin,
        n_rows=len(raw),
        n_prompts=selection.n_prompts,
        duplicates=selection.duplicates,
        capped=rows.capped,
        l0_tokens=float(active.sum(axis=1).mean()),
        l0_readout=float(active[selection.readout].sum(axis=1).mean()),
        fired=tuple(active.sum(axis=0).tolist()),
        explained=1.0 - missed / spread,
        price=trained.price,
        curve=tuple(tuple(point) for point in trained.curve.tolist()),
    )
    write_dictionary(folder, trained.dictionary, record)
    return {"explained": np.array([record.explained])}
