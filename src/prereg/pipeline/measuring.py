"""From activations to evidence: one analysis of one arm is run, and where its numbers came from is written down."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections.abc import Collection
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.analysis.catalogue import ANALYSES, AnalysisSpec
from prereg.analysis.own import OwnAnalysis, find_analysis
from prereg.analysis.settings import Settings
from prereg.analysis.watching import Watch
from prereg.errors import AnalysisError, ProtocolError
from prereg.evidence import Evidence, Provenance, digest_of
from prereg.pipeline.own import measure_own
from prereg.protocol import EACH, ProtocolFile
from prereg.registration.components import LIBRARIES

if TYPE_CHECKING:
    from pydantic import BaseModel

    from prereg.analysis.dictionaries import Library
    from prereg.pipeline.capturing import Captured
    from prereg.pipeline.options import RunOptions
    from prereg.workers import Workers

__all__ = [
    "DICTIONARIES",
    "check_terms",
    "measure",
    "provenance_of",
    "require_measurable",
    "settings_of",
    "source_digest",
]

DICTIONARIES = "dictionaries"
"""The analysis whose settings say how dictionaries are trained, whichever analysis uses them."""


def measure(
    protocol_file: ProtocolFile,
    spec: AnalysisSpec,
    arm: str,
    settings: Settings,
    captured: Captured,
    workers: Workers,
    options: RunOptions,
) -> Evidence:
    """Run one analysis of one arm, with what its `spec` says that it takes.

    Raises
    ------
    AnalysisError
        Whatever the analysis finds wrong with its data; or what is wrong with the evidence of one of somebody's own.
    """
    extras: dict[str, object] = {"twin": arm != "model"} if spec.lean_twin else {}
    if spec.uses_dictionaries:
        extras["dictionaries"] = _dictionaries(protocol_file, captured, options)
    if spec.uses_model:
        extras["model"] = captured.loaded
    if isinstance(spec, OwnAnalysis):
        watch = Watch(options.root, options.cache)
        return measure_own(spec, captured.view, settings, workers, watch, extras)
    evidence: Evidence = spec.load().measure(captured.view, settings, workers, **extras)
    return evidence


def provenance_of(
    protocol_file: ProtocolFile,
    analysis: str,
    arm: str,
    settings: BaseModel,
    captured: Captured,
    *,
    source: str,
    model: str,
    key: str,
    registration: str | None,
) -> Provenance:
    """Return the record of where one analysis' numbers came from.

    Parameters
    ----------
    protocol_file, analysis, arm, settings, captured
        What was measured, by which promise, on which activations.
    source
        From `source_digest`.
    model
        The model's alias.
    key
        Digest of everything that the numbers depend on.
    registration
        Root under which it was measured; None for none.
    """
    view, identity, protocol = captured.view, captured.loaded.identity, protocol_file.protocol
    return Provenance(
        study=protocol.study.name,
        analysis=analysis,
        arm=arm,
        key=key,
        model=model,
        model_source=identity.source,
        model_revision=identity.revision,
        model_digest=identity.digest,
        store_digest=captured.store.digest,
        protocol_digest=protocol_file.digest,
        registration=registration,
        facts_sha256=protocol.facts.for_model(model).sha256,
        settings=settings.model_dump(mode="json"),
        source_digest=source,
        libraries=_versions(),
        n_layers=view.n_layers,
        d_model=int(view.resid.shape[2]),
        n_prompts=int(view.held_out.sum()),
        n_subjects=len({s for s, out in zip(view.subjects, view.held_out, strict=True) if out}),
        n_training_prompts=int((~view.held_out).sum()),
        update_sets={k: list(v) for k, v in view.update_sets.items()},
    )


def settings_of(protocol_file: ProtocolFile, analysis: str, spec: AnalysisSpec, watch: Watch) -> Settings:
    """Return an analysis' validated settings.

    Raises
    ------
    ProtocolError
        If they don't fit.
    AnalysisError
        If somebody's own are no closed, strict model without defaults, or its module can't be run.
    """
    with watch.over(spec):
        model = getattr(spec.load(), spec.settings, None)
    where = str(spec.file) if isinstance(spec, OwnAnalysis) else spec.module
    if not (isinstance(model, type) and issubclass(model, Settings)):
        raise AnalysisError(
            f"{where}: {spec.settings} is no subclass of prereg.analysis.settings.Settings, so what the protocol says "
            "would not be checked",
            remedy=f"write: class {spec.settings}(Settings)",
        )
    if isinstance(spec, OwnAnalysis):
        _require_closed(model, where)
    return protocol_file.settings(analysis, model)


def _require_closed(model: type[Settings], where: str) -> None:
    """Demand that a protocol must say every setting, and can say nothing else."""
    loose = [name for name, field in model.model_fields.items() if not field.is_required()]
    if loose:
        raise AnalysisError(
            f"{where}: {model.__name__} has a default for {', '.join(loose)}: a promise would not show it",
            remedy="take the default out, and write the value into the protocol",
        )
    opened = [key for key, value in Settings.model_config.items() if model.model_config.get(key) != value]
    if opened:
        raise AnalysisError(
            f"{where}: {model.__name__} changes {', '.join(opened)} of Settings, so a slip of the protocol would pass",
            remedy="leave model_config as it is",
        )


def require_measurable(protocol_file: ProtocolFile, watch: Watch) -> None:
    """Refuse what the protocol alone shows to be impossible, before anything is captured or registered.

    Every analysis' settings, what they say of each other, and every fit that a claim names.

    Raises
    ------
    StudyError
        If nobody provides an analysis.
    ProtocolError
        If settings don't fit, name a set of updates or a dictionary that there is none of, or a claim names a fit that
        won't be measured.
    """
    protocol = protocol_file.protocol
    specs = {analysis: find_analysis(analysis, protocol_file.path.parent) for analysis in protocol.analyses}
    found = {analysis: settings_of(protocol_file, analysis, spec, watch) for analysis, spec in specs.items()}
    for analysis, settings in found.items():
        where = f"{protocol_file.path}: analyses.{analysis}"
        for key in ("updates", "bands"):
            named = getattr(settings, key, ())
            for name in (named,) if isinstance(named, str) else named:
                if isinstance(name, str) and name not in protocol.updates:
                    raise ProtocolError(
                        f"{where}.{key}: there is no set of updates {name!r}; there are {', '.join(protocol.updates)}",
                        remedy=f"add [updates.{name}], or name one that is there",
                    )
        if specs[analysis].uses_dictionaries:
            _require_dictionaries(protocol_file, where, settings, found.get(DICTIONARIES))
        check_terms(protocol_file, analysis, specs[analysis], settings, watch)


def _require_dictionaries(
    protocol_file: ProtocolFile, where: str, settings: BaseModel, trained: BaseModel | None
) -> None:
    """Refuse an analysis of dictionaries that nobody trains."""
    if trained is None:
        raise ProtocolError(
            f"{where}: it rests on sparse dictionaries, and nothing says how to train them",
            remedy=f"add [analyses.{DICTIONARIES}]",
        )
    if protocol_file.protocol.capture.position != "all":
        raise ProtocolError(
            f"{where}: dictionaries learn from every position, and only the last one is captured",
            remedy='write position = "all" under [capture]',
        )
    for one, many in (("dictionary_seed", "seeds"), ("seed", "seeds"), ("kind", "kinds"), ("kinds", "kinds")):
        asked, there = getattr(settings, one, ()), getattr(trained, many)
        missing = set(asked if isinstance(asked, tuple) else (asked,)) - set(there)
        if missing:
            raise ProtocolError(
                f"{where}.{one}: no dictionary is trained with {', '.join(map(str, sorted(missing)))}; "
                f"[analyses.{DICTIONARIES}] {many} has {', '.join(map(str, there))}",
                remedy="add it there, or name one of these",
            )


def check_terms(
    protocol_file: ProtocolFile, analysis: str, spec: AnalysisSpec, settings: BaseModel, watch: Watch
) -> None:
    """Refuse a contrast of a fit that won't be measured, before minutes are spent on the others.

    Raises
    ------
    ProtocolError
        If a hypothesis or control names such a fit.
    """
    protocol = protocol_file.protocol
    with watch.over(spec):
        names = getattr(spec.load(), "fit_names", None)
    if names is None:
        return
    differs = spec.lean_twin and "twin" in inspect.signature(names).parameters
    claims = {
        **{f"controls.{n}": c for n, c in protocol.controls.items()},
        **{f"hypotheses.{n}": h for n, h in protocol.hypotheses.items()},
    }
    for where, claim in claims.items():
        terms = [t for c in claim.contrasts for t in c.terms if claim.evidence == analysis]
        for term in terms:
            lean = {"twin": True} if differs and term.arm != "model" else {}
            with watch.over(spec):
                known = frozenset(names(settings, **lean))
            if term.fit not in known and not _is_pattern_of(term.fit, known):
                raise ProtocolError(
                    f"{protocol_file.path}: {where}: {analysis} measures no fit {term.fit!r} on "
                    f"{term.arm}; by its settings it measures {', '.join(_families(known))}",
                    remedy=f"correct the contrast, or the settings in [analyses.{analysis}]",
                )


def source_digest(spec: AnalysisSpec) -> str:
    """Return the digest of an analysis' source and this package's: checkpoints of another version are not taken up."""
    return digest_of([_own_digest(), spec.digest]) if spec.digest else _own_digest()


@cache
def _own_digest() -> str:
    folder = Path(__file__).parents[1] / "analysis"
    files = sorted(folder.rglob("*.py"))
    return digest_of({f.relative_to(folder).as_posix(): f.read_text("utf-8") for f in files})


def _dictionaries(protocol_file: ProtocolFile, captured: Captured, options: RunOptions) -> Library:
    """Return one arm's dictionaries, trained as the protocol says; what is trained already is kept in the cache."""
    # By name: a study that uses no dictionaries does not rest on their code.
    module = importlib.import_module(ANALYSES[DICTIONARIES].module)
    library: Library = module.Library.open(
        options.cache / "dictionaries",
        captured.view,
        protocol_file.settings(DICTIONARIES, module.DictionarySettings),
        identity=captured.store.digest,
        device=options.device,
    )
    return library


def _families(names: Collection[str]) -> list[str]:
    """Return names in order, hundreds of numbered ones as their pattern."""
    return sorted({re.sub(r"[0-9]{3,}", EACH, name) for name in names})


def _is_pattern_of(fit: str, known: Collection[str]) -> bool:
    before, star, after = fit.partition(EACH)
    return bool(star) and any(name.startswith(before) and name.endswith(after) for name in known)


def _versions() -> dict[str, str]:
    found = {}
    for library in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[library] = version(library)
    return found
