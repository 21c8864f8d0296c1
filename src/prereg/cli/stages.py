"""`prereg capture` and `prereg measure`: the two stages that make evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from prereg.cli.completion import analyses
from prereg.cli.options import (
    CacheDir,
    Device,
    Dtype,
    Engine,
    Jobs,
    Json,
    Models,
    Offline,
    ReportDir,
    StudyFolder,
    distinct,
    open_study,
    project_root,
    run_options,
    study_folder,
)
from prereg.cli.told import result, show, told

if TYPE_CHECKING:
    from prereg.study import Study

__all__ = ["capture", "measure"]


def capture(
    study: StudyFolder = None,
    model: Models = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            metavar="ARM",
            help="`model`, or an untrained twin such as `twin-1`; repeatable [default: all]",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="hash every stored byte again, and recompute a sample of prompts"),
    ] = False,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Run the model over the study's prompts and keep its residual stream.

    Needs torch, and the model (fetched first if it isn't here). Costs one forward pass a prompt: a minute or two
    for smollm2-135m on two cores, some 100 MB of disk, and as much again for each untrained twin. Stores lie in
    the cache folder under stores/. What is there already is not captured again; an interrupted or damaged capture
    resumes by itself: run the same command again.

    \b
    Examples:
      prereg capture --model pythia-tiny
      prereg capture gates/delta_stream --model smollm2-135m --arm model
      prereg capture --model smollm2-135m --verify
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        folder = study_folder(study)
        options = run_options(
            project_root(folder), cache_dir=cache_dir, report_dir=report_dir, device=device, dtype=dtype,
            offline=offline,
        )  # fmt: skip
        found = []
        for name in distinct(model):
            opened = open_study(folder, name, options)
            for one in _arms(opened, arm):
                found.append(_capture(opened, one, verify))
                if not json:
                    show(_captured_line(found[-1]))
        if json:
            result({"study": folder.name, "captured": found})


def measure(
    study: StudyFolder = None,
    model: Models = None,
    analysis: Annotated[
        list[str] | None,
        typer.Option(
            "--analysis",
            metavar="NAME",
            help="only this table of [analyses] in the protocol; repeatable [default: all]",
            autocompletion=analyses,
            show_default=False,
        ),
    ] = None,
    cache_dir: CacheDir = None,
    report_dir: ReportDir = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    offline: Offline = False,
    engine: Engine = "loky",
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Fit what the protocol names and keep squared errors per held-out prompt: the evidence.

    Captures first where activations are missing. Costs some minutes for each model and a fraction of that for
    each untrained twin, most of it refitted permutations; --jobs spreads it over cores. Evidence lies under
    reports/<study>/<model>/evidence, a few MB, meant to be committed. What is there already is not measured
    again; an interrupted run resumes by itself.

    \b
    Examples:
      prereg measure --model pythia-tiny
      prereg measure --model smollm2-135m --analysis kernels --jobs 2
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        folder = study_folder(study)
        options = run_options(
            project_root(folder), cache_dir=cache_dir, report_dir=report_dir, device=device, dtype=dtype,
            offline=offline, engine=engine, jobs=jobs,
        )  # fmt: skip
        found = []
        for name in distinct(model):
            opened = open_study(folder, name, options)
            for one, one_arm in _wanted(opened, analysis):
                found.append(_measure(opened, one, one_arm))
                if not json:
                    show(_measured_lines(found[-1]))
            if not analysis:
                opened.prepare()  # also what only the original of an amended promise rests on
        if json:
            result({"study": folder.name, "measured": found})


def _arms(study: Study, asked: list[str] | None) -> list[str]:
    from prereg.errors import StudyError
    from prereg.pipeline import arms_of

    known = arms_of(study.protocol_file)
    for name in asked or ():
        if name not in known:
            raise StudyError(
                f"{study.protocol.study.name} has no arm {name!r}; it has {', '.join(known)}",
                remedy="name one of these with --arm",
            )
    return list(dict.fromkeys(asked or known))


def _capture(study: Study, arm: str, verify: bool) -> dict[str, Any]:
    captured = study.pipeline.capture(arm)
    view = captured.view
    found = {
        "model": study.pipeline.alias,
        "arm": arm,
        "store": captured.store.key,
        "prompts": len(view.prompts),
        "held_out": int(view.held_out.sum()),
        "n_layers": view.n_layers,
        "d_model": int(view.resid.shape[2]),
    }
    if verify:
        report = study.pipeline.verify(arm)
        found["verified"] = {
            "recomputed": len(report.prompts),
            "max_relative_error": report.max_relative_error,
        }
    return found


def _captured_line(found: dict[str, Any]) -> str:
    line = (
        f"{found['model']} ({found['arm']}): {found['prompts']} prompts, {found['held_out']} of them held out; "
        f"{found['n_layers']} blocks, d_model {found['d_model']}"
    )
    check = found.get("verified")
    if check is None:
        return line
    return (
        f"{line}\n  verified: every byte; {check['recomputed']} prompts recomputed, largest relative error "
        f"{check['max_relative_error']:.1e}"
    )


def _wanted(study: Study, asked: list[str] | None) -> list[tuple[str, str]]:
    """Return each analysis with the arms on which some claim or control needs it, the model always."""
    from prereg.errors import StudyError

    known = tuple(study.protocol.analyses)
    for name in asked or ():
        if name not in known:
            raise StudyError(
                f"{study.protocol_file.path}: there is no table [analyses.{name}]; there are {', '.join(known)}",
                remedy="name one of these with --analysis",
            )
    claims = [*study.protocol.hypotheses.values(), *study.protocol.controls.values()]
    pairs = []
    for name in dict.fromkeys(asked or known):
        twins = {arm for claim in claims if claim.evidence == name for arm in claim.arms} - {"model"}
        pairs += [(name, arm) for arm in ("model", *sorted(twins))]
    return pairs


def _measure(study: Study, analysis: str, arm: str) -> dict[str, Any]:
    there = study.pipeline.present(analysis, arm)
    evidence = study.pipeline.evidence(analysis, arm)
    return {
        "model": study.pipeline.alias,
        "analysis": analysis,
        "arm": arm,
        "state": "present" if there else "measured",
        "rows": evidence.table.num_rows,
        "checks": [check.model_dump(mode="json") for check in evidence.checks],
    }


def _measured_lines(found: dict[str, Any]) -> str:
    state = "already there" if found["state"] == "present" else "measured"
    lines = [
        f"{found['model']}: {found['analysis']} ({found['arm']}) {state}, {found['rows']} rows",
        *(
            f"  check failed: {check['name']}: {check['detail']}"
            for check in found["checks"]
            if not check["passed"]
        ),
    ]
    return "\n".join(lines)
