"""A small project with made-up evidence: every outcome a gate can have, without a model or torch."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from prereg.evidence import Check, Evidence, Provenance, write_evidence
from prereg.pipeline import Pipeline, RunOptions, pinned_models
from prereg.protocol import read_protocol
from prereg.registration.components import library_versions
from prereg.registration.freeze import Freeze, freeze
from prereg.registration.records import Known
from prereg.report import write_report
from prereg.study import Study

REPOSITORY = Path(__file__).parents[1]
N_LAYERS = 8

GATE = '''\
"""{name}. A gate of the sample study."""

from prereg import Study


def test_{function}(study: Study) -> None:
    """The claim holds."""
    verdict = study.verdict("{name}")
    assert verdict.supported, verdict.explain()
'''


def make_project(
    root: Path,
    *,
    effect: float = 0.5,
    null: float = -0.01,
    gain: float = 0.0,
    draws: float = -0.01,
    spread: float = 0.05,
    n_subjects: int = 40,
    check: bool = True,
) -> Path:
    """Write a project with gates, a protocol and evidence; return the study's folder.

    Parameters
    ----------
    root
        An empty folder.
    effect, null
        Held-out R2 of ``history_1`` and of ``null`` (H1 claims a gap above 0.1; the control a null below 0.02).
    gain
        R2 of ``history_2`` above that of the twin's ``history_1`` (H1-order claims it within 0.02).
    draws
        R2 of the refitted draws.
    spread
        Standard deviation of a subject's own R2.
    n_subjects
        Clusters; each has two prompts.
    check
        Whether the analysis' own check passed.
    """
    study = root / "gates" / "sample"
    study.mkdir(parents=True)
    (root / "fixtures").mkdir()
    (root / "fixtures" / "pythia-tiny").symlink_to(REPOSITORY / "fixtures" / "pythia-tiny")
    (root / "pyproject.toml").write_text('[tool.pytest]\ntestpaths = ["gates"]\n')
    (study / "protocol.toml").write_bytes((REPOSITORY / "tests" / "data" / "protocol.toml").read_bytes())
    for name in ("H1", "H1-order"):
        function = name.lower().replace("-", "_")
        (study / f"test_{function}.py").write_text(GATE.format(name=name, function=function))

    fits = {"history_1": effect, "history_2": effect + gain, "null": null}
    write(root, "model", fits, spread=spread, n_subjects=n_subjects, draws=draws, check=check)
    write(root, "twin-3", fits, spread=spread, n_subjects=n_subjects, draws=draws)
    return study


PRECISION = """
[hypotheses.H1-order.precision]
standard_error = 0.001
n_units = 40
source = "Made up, as all else here."
"""

IDENTITY = ("-c", "user.name=A. Author", "-c", "user.email=author@example.org", "-c", "commit.gpgsign=false")


def git(root: Path, *arguments: str) -> str:
    """Run git in a project, as its author."""
    done = subprocess.run(
        ["git", *IDENTITY, "-c", "init.defaultBranch=main", *arguments],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def commit(root: Path, message: str) -> str:
    """Commit everything in a project; return the commit."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(root, "rev-parse", "HEAD")


def frozen_project(
    root: Path, *, known: Known = "none", statement: str | None = None, **made_up: Any
) -> Path:
    """Write a project that is registered and committed, and not measured yet; return the study's folder."""
    study = make_project(root, **made_up)
    shutil.rmtree(root / "reports")
    (root / ".gitignore").write_text("/cache/\n__pycache__/\n.pytest_cache/\n")
    protocol = study / "protocol.toml"
    text = protocol.read_text("utf-8") + PRECISION
    for name, old in (("facts.csv", "a" * 64), ("world.csv", "b" * 64)):
        (root / name).write_text(f"subject,answer\n{name},made up\n")
        text = text.replace(old, hashlib.sha256((root / name).read_bytes()).hexdigest())
    protocol.write_text(text, "utf-8")
    git(root, "init", "--quiet")
    commit(root, "Write the study")
    register(root, known=known, statement=statement)
    commit(root, "Register the study")
    return study


def prepared(root: Path) -> Freeze:
    """Return what the commands hand to `freeze` and `amend`."""
    folder = root / "gates" / "sample"
    return Freeze(
        folder=folder,
        root=root,
        protocol_file=read_protocol(folder),
        reports=root / "reports" / "sample",
        models=pinned_models(options(root)),
    )


def register(root: Path, *, known: Known = "none", statement: str | None = None) -> str:
    """Freeze the project's study; return the root digest."""
    return freeze(prepared(root), known=known, statement=statement).root


def measured(
    root: Path, *, effect: float = 0.5, gain: float = 0.0, model: str = "pythia-tiny", **made_up: Any
) -> Study:
    """Write evidence under the registration in force, and answer: attempts and tables as the commands write them."""
    study = Study.open(root / "gates" / "sample", model=model, options=options(root))
    registered = study.standing.root if study.standing.is_registered else None
    fits = {"history_1": effect, "history_2": effect + gain, "null": -0.01}
    for arm in ("model", "twin-3"):
        write(root, arm, fits, registration=registered, model=model, **made_up)
    verdicts = study.verdicts()
    study.record_attempt(verdicts)
    write_report(study, verdicts)
    return study


def registered_project(root: Path, **made_up: Any) -> Path:
    """Write a project that is registered, measured and answered, each in its own commit; return the study's folder."""
    study = frozen_project(root)
    measured(root, **made_up)
    commit(root, "Measure")
    return study


def options(root: Path) -> RunOptions:
    """Return options whose cache and reports lie inside the project."""
    return RunOptions(root=root, cache=root / "cache")


def write(
    root: Path,
    arm: str,
    fits: dict[str, float],
    *,
    spread: float = 0.05,
    n_subjects: int = 40,
    draws: float = -0.01,
    check: bool = True,
    constant: tuple[str, ...] = (),
    registration: str | None = None,
    model: str = "pythia-tiny",
) -> None:
    """Write one arm's evidence under the key that the protocol leads to; each fit has its planted R2 exactly."""
    protocol_file = read_protocol(root / "gates" / "sample")
    pipeline = Pipeline(protocol_file, model, options(root))
    rows = [(s, p, u) for s in range(n_subjects) for p in range(2) for u in range(1, N_LAYERS)]
    sst = np.array([1.0 + u for _, _, u in rows])
    columns = {}
    for i, (name, value) in enumerate(fits.items()):
        own = np.random.default_rng([i, len(arm)]).normal(0.0, spread, n_subjects)
        own = (own - own.mean()) * (name not in constant)
        columns[f"sse.{name}"] = sst * (1.0 - value - own[[s for s, _, _ in rows]])
    table = pa.table(
        {
            "prompt": [f"p{s:03d}-{p}" for s, p, _ in rows],
            "subject": [f"s{s:03d}" for s, _, _ in rows],
            "relation": ["r"] * len(rows),
            "template": [f"t{p}" for _, p, _ in rows],
            "update": pa.array([u for _, _, u in rows], pa.int16()),
            "sst": sst,
            "sst.global": sst,
            **columns,
        }
    )
    refits = [(d, u) for d in range(19) for u in range(1, N_LAYERS)]
    side = {
        "draws": pa.table(
            {
                "draw": [d for d, _ in refits],
                "update": [u for _, u in refits],
                "fit": ["null"] * len(refits),
                "sse": [1.0 - draws] * len(refits),
                "sst": [1.0] * len(refits),
            }
        )
    }
    provenance = Provenance(
        study="sample",
        analysis="kernels",
        arm=arm,
        key=pipeline.key("kernels", arm),
        model=model,
        model_source="folder",
        model_revision=pipeline.revision() or "",
        model_digest="d",
        store_digest="t",
        protocol_digest=protocol_file.digest,
        registration=registration,
        facts_sha256=protocol_file.protocol.facts.sha256,
        settings={},
        source_digest="s",
        libraries=library_versions(),
        n_layers=N_LAYERS,
        d_model=4,
        n_prompts=2 * n_subjects,
        n_subjects=n_subjects,
        n_training_prompts=100,
        update_sets={k: list(v) for k, v in protocol_file.protocol.resolve_updates(N_LAYERS).items()},
    )
    checks = (Check(name="made_up", passed=check, detail="as the test wants it"),)
    write_evidence(Evidence(table, side, checks, provenance), pipeline.evidence_folder, f"kernels.{arm}")
