"""Commands as a user runs them: other processes, the embedded model, standard output for results alone."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.synthetic import REPOSITORY, make_project, registered_project


def prereg(root: Path, *arguments: str, ending: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in `root`; `ending` is Python to run after it."""
    code = f"import sys\nfrom prereg.cli import main\ntry: main()\nexcept SystemExit as end: code = end.code\n{ending}"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PREREG_CACHE": str(root / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", f"{code}\nsys.exit(code)", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env=env,
    )


def project_with_facts(root: Path) -> None:
    """Give the sample study the embedded model's own facts."""
    study = make_project(root)
    (root / "facts.csv").write_bytes((REPOSITORY / "fixtures" / "pythia-tiny" / "facts.csv").read_bytes())
    digest = hashlib.sha256((root / "facts.csv").read_bytes()).hexdigest()
    protocol = (study / "protocol.toml").read_text("utf-8").replace("a" * 64, digest)
    (study / "protocol.toml").write_text(
        protocol.replace("max_per_template = 5", "max_per_template = 60"), "utf-8"
    )


def test_a_warm_answer_needs_neither_torch_nor_transformers(tmp_path: Path) -> None:
    """Where the evidence is there, nothing heavy is imported to read it."""
    registered_project(tmp_path)
    heavy = ("torch", "transformers", "transformer_lens", "scipy.stats", "joblib")
    ending = f"print(*(m for m in {heavy!r} if m in sys.modules), file=sys.stderr)"
    done = prereg(tmp_path, "verdicts", "--json", ending=ending)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""
    assert len(json.loads(done.stdout)["verdicts"]) == 2


def test_capture_runs_the_embedded_model_and_checks_itself(tmp_path: Path) -> None:
    """Progress is on stderr, one JSON document on stdout, and a second run finds everything there."""
    project_with_facts(tmp_path)
    first = prereg(tmp_path, "capture", "--arm", "model", "--verify", "--offline", "--json")
    assert first.returncode == 0, first.stderr
    (found,) = json.loads(first.stdout)["captured"]
    assert (found["model"], found["arm"], found["d_model"]) == ("pythia-tiny", "model", 64)
    assert 0 < found["held_out"] < found["prompts"]
    assert found["verified"]["recomputed"] == 16
    assert found["verified"]["max_relative_error"] <= 1e-5
    assert "capture:" in first.stderr

    listed = prereg(tmp_path, "cache", "--json")
    (store,) = json.loads(listed.stdout)["stores"]
    assert store["key"] == found["store"]
    assert store["complete"]


def test_an_error_in_another_process_is_clean(tmp_path: Path) -> None:
    """No traceback for what prereg foresaw; exit code 2."""
    done = prereg(tmp_path, "verdicts")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: there is no study under")
    assert done.stdout == ""
