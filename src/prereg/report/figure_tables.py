"""What figures are drawn from: small tables, computed from verified evidence and from nothing else.

R2 of a fit at update l is ``1 - sum_i SSE / sum_i SST`` over held-out prompts; over a set of updates it is the
mean of these (the delta-stream paper's figure, in our reading). Prompts are summed in the order of their names,
whatever their order in the table. A table whose evidence is missing has no rows and is not written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prereg.report.source_tables import SOURCE_TABLES, source_tables
from prereg.study.frames import frame_of
from prereg.tabular import Cell, csv_bytes

if TYPE_CHECKING:
    from prereg.evidence import Evidence, Provenance

__all__ = ["FIGURE_TABLES", "figure_tables"]

BASELINES = ("template", "relation", "global")

FIGURE_TABLES: dict[str, tuple[str, ...]] = {
    "r2_by_update.csv": ("arm", "update", "depth", "fit", "r2", *(f"r2_{b}" for b in BASELINES)),
    "orders.csv": ("arm", "updates", "order", "r2_history", "r2_running_sum", "r2_running_sum_history"),
    "running_sum_split.csv": (
        "arm", "updates", "order", "history", "running_sum", "both", "unique", "common", "along", "across",
        "ceiling",
    ),
    "cross_band.csv": ("arm", "fit_on", "evaluated_on", "r2", "r2_raw"),
    "draws.csv": ("arm", "fit", "updates", "draw", "r2"),
    "prompts.csv": ("relation", "held_out_prompts", "held_out_subjects"),
    "selection.csv": ("relation", "status", "prompts"),
    **SOURCE_TABLES,
}  # fmt: skip
"""Every figure table by file name, and its columns.

``depth`` is update / L. ``r2`` is against the baseline that gates use. Of ``running_sum_split.csv``: ``both`` is
R2 of running sum and history together; ``unique = both - running_sum``; ``common = history - unique``
(commonality), and ``both = running_sum + unique`` (nested). ``along`` and ``across`` are the history's explained
variance along the prompt's own v[l] and across it, as shares of the total (directional); ``ceiling`` is the
share of SST that lies along v[l] at all.
"""


@dataclass(frozen=True, slots=True)
class _Arm:
    """One arm's evidence, summed over held-out prompts."""

    name: str
    record: Provenance
    sums: Mapping[str, Mapping[int, float]]
    """Column -> update -> sum over held-out prompts."""

    def share(self, column: str, update: int, total: str = "sst") -> float | None:
        """Return a column's sum over that of `total`; None where either is not there, or the total is zero."""
        below = self.sums.get(total, {}).get(update)
        above = self.sums.get(column, {}).get(update)
        return above / below if above is not None and below is not None and below > 0.0 else None

    def r2(self, fit: str, update: int, total: str = "sst") -> float | None:
        """Return 1 - SSE / SST at one update."""
        error = self.share(f"sse.{fit}", update, total)
        return None if error is None else 1.0 - error

    def mean_r2(self, fit: str, updates: Sequence[int]) -> float | None:
        """Return the mean over updates of R2; None unless it is defined at each."""
        return _mean([self.r2(fit, update) for update in updates])

    def explained(self, side: str, fit: str, updates: Sequence[int]) -> float | None:
        """Return the mean over updates of (SST_side - SSE_side) / SST."""
        parts = []
        for update in updates:
            total, error = self.share(f"sst.{side}", update), self.share(f"sse.{fit}.{side}", update)
            parts.append(None if total is None or error is None else total - error)
        return _mean(parts)

    @property
    def fits(self) -> tuple[str, ...]:
        """Fits of the arm, without their directional parts."""
        names = (c.removeprefix("sse.") for c in self.sums if c.startswith("sse."))
        return tuple(n for n in names if not n.endswith((".along", ".across")))

    @property
    def sets(self) -> dict[str, list[int]]:
        """The protocol's sets of updates, those of which every update was measured."""
        measured = set(self.sums["sst"])
        return {name: at for name, at in self.record.update_sets.items() if measured.issuperset(at)}

    def orders(self, prefix: str) -> tuple[int, ...]:
        """Orders k for which a fit ``<prefix><k>`` was measured, ascending."""
        matches = (re.fullmatch(re.escape(prefix) + r"([0-9]+)", fit) for fit in self.fits)
        return tuple(sorted(int(match[1]) for match in matches if match is not None))


def figure_tables(evidence: Mapping[tuple[str, str], Evidence]) -> dict[str, bytes]:
    """Return the bytes of every figure table that the evidence has something for.

    Parameters
    ----------
    evidence
        (analysis, arm) -> verified evidence.
    """
    kernels = [_arm(arm, e) for (analysis, arm), e in evidence.items() if analysis == "kernels"]
    rows = {
        "r2_by_update.csv": [row for arm in kernels for row in _r2_by_update(arm)],
        "orders.csv": [row for arm in kernels for row in _orders(arm)],
        "running_sum_split.csv": [row for arm in kernels for row in _split(arm)],
        "cross_band.csv": [
            row for (a, arm), e in evidence.items() if a == "band_kernels" for row in _cross_band(arm, e)
        ],
        "draws.csv": [
            row for arm in kernels for row in _draws(arm, evidence["kernels", arm.name])
        ],
        "prompts.csv": _prompts(evidence),
        "selection.csv": _selection(evidence),
    }  # fmt: skip
    own = {name: csv_bytes(FIGURE_TABLES[name], found) for name, found in rows.items() if found}
    return own | source_tables(evidence)


def _arm(name: str, evidence: Evidence) -> _Arm:
    if evidence.provenance is None:
        raise ValueError(f"{name}: evidence without provenance can't be reported")
    frame = frame_of(evidence, name)
    sums = {
        column: dict(zip(frame.updates, values.sum(axis=0).tolist(), strict=True))
        for column, values in frame.columns.items()
        if column.startswith(("sse.", "sst"))
    }
    return _Arm(name, evidence.provenance, sums)


def _r2_by_update(arm: _Arm) -> list[dict[str, Cell]]:
    return [
        {
            "arm": arm.name,
            "update": update,
            "depth": update / arm.record.n_layers,
            "fit": fit,
            "r2": arm.r2(fit, update),
            **{f"r2_{b}": arm.r2(fit, update, f"sst.{b}") for b in BASELINES},
        }
        for fit in arm.fits
        for update in arm.sums["sst"]
    ]


def _orders(arm: _Arm) -> list[dict[str, Cell]]:
    return [
        {
            "arm": arm.name,
            "updates": name,
            "order": order,
            "r2_history": arm.mean_r2(f"history_{order}", at),
            "r2_running_sum": arm.mean_r2("running_sum", at),
            "r2_running_sum_history": arm.mean_r2(f"running_sum_history_{order}", at),
        }
        for name, at in arm.sets.items()
        for order in arm.orders("history_")
    ]


def _split(arm: _Arm) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for name, at in arm.sets.items():
        for order in arm.orders("running_sum_history_"):
            fit = f"history_{order}"
            history, both = arm.mean_r2(fit, at), arm.mean_r2(f"running_sum_{fit}", at)
            alone = arm.mean_r2("running_sum", at)
            if history is None or both is None or alone is None:
                continue
            along, across = arm.explained("along", fit, at), arm.explained("across", fit, at)
            rows.append(
                {
                    "arm": arm.name, "updates": name, "order": order,
                    "history": history, "running_sum": alone, "both": both,
                    "unique": both - alone, "common": history - (both - alone),
                    "along": along, "across": across,
                    "ceiling": _mean([arm.share("sst.along", update) for update in at]),
                }
            )  # fmt: skip
    return rows


def _cross_band(arm: str, evidence: Evidence) -> list[dict[str, Cell]]:
    table = evidence.side.get("cross_band")
    return [] if table is None else [{"arm": arm, **row} for row in table.to_pylist()]


def _draws(arm: _Arm, evidence: Evidence) -> list[dict[str, Cell]]:
    table = evidence.side.get("draws")
    if table is None:
        return []
    r2: dict[tuple[str, int], dict[int, float]] = {}
    for row in table.to_pylist():
        if row["sst"] > 0.0:
            r2.setdefault((row["fit"], row["draw"]), {})[row["update"]] = 1.0 - row["sse"] / row["sst"]
    rows: list[dict[str, Cell]] = []
    for (fit, draw), by_update in r2.items():
        for name, at in arm.sets.items():
            mean = _mean([by_update.get(update) for update in at])
            if mean is not None:
                rows.append({"arm": arm.name, "fit": fit, "updates": name, "draw": draw, "r2": mean})
    return sorted(rows, key=lambda row: (str(row["fit"]), str(row["updates"]), int(str(row["draw"]))))


def _prompts(evidence: Mapping[tuple[str, str], Evidence]) -> list[dict[str, Cell]]:
    """Count the held-out prompts of each relation, in an analysis that asks all of them."""
    tables = [e.table for (_, arm), e in evidence.items() if arm == "model" and "sst" in e.table.column_names]
    if not tables:
        return []
    table = tables[0]
    columns = table.select(["relation", "prompt", "subject"]).to_pydict()
    prompts: dict[str, set[str]] = {}
    subjects: dict[str, set[str]] = {}
    for relation, prompt, subject in zip(*columns.values(), strict=True):
        prompts.setdefault(relation, set()).add(prompt)
        subjects.setdefault(relation, set()).add(subject)
    return [
        {
            "relation": relation,
            "held_out_prompts": len(prompts[relation]),
            "held_out_subjects": len(subjects[relation]),
        }
        for relation in sorted(prompts)
    ]


def _selection(evidence: Mapping[tuple[str, str], Evidence]) -> list[dict[str, Cell]]:
    """Count what became of every fact; every analysis of the model has the same."""
    table = next(
        (e.side["selection"] for (_, arm), e in evidence.items() if arm == "model" and "selection" in e.side),
        None,
    )
    return [] if table is None else table.to_pylist()


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
