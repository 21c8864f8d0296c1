"""Which results of a study were on record at a given time: nobody may claim not to have known them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.attempts import ATTEMPTS, AttemptLog, read_attempt
from prereg.registration.history import Repository, is_file
from prereg.registration.jsonfile import MAX_BYTES
from prereg.registration.records import Known

__all__ = ["require_known", "result_models", "seen_models"]


def seen_models(folder: Path, reports: Path, repository: Repository) -> tuple[str, ...]:
    """Return the models on which results are on record, sorted.

    On record is what lies in the working tree's reports, what any commit holds of them, and what the attempts log
    names.

    Parameters
    ----------
    folder
        The study's.
    reports
        The folder of this study's reports, one subfolder for each model.
    repository
        Where the study lies.
    """
    found = {file.parts[0] for file in _results(reports)}
    try:
        place = repository.relative(reports)
    except RegistrationError:  # reports outside the repository leave no trace in it
        place = None
    if place is not None:
        distinct = {id(listing): listing for listing in repository.listings(place)}
        for listing in distinct.values():
            found |= result_models(listing)
    found |= {attempt.model for attempt in AttemptLog(folder / ATTEMPTS).read().entries}
    found |= _logged_before(repository, repository.relative(folder / ATTEMPTS))
    return tuple(sorted(found))


def require_known(known: Known, folder: Path, reports: Path, repository: Repository) -> tuple[str, ...]:
    """Refuse a claim of ignorance that the results on record contradict; return the models that these are on.

    Raises
    ------
    RegistrationError
        If `known` says none, and results are there or an attempt can't be read.
    """
    seen = seen_models(folder, reports, repository)
    if known != "none":
        return seen
    remedy = "say what: --known full (or pilot) --statement 'which results were seen, and what they showed'"
    if seen:
        raise RegistrationError(
            f"results of this study are on record already, on {', '.join(map(printable, seen))}: "
            "something was known",
            remedy=remedy,
        )
    faults = AttemptLog(folder / ATTEMPTS).read().faults
    if faults:
        raise RegistrationError(
            f"the attempts log is damaged, so nobody can say that no result was seen: {faults[0]}",
            remedy=remedy,
        )
    return seen


def _logged_before(repository: Repository, place: str) -> set[str]:
    """Return the models of all attempts that any commit held; who removes one still knows what it said."""
    listings = {id(listing): listing for listing in repository.listings(place)}
    names = {version: name for one in listings.values() for name, version in one.items() if is_file(version)}
    found = set()
    for version, name in names.items():
        # What is no attempt was never an answer; what lies there now is the log's to judge.
        with contextlib.suppress(RegistrationError):
            found.add(read_attempt(repository.read(version, MAX_BYTES), name).model)
    return found


def result_models(names: Iterable[str]) -> set[str]:
    """Return the models, as folders are named, that a listing of a study's reports has results of."""
    paths = (PurePosixPath(name) for name in names)
    return {path.parts[0] for path in paths if len(path.parts) > 1 and _is_result(path)}


def _results(reports: Path) -> list[PurePosixPath]:
    if not reports.is_dir():
        return []
    files = (PurePosixPath(file.relative_to(reports).as_posix()) for file in reports.rglob("*"))
    return [file for file in files if len(file.parts) > 1 and _is_result(file)]


def _is_result(path: PurePosixPath) -> bool:
    return path.suffix == ".parquet" or path.name in ("verdicts.json", "verdicts.csv")
