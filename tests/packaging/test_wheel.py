"""The wheel: that it holds what it needs, and works where only its own dependencies are, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.synthetic import REPOSITORY, registered_project

HEAVY = (
    "torch",
    "transformers",
    "transformer_lens",
    "joblib",
    "matplotlib",
    "jinja2",
    "cryptography",
    "pandas",
)
"""What only extras bring."""

WITHOUT = f"""\
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
COMMAND = "from prereg.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the wheel's files alone."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder)  # noqa: S202 - built a moment ago
    return folder


def run(installed: Path, code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code on the wheel's files, in an interpreter that has nothing of the extras."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREREG_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments], cwd=cwd, capture_output=True, text=True, check=False,
        env=kept | {"PYTHONPATH": str(installed), "PREREG_CACHE": str(cwd / "cache"), "COLUMNS": "300"},
    )  # fmt: skip


def project_table() -> dict[str, object]:
    """Return [project] of this repository."""
    table: dict[str, object] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def test_both_files_are_named_after_the_distribution(built: Path) -> None:
    """The distribution is prereg-gates; what is imported is prereg."""
    assert project_table()["name"] == "prereg-gates"
    assert [f.name.rpartition("-0")[0].partition("-")[0] for f in sorted(built.iterdir())] == [
        "prereg_gates"
    ] * 2


def test_their_description_can_be_shown(built: Path) -> None:
    """An index would accept both files, and render the readme."""
    files = [str(file) for file in built.iterdir()]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    """Modules, templates, schema, registry, the mark of typing: all that lies under src, and no more."""
    package = REPOSITORY / "src" / "prereg"
    wanted = {
        f"prereg/{f.relative_to(package).as_posix()}"
        for f in package.rglob("*")
        if f.is_file() and "__pycache__" not in f.parts
    }
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {n for n in names if n.startswith("prereg/") and not n.startswith("prereg/fixtures/")} == wanted
    for name in ("py.typed", "activations/models/registry.toml", "cli/scaffold/head.toml"):
        assert f"prereg/{name}" in names


def test_the_wheel_carries_what_a_new_study_starts_from(installed: Path) -> None:
    """Facts with their licences and the embedded model, byte by byte; nothing that only trains or builds them."""
    folder = installed / "prereg" / "fixtures"
    files = [file for file in folder.rglob("*") if file.is_file()]
    for file in files:
        assert file.read_bytes() == (REPOSITORY / "fixtures" / file.relative_to(folder)).read_bytes()
    assert {file.suffix for file in files} == {".csv", ".md", ".txt", ".json", ".safetensors"}


def test_the_sdist_leaves_results_out(built: Path) -> None:
    """It can be built and tested, and holds no evidence."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "fixtures/facts/facts.csv"} <= names
    assert "tests/synthetic.py" in names
    assert not [n for n in names if n.startswith("reports/")]


@pytest.mark.parametrize("command", ["--help", "new", "audit", "models"])
def test_commands_run_without_extras(installed: Path, tmp_path: Path, command: str) -> None:
    """Help, and the commands that need no model, from the wheel's own files."""
    arguments = {"new": ("new", "my-study"), "audit": ("audit", "--help")}.get(command, (command,))
    done = run(installed, COMMAND, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "gates" / "my_study" / "protocol.toml").exists() == (command == "new")
    if command == "new":
        model = "fixtures/pythia-tiny/model.safetensors"
        assert (tmp_path / model).read_bytes() == (REPOSITORY / model).read_bytes()


def test_inference_needs_no_extras(installed: Path, tmp_path: Path) -> None:
    """`import prereg.inference` brings in neither torch nor pyarrow, and is the wheel's."""
    code = "import prereg.inference as i; print(i.__file__); print('pyarrow' in sys.modules)"
    done = run(installed, code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(installed / "prereg" / "inference" / "__init__.py"), "False"]


def test_a_study_is_audited_without_extras(installed: Path, tmp_path: Path) -> None:
    """Everything about a registered, measured study is recomputed and verified, by code that is the registered one."""
    registered_project(tmp_path)
    done = run(installed, COMMAND, "audit", "gates/sample", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified" in done.stdout
