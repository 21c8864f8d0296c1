"""The tracked tables of one study on one model: what was answered, and what figures are drawn from.

They are made again from verified evidence each time and hold no time of day, so that the same evidence gives the
same bytes; a file whose bytes would not change is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prereg.errors import EvidenceError, StorageError, StudyError
from prereg.report.verdict_tables import contrasts_csv, permutations_csv, verdicts_csv
from prereg.tabular import json_bytes, put

if TYPE_CHECKING:
    from prereg.evidence import Evidence
    from prereg.study import Study, Verdict

__all__ = ["report_contents", "write_report"]

FORMAT = 1


def write_report(study: Study, verdicts: Sequence[Verdict]) -> tuple[Path, ...]:
    """Write verdicts and figure tables into the study's report folder.

    Only evidence that is present under the protocol as it stands is read, after its digests were checked;
    nothing is measured. A table of ours for which there is no such evidence is removed: it would speak of
    another protocol.

    Parameters
    ----------
    study
        The study, opened for one model.
    verdicts
        Those that were asked. A hypothesis without one is written down as not tested.

    Returns
    -------
    tuple of Path
        The files that now hold the report, sorted.

    Raises
    ------
    StudyError
        If there is no verdict, or one belongs to another model or study.
    EvidenceError
        If evidence fails its digest, or tables were measured on different weights.
    StorageError
        If the folder can't be written.
    """
    folder = study.pipeline.report_folder
    written = []
    for name, content in sorted(report_contents(study, verdicts).items()):
        file = folder / name
        if content is None:
            _drop(file)
        else:
            put(file, content)
            written.append(file)
    return tuple(written)


def report_contents(study: Study, verdicts: Sequence[Verdict]) -> dict[str, bytes | None]:
    """Return what `write_report` writes, by file name; None for a table that must not be there.

    Raises
    ------
    StudyError, EvidenceError
        As `write_report`.
    """
    records = _records(study, verdicts)
    evidence = _evidence(study)
    return {
        "verdicts.json": json_bytes(_document(study, records, evidence)),
        "verdicts.csv": verdicts_csv(study.promises, study.protocol.published, study.pipeline.alias, records),
        "contrasts.csv": contrasts_csv(records),
        "permutations.csv": permutations_csv(records),
        **_figure_tables(evidence),
    }


def _records(study: Study, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    if not verdicts:
        raise StudyError(
            f"{study.protocol.study.name}: no hypothesis was asked, so there is nothing to report",
            remedy=f"prereg verdicts {study.folder} --model {study.pipeline.alias}",
        )
    by_name = {verdict.hypothesis: verdict for verdict in verdicts}
    for verdict in verdicts:
        found = (verdict.model, verdict.protocol_digest)
        wanted = (study.pipeline.alias, study.protocol_file.digest)
        frozen = None if study.chain is None else study.chain.original.digest
        if (
            found[0] != wanted[0]
            or found[1] not in (wanted[1], frozen)
            or verdict.hypothesis not in study.hypotheses
        ):
            raise StudyError(
                f"{verdict.hypothesis} on {found[0]} under protocol {found[1][:12]} is no verdict of "
                f"{study.protocol.study.name} on {wanted[0]} under protocol {wanted[1][:12]}"
            )
    return [by_name[name].as_record() for name in study.hypotheses if name in by_name]


def _evidence(study: Study) -> dict[tuple[str, str], Evidence]:
    from prereg.pipeline import arms_of

    return {
        (analysis, arm): study.evidence(analysis, arm)
        for analysis in study.protocol.analyses
        for arm in arms_of(study.protocol_file)
        if study.pipeline.present(analysis, arm)
    }


def _document(
    study: Study,
    records: Sequence[Mapping[str, Any]],
    evidence: Mapping[tuple[str, str], Evidence],
) -> dict[str, Any]:
    tested = [record for record in records if record["outcome"] != "not_tested"]
    return {
        "format": FORMAT,
        "study": study.protocol.study.name,
        "model": _model(study.pipeline.alias, evidence),
        "protocol_digest": study.protocol_file.digest,
        "registration": study.standing.as_record(),
        "hypotheses_total": len(study.hypotheses),
        "tested": len(tested),
        "not_tested": [n for n in study.hypotheses if n not in {r["hypothesis"] for r in tested}],
        "verdicts": list(records),
    }


def _model(alias: str, evidence: Mapping[tuple[str, str], Evidence]) -> dict[str, str]:
    found = {
        (record.model_source, record.model_revision, record.model_digest)
        # A twin's identity is its own; what a report is about is the pretrained model.
        for (_, arm), e in evidence.items()
        if arm == "model" and (record := e.provenance) is not None
    }
    if len(found) != 1:
        seen = ", ".join(sorted(digest[:12] for _, _, digest in found)) or "none"
        raise EvidenceError(
            f"{alias}: evidence must come from one model, found digests {seen}",
            remedy="remove the evidence folder of this model, then run `prereg measure` again",
        )
    source, revision, digest = found.pop()
    return {"alias": alias, "source": source, "revision": revision, "digest": digest}


def _figure_tables(evidence: Mapping[tuple[str, str], Evidence]) -> dict[str, bytes | None]:
    from prereg.report.figure_tables import FIGURE_TABLES, figure_tables

    found = figure_tables(evidence)
    return {name: found.get(name) for name in FIGURE_TABLES}


def _drop(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{file} is out of date and can't be removed: {error.strerror}") from error
