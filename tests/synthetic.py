"""A small project with made-up evidence: every outcome a gate can have, without a model or torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from prereg.evidence import Check, Evidence, Provenance, write_evidence
from prereg.pipeline import Pipeline, RunOptions
from prereg.protocol import read_protocol

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
) -> None:
    """Write one arm's evidence under the key that the protocol leads to; each fit has its planted R2 exactly."""
    protocol_file = read_protocol(root / "gates" / "sample")
    pipeline = Pipeline(protocol_file, "pythia-tiny", options(root))
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
        model="pythia-tiny",
        model_source="folder",
        model_revision="r",
        model_digest="d",
        store_digest="t",
        protocol_digest=protocol_file.digest,
        facts_sha256=protocol_file.protocol.facts.sha256,
        settings={},
        source_digest="s",
        libraries={},
        n_layers=N_LAYERS,
        d_model=4,
        n_prompts=2 * n_subjects,
        n_subjects=n_subjects,
        n_training_prompts=100,
        update_sets={k: list(v) for k, v in protocol_file.protocol.resolve_updates(N_LAYERS).items()},
    )
    checks = (Check(name="made_up", passed=check, detail="as the test wants it"),)
    write_evidence(Evidence(table, side, checks, provenance), pipeline.evidence_folder, f"kernels.{arm}")
