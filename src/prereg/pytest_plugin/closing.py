"""The end of a session: every answer is made again, by a study that no gate ever held, and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prereg.errors import PreregError
from prereg.pytest_plugin.ledger import Answer
from prereg.pytest_plugin.state import STUDIES, models, run_options

if TYPE_CHECKING:
    from prereg.study import Study, Verdict

__all__ = ["Closed", "close", "together"]

Record = Mapping[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Closed:
    """One study on one model, at the end.

    Parameters
    ----------
    key
        The study's folder and the model, as they were asked for.
    study
        Opened afresh; None where it can't be opened any more.
    records
        The answers, as they were made again; as the gates had them where that failed.
    lines
        What a reader is told below the table.
    faults
        Why nothing of it may be relied on.
    """

    key: Key
    study: Study | None
    records: tuple[Record, ...]
    lines: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """What could not be done, though the answers stand."""
    whole: bool = False
    """Whether every hypothesis was answered, and its tables were written."""

    @property
    def model(self) -> str:
        """The model's alias, or what was asked for where that leads to none."""
        return self.key[1] if self.study is None else self.study.pipeline.alias


def close(config: pytest.Config, answers: Mapping[str, Answer], *, sound: bool) -> list[Closed]:
    """Make every answer again, log the attempts, and write the tables of each study that was asked in full.

    Parameters
    ----------
    config
        The session's.
    answers
        What each gate came to.
    sound
        Whether nothing was found yet that makes the session's answers worthless; tables are written only then.
    """
    keys: set[Key] = {a.study for a in answers.values() if a.study is not None}
    studies = config.stash[STUDIES]
    keys.update(studies)
    heard = {key: [r for a in answers.values() if a.study == key for r in a.records] for key in keys}
    asked = {key[0] for key, records in heard.items() if records} or {key[0] for key in heard}
    # A model that answered nothing stands beside those that did: nobody may take two models for three.
    heard |= {key: heard.get(key, []) for folder in asked for key in ((folder, m) for m in models(config))}
    return [_close(config, key, heard[key], sound) for key in sorted(heard) if key[0] in asked]


def together(group: Sequence[Closed]) -> str | None:
    """Write the tables of a study that was asked on several models; return what a reader is told of it.

    Written only where every hypothesis was answered on every model and nothing speaks against any of it. One model
    alone may leave tables behind that say otherwise of it; then a reader is told how to write them again.

    Parameters
    ----------
    group
        One study on each of its models.
    """
    studies = [closed.study for closed in group if closed.study is not None]
    if not studies:
        return None
    if len(group) < 2:
        return _outdated(group[0])
    records = [record for closed in group for record in closed.records]
    if len(studies) != len(group) or not all(closed.whole for closed in group):
        return "not every hypothesis was answered on every model: replication tables are left as they were"
    from prereg.report import write_replication

    study = studies[0]
    try:
        files = write_replication(
            study.pipeline.report_folder.parent, study.protocol.study.name, records, study.hypotheses
        )
    except PreregError as error:
        return f"replication tables are left as they were: {error}"
    return f"replication tables: {files[0].parent}"


def _outdated(closed: Closed) -> str | None:
    from prereg.report import outdated_replication

    if closed.study is None or not closed.whole:
        return None
    models = outdated_replication(closed.study.pipeline.report_folder.parent, closed.records)
    if not models:
        return None
    named = " ".join(f"--model {model}" for model in models)
    return (
        f"replication tables say otherwise of {closed.model}: prereg verdicts {closed.study.folder} {named}"
    )


def _close(config: pytest.Config, key: Key, heard: Sequence[Record], sound: bool) -> Closed:
    from prereg.study import Study

    folder, model = key
    try:
        study = Study.open(Path(folder), model=model, options=run_options(config))
    except PreregError as error:
        fault = (f"the study can't be opened again: {error}",) if heard else ()
        return Closed(key, None, tuple(heard), (), fault)
    verdicts, faults = _again(study, heard)
    failures = []
    try:
        if verdicts:
            study.record_attempt(list(verdicts.values()))
    except PreregError as error:
        failures.append(f"the attempt could not be logged: {error}")
    records: list[Record] = [verdict.as_record() for verdict in verdicts.values()]
    lines, whole = [], False
    if not faults and sound and not failures:
        line, whole = _tables(study, verdicts)
        lines.append(line)
    return Closed(
        key, study, tuple(records or heard), tuple(lines), tuple(faults), tuple(failures), whole=whole
    )


def _again(study: Study, heard: Sequence[Record]) -> tuple[dict[str, Verdict], list[str]]:
    """Answer what was asked from what lies on disk now; say where that differs from what the gates were told."""
    verdicts: dict[str, Verdict] = {}
    faults = []
    for name in dict.fromkeys(str(record["hypothesis"]) for record in heard):
        try:
            lacks = study.missing(name)
            if lacks:
                faults.append(f"{name}: its evidence is gone since it was answered: {lacks[0]}")
                continue
            verdicts[name] = study.verdict(name)
        except PreregError as error:
            faults.append(f"{name}: it can't be answered again: {error}")
    for record in heard:
        verdict = verdicts.get(str(record["hypothesis"]))
        if verdict is not None and (difference := _difference(record, verdict.as_record())) is not None:
            faults.append(
                f"{verdict.hypothesis} on {verdict.model} was altered while the gates ran: {difference}"
            )
    return verdicts, list(dict.fromkeys(faults))


def _difference(told: Record, found: Record) -> str | None:
    """Say in which field two records of one verdict differ; None where they don't.

    The count of attempts is left out: another session may have logged one in the meantime.
    """
    for field in sorted({*told, *found} - {"attempts"}):
        one, other = told.get(field), found.get(field)
        if _plain(one) != _plain(other):
            return f"{field}: the gate was told {_short(one)}, the evidence says {_short(other)}"
    return None


def _plain(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _short(value: object) -> str:
    text = _plain(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _tables(study: Study, verdicts: Mapping[str, Verdict]) -> tuple[str, bool]:
    """Write the tables of a study that was answered in full; return what a reader is told, and whether they stand."""
    from prereg.report import write_report

    if set(verdicts) != set(study.hypotheses):
        counted = f"{len(verdicts)} of {len(study.hypotheses)} hypotheses tested"
        return f"{counted}: tables are left as they were", False
    try:
        write_report(study, [verdicts[name] for name in study.hypotheses])
    except PreregError as error:
        return f"the tables could not be written: {error}", False
    return f"tables: {study.pipeline.report_folder}", True
