"""Verdicts as tables: one row a hypothesis, one row a contrast, one row a permutation test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prereg.tabular import Cell, csv_bytes

if TYPE_CHECKING:
    from prereg.protocol import Hypothesis, Published

__all__ = ["contrasts_csv", "permutations_csv", "verdicts_csv"]

Record = Mapping[str, Any]

_VERDICT = (
    "hypothesis", "model", "family", "outcome", "answer", "registration", "sets_of_data", "estimate", "low", "high",
    "direction", "threshold", "units", "level", "n_subjects", "n_prompts", "binds", "failed_controls",
    "version", "other_version", "other_answer", "other_threshold", "published_verdict", "published_value",
    "published_model", "claim", "reason", "protocol_digest",
)  # fmt: skip
_NESTED = ("registration", "sets_of_data")
_CONTRAST = (
    "hypothesis", "role", "name", "label", "binds", "estimate", "low", "high", "level", "direction",
    "threshold", "se", "largest_influence", "degenerate", "updates",
)  # fmt: skip
_PERMUTATION = ("hypothesis", "updates", "observed", "largest_draw", "p", "draws", "alpha", "passed")


def verdicts_csv(
    promises: Mapping[str, Hypothesis],
    published: Mapping[str, Published],
    model: str,
    records: Sequence[Record],
) -> bytes:
    """Return one row for each hypothesis that is promised, in that order, whether it was tested or not."""
    by_name = {record["hypothesis"]: record for record in records}
    rows: list[dict[str, Cell]] = []
    for name, promise in promises.items():
        record: Record = by_name.get(name) or {
            "hypothesis": name,
            "model": model,
            "outcome": "not_tested",
            **promise.model_dump(mode="json", include={"claim", "family", "direction", "threshold", "units"}),
        }
        row: dict[str, Cell] = {column: record.get(column) for column in _VERDICT if column not in _NESTED}
        row["registration"] = (record.get("registration") or {}).get("status")
        other = record.get("other") or {}
        row |= {f"other_{name}": other.get(name) for name in ("version", "answer", "threshold")}
        row["sets_of_data"] = (record.get("attempts") or {}).get("data")
        paper = published.get(name)
        if paper is not None:
            row |= {f"published_{k}": getattr(paper, k) for k in ("verdict", "value", "model")}
        failed = [c["name"] for c in record.get("controls", ()) if c["outcome"] != "supported"]
        rows.append(row | {"failed_controls": " ".join(failed)})
    return csv_bytes(_VERDICT, rows)


def contrasts_csv(records: Sequence[Record]) -> bytes:
    """Return one row for each contrast of each claim and control, with every interval method's bounds.

    A control that several hypotheses share has a row under each. Its bounds are at its own level; the column
    ``level`` is that of the hypothesis, and empty for a control.
    """
    methods = sorted({method for _, claim in _claims(records) for c in claim for method in c["sensitivity"]})
    columns = (*_CONTRAST, *(f"{method}_{end}" for method in methods for end in ("low", "high")))
    rows = [
        {
            **head,
            "label": c["label"],
            "binds": c["label"] == head["binds"],
            **{k: c[k] for k in ("estimate", "low", "high", "se", "largest_influence", "degenerate")},
            "updates": " ".join(str(update) for update in c["updates"]),
            **{
                f"{method}_{end}": bound
                for method, bounds in c["sensitivity"].items()
                for end, bound in zip(("low", "high"), bounds, strict=True)
            },
        }
        for head, claim in _claims(records)
        for c in claim
    ]
    return csv_bytes(columns, rows)


def permutations_csv(records: Sequence[Record]) -> bytes | None:
    """Return one row for each refit permutation test, or None where the protocol has none."""
    rows = [
        {"hypothesis": record["hypothesis"], **test} for record in records for test in record["permutations"]
    ]
    return csv_bytes(_PERMUTATION, rows) if rows else None


def _claims(records: Sequence[Record]) -> list[tuple[dict[str, Cell], Sequence[Record]]]:
    """Return what each claim's contrasts have in common, and the contrasts."""
    found: list[tuple[dict[str, Cell], Sequence[Record]]] = []
    for record in records:
        name = record["hypothesis"]
        own = {k: record[k] for k in ("level", "direction", "threshold")}
        found.append(
            ({"hypothesis": name, "role": "claim", "name": name, "binds": record["binds"], **own},
             record["contrasts"])
        )  # fmt: skip
        for control in record["controls"]:
            head: dict[str, Cell] = {"hypothesis": name, "role": "control", "name": control["name"]}
            found.append((head | {"binds": control["binds"]}, control["contrasts"]))
    return found
