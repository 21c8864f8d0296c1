"""Where a model's evidence lies, and which of it answers; registered evidence is set aside, never overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prereg.errors import EvidenceError
from prereg.evidence import Provenance, read_provenance
from prereg.hostile import printable
from prereg.registration.binding import Binding
from prereg.workers import refused_by_disk

__all__ = ["SUPERSEDED", "Shelf"]

SUPERSEDED = "superseded"
"""Subfolder for evidence that an amendment replaced: the original verdict rests on it."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The evidence of one study on one model.

    Parameters
    ----------
    folder
        Where it lies.
    binding
        The registration it must carry; None where there is none.
    """

    folder: Path
    binding: Binding | None

    def find(self, name: str, key: str, revision: str) -> Path | None:
        """Return the folder that holds the evidence called `name` under `key`, whole and accepted; else None.

        Raises
        ------
        EvidenceError
            If its record can't be read.
        """
        for folder in (self.folder, self.folder / SUPERSEDED / key):
            record = read_provenance(folder, name)
            if record is None or record.key != key or not self._accepts(record, revision):
                continue
            if all((folder / table).is_file() for table in record.tables):
                return folder
        return None

    def why_absent(self, name: str, key: str | None, revision: str | None) -> str:
        """Say why `find` finds nothing, naming both digests where there are two."""
        record = read_provenance(self.folder, name)
        if record is None:
            return f"{name}: no evidence yet"
        if key is not None and record.key != key:
            return f"{name}: measured under key {record.key[:12]}, the protocol as it stands wants {key[:12]}"
        if self.binding is not None and not self._accepts(record, revision):
            found = (
                "no registration"
                if record.registration is None
                else f"registration {record.registration[:16]}"
            )
            return f"{name}: measured under {found}, in force is {self.binding.accepted[-1][:16]}"
        return f"{name}: a table is missing"

    def set_aside(self, name: str, key: str) -> None:
        """Keep registered evidence of another key than `key`, which is about to be replaced.

        Raises
        ------
        EvidenceError
            If its record names a file or a key that leads out of its folder.
        StorageError
            If it can't be moved.
        """
        record = read_provenance(self.folder, name)
        if record is None or record.registration is None or record.key == key:
            return
        for part in (record.key, *record.tables):
            if part in ("", ".", "..") or Path(part).name != part:
                raise EvidenceError(
                    f"{self.folder / name}.json: it names {printable(part)}, which is no name in its own folder",
                    remedy="restore it (git checkout), or remove it and run `prereg measure` again",
                )
        place = self.folder / SUPERSEDED / record.key
        try:
            place.mkdir(parents=True, exist_ok=True)
            # The record goes last: killed before, the same move is taken up again.
            for file in (*record.tables, f"{name}.json"):
                if (self.folder / file).is_file():
                    (self.folder / file).replace(place / file)
        except OSError as error:
            raise refused_by_disk(place, error, "can't be written") from error

    def _accepts(self, record: Provenance, revision: str | None) -> bool:
        """Tell whether evidence may answer: measured under the registration, or as near to it as can be had here."""
        if self.binding is None or record.registration in self.binding.accepted:
            return True
        return record.registration is None and self.binding.stamp(record.model, revision) is None
