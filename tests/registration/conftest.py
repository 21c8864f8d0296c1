"""What tests of signatures share: a machine with keys of its own, a repository, a list of signers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registration.keys import Machine, SigningRepo, reader


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A home of its own, so that nobody's real keys are seen."""
    with reader() as made:
        yield made


@pytest.fixture
def repo(machine: Machine, tmp_path: Path) -> SigningRepo:
    """An empty repository."""
    return SigningRepo(tmp_path / "repository")


@pytest.fixture
def allowed(machine: Machine, tmp_path: Path) -> Path:
    """A study's allowed_signers that names one key, for commits and for files."""
    file = tmp_path / "allowed_signers"
    file.write_text(machine.line("ada@example.org", "ada"))
    return file
