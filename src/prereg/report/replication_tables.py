"""The tracked tables of a replication: replication.csv and replication.json, beside the folders of the models.

They follow from the verdicts alone and hold no time of day. They are written only where every hypothesis was asked on
every model and nothing was tampered with; what stands there is left as it was otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prereg.errors import StudyError
from prereg.hostile import read_bounded
from prereg.report.replication import CAVEAT, Replication, replications
from prereg.tabular import Cell, csv_bytes, json_bytes, put

__all__ = ["outdated_replication", "replication_contents", "write_replication"]

Record = Mapping[str, Any]

FORMAT = 1
MAX_JSON = 8_000_000

_POOLED = (
    "k", "mu", "se", "low", "high", "level", "tau2", "i2", "prediction_low", "prediction_high", "dependent_low",
    "dependent_high",
)  # fmt: skip
_ROW = (
    "hypothesis", "contrast", "worst", "models", "outcome", "registration", "answers", "agree", "estimates", "errors",
    "pooled_models", "binds_on", *(name if name != "se" else "pooled_se" for name in _POOLED), "direction", "threshold",
    "units", "version", "not_pooled", "caution", "caveat",
)  # fmt: skip


def replication_contents(
    study: str, records: Sequence[Record], hypotheses: Sequence[str]
) -> dict[str, bytes]:
    """Return the tracked tables by file name: one row for each contrast of each hypothesis.

    Raises
    ------
    StudyError
        If there are fewer than two models, a model has no verdict on some hypothesis, or one is tampered with.
    """
    models = sorted({str(record["model"]) for record in records})
    if len(models) < 2:
        raise StudyError(
            f"{study}: verdicts on {', '.join(models) or 'no model'} are no replication; two models are wanted",
            remedy="prereg verdicts --model A --model B",
        )
    have = {(str(r["model"]), r["hypothesis"]) for r in records}
    missing = [f"{name} on {model}" for model in models for name in hypotheses if (model, name) not in have]
    if missing or not hypotheses:
        raise StudyError(f"{study}: not every hypothesis was asked on every model: {', '.join(missing)}")
    tampered = sorted({str(record["model"]) for record in records if _is_tampered(record)})
    if tampered:
        raise StudyError(
            f"{study}: the registration is tampered with on {', '.join(tampered)}: nothing is pooled"
        )
    rows = replications(records, hypotheses)
    document = {
        "format": FORMAT,
        "study": study,
        "models": models,
        "caveat": CAVEAT,
        "rows": [_plain(row) for row in rows],
    }
    return {
        "replication.json": json_bytes(document),
        "replication.csv": csv_bytes(_ROW, [_flat(row) for row in rows]),
    }


def write_replication(
    folder: Path, study: str, records: Sequence[Record], hypotheses: Sequence[str]
) -> tuple[Path, ...]:
    """Write what `replication_contents` returns into a study's folder of reports; return the files.

    Raises
    ------
    StudyError
        As `replication_contents`.
    StorageError
        If the folder can't be written.
    """
    contents = replication_contents(study, records, hypotheses)
    for name, content in sorted(contents.items()):
        put(folder / name, content)
    return tuple(folder / name for name in sorted(contents))


def outdated_replication(folder: Path, records: Sequence[Record]) -> tuple[str, ...]:
    """Return the models of a replication.json that says otherwise of one of them than these verdicts do.

    Parameters
    ----------
    folder
        A study's reports.
    records
        Verdicts on one model.

    Returns
    -------
    tuple of str
        All models that the file is about; none where it is up to date, is not there, or is not about this model.
    """
    try:
        document = json.loads(read_bounded(folder / "replication.json", MAX_JSON))
        models = tuple(map(str, document["models"]))
        told = {
            (row["hypothesis"], row["contrast"], part["model"]): _about(part)
            for row in document["rows"]
            for part in row["models"]
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()  # not there, or not ours: the audit says what is wrong with it
    hypotheses = list(dict.fromkeys(str(record["hypothesis"]) for record in records))
    own = {
        (row.hypothesis, row.contrast, part.model): _about(_rounded(asdict(part)))
        for row in replications(records, hypotheses)
        for part in row.parts
    }
    concerned = {model for _, _, model in own} & set(models)
    return models if concerned and any(told.get(key) != part for key, part in own.items()) else ()


def _about(part: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(part[name] for name in ("outcome", "registration", "answer", "estimate", "se"))


def _is_tampered(record: Record) -> bool:
    registration = record.get("registration")
    status = registration.get("status") if isinstance(registration, Mapping) else None
    return "tampered" in (status, record.get("outcome"))


def _plain(row: Replication) -> dict[str, Any]:
    return {
        "hypothesis": row.hypothesis,
        "contrast": row.contrast,
        "worst": row.worst,
        "agree": row.agree,
        "models": [_rounded(asdict(part)) for part in row.parts],
        "direction": row.direction,
        "threshold": row.threshold,
        "units": row.units,
        "version": row.version,
        "pooled": None if row.pooled is None else _rounded({n: getattr(row.pooled, n) for n in _POOLED}),
        "not_pooled": row.not_pooled,
        "caution": "" if row.pooled is None else row.pooled.caution,
    }


def _flat(row: Replication) -> dict[str, Cell]:
    parts = row.parts
    pooled: dict[str, Cell] = {} if row.pooled is None else {n: getattr(row.pooled, n) for n in _POOLED}
    if pooled:
        pooled["pooled_se"] = pooled.pop("se")
    return {
        "hypothesis": row.hypothesis,
        "contrast": row.contrast,
        "worst": row.worst,
        "models": _joined(part.model for part in parts),
        "outcome": _joined(part.outcome for part in parts),
        "registration": _joined(part.registration for part in parts),
        "answers": _joined(part.answer for part in parts),
        "agree": row.agree,
        "estimates": _joined(_digits(part.estimate) for part in parts),
        "errors": _joined(_digits(part.se) for part in parts),
        "pooled_models": _joined(
            part.model for part in parts if row.pooled is not None and not part.left_out
        ),
        "binds_on": _joined(part.model for part in parts if part.binds),
        **pooled,
        "direction": row.direction,
        "threshold": row.threshold,
        "units": row.units,
        "version": row.version,
        "not_pooled": row.not_pooled,
        "caution": "" if row.pooled is None else row.pooled.caution,
        "caveat": CAVEAT,
    }


def _joined(values: Iterable[str]) -> str:
    return "; ".join(values)


def _digits(value: float | None) -> str:
    return "" if value is None else repr(float(f"{value:.12g}"))


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    """Return numbers at 12 significant digits, as everywhere in the tracked tables."""
    return {k: float(f"{v:.12g}") if isinstance(v, float) else v for k, v in record.items()}
