"""`prereg calibrate` and `prereg power`: what a gate's verdict is worth, before it is frozen."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prereg.cli.completion import aliases, hypotheses
from prereg.cli.options import (
    CacheDir,
    Engine,
    Jobs,
    Json,
    ReportDir,
    StudyFolder,
    project_root,
    run_options,
    study_folder,
)
from prereg.cli.told import NOT_SUPPORTED, result, show, told

if TYPE_CHECKING:
    from prereg.calibration import Calibration, Fault, Parts, Run, Source
    from prereg.pipeline import RunOptions
    from prereg.protocol import ProtocolFile
    from prereg.workers import Workers

__all__ = ["calibrate", "power"]

Pilot = Annotated[
    str | None,
    typer.Option(
        "--pilot",
        metavar="MODEL",
        help="fit the simulated data to this model's evidence, measured already [default: the precision that "
        "hypotheses state]",
        show_default=False,
        autocompletion=aliases,
    ),
]
Hypotheses = Annotated[
    list[str] | None,
    typer.Option(
        "--hypothesis",
        metavar="ID",
        help="only this one; repeatable [default: all]",
        show_default=False,
        autocompletion=hypotheses,
    ),
]
Replications = Annotated[
    int | None,
    typer.Option(
        "--replications",
        min=100,
        metavar="N",
        help="simulated data sets for each gate and world [default: 1000; for power 400]",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, metavar="N", help="seed of the simulation [default: fixed]", show_default=False
    ),
]


def calibrate(
    study: StudyFolder = None,
    pilot: Pilot = None,
    hypothesis: Hypotheses = None,
    n: Annotated[
        list[int] | None,
        typer.Option(
            "--n",
            min=2,
            metavar="UNITS",
            help="independent units in a simulated data set; repeatable [default: as many as the pilot has]",
            show_default=False,
        ),
    ] = None,
    replications: Replications = None,
    seed: Seed = None,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    engine: Engine = "loky",
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Simulate each registered gate: how often it supports a false claim, and how often a true one.

    Data are drawn from worlds fitted to a pilot (smoothed, heavy-tailed, skewed, clusters of unequal size) in which
    the truth is known, and decided by the gate's own statistic, unit, interval and rule: at the boundary, where the
    claim is only just false (size), and under what the pilot found, or no effect for an equivalence (power). Takes
    some minutes on two cores; an interrupted run resumes by itself. Files go to reports/<study>/calibration/: each
    finished gate to parts/, which no freeze takes, and calibration.json once every hypothesis is there, whether
    simulated by this run or by an earlier one with the same protocol, pilot, evidence, seed and replications.

    \b
    Exit codes:
      0  no gate supports a false claim more often than its alpha allows, beyond
         Monte Carlo error
      1  some gate does
      2  an error: no evidence of the pilot, ...

    \b
    Examples:
      prereg calibrate gates/delta_stream --pilot pythia-tiny
      prereg calibrate --pilot pythia-tiny --hypothesis H1 --n 50 --n 100 --n 200
      prereg calibrate gates/delta_stream --hypothesis H1-order
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.calibration import REPLICATIONS, SEED, Parts, false_refutations, verdict
        from prereg.calibration import calibrate as simulate
        from prereg.calibration.files import FILES, write_calibration

        folder = study_folder(study)
        options = run_options(
            project_root(folder), cache_dir=cache_dir, report_dir=report_dir, engine=engine, jobs=jobs
        )
        protocol_file, source = _source(folder, pilot, hypothesis, options)
        seed = SEED if seed is None else seed
        replications = REPLICATIONS if replications is None else replications
        place = (
            (options.reports or options.root / "reports") / protocol_file.protocol.study.name / "calibration"
        )
        parts = Parts(place / "parts", _run_of(protocol_file, source, seed, replications))
        found = simulate(
            protocol_file,
            source,
            n_units=tuple(n or ()),
            replications=replications,
            seed=seed,
            workers=_workers(options),
            parts=parts,
            overall=options.progress(),
            say=options.say,
        )
        faults, refutations = verdict(found), false_refutations(found)
        known, left = _with_earlier(found, parts, folder, pilot, options)
        if left and _stands_in(found, place, parts):
            left = []
        elif not left:
            write_calibration(known, place)
            # After the whole is there: whoever looks meanwhile finds one or the other.
            parts.drop(known)
        files = [] if left else [str(place / name) for name in FILES]
        if json:
            result(
                {
                    **found.as_record(),
                    "faults": [fault.model_dump(mode="json") for fault in faults],
                    "false_refutations": [fault.model_dump(mode="json") for fault in refutations],
                    "files": files,
                    "left": left,
                }
            )
        else:
            _show(found, (*faults, *refutations))
            if left:
                show(
                    f"\nnot whole: {', '.join(left)} still to be simulated; finished gates are kept in {parts.folder}"
                )
            else:
                show(f"\ntables and picture: {place}")
    if faults:
        raise typer.Exit(NOT_SUPPORTED)


def power(
    study: StudyFolder = None,
    wanted: Annotated[
        float,
        typer.Option("--power", metavar="P", help="probability of a supported verdict under the alternative"),
    ] = 0.8,
    pilot: Pilot = None,
    hypothesis: Hypotheses = None,
    largest: Annotated[
        int,
        typer.Option("--largest", min=10, metavar="UNITS", help="try no more independent units than this"),
    ] = 4000,
    replications: Replications = None,
    seed: Seed = None,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    engine: Engine = "loky",
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Find how many independent units each gate needs for a wanted power.

    The alternative is what the pilot found, or no effect for an equivalence. Power is simulated with the gate's own
    interval and rule, in data drawn from the pilot's units, and n found by bisection; a guess in closed form stands
    beside it. Controls and permutations are not simulated: they can only lower it.

    \b
    Examples:
      prereg power gates/delta_stream --pilot pythia-tiny --power 0.9
      prereg power --hypothesis H1-order
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        from prereg.calibration import SEED, run_digest
        from prereg.calibration.power import POWER_REPLICATIONS, RESAMPLES, power_of
        from prereg.calibration.table import power_table

        folder = study_folder(study)
        options = run_options(
            project_root(folder), cache_dir=cache_dir, report_dir=report_dir, engine=engine, jobs=jobs
        )
        protocol_file, source = _source(folder, pilot, hypothesis, options)
        seed = SEED if seed is None else seed
        name = run_digest(protocol_file, source, what="power", seed=seed, resamples=RESAMPLES)
        workers = _workers(options, name)
        found = [
            power_of(
                plan,
                wanted,
                seed=seed,
                workers=workers,
                replications=POWER_REPLICATIONS if replications is None else replications,
                largest=largest,
            )
            for plan in source.plans
        ]
        workers.clear()
        if json:
            result({"study": folder.name, "pilot": source.pilot, "power": [one.as_record() for one in found]})
        else:
            show(power_table(found))
            show(f"\n{_of(source)}; simulated in {found[0].replications} samples of each size.")


def _source(
    folder: Path, pilot: str | None, asked: list[str] | None, options: RunOptions
) -> tuple[ProtocolFile, Source]:
    from prereg.calibration import plans_from_moments, plans_from_pilot
    from prereg.pipeline import Pipeline
    from prereg.protocol import read_protocol

    protocol_file = read_protocol(folder)
    # A name that is not there stays in the list, so that it is refused.
    names = list(dict.fromkeys(asked or protocol_file.protocol.hypotheses))
    order = [*protocol_file.protocol.hypotheses, *names]
    names.sort(key=order.index)
    if pilot is None:
        return protocol_file, plans_from_moments(names, protocol_file.protocol)
    # Without a binding: a pilot is older than the registration.
    return protocol_file, plans_from_pilot(Pipeline(protocol_file, pilot, options), names, protocol_file)


def _run_of(protocol_file: ProtocolFile, source: Source, seed: int, replications: int) -> Run:
    from prereg.calibration import Run, code_digest

    return Run(
        study=protocol_file.protocol.study.name,
        protocol_digest=protocol_file.digest,
        pilot=source.pilot,
        seed=seed,
        replications=replications,
        code=code_digest(),
    )


def _with_earlier(
    found: Calibration, parts: Parts, folder: Path, pilot: str | None, options: RunOptions
) -> tuple[Calibration, list[str]]:
    """Add the gates that earlier runs left in parts, and say which hypotheses are missing still."""
    from prereg.calibration import gate_record, joined
    from prereg.errors import PreregError
    from prereg.protocol import read_protocol

    order = list(read_protocol(folder).protocol.hypotheses)
    kept = {}
    for name in order:
        if parts.file(name).is_file():
            try:
                plan = _source(folder, pilot, [name], options)[1].plans[0]
            except PreregError as error:
                options.say(f"{parts.file(name)} is left out: {error}")
                continue
            record, evidence = gate_record(plan), dict(plan.evidence)
            part = parts.find(record, evidence)
            if part is not None:
                kept[name] = part
            else:
                options.say(f"{parts.file(name)} is left out: {parts.stranger(record, evidence)}")
    whole = joined(order, [*kept.values(), found])
    have = {gate.hypothesis for gate in whole.gates}
    return whole, [name for name in order if name not in have]


def _stands_in(found: Calibration, place: Path, parts: Parts) -> bool:
    """Tell whether a calibration that is there holds what was found; then its parts are needed no more."""
    from prereg.calibration import read_calibration
    from prereg.errors import EvidenceError

    try:
        whole = read_calibration(place / "calibration.json")
    except EvidenceError:
        return False
    same = ("study", "protocol_digest", "pilot", "seed", "replications")
    if any(getattr(whole, name) != getattr(found, name) for name in same):
        return False
    if not (set(found.results) <= set(whole.results) and set(found.gates) <= set(whole.gates)):
        return False
    parts.drop(whole)
    return True


def _workers(options: RunOptions, name: str | None = None) -> Workers:
    from prereg.workers import Workers

    # joblib comes with the extra that captures; simulations do without it, on one core.
    jobs = options.jobs if importlib.util.find_spec("joblib") is not None else 1
    folder = options.cache / "calibration"
    return Workers(jobs, options.engine, options.progress(), folder / name[:32] if name else folder)


def _of(source: Source) -> str:
    return "Stated moments" if source.pilot is None else f"Pilot: {source.pilot}"


def _show(found: Calibration, faults: tuple[Fault, ...]) -> None:
    from prereg.calibration.table import calibration_table

    show(calibration_table(found))
    show(
        f"\n{found.replications} simulated samples each, 95% Clopper-Pearson intervals. Size: the largest P(supported) "
        "at the null boundary; power and refuted: under the alternative (no power where the claim is false there). "
        "Cover: of the contrast whose interval holds its true value least often. "
        "Controls and permutations are not simulated: they can only lower P(supported)."
    )
    for fault in faults:
        show(f"\n{'✗' if fault.answer == 'supported' else '!'} {fault.words()}")
