"""Projects to audit: made once, copied for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.projects import Project
from tests.registration.repositories import isolate
from tests.synthetic import frozen_project, registered_project


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is registered, measured and answered."""
    root = tmp_path_factory.mktemp("whole") / "project"
    root.mkdir()
    registered_project(root)
    return root


@pytest.fixture(scope="session")
def unmeasured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is registered, and not measured yet."""
    root = tmp_path_factory.mktemp("unmeasured") / "project"
    root.mkdir()
    frozen_project(root)
    return root


@pytest.fixture
def project(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the measured project."""
    isolate(monkeypatch, tmp_path / "home")
    return Project.copy(whole, tmp_path / "project")


@pytest.fixture
def frozen(unmeasured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the project that isn't measured yet."""
    isolate(monkeypatch, tmp_path / "home")
    return Project.copy(unmeasured, tmp_path / "project")
