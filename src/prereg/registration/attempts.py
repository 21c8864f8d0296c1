"""The attempts log: every answer that a study gave, on which data, under which promise.

A log is a folder of small files, one an attempt, each named by the digest of what it says and naming the attempts
that were the newest when it was written: a hash-linked graph, as git's commits are. Two branches add files of
different names, so that git merges them without a conflict and without losing one. Our own definition.

What the log shows by itself: an attempt that was edited or renamed (its name is no longer its digest), and one
that was removed though another names it. What it can't show: that the *newest* attempts were removed, those which
no other names; deleting from the newest end backwards leaves a log that is whole. Nor can it show an attempt that was
never recorded. Git's history shows the first of these, for whatever was committed: the audit compares every attempt
that was ever committed with those that are there.

The order of two attempts of which neither knew of the other is that of their ids, which means nothing; it is the
same for every reader. So the look that some data are counted as can change when branches are merged, and two runs at
once, on different new data, both take the next look; once their attempts are together, one of them is the one after.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from prereg.errors import RegistrationError, StorageError
from prereg.hostile import printable
from prereg.registration.attempts_entry import (
    MAX_BYTES,
    MAX_PARENTS,
    OUTCOMES,
    Attempt,
    AttemptOutcome,
    Look,
    alias,
    parents_first,
    read_attempt,
)
from prereg.registration.attempts_files import clean, list_folder, read_bounded, write_new

__all__ = [
    "ATTEMPTS",
    "Attempt",
    "AttemptLog",
    "AttemptOutcome",
    "LogState",
    "Look",
    "Tally",
    "read_attempt",
]

ATTEMPTS = "attempts"
"""The log's folder, beside the protocol."""

MAX_TOTAL_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogState:
    """A log as it was read.

    Attributes
    ----------
    entries
        The attempts that hold together, each after its parents; ids decide between those that could stand in
        either order.
    heads
        Ids of the attempts that no entry names as a parent, ascending. A damaged one counts by its name, so that
        the next attempt names it and removing it afterwards shows.
    faults
        What is wrong, one line each; empty for a log that is whole.
    """

    entries: tuple[Attempt, ...]
    heads: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """What the log holds on one hypothesis for one model.

    Attributes
    ----------
    data
        Distinct digests of data it was tried on, whatever the registration, in the log's order.
    runs
        How many attempts name it.
    seen
        Distinct pairs of registration root (None: unregistered) and data digest, in the log's order.
    """

    data: tuple[str, ...]
    runs: int
    seen: tuple[tuple[str | None, str], ...]

    def registered(self, *roots: str | None) -> tuple[str, ...]:
        """Return the distinct data digests under these roots (a registration and its amendments), in order."""
        return tuple(dict.fromkeys(data for root, data in self.seen if root in roots))


class AttemptLog:
    """The attempts log in `folder`, usually ``gates/<study>/attempts``.

    Nothing is read until it is asked for, and then once; `record` reads anew, since others may have written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state: LogState | None = None

    def read(self) -> LogState:
        """Return the log. Whatever the folder holds, this raises nothing: what is wrong is a fault."""
        if self._state is None:
            self._state = _read(self.folder)
        return self._state

    def tally(self, model: str, hypothesis: str) -> Tally:
        """Return what the log holds on one hypothesis for one model."""
        name = _alias(model)
        pairs = [
            (entry.registration, entry.data[hypothesis])
            for entry in self.read().entries
            if entry.model == name and hypothesis in entry.data
        ]
        return Tally(
            data=tuple(dict.fromkeys(data for _, data in pairs)),
            runs=len(pairs),
            seen=tuple(dict.fromkeys(pairs)),
        )

    def look_of(
        self, model: str, hypothesis: str, registration: str | Collection[str | None] | None, data: str
    ) -> int:
        """Return which look these data are: their place among the distinct ones, from 1, or the next place.

        Parameters
        ----------
        model, hypothesis
            The model's alias and the hypothesis' id.
        registration
            The root digest of the registration, or several, as where it was amended; None is unregistered.
        data
            Digest of the data.
        """
        roots = (
            (registration,) if registration is None or isinstance(registration, str) else tuple(registration)
        )
        seen = self.tally(model, hypothesis).registered(*roots)
        return seen.index(data) + 1 if data in seen else len(seen) + 1

    def record(
        self,
        *,
        study: str,
        model: str,
        registration: str | None,
        protocol: str,
        results: Mapping[str, tuple[str, str]],
        looks: Mapping[str, Look] | None = None,
        at: str | None = None,
    ) -> Attempt | None:
        """Write one new attempt that holds what the log doesn't hold yet.

        It is safe with several processes at once, and when killed at any moment. A log with faults is written to
        as well: the faults stay visible, and the attempt isn't lost.

        Parameters
        ----------
        study, model, registration, protocol
            As in `Attempt`.
        results
            Hypothesis -> (digest of its data, outcome). A hypothesis is new unless the log holds the same
            registration, protocol, model, data and outcome for it.
        looks
            Hypothesis -> its look, for those of `results` that spend alpha.
        at
            UTC, as in "2026-11-30T12:00:00Z"; None is now.

        Returns
        -------
        Attempt or None
            None if nothing was new, or `results` is empty: the folder is as it was.

        Raises
        ------
        RegistrationError
            If a digest, a name, an outcome or a look is no such thing, or the attempt would be too large.
        StorageError
            If the disk refuses.
        """
        state = self._state = _read(self.folder)
        clean(self.folder)
        if set(looks or {}) - set(results):
            raise RegistrationError("a look was given for a hypothesis without a result")
        known = {
            (entry.registration, entry.protocol, entry.model, name, data, entry.outcomes[name])
            for entry in state.entries
            for name, data in entry.data.items()
        }
        new = {
            name: (data, str(outcome))
            for name, (data, outcome) in results.items()
            if (registration, protocol, _alias(model), name, data, str(outcome)) not in known
        }
        if not new:
            return None
        attempt = _checked(
            format=1,
            study=study,
            model=model,
            registration=registration,
            protocol=protocol,
            # Beyond so many, the rest stay heads for the next attempt to name.
            parents=state.heads[:MAX_PARENTS],
            data={name: data for name, (data, _) in new.items()},
            outcomes={name: outcome for name, (_, outcome) in new.items()},
            looks={name: look for name, look in (looks or {}).items() if name in new},
            at=at or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        write_new(self.folder, attempt.file_name, attempt.as_bytes())
        self._state = None
        self._require(attempt)
        return attempt

    def _require(self, attempt: Attempt) -> None:
        file = self.folder / attempt.file_name
        try:
            read_attempt(read_bounded(file, MAX_BYTES), file.name)
        except (ValueError, RegistrationError) as error:
            raise StorageError(
                f"{file}: something else lies in the new attempt's place ({printable(str(error))})",
                remedy="move it away, then run again: the attempt is not logged yet",
            ) from error


def _alias(model: str) -> str:
    """Return the one spelling of an alias; one that no entry can hold stands as it is, and matches none."""
    try:
        return alias(model)
    except ValueError:
        return model


def _checked(**content: object) -> Attempt:
    try:
        attempt = Attempt.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RegistrationError(
            f"the attempt can't be logged: {printable(where)}: {first['msg'].removeprefix('Value error, ')}"
            + (f"; an outcome is one of {', '.join(OUTCOMES)}" if where.startswith("outcomes") else "")
        ) from error
    if len(attempt.as_bytes()) > MAX_BYTES:
        raise RegistrationError(
            f"the attempt can't be logged: with {len(attempt.data)} hypotheses it is larger than {MAX_BYTES:,} bytes"
        )
    return attempt


def _read(folder: Path) -> LogState:
    listing = list_folder(folder)
    faults, entries, total = list(listing.faults), dict[str, Attempt](), 0
    for name in listing.names:
        if total > MAX_TOTAL_BYTES:
            faults.append(f"more than {MAX_TOTAL_BYTES:,} bytes: {name} and those after it were not read")
            break
        try:
            raw = read_bounded(folder / name, MAX_BYTES)
            total += len(raw)
            entries[name.removesuffix(".json")] = read_attempt(raw, name)
        except ValueError as error:
            faults.append(f"{name}: {error}")
        except RegistrationError as error:
            faults.append(f"{name}: {printable(error.message.removeprefix(f'{name}: '))}")
    present = {name.removesuffix(".json") for name in listing.names}
    ordered = parents_first(entries)
    named = {parent: entry.id for entry in reversed(ordered) for parent in entry.parents}
    faults += [
        f"{parent}.json: an attempt was removed: {parent} is named by {named[parent]}"
        for parent in sorted(set(named) - present)
    ]
    return LogState(ordered, tuple(sorted(present - set(named))), tuple(faults))
