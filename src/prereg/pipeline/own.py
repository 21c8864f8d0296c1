"""One measurement by somebody's own analysis: watched, made twice, and checked before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.analysis.own import OwnAnalysis
from prereg.analysis.settings import Settings
from prereg.analysis.soundness import Asked, require_sound
from prereg.analysis.watching import Watch
from prereg.errors import AnalysisError
from prereg.evidence import Evidence
from prereg.workers import Arrays, Task, Workers

__all__ = ["measure_own"]

SAMPLE = 3
"""Tasks of each list that are done a second time."""


def measure_own(
    spec: OwnAnalysis,
    activations: Activations,
    settings: Settings,
    workers: Workers,
    watch: Watch,
    extras: Mapping[str, object],
) -> Evidence:
    """Run somebody's own analysis, and again: the same arguments must give the same numbers.

    The second time its module is run anew, everything is done again but its tasks, and of these some.

    Parameters
    ----------
    spec, activations, settings, workers
        What to run, and on what; the activations can't be written to meanwhile.
    watch
        Where it may read.
    extras
        What it takes by keyword.

    Raises
    ------
    AnalysisError
        What it raised itself; that it depends on what isn't pinned; that its evidence can't be used; or that the
        second time gave other numbers.
    """
    asked = Asked.of(activations)
    _protect(activations)
    notes: dict[tuple[str, str], Arrays] = {}
    first = _Noted(**_fields(workers), notes=notes)
    with watch.over(spec):
        module = spec.load()
        evidence: Evidence = module.measure(activations, settings, first, **extras)
    require_sound(evidence, asked, str(spec.file))
    _require_promised(spec, watch, module, settings, evidence, extras)
    second = _Noted(notes=notes, again=True)
    with watch.over(spec):
        anew = spec.load(again=True)
        other = getattr(anew, spec.settings).model_validate(settings.model_dump())
        repeated: Evidence = anew.measure(activations, other, second, **extras)
    difference = _difference(evidence, repeated)
    if difference is not None:
        raise AnalysisError(
            f"{spec.file}: measured a second time, {difference}: its numbers hang on more than its arguments",
            remedy="take seeds from the settings, and neither the clock, nor global state, nor sets in their own order",
        )
    return evidence


def _protect(activations: Activations) -> None:
    """Let nobody write into what others read as well."""
    tokens = activations.tokens
    for array in (
        activations.held_out,
        activations.resid,
        activations.answer_ids,
        *((tokens.stream, tokens.selected) if tokens is not None else ()),
    ):
        if array is not None:
            array.setflags(write=False)


def _require_promised(
    spec: OwnAnalysis,
    watch: Watch,
    module: Any,
    settings: Settings,
    evidence: Evidence,
    extras: Mapping[str, object],
) -> None:
    """Demand every fit that the analysis says it measures: a claim may name it."""
    names = getattr(module, "fit_names", None)
    if names is None or extras.get("twin"):
        return
    with watch.over(spec):
        missing = sorted(set(names(settings)) - set(evidence.fits))
    if missing:
        raise AnalysisError(
            f"{spec.file}: fit_names says that it measures {', '.join(missing)}, and no such column came",
            remedy="return value.<fit> or sse.<fit> for each, or leave it out of fit_names",
        )


@dataclasses.dataclass(frozen=True)
class _Noted(Workers):
    """Workers that remember what was done; `again`, they do some of it anew and compare."""

    notes: dict[tuple[str, str], Arrays] = dataclasses.field(default_factory=dict)
    again: bool = False

    def at(self, checkpoint: Any) -> _Noted:
        """Return the same workers, with their finished results kept elsewhere."""
        return dataclasses.replace(self, checkpoint=None if self.again else checkpoint)

    def map(self, tasks: Sequence[Task], label: str) -> dict[str, Arrays]:
        """Do the tasks; the second time a sample of them, and only if they are those of the first."""
        if not self.again:
            done = Workers.map(self, tasks, label)
            self.notes.update({(label, key): result for key, result in done.items()})
            return done
        unknown = [task.key for task in tasks if (label, task.key) not in self.notes]
        if unknown:
            raise AnalysisError(f"measured a second time, it has other tasks: {', '.join(unknown[:3])}")
        places = np.unique(np.linspace(0, len(tasks) - 1, min(SAMPLE, len(tasks))).round().astype(int))
        anew = Workers.map(Workers(), [tasks[place] for place in places], label)
        for key, result in anew.items():
            if not _same_arrays(result, self.notes[label, key]):
                raise AnalysisError(
                    f"measured a second time, the task {key} has another result",
                    remedy="let a task depend on its arguments alone",
                )
        return {task.key: self.notes[label, task.key] for task in tasks}


def _fields(workers: Workers) -> dict[str, Any]:
    return {field.name: getattr(workers, field.name) for field in dataclasses.fields(Workers)}


def _difference(one: Evidence, other: object) -> str | None:
    """Return in words what differs between two measurements, None where nothing does."""
    if not isinstance(other, Evidence):
        return f"it returned {type(other).__name__}"
    if set(one.side) != set(other.side):
        return "it returned other side tables"
    pairs = {"the table": (one.table, other.table), **{k: (one.side[k], other.side[k]) for k in one.side}}
    for name, (first, second) in pairs.items():
        if first.schema != second.schema or first.num_rows != second.num_rows:
            return f"{name} has another shape"
        for column in first.column_names:
            if not _same_column(first[column], second[column]):
                return f"{name} has other numbers in {column}"
    return None if one.checks == other.checks else "its checks say something else"


def _same_column(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if one.equals(other):
        return True
    if not pa.types.is_floating(one.type):
        return False
    return bool(np.array_equal(_floats(one), _floats(other), equal_nan=True))


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in column.to_pylist()], np.float64)


def _same_arrays(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[k], other[k], equal_nan=np.asarray(one[k]).dtype.kind == "f") for k in one
    )
