"""The tables over several models: pooled again from the verdicts that were recomputed, and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prereg.audit.case import Case
from prereg.audit.comparing import csv_differences, json_differences
from prereg.audit.findings import Finding
from prereg.audit.verdicts import in_force
from prereg.errors import PreregError
from prereg.registration.records import decode_json
from prereg.registration.witness import read_bounded
from prereg.study import Verdict

__all__ = ["check_replication"]

MAX_TABLE = 8_000_000
JSON, CSV = "replication.json", "replication.csv"


def check_replication(case: Case) -> Iterator[Finding]:
    """Compare replication.json and replication.csv with what the recomputed verdicts give.

    Integrity: "results table or verdicts.json edited". Nothing is said where neither file is there: they follow from
    the verdicts, and promise nothing.
    """
    here = [name for name in (JSON, CSV) if _is_there(case.reports / name)]
    if not here:
        return
    if len(here) == 1:
        missing = CSV if here == [JSON] else JSON
        yield Finding(
            "verdicts", "violation", f"{here[0]} is there without {missing}", remedy=_remedy(case, ())
        )
        return
    if case.replicated is None:
        yield Finding("verdicts", "unverified", "the tables over several models were not compared")
        return
    try:
        recorded = decode_json(read_bounded(case.reports / JSON, MAX_TABLE), JSON, limit=MAX_TABLE)
        table = read_bounded(case.reports / CSV, MAX_TABLE)
    except PreregError as error:
        yield Finding("verdicts", "violation", error.message, remedy=_remedy(case, ()))
        return
    models = _models(recorded)
    if models is None:
        yield Finding(
            "verdicts",
            "violation",
            f"{JSON} does not name the models that it is about",
            remedy=_remedy(case, ()),
        )
        return
    yield from _compared(case, models, recorded, table)


def _compared(case: Case, models: Sequence[str], recorded: Any, table: bytes) -> Iterator[Finding]:
    found = {model.name: model for model in case.models}
    verdicts: list[Verdict] = []
    lacking = []
    hypotheses: tuple[str, ...] = ()
    for name in models:
        model = found.get(name)
        mine = () if model is None else case.recomputed.get(model.folder.name, ())
        if model is not None and mine:
            hypotheses = in_force(case, model).hypotheses
        if not mine or {verdict.hypothesis for verdict in mine} != set(hypotheses):
            lacking.append(name)
        verdicts += mine
    if lacking:
        # Whoever looks at some models knows that the others were left out.
        left_out = case.named is not None and all(name not in found for name in lacking)
        named = ", ".join(lacking)
        words = f"replication of {', '.join(models)}: not compared, since {named} is not recomputed in full"
        yield Finding("verdicts", "note" if left_out else "unverified", words)
        return
    if case.replicated is None:
        return
    wanted = case.replicated(case.study, [verdict.as_record() for verdict in verdicts], hypotheses)
    same = _is_registered(recorded)
    remedy = _remedy(case, models)
    if not same:
        yield Finding(
            "verdicts", "unverified", f"{JSON} was not written as registered on every model", remedy=remedy
        )
    document = json.loads(wanted[JSON])
    differences = {
        JSON: json_differences(recorded, document, same_standing=same, only=None),
        # A checkout with CRLF is no edit.
        CSV: csv_differences(table.replace(b"\r\n", b"\n"), wanted[CSV], same_standing=same),
    }
    for name, differing in differences.items():
        if differing:
            words = f"{name} is not what the evidence shows: {len(differing)} differences: {differing[0]}"
            yield Finding("verdicts", "violation", words, tuple(differing), remedy=remedy)
    if same and not any(differences.values()):
        yield Finding(
            "verdicts",
            "verified",
            f"replication of {', '.join(models)}: both tables follow from the evidence",
        )


def _models(recorded: Any) -> list[str] | None:
    models = recorded.get("models") if isinstance(recorded, dict) else None
    if not isinstance(models, list) or len(models) < 2 or not all(isinstance(name, str) for name in models):
        return None
    return models if len(set(models)) == len(models) else None


def _is_registered(recorded: Any) -> bool:
    """Tell whether every part of a table says that it was written while the study stood registered."""
    rows = recorded.get("rows")
    parts = [
        part
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("models"), list)
        for part in row["models"]
    ]
    return bool(parts) and all(isinstance(p, dict) and p.get("registration") == "registered" for p in parts)


def _remedy(case: Case, models: Sequence[str]) -> str:
    named = "".join(f" --model {name}" for name in models) or " --model A --model B"
    return f"prereg verdicts {case.shown(case.folder)}{named}   # writes both again"


def _is_there(file: Path) -> bool:
    return file.is_symlink() or file.exists()
