"""Evidence: what lies in the reports, whose it is, and whether it answers the promise in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prereg.analysis.catalogue import AnalysisSpec
from prereg.analysis.own import find_analysis
from prereg.audit.case import Case
from prereg.audit.findings import Finding, Status, short
from prereg.audit.models import AuditedModel
from prereg.audit.results import digest_or_none
from prereg.audit.tables import count_rows, read_record, table_faults
from prereg.errors import PreregError
from prereg.evidence import Provenance
from prereg.pipeline import Pipeline, arms_of
from prereg.protocol import ProtocolFile, digest
from prereg.registration.components import OWN, public_version
from prereg.registration.records import Amendment, Registration

__all__ = ["Piece", "check_evidence", "pieces"]

SUPERSEDED = "superseded"

# What a measurement's numbers depend on. Of the same, a machine of another kind may give other last digits.
_SAME = (
    "study",
    "model",
    "analysis",
    "arm",
    "key",
    "store_digest",
    "source_digest",
    "libraries",
    "registration",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One record of evidence in a model's reports.

    Parameters
    ----------
    file
        The record.
    record
        What it says; None where it can't be read.
    fault
        Why it can't be read.
    """

    file: Path
    record: Provenance | None
    fault: str | None = None


def pieces(case: Case, model: AuditedModel) -> tuple[Piece, ...]:
    """Return every record of evidence of a model, those that an amendment replaced included; read once."""
    known = case.evidence
    if model.folder.name not in known:
        files = sorted(model.evidence.glob("*.json")) + sorted((model.evidence / SUPERSEDED).glob("*/*.json"))
        known[model.folder.name] = tuple(_piece(file) for file in files)
    return known[model.folder.name]


def check_evidence(case: Case) -> Iterator[Finding]:
    """Check each piece of evidence against its record, its registration and the promise.

    Integrity: "evidence is bound to its store by digest", "evidence captured before the freeze, or under another
    freeze: unverified, names both digests".
    """
    if not case.models and case.named is None:
        yield Finding("evidence", "note", f"no evidence: there is nothing in {case.shown(case.reports)}")
    for model in case.models:
        if model.fault is not None:
            yield Finding(
                "evidence",
                "unverified",
                f"{model.folder.name}: {model.fault}; it was not looked at",
                remedy=f"name the model with --model, or remove {case.shown(model.folder)}",
            )
            continue
        found = [finding for piece in pieces(case, model) for finding in _judged(case, model, piece)]
        yield from found
        if any(finding.status == "violation" for finding in found):
            case.unsafe.add(model.folder.name)
        else:
            yield from _coverage(case, model)
        yield from _one_table_each(case, model)
        good = len(pieces(case, model))
        bound = "" if case.chain is None else ", and measured under this registration"
        if good and not any(finding.status in ("violation", "unverified") for finding in found):
            yield Finding("evidence", "verified", f"{model.name}: {good} pieces of evidence are whole{bound}")


def _one_table_each(case: Case, model: AuditedModel) -> Iterator[Finding]:
    """Look for a measurement that gave two tables: of the same weights, store, source and libraries it gives one.

    Integrity: "results table edited", by writing a record anew around other numbers.
    """
    tables: dict[str, dict[str, list[str]]] = {}
    if case.timeline is None:
        return
    for result in case.results:
        named = result.content
        if result.kind != "evidence" or result.model != model.folder.name or not isinstance(named, dict):
            continue
        same = {name: named.get(name) for name in _SAME}
        measurement, told = digest_or_none(same), digest_or_none(named.get("tables"))
        if measurement is None or told is None:
            continue
        name = f"{named.get('analysis')}.{named.get('arm')}"
        commits = tables.setdefault(f"{name} {measurement}", {}).setdefault(told, [])
        commits.append(case.timeline.commits[result.at].id)
    for name, found in tables.items():
        if len(found) > 1:
            shown = tuple(f"{short(digest)} in {short(commits[0])}" for digest, commits in found.items())
            yield Finding(
                "evidence",
                "unverified",
                f"{model.name}: {name.split(' ')[0]}: the same measurement gave {len(found)} different tables",
                shown,
                remedy=f"prereg measure {case.shown(case.folder)} --model {model.name}, from no evidence: "
                "which table comes back?",
                commits=tuple(commits[0] for commits in found.values()),
            )


def _piece(file: Path) -> Piece:
    try:
        return Piece(file, read_record(file))
    except PreregError as error:
        return Piece(file, None, error.message)


def _judged(case: Case, model: AuditedModel, piece: Piece) -> Iterator[Finding]:
    where = f"{model.name}: {piece.file.stem}"
    shown = case.shown(piece.file)
    measure = f"prereg measure {case.shown(case.folder)} --model {model.name}"
    restore = f"git checkout -- {shown}, or remove it and run: {measure}"
    record = piece.record
    if record is None:
        yield Finding("evidence", "violation", f"{where}: {piece.fault}", remedy=restore)
        return
    faults = (*_identity(case, model, piece, record), *table_faults(piece.file.parent, record))
    if faults:
        yield Finding("evidence", "violation", f"{where}: {faults[0]}", faults, remedy=restore)
    else:
        counted = _numbers(piece, record, _spec(case, record.analysis))
        if counted:
            yield Finding("evidence", "violation", f"{where}: {counted[0]}", counted, remedy=restore)
    failed = [f"{check.name}: {check.detail}" for check in record.checks if not check.passed]
    if failed:
        yield Finding("evidence", "note", f"{where}: a check of the analysis on itself failed", tuple(failed))
    yield from _bound(case, model, piece, record, where)


def _identity(case: Case, model: AuditedModel, piece: Piece, record: Provenance) -> tuple[str, ...]:
    """Compare the names that a record gives itself with where it lies.

    Integrity: "results table edited", by putting another study's or model's in its place.
    """
    found = {
        "study": (record.study, case.study),
        "model": (record.model, model.name),
        "name": (f"{record.analysis}.{record.arm}", piece.file.name.removesuffix(".json")),
    }
    return tuple(
        f"its {k} is {is_}, where {wanted} belongs" for k, (is_, wanted) in found.items() if is_ != wanted
    )


def _spec(case: Case, analysis: str) -> AnalysisSpec:
    """Return what an analysis' table must hold; of one that isn't installed here, what any table must."""
    try:
        return find_analysis(analysis, case.folder)
    except PreregError:
        return AnalysisSpec("", "", every_update=False, every_prompt=False)


def _numbers(piece: Piece, record: Provenance, spec: AnalysisSpec) -> tuple[str, ...]:
    """Compare the numbers that a record gives with its main table.

    Integrity: "results table edited".
    """
    try:
        counted = count_rows(piece.file.parent / f"{record.analysis}.{record.arm}.parquet")
    except PreregError as error:
        return (error.message,)
    deepest = max(counted.updates, default=-1) + 1
    found = {
        "prompts": (record.n_prompts, counted.prompts, spec.every_prompt),
        "subjects": (record.n_subjects, counted.subjects, spec.every_prompt),
        "rows": (counted.prompts * len(counted.updates), counted.rows, True),
        "layers": (record.n_layers, deepest, spec.every_update),
    }
    return tuple(
        f"{k}: recorded {said}, in the table {is_}"
        for k, (said, is_, whole) in found.items()
        if (said != is_ if whole else not 0 < is_ <= said)
    )


def _bound(
    case: Case, model: AuditedModel, piece: Piece, record: Provenance, where: str
) -> Iterator[Finding]:
    """Compare what a record says it was measured under with the link whose root it carries.

    Integrity: "evidence captured before the freeze, or under another freeze: unverified, names both digests".
    """
    if case.chain is None:
        return
    link = next((link for link in case.chain.links if link.root == record.registration), None)
    remedy = f"prereg measure {case.shown(case.folder)} --model {model.name}"
    if link is None:
        yield Finding(
            "evidence",
            "unverified",
            f"{where}: measured under registration {short(record.registration)}, "
            f"in force is {short(case.chain.current.root)}",
            remedy=remedy,
        )
        return
    for status, words in _against(case, model, piece, record, link):
        yield Finding("evidence", status, f"{where}: {words}", remedy=remedy)


def _against(
    case: Case, model: AuditedModel, piece: Piece, record: Provenance, link: Registration | Amendment
) -> Iterator[tuple[Status, str]]:
    frozen = link.components
    if record.protocol_digest != frozen.protocol:
        yield (
            "violation",
            f"measured under protocol {short(record.protocol_digest)}, but {short(link.root)}, which it carries, "
            f"promises {short(frozen.protocol)}",
        )
    facts = link.promise.facts.for_model(record.model).sha256
    if record.facts_sha256 != facts:
        yield "unverified", f"measured on facts {short(record.facts_sha256)}, registered is {short(facts)}"
    revision = frozen.models.get(record.model)
    if revision is None:
        yield "unverified", f"the model {record.model} is not registered"
    elif _plain(record.model_revision) != _plain(revision):
        yield (
            "unverified",
            f"measured on {short(_plain(record.model_revision))}, registered is {short(_plain(revision))}",
        )
    other = [
        f"{name} {record.libraries.get(name, 'unknown')} (registered {version})"
        for name, version in sorted(frozen.libraries.items())
        if public_version(record.libraries.get(name, "")) != version
    ]
    if other:
        yield "unverified", f"measured with {', '.join(other)}"
    yield from _key(case, model, piece, record, link)
    try:
        sets = {name: list(at) for name, at in link.promise.resolve_updates(record.n_layers).items()}
    except ValueError as error:
        yield "violation", f"{record.n_layers} layers: {error}"
    else:
        if sets != record.update_sets:
            yield "violation", "its sets of updates are not those that the promise gives for its depth"


def _key(
    case: Case, model: AuditedModel, piece: Piece, record: Provenance, link: Registration | Amendment
) -> Iterator[tuple[Status, str]]:
    """Compare a record's key with the one that its promise leads to.

    Integrity: "evidence captured under another freeze: names both digests".
    """
    promise = link.promise
    if record.analysis not in promise.analyses or record.arm not in _arms(link):
        yield "unverified", f"the promise it was measured under has no {record.analysis} of {record.arm}"
        return
    try:
        # The analysis as it was registered, which may have been amended since.
        file = ProtocolFile(case.folder / "protocol.toml", promise, digest(promise), {})
        pipeline = Pipeline(file, model.name, case.options)
        source = link.components.code.get(f"{OWN}{record.analysis}", "")
        wanted = pipeline.key(record.analysis, record.arm, source=source)
    except PreregError as error:
        yield "unverified", f"its key can't be computed here: {error.message}"
        return
    aside = piece.file.parent.parent.name == SUPERSEDED
    if aside and piece.file.parent.name != record.key:
        yield "violation", f"its key is {short(record.key)}, but it lies in {piece.file.parent.name}"
    if record.key != wanted:
        yield "unverified", f"measured under key {short(record.key)}, its promise wants {short(wanted)}"


def _arms(link: Registration | Amendment) -> tuple[str, ...]:
    return arms_of(ProtocolFile(Path(), link.promise, link.components.protocol, {}))


def _coverage(case: Case, model: AuditedModel) -> Iterator[Finding]:
    """Name the hypotheses for which there is no evidence.

    Integrity: "a crash midway: not tested".
    """
    study = case.study_of(model.name)
    told = (model.folder / "verdicts.json").exists()
    if isinstance(study, PreregError):
        yield Finding("evidence", "unverified", f"{model.name}: {study.message}", remedy=study.remedy)
        return
    missing: dict[str, tuple[str, ...]] = {}
    for name in study.hypotheses:
        try:
            missing[name] = study.missing(name)
        except PreregError as error:
            missing[name] = (error.message,)
    lacking: Mapping[str, tuple[str, ...]] = {name: words for name, words in missing.items() if words}
    if lacking:
        yield Finding(
            "evidence",
            "unverified" if told else "note",
            f"{model.name}: no evidence for {', '.join(lacking)}"
            + (", though verdicts.json is there" if told else ": not tested"),
            tuple(dict.fromkeys(word for words in lacking.values() for word in words)),
            remedy=f"prereg measure {case.shown(case.folder)} --model {model.name}",
        )


def _plain(revision: str) -> str:
    return revision.removeprefix("content:")
