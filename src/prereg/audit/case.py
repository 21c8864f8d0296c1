"""What is audited: the study's files, its history and its results, each read once and only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prereg.audit.models import AuditedModel, audited_models
from prereg.audit.origin import Origin, read_origin
from prereg.audit.results import Result, read_results
from prereg.audit.timeline import Timeline
from prereg.errors import PreregError, ProtocolError, RegistrationError
from prereg.pipeline import RunOptions
from prereg.protocol import ProtocolFile, read_protocol
from prereg.registration.attempts import ATTEMPTS, AttemptLog, LogState
from prereg.registration.chain import Chain, link, read_chain
from prereg.registration.history import Repository
from prereg.registration.records import AMENDMENTS, REGISTRATION, read_amendments
from prereg.registration.standing import Standing, standing_of
from prereg.registration.witness import Witness
from prereg.study import Study, Verdict

if TYPE_CHECKING:
    from prereg.audit.evidence import Piece

__all__ = ["Case", "Replicated", "Tables", "inside"]

Tables = Callable[[Study, Sequence[Verdict]], Mapping[str, bytes | None]]
"""Returns what each table of a study's report on one model must hold; None for one that must not be there."""

Replicated = Callable[[str, Sequence[Mapping[str, Any]], Sequence[str]], Mapping[str, bytes]]
"""Returns what the tables over several models must hold, from the study's name, verdict records and hypotheses."""


class Case:
    """One study under audit.

    Parameters
    ----------
    folder
        The study's.
    options
        How to run; nothing is measured and no model is fetched.
    named
        Models to look at; None for each that the reports hold.
    tables
        What reports must hold, or None to compare verdicts.json alone.
    replicated
        What the tables over several models must hold, or None not to compare them.
    """

    def __init__(
        self,
        folder: Path,
        options: RunOptions,
        named: Sequence[str] | None,
        tables: Tables | None,
        replicated: Replicated | None = None,
    ) -> None:
        self.folder = folder
        self.options = options
        self.named = named
        self.tables = tables
        self.replicated = replicated
        self.witnesses: tuple[Witness, ...] | None = None

    # -- the promise ------------------------------------------------------------------------------------

    @cached_property
    def read(self) -> ProtocolFile | ProtocolError:
        """The protocol as it lies in the working tree, or why it can't be read."""
        try:
            return read_protocol(self.folder)
        except ProtocolError as error:
            return error

    @property
    def protocol_file(self) -> ProtocolFile | None:
        """The protocol as it lies in the working tree, where it can be read."""
        return self.read if isinstance(self.read, ProtocolFile) else None

    @cached_property
    def present(self) -> Chain | RegistrationError | None:
        """The chain as it lies in the working tree, why it can't be read, or None where there is none."""
        try:
            return read_chain(self.folder)
        except RegistrationError as error:
            return error

    @cached_property
    def chain(self) -> Chain | None:
        """The chain that counts: what was registered first, with the amendments that follow it and lie here."""
        first = None if self.origin is None else self.origin.registration
        present = self.present if isinstance(self.present, Chain) else None
        if first is None or (present is not None and present.registration.root == first.root):
            return present
        try:
            return link(self.folder, first, read_amendments(self.folder))
        except RegistrationError:
            return link(self.folder, first, ())

    @cached_property
    def standing(self) -> Standing | None:
        """How each run sees the study at a glance; None where the protocol can't be read."""
        if self.protocol_file is None:
            return None
        return standing_of(self.folder, self.protocol_file, self.options.root)[0]

    @cached_property
    def study(self) -> str:
        """The study's name, by which its reports are found."""
        if self.chain is not None:
            return self.chain.registration.study
        return (
            self.folder.resolve().name
            if self.protocol_file is None
            else self.protocol_file.protocol.study.name
        )

    @property
    def reports(self) -> Path:
        """Where the reports of this study lie, one folder for each model."""
        return (self.options.reports or self.options.root / "reports") / self.study

    # -- the history ------------------------------------------------------------------------------------

    @cached_property
    def opened(self) -> Timeline | RegistrationError:
        """The history, or why it can't be read."""
        try:
            return Timeline(Repository.open(self.folder))
        except RegistrationError as error:
            return error

    @property
    def timeline(self) -> Timeline | None:
        """The history, where it can be read."""
        return self.opened if isinstance(self.opened, Timeline) else None

    @cached_property
    def origin(self) -> Origin | None:
        """Where the registration first lies in the history; None without one."""
        timeline, place = self.timeline, self.place(self.folder)
        if timeline is None or place is None:
            return None
        return read_origin(timeline, inside(place, REGISTRATION), inside(place, AMENDMENTS), self.folder)

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """Every result that any commit brought, in the order of the commits."""
        if self.timeline is None:
            return ()
        place = self.place(self.folder)
        attempts = None if place is None else inside(place, ATTEMPTS)
        return read_results(self.timeline, self.place(self.reports), attempts)

    def place(self, path: Path) -> str | None:
        """Return a path from the repository's root, None where it lies outside, or there is no repository."""
        if self.timeline is None:
            return None
        try:
            return self.timeline.repository.relative(path)
        except RegistrationError:
            return None

    # -- the results ------------------------------------------------------------------------------------

    @cached_property
    def log(self) -> AttemptLog:
        """The attempts log."""
        return AttemptLog(self.folder / ATTEMPTS)

    @property
    def attempts(self) -> LogState:
        """What it holds."""
        return self.log.read()

    @cached_property
    def models(self) -> tuple[AuditedModel, ...]:
        """The models to look at, in the order of their folders."""
        return audited_models(self.reports, self.named, self.options)

    def study_of(self, alias: str) -> Study | PreregError:
        """Return the study opened for a model, or why it can't be opened."""
        if alias not in self._studies:
            try:
                self._studies[alias] = Study.open(self.folder, model=alias, options=self.options)
            except PreregError as error:
                self._studies[alias] = error
        return self._studies[alias]

    @cached_property
    def _studies(self) -> dict[str, Study | PreregError]:
        return {}

    @cached_property
    def evidence(self) -> dict[str, tuple[Piece, ...]]:
        """Records of evidence by folder of the model, filled in as they are read."""
        return {}

    @cached_property
    def unsafe(self) -> set[str]:
        """Folders of models whose evidence may not be opened, filled in by the check that looked at it."""
        return set()

    @cached_property
    def recomputed(self) -> dict[str, tuple[Verdict, ...]]:
        """Verdicts by folder of the model, filled in by the check that recomputes them."""
        return {}

    def shown(self, path: Path) -> str:
        """Return a path as people type it from the project's root."""
        try:
            return path.resolve().relative_to(self.options.root.resolve()).as_posix()
        except (ValueError, OSError, RuntimeError):
            return str(path)


def inside(folder: str, name: str) -> str:
    """Return the path of a name in a folder, both from the repository's root."""
    return name if folder == "." else f"{folder}/{name}"
