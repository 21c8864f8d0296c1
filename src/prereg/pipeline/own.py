"""One measurement by somebody's own analysis: watched, made twice, and checked before anything is written."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.analysis.own import OwnAnalysis
from prereg.analysis.serving import forget, served
from prereg.analysis.settings import Settings
from prereg.analysis.soundness import Asked, require_sound
from prereg.analysis.sources import Sources
from prereg.analysis.threads import one_thread
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
    first = _Noted(**_fields(workers), sources=spec.sources, notes=notes)
    with watch.over(spec):
        module = spec.load()
        evidence: Evidence = one_thread(module.measure)(activations, settings, first, **extras)
    require_sound(evidence, asked, str(spec.file))
    _require_promised(spec, watch, module, settings, evidence, extras)
    second = _Noted(sources=spec.sources, notes=notes, again=True)
    try:
        _repeat(spec, activations, settings, second, watch, extras, evidence)
    except AnalysisError:
        # What was kept may be what differs.
        workers.clear()
        raise
    return evidence


_ON_ARGUMENTS = (
    "let its numbers hang on its arguments alone: take seeds from the settings, and neither the clock, nor global "
    "state, nor sets in their own order"
)


def _repeat(
    spec: OwnAnalysis,
    activations: Activations,
    settings: Settings,
    workers: Workers,
    watch: Watch,
    extras: Mapping[str, object],
    first: Evidence,
) -> None:
    """Measure again, by modules that are run anew, and compare."""
    forget(spec.sources)
    with watch.over(spec):
        module = spec.load(again=True)
        same = getattr(module, spec.settings).model_validate(settings.model_dump())
        found: Evidence = one_thread(module.measure)(activations, same, workers, **extras)
    difference = _difference(first, found)
    if difference is not None:
        raise AnalysisError(f"{spec.file}: measured a second time, {difference}", remedy=_ON_ARGUMENTS)


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

    sources: Sources | None = None
    notes: dict[tuple[str, str], Arrays] = dataclasses.field(default_factory=dict)
    again: bool = False

    def at(self, checkpoint: Path) -> _Noted:
        """Return the same workers, with their finished results kept elsewhere."""
        return dataclasses.replace(self, checkpoint=checkpoint)

    def map(self, tasks: Sequence[Task], label: str) -> dict[str, Arrays]:
        """Do the tasks; the second time a sample of them, and only if they are those of the first."""
        if not self.again:
            # Lists may use the same keys: each keeps its own.
            kept = None if self.checkpoint is None else self.checkpoint / re.sub(r"[^A-Za-z0-9]", "-", label)
            hands = Workers(self.jobs, self.engine, self.progress, kept)
            done = hands.map([self._alike(task) for task in tasks], label)
            self.notes.update({(label, key): _copied(result) for key, result in done.items()})
            return done
        unknown = [task.key for task in tasks if (label, task.key) not in self.notes]
        if unknown:
            raise AnalysisError(
                f"measured a second time, it has other tasks: {', '.join(unknown[:3])}", remedy=_ON_ARGUMENTS
            )
        # Nobody should know beforehand which.
        sample = secrets.SystemRandom().sample(list(tasks), min(SAMPLE, len(tasks)))
        for key, result in Workers().map([self._alike(task) for task in sample], label).items():
            difference = _other_array(self.notes[label, key], result)
            if difference is not None:
                raise AnalysisError(
                    f"done a second time, the task {key} of {label} gives another {difference}",
                    remedy=f"{_ON_ARGUMENTS}; then measure again",
                )
        return {task.key: _copied(self.notes[label, task.key]) for task in tasks}

    def _alike(self, task: Task) -> Task:
        """Return a task that finds the same modules and BLAS threads wherever it is done."""
        arguments = {"sources": self.sources, "function": task.function, "arguments": task.arguments}
        return Task(task.key, done_alike, arguments)


@one_thread
def done_alike(
    *, sources: Sources, function: Callable[..., Arrays], arguments: Mapping[str, object]
) -> Arrays:
    """Do a task, with imports answered from what was digested."""
    with served(sources):
        return function(**arguments)


def _copied(result: Arrays) -> Arrays:
    return {name: np.array(values) for name, values in result.items()}


def _other_array(one: Arrays, other: Arrays) -> str | None:
    """Return which array differs, and how much; None where none does."""
    if one.keys() != other.keys():
        return "set of arrays"
    for name, values in one.items():
        first, second = np.asarray(values), np.asarray(other[name])
        if first.shape != second.shape or first.dtype != second.dtype:
            return f"{name}: of another shape or type"
        if not np.array_equal(first, second, equal_nan=first.dtype.kind == "f"):
            numbers = first.dtype.kind in "fiu"
            largest = np.nanmax(np.abs(first.astype(float) - second.astype(float))) if numbers else None
            return name if largest is None else f"{name}: by up to {largest:.3g}"
    return None


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
    said, says = ([(check.name, check.passed) for check in found.checks] for found in (one, other))
    return None if said == says else f"its checks say something else: {said}, {says}"


def _same_column(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    # By its text: nan is nan, also within lists.
    return bool(one.equals(other)) or repr(one.to_pylist()) == repr(other.to_pylist())
