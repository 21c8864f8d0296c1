"""Which modules a registration pins: all that a verdict runs through, and none of the verifier."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration import imports
from prereg.registration.imports import PACKAGE, module_file, reached_modules


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of a few lines in place of prereg."""
    files = {
        "__init__": "",
        "a": "import prereg.b\nfrom prereg.part import inner\n",
        "b": "def f():\n    from prereg import lazy\n",
        "lazy": "import os\n",
        "part/__init__": "",
        "part/inner": "if TYPE_CHECKING:\n    import prereg.typed\nelse:\n    import prereg.untyped\n",
        "typed": "",
        "untyped": "if not TYPE_CHECKING:\n    import prereg.sly\nimport prereg.audit.check\n",
        "sly": "import typing\nif typing.TYPE_CHECKING:\n    import prereg.typed\n",
        "audit/__init__": "",
        "audit/check": "import prereg.only_there\n",
        "only_there": "",
    }
    root = tmp_path / "prereg"
    for name, text in files.items():
        file = root / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(imports, "PACKAGE", root)
    imports._imports.cache_clear()
    yield root
    imports._imports.cache_clear()


def test_imports_are_followed_wherever_they_stand(package: Path) -> None:
    """In functions and in what runs beside a type checker; each package's __init__ as well."""
    assert reached_modules(["prereg.a"]) == (
        "prereg", "prereg.a", "prereg.b", "prereg.lazy", "prereg.part", "prereg.part.inner", "prereg.sly",
        "prereg.untyped",
    )  # fmt: skip


def test_what_only_type_checkers_or_the_verifier_read_is_left_out(package: Path) -> None:
    """They move no verdict."""
    found = reached_modules(["prereg.a"])
    assert not {"prereg.typed", "prereg.audit", "prereg.audit.check", "prereg.only_there"} & set(found)


def test_a_root_that_is_none_is_an_error(package: Path) -> None:
    """A misspelt root would pin nothing, silently."""
    with pytest.raises(RegistrationError, match=r"no module prereg\.astrology"):
        reached_modules(["prereg.a", "prereg.astrology"])


def test_nothing_is_imported(package: Path) -> None:
    """Source is read, not run: a module that fails on import is pinned all the same."""
    (package / "lazy.py").write_text("raise SystemExit\n")
    assert "prereg.lazy" in reached_modules(["prereg.a"])


@pytest.mark.parametrize("name", ["os", "preregistered", "prereg.nothing", "", "prereg."])
def test_a_name_outside_the_package_has_no_file(name: str) -> None:
    """Only this package's own source is pinned."""
    assert module_file(name) is None or module_file(name) == PACKAGE / "__init__.py"


def test_what_measures_and_decides_is_reached() -> None:
    """Of the real package: every module of these parts, but none that only shows or verifies."""
    found = set(reached_modules(["prereg.study", "prereg.pipeline.capturing", "prereg.pytest_plugin"]))
    for part in ("inference", "study", "pipeline", "protocol", "pytest_plugin", "activations/capture"):
        for file in (PACKAGE / part).rglob("*.py"):
            name = ".".join(("prereg", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
                ".__init__"
            )
            if name in ("prereg.protocol.changes", "prereg.protocol.effects"):
                continue  # they say what was amended: the registration's own concern
            assert name in found, f"{name} moves verdicts and would not be pinned"
    assert not {name.split(".")[1] for name in found if "." in name} & set(imports.OUTSIDE)


def test_the_house_has_no_relative_imports() -> None:
    """They would not be followed."""
    import ast

    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), file


def test_a_copy_reaches_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk goes by source, wherever the package lies."""
    here = reached_modules(["prereg.study"])
    copy = tmp_path / "prereg"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(imports, "PACKAGE", copy)
    imports._imports.cache_clear()
    try:
        assert reached_modules(["prereg.study"]) == here
    finally:
        imports._imports.cache_clear()
