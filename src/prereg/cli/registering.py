"""`prereg freeze` and `prereg amend`: write down a promise, and what was changed about it later."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from prereg.cli.completion import aliases, studies, subjects
from prereg.cli.options import (
    CacheDir,
    Json,
    Models,
    ReportDir,
    StudyFolder,
    cache_folder,
    project_root,
    run_options,
    study_folder,
)
from prereg.cli.told import result, told
from prereg.cli.unwrapped import show_unwrapped

if TYPE_CHECKING:
    from prereg.protocol import ProtocolFile
    from prereg.registration.freeze import Freeze
    from prereg.registration.records import Amendment, CalibrationRecord, Registration

__all__ = ["amend", "freeze"]

Known = Annotated[
    Literal["none", "pilot", "full"],
    typer.Option(
        "--known",
        help="what is known of the data by now: nothing; a pilot's; or those that the study is answered by",
    ),
]
Statement = Annotated[
    str | None,
    typer.Option(
        "--statement",
        metavar="TEXT",
        help="which data were seen, and what they showed; needed unless nothing is known",
        show_default=False,
    ),
]
Registered = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="also pin this model, fetched already; repeatable [default: all that `prereg models` lists as pinned]",
        autocompletion=aliases,
        show_default=False,
    ),
]


def freeze(
    study: StudyFolder = None,
    known: Known = "none",
    statement: Statement = None,
    model: Registered = None,
    despite: Annotated[
        str | None,
        typer.Option(
            "--despite",
            metavar="TEXT",
            help="why the study is frozen though a gate, by its calibration, supports false claims too often",
            show_default=False,
        ),
    ] = None,
    attach: Annotated[
        Path | None,
        typer.Option(
            "--attach",
            metavar="FILE",
            help="don't freeze: put a signature (.sig) or receipt (.ots, .tsr) of registration.json beside it",
            show_default=False,
        ),
    ] = None,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    json: Json = False,
) -> None:
    """Register a study: write registration.json, which says what is promised and pins what it depends on.

    It holds the promise itself, and the digests of the protocol, the gates, the code that measures and decides, the
    facts, the models' revisions and the versions of numerical libraries; their joint digest, the root, travels with
    every store, table, verdict and report from then on. Commit it before you measure: the first commit that
    carries it is what `prereg audit` goes by. It is written once; later changes are amendments.

    Refused: a dirty tree or no git, a sentence that still says TO DECIDE, a hypothesis without a gate, a claim of
    equivalence whose minimum detectable effect exceeds its margin, --known none where results are on record, and a
    gate that by its calibration (`prereg calibrate`, recorded where there is one) supports false claims more often
    than its alpha, unless --despite says why.

    \b
    Exit codes: 0 registered; 2 refused, and why.

    \b
    Examples:
      prereg freeze gates/my_study
      prereg freeze gates/my_study --known pilot \\
        --statement "A pilot on pythia-tiny: R2 of 0.4."
      ssh-keygen -Y sign -n prereg -f ~/.ssh/id_ed25519 \\
        gates/my_study/registration.json
      prereg freeze gates/my_study --attach receipt.ots
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        folder = study_folder(study)
        if attach is not None:
            _attach(folder, attach, json)
            return
        from prereg.cli.undecided import require_decided
        from prereg.registration.freeze import freeze as write

        prepared = _prepared(folder, cache_dir, report_dir, model)
        require_decided(prepared.protocol_file.path)
        _require_own_measurable(prepared.protocol_file, prepared.root, cache_dir)
        registration = write(
            prepared, known=known, statement=statement, calibration=_calibrated(prepared, despite)
        )
        if json:
            result(_told(registration, folder / "registration.json", folder))
        else:
            show_unwrapped(_frozen_lines(registration, folder))


def _require_own_measurable(protocol_file: ProtocolFile, root: Path, cache_dir: Path | None) -> None:
    """Refuse what an analysis of the study's own can't measure: once it is frozen, mending it takes an amendment."""
    from prereg.analysis.own import OwnAnalysis, find_analysis
    from prereg.analysis.watching import Watch
    from prereg.pipeline.measuring import require_measurable

    folder = protocol_file.path.parent
    if any(isinstance(find_analysis(name, folder), OwnAnalysis) for name in protocol_file.protocol.analyses):
        require_measurable(protocol_file, Watch(root, cache_folder(cache_dir)))


def amend(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY", help="folder with the protocol.toml", autocompletion=studies),
    ],
    subject: Annotated[
        list[str],
        typer.Argument(
            metavar="SUBJECT...",
            help="what was changed: a hypothesis' id, a table of the protocol (`inference`, `controls.<name>`), or "
            "`gates`, `code`, `facts`, `models`, `libraries`",
            autocompletion=subjects,
        ),
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="why, in a sentence")],
    known: Known,
    statement: Statement = None,
    model: Registered = None,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    json: Json = False,
) -> None:
    """Amend a registration: append what was changed since, why, and what was known at the time.

    Edit the protocol or the gate first, then amend; name everything that changed. Nothing is overwritten: the
    amendment is one new file under amendments/. From then on both verdicts are computed. The amended one leads only
    if no data were known; else the original one does, and the amended one stands beside it. A hypothesis that is
    added is exploratory.

    \b
    Exit codes: 0 amended; 2 refused, and why.

    \b
    Examples:
      prereg amend gates/my_study H2 --known full \\
        --statement "H2 was refuted on pythia-tiny." \\
        --reason "The margin was read off the wrong table of the paper."
      prereg amend gates/my_study code --known full \\
        --statement "All verdicts." --reason "A faster solver."
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        folder = study_folder(study)
        from prereg.registration.amend import amend as write

        amendment = write(
            _prepared(folder, cache_dir, report_dir, model),
            subject,
            reason=reason,
            known=known,
            statement=statement,
        )
        file = folder / "amendments" / amendment.file_name
        if json:
            result(_told(amendment, file, folder))
        else:
            show_unwrapped(_amended_lines(amendment, file, folder))


def _prepared(folder: Path, cache: Path | None, reports: Path | None, models: Models) -> Freeze:
    from prereg.pipeline import pinned_models
    from prereg.protocol import read_protocol
    from prereg.registration.freeze import Freeze

    root = project_root(folder)
    options = run_options(root, cache_dir=cache, report_dir=reports)
    protocol_file = read_protocol(folder)
    return Freeze(
        folder=folder,
        root=root,
        protocol_file=protocol_file,
        reports=(reports or root / "reports") / protocol_file.protocol.study.name,
        models=pinned_models(options, models or ()),
    )


def _calibrated(study: Freeze, despite: str | None) -> CalibrationRecord | None:
    """Return what the study's calibration showed; None where there is none."""
    import hashlib

    from prereg.calibration import read_calibration, verdict
    from prereg.errors import RegistrationError
    from prereg.registration.records import CalibrationRecord

    file = study.reports / "calibration" / "calibration.json"
    again = f"prereg calibrate {study.folder} --pilot MODEL"
    if not file.is_symlink() and not file.exists():
        if despite is not None:
            raise RegistrationError(
                f"{file}: there is no calibration that --despite could speak of", remedy=again
            )
        return None
    found, now = read_calibration(file), study.protocol_file.digest
    if found.protocol_digest != now:
        raise RegistrationError(
            f"{file}: simulated under protocol {found.protocol_digest[:16]}, it is now {now[:16]}",
            remedy=f"{again}, or remove {file.parent}",
        )
    faults = tuple(fault.words() for fault in verdict(found))
    if faults and despite is None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise RegistrationError(
            f"by its calibration a gate errs more often than its alpha: {faults[0]}{more}",
            remedy="mend the gate, or say why it is frozen all the same: --despite '...'",
        )
    return CalibrationRecord(
        digest=hashlib.sha256(file.read_bytes()).hexdigest(),
        pilot=found.pilot,
        replications=found.replications,
        faults=faults,
        despite=despite if faults else None,
    )


def _attach(folder: Path, receipt: Path, json: bool) -> None:
    from prereg.registration.receipts import attach

    file = attach(folder, receipt)
    if json:
        result({"study": folder.name, "file": str(file)})
    else:
        commit = f"git add {file} && git commit -m 'Attach a receipt of the registration'"
        show_unwrapped([str(file), f"commit it: {commit}"])


def _told(record: Registration | Amendment, file: Path, folder: Path) -> dict[str, Any]:
    return {
        "study": record.study,
        "file": str(file),
        "root": record.root,
        "date": record.date,
        "known": record.known,
        "commit": _commit_line(record, folder, file),
    }


def _commit_line(record: Registration | Amendment, folder: Path, file: Path) -> str:
    what = shlex.quote(f"Register {record.study}: {file.name}")
    return f"git add {shlex.quote(str(folder))} && git commit -m {what}"


def _frozen_lines(registration: Registration, folder: Path) -> list[str]:
    c = registration.components
    lines = [
        f"registered {registration.study}: root {registration.root}",
        f"  hypotheses {len(registration.promise.hypotheses)}; gates {len(c.gates)} files; code {len(c.code)} "
        f"modules; models {len(c.models)}; libraries {len(c.libraries)}",
    ]
    if registration.seen:
        lines.append(f"  on record before: results on {', '.join(registration.seen)}")
    calibration = registration.calibration
    if calibration is None:
        lines.append("  not calibrated: no gate was simulated (prereg calibrate)")
    else:
        lines.append(
            f"  calibrated: {calibration.replications} replications, {len(calibration.faults)} faults"
        )
    return [
        *lines,
        "commit it before you measure:",
        f"  {_commit_line(registration, folder, folder / 'registration.json')}",
    ]


def _amended_lines(amendment: Amendment, file: Path, folder: Path) -> list[str]:
    lines = [f"amendment {amendment.number} to {amendment.study}: root {amendment.root}"]
    lines += [f"  {change.words()}" for change in amendment.changes]
    lines += [f"  {change.component}: {change.name}" for change in amendment.files[:8]]
    if len(amendment.files) > 8:
        lines.append(f"  and {len(amendment.files) - 8} more files")
    return [*lines, "commit it together with the change:", f"  {_commit_line(amendment, folder, file)}"]
