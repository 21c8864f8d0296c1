"""`prereg models`: the list, and fetching."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_the_list_says_what_is_here_and_where_it_comes_from(project: Path, run: Run) -> None:
    """The embedded model is here, others are not; 80 columns are enough."""
    found = run("models")
    assert found.exit_code == 0
    lines = {line.split()[0]: line for line in found.stdout.splitlines() if line.strip()}
    assert "2.0 MB" in lines["pythia-tiny"]
    assert "Apache-2.0" in lines["pythia-tiny"]
    assert "hub:EleutherAI/pythia-410m-deduped" in lines["pythia-410m"]
    assert " - " in lines["pythia-410m"]
    assert max(map(len, found.stdout.splitlines())) <= 80


def test_the_list_as_json_has_pinned_revisions(project: Path, run: Run) -> None:
    """A machine gets every field."""
    document = json.loads(run("models", "--json").stdout)
    rows = {row["alias"]: row for row in document["models"]}
    assert rows["pythia-tiny"]["state"] == "present"
    assert rows["smollm2-135m"]["state"] == "absent"
    assert len(rows["smollm2-135m"]["revision"]) == 64
    assert document["cache"] == str(project / "cache")


def test_fetching_what_is_here_says_where(project: Path, run: Run) -> None:
    """Nothing is downloaded; the folder and the digest are told."""
    (model,) = json.loads(run("models", "--fetch", "pythia-tiny", "--json").stdout)["fetched"]
    assert model["alias"] == "pythia-tiny"
    assert Path(model["folder"], "config.json").is_file()
    assert len(model["digest"]) == 64
    assert "pythia-tiny is here" in run("models", "--fetch", "pythia-tiny").stdout


def test_offline_fetches_nothing_and_names_what_is_usable(project: Path, run: Run) -> None:
    """Without a network the error lists the models that can be asked now."""
    found = run("models", "--fetch", "smollm2-135m", "--offline")
    assert found.exit_code == 2
    assert "Usable now: pythia-tiny" in found.stderr


def test_an_unknown_alias_gets_a_suggestion(project: Path, run: Run) -> None:
    """A typo is answered by the closest alias."""
    found = run("models", "--fetch", "smolm2-135m")
    assert found.exit_code == 2
    assert "smollm2-135m" in found.stderr
