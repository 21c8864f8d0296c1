"""Finished gates of a calibration that is not whole yet, a file each: calibration/parts/<hypothesis>.json.

A part is written as soon as its gate is done, so that a kill or a later ``--hypothesis`` loses nothing, and two runs at
once don't meet. It is no calibration: it has another name and other keys, so that whoever reads a calibration (as a
freeze does) refuses it. A part counts only beside gates of the same run: protocol, pilot, evidence, seed, replications
and code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from prereg.calibration.records import MAX_BYTES, Calibration, GateRecord
from prereg.errors import EvidenceError
from prereg.hostile import read_bounded
from prereg.protocol.base import Closed
from prereg.tabular import json_bytes, put

__all__ = ["Part", "Parts", "Run", "joined"]

_NOTE = "One gate of a calibration that is not whole: prereg calibrate goes on from here. No freeze takes it."


class Part(Closed):
    """One gate of a calibration that is not whole."""

    format: Annotated[int, Field(ge=1, le=1)] = 1
    partial: Literal[True] = True
    note: str = _NOTE
    code: str
    """Digest of what simulated and decided it."""
    calibration: Calibration
    """With one gate; its evidence is this gate's."""


@dataclass(frozen=True, slots=True)
class Run:
    """What gates must share to stand in one calibration, beside their evidence."""

    study: str
    protocol_digest: str
    pilot: str | None
    seed: int
    replications: int
    code: str

    def differs(self, part: Part) -> tuple[str, ...]:
        """Return in which of these a part differs; empty where in none."""
        one = part.calibration
        pairs = {
            "study": (self.study, one.study),
            "protocol": (self.protocol_digest, one.protocol_digest),
            "pilot": (self.pilot, one.pilot),
            "seed": (self.seed, one.seed),
            "replications": (self.replications, one.replications),
            "code": (self.code, part.code),
        }
        return tuple(name for name, (mine, its) in pairs.items() if mine != its)


@dataclass(frozen=True, slots=True)
class Parts:
    """The finished gates in a folder.

    Parameters
    ----------
    folder
        calibration/parts.
    run
        Whose gates they must be.
    """

    folder: Path
    run: Run

    def file(self, hypothesis: str) -> Path:
        """Return where a gate's part lies."""
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in hypothesis)
        return self.folder / f"{safe}.json"

    def names(self) -> tuple[str, ...]:
        """Return the hypotheses whose parts can be read, sorted."""
        found = [self._read(file) for file in sorted(self.folder.glob("*.json"))]
        return tuple(sorted(gate.hypothesis for part in found if part for gate in part.calibration.gates))

    def find(self, gate: GateRecord, evidence: dict[str, str]) -> Calibration | None:
        """Return a gate's part where it is of this run and of this evidence."""
        part = self._read(self.file(gate.hypothesis))
        if part is None or self._stranger(part, gate, evidence):
            return None
        return part.calibration

    def stranger(self, gate: GateRecord, evidence: dict[str, str]) -> str | None:
        """Say in what a gate's part differs from this run; None where there is none, or it doesn't."""
        file = self.file(gate.hypothesis)
        part = self._read(file)
        if part is None:
            return "can't be read" if file.is_file() else None
        why = self._stranger(part, gate, evidence)
        return f"of another {', '.join(why)}" if why else None

    def keep(self, calibration: Calibration) -> None:
        """Write one gate's part; what is there of this run, of other numbers of units, stays in it.

        Raises
        ------
        StorageError
            If it can't be written.
        """
        gate = calibration.gates[0]
        earlier = self.find(gate, calibration.evidence)
        whole = calibration if earlier is None else joined((gate.hypothesis,), (earlier, calibration))
        part = Part(code=self.run.code, calibration=whole)
        put(self.file(gate.hypothesis), json_bytes(part.model_dump(mode="json")))

    def drop(self, calibration: Calibration) -> None:
        """Remove the parts that a calibration holds now; the folder too where nothing is left in it."""
        for gate in calibration.gates:
            file = self.file(gate.hypothesis)
            part = self._read(file)
            if part is not None and set(part.calibration.results) <= set(calibration.results):
                file.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _stranger(self, part: Part, gate: GateRecord, evidence: dict[str, str]) -> tuple[str, ...]:
        one = part.calibration
        why = self.run.differs(part)
        if one.evidence != evidence:
            why = (*why, "evidence")
        return why if why or one.gates == (gate,) else ("gate",)

    @staticmethod
    def _read(file: Path) -> Part | None:
        try:
            return Part.model_validate_json(read_bounded(file, MAX_BYTES))
        except (OSError, ValueError):
            return None  # not there, or not what we wrote: its gate is simulated again


def joined(order: Sequence[str], calibrations: Sequence[Calibration]) -> Calibration:
    """Put gates of one run together.

    Parameters
    ----------
    order
        Hypotheses, in the order of the result.
    calibrations
        What was found; of two that speak of one gate and number of units the later one counts.

    Raises
    ------
    EvidenceError
        If they are not of one run, or rest on different evidence.
    """
    first = calibrations[0]
    gates: dict[str, GateRecord] = {}
    rows: dict[tuple[int, int], list[int]] = {}
    evidence: dict[str, str] = {}
    results = [result for one in calibrations for result in one.results]
    place = 0
    for one in calibrations:
        same = ("study", "protocol_digest", "pilot", "seed", "replications")
        if any(getattr(one, name) != getattr(first, name) for name in same) or any(
            evidence.get(table, digest) != digest for table, digest in one.evidence.items()
        ):
            raise EvidenceError("gates of different runs or evidence are no one calibration")
        evidence.update(one.evidence)
        gates.update({gate.hypothesis: gate for gate in one.gates})
        found: dict[tuple[int, int], list[int]] = {}
        for result in one.results:
            found.setdefault((order.index(result.hypothesis), result.n_units), []).append(place)
            place += 1
        rows.update(found)
    return first.model_copy(
        update={
            "evidence": dict(sorted(evidence.items())),
            "gates": tuple(gates[name] for name in order if name in gates),
            "results": tuple(results[i] for key in sorted(rows) for i in rows[key]),
        }
    )
