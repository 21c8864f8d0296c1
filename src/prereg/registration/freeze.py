"""`prereg freeze`: writes down what is promised, once, and refuses what could not be held to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from prereg.errors import InferenceError, RegistrationError
from prereg.inference import check_margin, minimum_detectable_effect
from prereg.protocol import Hypothesis, Protocol, ProtocolFile
from prereg.registration.attempts_files import clean
from prereg.registration.components import (
    LIBRARIES,
    code_digests,
    facts_digests,
    gate_digests,
    gate_functions,
    library_versions,
)
from prereg.registration.history import Repository, is_file
from prereg.registration.parts import CalibrationRecord
from prereg.registration.records import (
    REGISTRATION,
    Components,
    Known,
    Registration,
    protocol_data,
    sealed,
    timestamp,
    write_record,
)
from prereg.registration.seen import require_known

__all__ = ["Freeze", "components_of", "freeze", "gate_name", "require_margins"]


@dataclass(frozen=True, slots=True)
class Freeze:
    """What a freeze or an amendment is made from.

    Parameters
    ----------
    folder, root
        The study's folder and the project's root.
    protocol_file
        The promise as read.
    reports
        Where tracked tables lie: results there were known before.
    models
        Alias -> pinned revision.
    """

    folder: Path
    root: Path
    protocol_file: ProtocolFile
    reports: Path
    models: Mapping[str, str]

    @property
    def protocol(self) -> Protocol:
        """The promise."""
        return self.protocol_file.protocol


def freeze(
    study: Freeze,
    *,
    known: Known,
    statement: str | None,
    calibration: CalibrationRecord | None = None,
    now: datetime | None = None,
) -> Registration:
    """Write ``registration.json``.

    Parameters
    ----------
    study
        What to register.
    known
        What is known of the data by now.
    statement
        Which data, in a sentence; needed unless nothing is known.
    calibration
        What a simulation of the gates showed; None where there was none.
    now
        The date to claim; None asks the clock.

    Raises
    ------
    RegistrationError
        If the study is registered already, the tree is dirty or without git, a hypothesis has no gate, a claim of
        equivalence could not be told from nothing, or results are on record that `known` denies.
    StorageError
        If the file can't be written.
    """
    repository = Repository.open(study.folder)
    clean(study.folder)  # what a killed freeze left
    _require_first(study, repository)
    _require_clean(repository)
    _require_gates(study.folder, study.protocol)
    require_margins(study)
    seen = require_known(known, study.folder, study.reports, repository)
    components = components_of(study)
    _require_held(study, components, repository)
    content = {
        "format": 1,
        "study": study.protocol.study.name,
        "date": timestamp(now),
        "known": known,
        **({} if statement is None else {"statement": statement}),
        **({"seen": list(seen)} if seen else {}),
        **({} if calibration is None else {"calibration": calibration.model_dump(mode="json")}),
        "components": components.model_dump(mode="json"),
        "protocol": protocol_data(study.protocol),
    }
    registration = sealed(Registration, content)
    write_record(study.folder / REGISTRATION, registration)
    return registration


def components_of(study: Freeze) -> Components:
    """Return every component as it lies in the working tree.

    Raises
    ------
    RegistrationError
        If one is missing, or not what the promise says.
    """
    p = study.protocol
    facts = facts_digests(p, study.root)
    wanted = {p.facts.path: p.facts.sha256, **{world.path: world.sha256 for world in p.facts.worlds}}
    for path, sha256 in wanted.items():
        found = facts[path]
        if found != sha256:
            raise RegistrationError(
                f"{path}: sha256 {'missing' if found is None else found[:16]}, the protocol says {sha256[:16]}",
                remedy=f"restore {path}, or correct its sha256 in {study.protocol_file.path}",
            )
    libraries = library_versions()
    missing = [name for name in LIBRARIES if name not in libraries]
    if missing:
        raise RegistrationError(
            f"a registration pins the versions that will measure, but {', '.join(missing)} is not installed",
            remedy="pip install 'prereg-gates[capture]', then the same command again",
        )
    return Components(
        protocol=study.protocol_file.digest,
        gates=gate_digests(study.folder, study.root),
        code=code_digests(study.protocol_file),
        facts=wanted,
        models=dict(study.models),
        libraries=libraries,
    )


def gate_name(hypothesis: str) -> str:
    """Return what the name of a hypothesis' gate begins with."""
    return f"test_{re.sub('[^a-z0-9]', '_', hypothesis.lower())}_"


def require_margins(study: Freeze) -> None:
    """Refuse a claim of equivalence that a study of the precision it names would meet by noise.

    Raises
    ------
    RegistrationError
        If one names no precision, or its minimum detectable effect exceeds its margin.
    """
    for name, hypothesis in study.protocol.hypotheses.items():
        _require_margin(study, name, hypothesis)


def _require_first(study: Freeze, repository: Repository) -> None:
    file = study.folder / REGISTRATION
    remedy = f"prereg amend {study.folder} HYPOTHESIS --reason ... --known ..."
    if file.is_symlink() or file.exists():
        raise RegistrationError(f"{file}: this study is registered already", remedy=remedy)
    for commit in repository.introduced(repository.relative(file))[:1]:
        raise RegistrationError(
            f"{file}: this study was registered in commit {commit.id[:12]}, and the file was removed since",
            remedy=f"git checkout {commit.id[:12]} -- {file}, then: {remedy}",
        )


def _require_clean(repository: Repository) -> None:
    changed = repository.status()
    if changed:
        names = ", ".join(change.path for change in changed[:5]) + (" ..." if len(changed) > 5 else "")
        raise RegistrationError(
            f"the tree is dirty, so no commit would show what was registered: {names}",
            remedy="git add and git commit (or git stash) these first",
        )


def _require_held(study: Freeze, components: Components, repository: Repository) -> None:
    """Refuse files that git passes over: the tree looks clean, and no clone would have them."""
    files = [
        study.protocol_file.path,
        *(study.root / name for name in (*components.gates, *components.facts)),
    ]
    for file in files:
        if not is_file(repository.versions(repository.relative(file))[-1]):
            raise RegistrationError(
                f"{file} would be registered, but no commit holds it: git ignores it, or a link stands in its place",
                remedy=f"git add --force {file} and git commit, or take it away",
            )


def _require_gates(folder: Path, protocol: Protocol) -> None:
    names = gate_functions(folder)
    # As in pytest: of two hypotheses that a gate's name fits, it asks the one with the longer id.
    asked = {
        max(fitting, key=len)
        for name in names
        if (fitting := [h for h in protocol.hypotheses if f"{name}_".startswith(gate_name(h))])
    }
    for hypothesis in protocol.hypotheses:
        if hypothesis not in asked:
            raise RegistrationError(
                f"{folder}: hypothesis {hypothesis} has no gate, so nothing would ask it",
                remedy=f"add a test named {gate_name(hypothesis)}<what it says> in {folder / 'test_*.py'}",
            )


def _require_margin(study: Freeze, name: str, hypothesis: Hypothesis) -> None:
    if hypothesis.direction != "equivalence":
        return
    where = f"{study.protocol_file.path}: hypotheses.{name}"
    precision = hypothesis.precision
    if precision is None:
        raise RegistrationError(
            f"{where} claims that nothing is there, but doesn't say how finely it will be measured",
            remedy=f"add [hypotheses.{name}.precision] with standard_error, n_units and source (a pilot, say)",
        )
    try:
        check_margin(
            hypothesis.threshold,
            minimum_detectable_effect(
                precision.standard_error,
                alpha=study.protocol.inference.equivalence_alpha,
                power=precision.power,
                n_units=precision.n_units,
            ),
        )
    except InferenceError as error:
        raise RegistrationError(f"{where}: {error.message}", remedy=error.remedy) from error
