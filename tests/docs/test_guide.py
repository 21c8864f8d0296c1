"""The guide, followed word by word in an empty repository on the embedded model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import Block, apply, blocks, missing, steps
from tests.registration.repositories import isolated
from tests.synthetic import REPOSITORY

DOCS = REPOSITORY / "docs"
GUIDE = DOCS / "guide.md"
SECONDS = 300


def reader(home: Path) -> dict[str, str]:
    """Return the environment of somebody who has installed prereg and told git their name."""
    home.mkdir()
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (
        ("NAME", "A. Reader"), ("EMAIL", "reader@example.org"))}  # fmt: skip
    ours = ("PYTEST_", "PREREG_", "FORCE_COLOR")
    kept = {name: value for name, value in isolated(home).items() if not name.startswith(ours)}
    return kept | who | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
        "PREREG_CACHE": str(home / "cache"),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }  # fmt: skip


def follow(block: Block, study: Path, environment: dict[str, str]) -> None:
    """Do what a block says, and compare what it shows; a block that says nothing to do is passed over."""
    if block.language == "toml":
        apply(block, study / "protocol.toml")
    if block.language != "console":
        return
    for step in steps(block):
        done = subprocess.run(
            ["bash", "-c", step.command], cwd=study.parents[1], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        said = f"{step.command}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, f"line {block.line}: exit {done.returncode}: {said}"
        assert missing(step.shown, done.stdout) == [], f"line {block.line}: {said}"
        assert step.shown or done.stdout == "", f"line {block.line}: the guide shows no output: {said}"


@pytest.mark.parametrize(("page", "study"), [("guide.md", "depth"), ("analysis.md", "lens")])
def test_a_page_works_as_it_is_written(tmp_path: Path, page: str, study: str) -> None:
    """Each command exits with 0 and prints what is shown; each edit finds its place; the audit exits with 0 too."""
    project = tmp_path / "project"
    project.mkdir()
    environment = reader(tmp_path / "home")
    for block in blocks((DOCS / page).read_text("utf-8")):
        # What a reader's package would say is nobody's protocol.
        if not block.text.startswith("[project"):
            follow(block, project / "gates" / study, environment)


def test_the_gate_that_it_shows_is_the_one_that_is_written() -> None:
    """Word by word."""
    shown = [block.text for block in blocks(GUIDE.read_text("utf-8")) if block.language == "python"]
    template = REPOSITORY / "src" / "prereg" / "cli" / "scaffold" / "band_kernels" / "H1.py.txt"
    assert shown == [template.read_text("utf-8")]


@pytest.mark.parametrize("page", ["guide.md", "index.md"])
def test_what_it_installs_is_what_this_project_distributes(page: str) -> None:
    """The one command that isn't run names the distribution, and extras that there are."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    installs = re.findall(r"pip install '([\w-]+)\[(\w+)\]'", (REPOSITORY / "docs" / page).read_text("utf-8"))
    assert installs
    for name, extra in installs:
        assert name == project["name"]
        assert extra in project["optional-dependencies"]


# -- the harness itself can fail -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "printed", "found"),
    [
        (("a", "c"), "a\nb\nc", []),
        (("c", "a"), "a\nb\nc", ["a"]),
        (("root ...",), "root 1f2e", []),
        (("+0.50 is there",), "+0.51  is there", []),
        (("+0.50 is there",), "+0.60 is there", ["+0.50 is there"]),
        (("1 of 2",), "2 of 2", ["1 of 2"]),
        (("...", "z"), "y", ["z"]),
    ],
)
def test_a_line_that_is_not_printed_is_found(shown: tuple[str, ...], printed: str, found: list[str]) -> None:
    """Order counts, decimals may differ a little, counts may not."""
    assert missing(shown, printed) == found


def test_an_edit_without_a_place_is_an_error(tmp_path: Path) -> None:
    """A key under another table is no place for it."""
    file = tmp_path / "file.toml"
    file.write_text("[a]\nx = 1\n[b]\ny = 2\n")
    apply(Block("toml", "[b]\ny = 3\n", 1), file)
    assert file.read_text() == "[a]\nx = 1\n[b]\ny = 3\n"
    with pytest.raises(LookupError, match=r"no x under \[b\]"):
        apply(Block("toml", "[b]\nx = 3\n", 1), file)
