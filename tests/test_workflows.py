"""What runs in other people's CI: the action, the workflows and the examples in docs/ci.md.

actionlint, shellcheck and check-jsonschema look at them where they are installed; the action's own steps are run here,
one after another, on a small registered project, as a runner would.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthetic import REPOSITORY, registered_project

ACTION = REPOSITORY / "action.yml"
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
DOCS = REPOSITORY / "docs" / "ci.md"
_EXPRESSION = re.compile(r"\$\{\{\s*([a-zA-Z0-9_.-]+)\s*\}\}")


def tool(name: str) -> str:
    """Return a linter beside this Python or on the path; skip the test where there is none."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def examples() -> list[str]:
    """Return the YAML of docs/ci.md: two for GitHub, one for GitLab."""
    return re.findall(r"```yaml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text("utf-8"))
    return loaded


def steps_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every step of an action or of a workflow's jobs."""
    if "runs" in document:
        return list(document["runs"]["steps"])
    return [step for job in document["jobs"].values() for step in job.get("steps", [])]


def scripts() -> list[tuple[str, str]]:
    """Return each shell script, with a name."""
    return [
        (f"{file.name}: {step.get('name', step['run'][:20])}", step["run"])
        for file in (ACTION, *WORKFLOWS)
        for step in steps_of(yaml.safe_load(file.read_text("utf-8")))
        if "run" in step
    ]


def test_there_are_workflows_and_examples() -> None:
    """The tests below have something to look at."""
    assert {file.name for file in WORKFLOWS} >= {"ci.yml", "prereg.yml"}
    assert len(examples()) == 3
    assert len(scripts()) >= 8


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    """In the workflows, and in the examples that people copy; it does find an input that isn't there."""
    lint = tool("actionlint")
    files = [str(file) for file in WORKFLOWS]
    for number, example in enumerate(examples()[:2]):
        file = tmp_path / f"example{number}.yml"
        file.write_text(example)
        files.append(str(file))
    done = subprocess.run(
        [lint, "-no-color", *files], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stdout
    bad = tmp_path / "bad.yml"
    text = (REPOSITORY / ".github" / "workflows" / "prereg.yml").read_text("utf-8")
    bad.write_text(text.replace("inputs.study }}", "inputs.stud }}"))
    assert subprocess.run([lint, str(bad)], capture_output=True, check=False, cwd=REPOSITORY).returncode == 1


@pytest.mark.parametrize(
    ("name", "script"), scripts(), ids=lambda value: None if "\n" in value else value[:40]
)
def test_shellcheck_finds_nothing(name: str, script: str) -> None:
    """Scripts quote what they expand."""
    done = subprocess.run(
        [tool("shellcheck"), "-s", "bash", "-S", "warning", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{name}\n{done.stdout}"


def test_files_are_what_their_schemas_say(tmp_path: Path) -> None:
    """Action, workflows and GitLab's example, by schemas that lie in the checker: no network."""
    check = tool("check-jsonschema")
    gitlab = tmp_path / "gitlab-ci.yml"
    gitlab.write_text(examples()[2])
    for schema, files in (("actions", [ACTION]), ("workflows", WORKFLOWS)):
        named = [check, "--builtin-schema", f"vendor.github-{schema}", *map(str, files)]
        done = subprocess.run(named, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    done = subprocess.run(
        [check, "--builtin-schema", "vendor.gitlab-ci", str(gitlab)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_actions_are_pinned_by_commit() -> None:
    """A tag can be moved by whoever owns it; forty digits can't. Ours lies in the checkout."""
    used = [
        step["uses"]
        for file in (ACTION, *WORKFLOWS)
        for step in steps_of(yaml.safe_load(file.read_text("utf-8")))
        if "uses" in step
    ]
    assert used
    for name in used:
        assert name.startswith("./") or re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", name), name


def test_no_input_is_pasted_into_a_script() -> None:
    """An input that held a command would be run: scripts take them from the environment."""
    for name, script in scripts():
        assert "${{" not in script, name


def test_whole_history_is_checked_out_and_no_more_is_allowed() -> None:
    """Every checkout of a study has its history; a job may read, and nothing else."""
    for file in WORKFLOWS:
        document = yaml.safe_load(file.read_text("utf-8"))
        assert document["permissions"] == {"contents": "read"}
        first = [job["steps"][0] for job in document["jobs"].values()]
        assert all(step["with"]["fetch-depth"] == 0 for step in first)


def test_docs_name_every_input_and_output() -> None:
    """The table in docs/ci.md is the action's own list, with its defaults."""
    text = DOCS.read_text("utf-8")
    for name, described in action()["inputs"].items():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
        if described.get("default"):
            assert f"`{described['default']}`" in row
    outputs = next(line for line in text.splitlines() if line.startswith("Outputs:"))
    for name in action()["outputs"]:
        assert f"`{name}`" in outputs


class Runner:
    """Runs the action's scripts as a runner would: environment from expressions, outputs from a file."""

    def __init__(self, project: Path, temp: Path, **inputs: str) -> None:
        self.project, self.temp = project, temp
        temp.mkdir()
        document = action()
        self.steps = document["runs"]["steps"]
        self.values = {f"inputs.{k}": str(v.get("default", "")) for k, v in document["inputs"].items()}
        self.values |= {f"inputs.{k.replace('_', '-')}": v for k, v in inputs.items()}
        self.values |= {"runner.temp": str(temp), "runner.os": "Linux", "github.action_path": str(REPOSITORY)}
        self.summary = temp / "summary.md"
        self.said = ""

    def fill(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self.values.get(found[1], ""), text)

    def go(self, *names: str) -> int:
        """Run these steps, or all that have a script but the installing one; return the last exit code."""
        code = 0
        for step in self.steps:
            if "run" in step and step["name"] != "Install" and (not names or step["name"] in names):
                code = self._step(step)
                if code:
                    break
        return code

    def _step(self, step: dict[str, Any]) -> int:
        output = self.temp / "output"
        output.write_text("")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
        env |= {k: self.fill(v) for k, v in step.get("env", {}).items()}
        env |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            capture_output=True, text=True, check=False, cwd=self.project, env=env,
        )  # fmt: skip
        self.said += done.stdout + done.stderr
        for line in output.read_text("utf-8").splitlines():
            key, _, value = line.partition("=")
            self.values[f"steps.{step.get('id')}.outputs.{key}"] = value
        return done.returncode


def test_the_action_s_steps_on_a_study_that_stands(tmp_path: Path) -> None:
    """Gates, audit, page, badge and summary; the job ends with 0 and says what the badge says."""
    project = tmp_path / "project"
    project.mkdir()
    registered_project(project)
    runner = Runner(project, tmp_path / "temp", study="gates/sample")
    assert runner.go() == 0, runner.said
    assert runner.values["steps.gates.outputs.code"] == "0"
    assert runner.values["steps.audit.outputs.code"] == "0"
    assert runner.values["steps.report.outputs.badge"] == "2 supported"
    assert "Audit: **verified**" in runner.summary.read_text("utf-8")
    folder = Path(runner.values["steps.report.outputs.folder"])
    assert json.loads((folder / "badge.json").read_text("utf-8"))["message"] == "2 supported"
    assert (folder / "report.html").is_file()
    # Nothing that the job wrote is in the study's tree.
    done = subprocess.run(
        ["git", "status", "--short"], cwd=project, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def test_the_action_s_steps_on_a_study_that_was_bent(tmp_path: Path) -> None:
    """It fails at its last step, and page, badge and summary say why."""
    project = tmp_path / "project"
    project.mkdir()
    registered_project(project)
    file = project / "gates" / "sample" / "protocol.toml"
    file.write_text(file.read_text("utf-8").replace("threshold = 0.1", "threshold = 0.05"), "utf-8")
    runner = Runner(
        project, tmp_path / "temp", study="gates/sample", gate_exit="harness", allow_unverified="true"
    )
    assert runner.go() == 1, runner.said
    assert "::error::The audit ended with 1" in runner.said
    assert runner.values["steps.report.outputs.badge"] == "violation"
    assert "Audit: **violation**" in runner.summary.read_text("utf-8")


@pytest.mark.parametrize(
    ("gates", "audit", "allow", "code"),
    [
        ("0", "0", "false", 0),
        ("1", "0", "false", 1),
        ("0", "2", "false", 1),
        ("0", "2", "true", 0),
        ("1", "2", "true", 1),
        ("0", "1", "true", 1),
        ("", "0", "true", 1),
        ("0", "", "true", 1),
        ("5", "0", "true", 1),
    ],
)
def test_how_the_job_ends(tmp_path: Path, gates: str, audit: str, allow: str, code: int) -> None:
    """Green demands proof of both: a step that said nothing is no success, and a violation is never allowed."""
    runner = Runner(tmp_path, tmp_path / "temp", allow_unverified=allow)
    runner.values |= {"steps.gates.outputs.code": gates, "steps.audit.outputs.code": audit}
    assert runner.go("Answer") == code
