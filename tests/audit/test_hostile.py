"""Hostile files: whatever lies in a study's place, an audit ends in findings, never in a traceback or in exit 0."""

from __future__ import annotations

import json
import os

import pytest

from prereg.audit import page
from prereg.console import to_text
from tests.audit.projects import REPORTS, STUDY, Project, of, said

JUNK = {
    "empty": b"",
    "nul": b"\0" * 64,
    "null": b"null",
    "deep": b"[" * 5_000,
    "deep table": b'{"verdicts":' * 3_000,
    "huge number": b'{"verdicts": 1e999}',
    "no list": b'{"verdicts": 3, "registration": []}',
    "no record": b'{"verdicts": [{"hypothesis": []}, 3], "tables": {"x": 1}}',
    "surrogate": b'{"model": "\\ud800", "verdicts": [{"hypothesis": "\\ud800", "model": "x"}]}',
    "not utf-8": b"\xff\xfe\x00",
}

PLACES = {
    "registration": f"{STUDY}/registration.json",
    "protocol": f"{STUDY}/protocol.toml",
    "verdicts": f"{REPORTS}/verdicts.json",
    "record": f"{REPORTS}/evidence/kernels.model.json",
    "attempt": "",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("junk", JUNK)
def test_junk_in_any_place_ends_in_findings(project: Project, place: str, junk: str) -> None:
    """Junk is in doubt or a violation, in the working tree and in the history alike."""
    name = PLACES[place] or next(
        f"{STUDY}/attempts/{file.name}" for file in project.path(f"{STUDY}/attempts").iterdir()
    )
    whole = project.read(name)
    project.write(name, JUNK[junk])
    project.commit("Junk")
    report = project.audit(None if place in ("verdicts", "record") else ())
    assert report.exit_code in (1, 2)
    assert "Error:" not in said(report.findings)
    assert "\x1b" not in to_text(page(report), 80, color=False)
    json.dumps(report.as_record(), allow_nan=False).encode()
    project.write(name, whole)
    project.commit("Mend")
    project.audit(())


def test_a_lone_surrogate_in_a_verdict_is_data_without_a_digest(project: Project) -> None:
    """What can't be hashed is in no log, and no reason for a traceback."""
    file = f"{REPORTS}/verdicts.json"
    document = json.loads(project.read(file))
    document["verdicts"][0]["evidence"] = {"a": "\ud800"}
    project.write(file, json.dumps(document))
    project.commit("Surrogate")
    report = project.audit()
    assert "can't be checked" not in said(report.findings)
    assert "H1 on no digest" in said(of(report, "attempts", "violation"))


@pytest.mark.parametrize("place", ["registration", "verdicts", "record"])
def test_a_pipe_is_never_opened(project: Project, place: str) -> None:
    """A named pipe in a file's place would wait for ever."""
    file = project.path(PLACES[place])
    file.unlink()
    os.mkfifo(file)
    assert project.audit().exit_code in (1, 2)


def test_escapes_in_a_registered_text_never_reach_the_terminal(project: Project) -> None:
    """A file name with escapes is shown with them spelled out."""
    project.write(f"{STUDY}/test_\x1b[31mred.py", "")
    report = project.audit(())
    text = to_text(page(report), 80, color=False)
    assert "\x1b" not in text
    assert "u001b" in text.replace("\n", "")
    assert of(report, "components", "unverified"), said(report.findings)
