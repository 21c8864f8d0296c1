"""Verdicts: every interval and answer computed again from per-prompt evidence, and compared with what is recorded.

They are computed for the promise in force, as if the registration were beyond doubt; whether it is, the other checks
say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from prereg.audit.case import Case
from prereg.audit.comparing import csv_differences, json_differences, standing_of_record
from prereg.audit.findings import Finding, short
from prereg.audit.models import AuditedModel
from prereg.audit.results import verdict_rows_in
from prereg.errors import PreregError
from prereg.pipeline import Pipeline
from prereg.protocol import Protocol, ProtocolFile, digest
from prereg.registration.binding import Binding
from prereg.registration.records import decode_json
from prereg.registration.standing import Standing
from prereg.registration.witness import read_bounded
from prereg.study import Study, Verdict

__all__ = ["check_verdicts", "in_force"]

MAX_REPORT = 8_000_000
MAX_CSV = 64_000_000

# What a hostile table may make numpy, pyarrow and the standard library raise.
_HOSTILE = (
    PreregError,
    OSError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    MemoryError,
    pa.ArrowException,
)


def check_verdicts(case: Case) -> Iterator[Finding]:
    """Recompute each verdict and compare it with the recorded one.

    Integrity: "results table or verdicts.json edited: the auditor recomputes every CI and verdict from the per-prompt
    evidence".
    """
    for model in case.models:
        if model.fault is not None:
            continue
        if model.folder.name in case.unsafe:
            yield Finding(
                "verdicts",
                "unverified",
                f"{model.name}: not recomputed, since its evidence can't be relied on",
            )
            continue
        yield from _model(case, model)


def in_force(case: Case, model: AuditedModel) -> Study:
    """Return the study of the promise in force on a model, as if its registration were beyond doubt.

    Raises
    ------
    PreregError
        If it can't be opened.
    """
    opened = case.study_of(model.name)
    if isinstance(opened, PreregError):
        raise opened
    if case.chain is None:
        return opened
    file = opened.protocol_file
    if file.digest != case.chain.current.components.protocol:
        promise = _in_order(case.chain.current.promise, file.protocol)
        file = ProtocolFile(file.path, promise, digest(promise), {})
    pipeline = Pipeline(file, model.name, case.options, Binding(case.chain, file, case.options.root))
    standing = Standing("registered", case.chain.current.root, known=case.chain.known)
    return replace(
        opened, protocol_file=file, pipeline=pipeline, standing=standing, chain=case.chain, _verdicts={}
    )


def _in_order(promise: Protocol, like: Protocol) -> Protocol:
    """Return a registered promise with its hypotheses in the protocol's order: a registration's keys are sorted."""
    names = [name for name in (*like.hypotheses, *promise.hypotheses) if name in promise.hypotheses]
    ordered = {name: promise.hypotheses[name] for name in dict.fromkeys(names)}
    return promise.model_copy(update={"hypotheses": ordered})


def _model(case: Case, model: AuditedModel) -> Iterator[Finding]:
    remedy = f"prereg verdicts {case.shown(case.folder)} --model {model.name}   # writes them again"
    try:
        study = in_force(case, model)
        ready = [name for name in study.hypotheses if study.is_ready(name)]
        verdicts = tuple(study.verdict(name) for name in ready)
        wanted = _wanted(case, study, verdicts)
    except _HOSTILE as error:
        message = error.message if isinstance(error, PreregError) else f"{type(error).__name__}: {error}"
        yield Finding("verdicts", "unverified", f"{model.name}: can't be recomputed: {message}")
        return
    case.recomputed[model.folder.name] = verdicts
    file = model.folder / "verdicts.json"
    if not (file.is_symlink() or file.exists()):
        if verdicts:
            yield _silent(case, model, wanted, remedy)
        return
    try:
        recorded = decode_json(read_bounded(file, MAX_REPORT), case.shown(file), limit=MAX_REPORT)
    except PreregError as error:
        yield Finding("verdicts", "violation", f"{model.name}: {error.message}", remedy=remedy)
        return
    if not verdicts:
        yield Finding(
            "verdicts", "unverified", f"{model.name}: nothing could be recomputed for verdicts.json"
        )
        return
    whole = len(ready) == len(study.hypotheses)
    found = [
        *_standing(case, model, study, recorded),
        *_outcomes(case, model, verdicts, recorded),
        *_files(case, model, recorded, wanted, frozenset(ready), whole=whole),
    ]
    yield from found
    if not any(finding.status in ("violation", "unverified") for finding in found):
        yield Finding(
            "verdicts",
            "verified",
            f"{model.name}: {len(verdicts)} verdicts and {len(wanted)} files follow from the evidence",
        )


def _silent(case: Case, model: AuditedModel, wanted: Mapping[str, bytes | None], remedy: str) -> Finding:
    """Say that nothing is recorded, and whether something was.

    Integrity: "deleted failures".
    """
    told = [r for r in case.results if r.kind == "verdicts" and r.model == model.folder.name]
    if told and case.timeline is not None:
        commit = case.timeline.commit(told[-1].at).id
        words = f"{model.name}: verdicts.json was committed, last in {commit[:12]}, and is gone"
        return Finding("verdicts", "unverified", words, remedy=remedy, commits=(commit,))
    if any((model.folder / name).exists() for name in wanted):
        return Finding(
            "verdicts", "unverified", f"{model.name}: tables without a verdicts.json", remedy=remedy
        )
    return Finding("verdicts", "note", f"{model.name}: no verdicts.json: nothing was answered", remedy=remedy)


def _wanted(case: Case, study: Study, verdicts: Sequence[Verdict]) -> Mapping[str, bytes | None]:
    if not verdicts:
        return {}
    if case.tables is not None:
        return case.tables(study, verdicts)
    document = {"verdicts": [verdict.as_record() for verdict in verdicts]}
    return {"verdicts.json": json.dumps(document).encode()}


def _standing(case: Case, model: AuditedModel, study: Study, recorded: Any) -> Iterator[Finding]:
    """Compare the registration that a report carries with the one in force.

    Integrity: "a verdict without a verified registration must be impossible to mistake for one with it".
    """
    if case.chain is None:
        return
    status, root = standing_of_record(recorded)
    if (status, root) == ("registered", case.chain.current.root):
        return
    yield Finding(
        "verdicts",
        "unverified",
        f"{model.name}: verdicts.json was written as {status or 'unregistered'} under {short(root)}; in force is "
        f"{short(case.chain.current.root)}",
        remedy=f"prereg verdicts {case.shown(study.folder)} --model {model.name}   # writes it again",
    )


def _outcomes(
    case: Case, model: AuditedModel, verdicts: Sequence[Verdict], recorded: Any
) -> Iterator[Finding]:
    """Name recorded outcomes that claim more than the recomputed ones.

    Integrity: "verdicts.json edited".
    """
    by_name = verdict_rows_in(recorded)
    greener, other = [], []
    for verdict in verdicts:
        row = by_name.get(verdict.hypothesis)
        if row is None:
            continue
        outcome, wanted = row.get("outcome"), verdict.as_record()["outcome"]
        claims_to_be = standing_of_record(row)[0] == "registered"
        words = f"{verdict.hypothesis}: recorded {outcome}, recomputed {wanted}"
        if outcome == "supported" and (wanted != "supported" or not claims_to_be):
            greener.append(words)
        elif outcome != wanted and (claims_to_be or outcome != "unverified"):
            other.append(words)
    for names, what in (
        (greener, "claim more than the evidence shows"),
        (other, "are not what the evidence shows"),
    ):
        if names:
            yield Finding(
                "verdicts",
                "violation",
                f"{model.name}: {len(names)} recorded outcomes {what}: {names[0]}",
                tuple(names),
                remedy=f"git log -p -- {case.shown(model.folder / 'verdicts.json')}",
            )


def _files(
    case: Case,
    model: AuditedModel,
    recorded: Any,
    wanted: Mapping[str, bytes | None],
    ready: frozenset[str],
    *,
    whole: bool,
) -> Iterator[Finding]:
    """Compare every file of the report with what it must hold.

    Integrity: "results table or verdicts.json edited".
    """
    document = json.loads(wanted["verdicts.json"] or b"{}")
    same = standing_of_record(recorded) == standing_of_record(document) or case.tables is None
    for name, content in sorted(wanted.items()):
        file = model.folder / name
        remedy = f"git log -p -- {case.shown(file)}   # prereg verdicts writes it again"
        there = file.is_symlink() or file.exists()
        if content is None or not there:
            if there and whole:
                words = f"{model.name}: {name} is there, though the evidence has nothing for it"
                yield Finding("verdicts", "violation", words, remedy=remedy)
            elif content is not None and whole:
                yield Finding("verdicts", "unverified", f"{model.name}: {name} is missing", remedy=remedy)
            continue
        differences = _differences(case, file, content, recorded, document, ready, same=same, whole=whole)
        if differences:
            yield Finding(
                "verdicts",
                "violation",
                f"{model.name}: {name} is not what the evidence gives: {differences[0]}",
                tuple(differences),
                remedy=remedy,
            )


def _differences(
    case: Case,
    file: Path,
    content: bytes,
    recorded: Any,
    document: Any,
    ready: frozenset[str],
    *,
    same: bool,
    whole: bool,
) -> list[str]:
    if file.name == "verdicts.json":
        only = None if whole and case.tables is not None else ready
        return json_differences(recorded, document, same_standing=same, only=only)
    if not whole:
        return []  # a table of all hypotheses can't be made from some
    try:
        raw = read_bounded(file, MAX_CSV)
    except PreregError as error:
        return [error.message]
    # A checkout with CRLF is no edit.
    return csv_differences(raw.replace(b"\r\n", b"\n"), content, same_standing=same)
