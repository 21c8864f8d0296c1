"""Which models a study's reports speak of: folder by folder, each traced to the model that it is named for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prereg.activations.models import ModelEntry, load_registry, resolve
from prereg.errors import PreregError, RegistrationError
from prereg.pipeline import RunOptions
from prereg.registration.records import read_json

__all__ = ["AuditedModel", "audited_models"]

MAX_FILES = 2_000


@dataclass(frozen=True, slots=True)
class AuditedModel:
    """One folder of reports.

    Parameters
    ----------
    folder
        Where the reports on this model lie, or would lie.
    entry
        The model; None where the folder's name leads to none.
    fault
        Why the folder can't be read as a model's reports; None where it can.
    """

    folder: Path
    entry: ModelEntry | None
    fault: str | None = None

    @property
    def name(self) -> str:
        """The model's alias, or the folder's name where that leads to none."""
        return self.folder.name if self.entry is None else self.entry.alias

    @property
    def evidence(self) -> Path:
        """Where the evidence lies."""
        return self.folder / "evidence"


def audited_models(
    reports: Path, named: Sequence[str] | None, options: RunOptions
) -> tuple[AuditedModel, ...]:
    """Return the models to look at.

    Parameters
    ----------
    reports
        The study's, one folder for each model.
    named
        Only these; None for each folder that is there.
    options
        Where the project's root is.

    Raises
    ------
    ModelError
        If a named model is none.
    """
    registry = load_registry()
    if named is not None:
        entries = [resolve(name, registry=registry, root=options.root) for name in dict.fromkeys(named)]
        return tuple(_checked(AuditedModel(reports / e.slug, e), reports) for e in entries)
    if not reports.is_dir():
        return ()
    folders = sorted(
        p
        for p in reports.iterdir()
        if not p.name.startswith(".") and (p.is_symlink() or p.is_dir()) and not _is_calibration(p)
    )
    found = []
    for folder in folders:
        entry = next((e for e in registry.entries if e.slug == folder.name), None)
        if entry is not None:
            entry = resolve(entry.alias, registry=registry, root=options.root)
        else:
            entry = _by_record(folder, options)
        found.append(_checked(AuditedModel(folder, entry), reports))
    return tuple(found)


def _is_calibration(folder: Path) -> bool:
    """Tell whether a folder holds what `prereg calibrate` writes and nothing that a model's would."""
    if folder.is_symlink() or folder.name != "calibration":
        return False
    parts = folder / "parts"
    whole = {f"calibration.{e}" for e in ("json", "csv", "svg")}
    if parts.is_dir() and not parts.is_symlink() and all(p.suffix == ".json" for p in parts.iterdir()):
        whole.add(parts.name)
    return {path.name for path in folder.iterdir()} <= whole


def _by_record(folder: Path, options: RunOptions) -> ModelEntry | None:
    """Return the model that the folder's own records name, if the folder is called as that one's would be."""
    if folder.is_symlink():
        return None
    for file in sorted((folder / "evidence").glob("*.json"))[:20]:
        try:
            record = read_json(file)
            name = record.get("model") if isinstance(record, dict) else None
            entry = resolve(str(name), registry=load_registry(), root=options.root)
        except PreregError:
            continue
        if entry.slug == folder.name and entry.alias == name:
            return entry
    return None


def _checked(model: AuditedModel, reports: Path) -> AuditedModel:
    try:
        fault = _fault(model, reports)
    except (OSError, RegistrationError) as error:
        fault = f"it can't be read: {error}"
    if fault is None and model.entry is None:
        fault = "its name leads to no model"
    return AuditedModel(model.folder, model.entry, fault)


def _fault(model: AuditedModel, reports: Path) -> str | None:
    """Say what lies there that may not be followed; nothing out of the reports' folder is read."""
    base = reports.resolve()
    for number, path in enumerate([model.folder, *model.folder.rglob("*")]):
        if number > MAX_FILES:
            return f"it holds more than {MAX_FILES:,} files"
        if path.is_symlink() or not path.resolve().is_relative_to(base):
            return f"{path.relative_to(reports)} is a link, which is not followed"
    return None
