"""Parts of a registration and of an amendment: what a verdict depends on, and what was changed about it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from prereg.protocol.base import Closed, Sentence, Sha256, Text

__all__ = ["CalibrationRecord", "ChangeRecord", "Components", "FileChange"]


class Components(Closed):
    """Everything that a verdict depends on, each by its own digest (sha256, 64 hex characters).

    ``gates`` are the study's Python files and the conftest files above them, by path from the project's
    root; ``code`` are this package's modules that a measurement and a verdict run through, by path in the
    package. Text is hashed with LF line ends, so that a checkout with CRLF is no edit.
    """

    protocol: Sha256
    gates: dict[Text, Sha256] = Field(min_length=1)
    code: dict[Text, Sha256] = Field(min_length=1)
    facts: dict[Text, Sha256] = Field(min_length=1)
    models: dict[Text, Text]
    """Alias -> pinned revision."""
    libraries: dict[Text, Text] = Field(min_length=1)
    """Numerical dependency -> version, without a local part such as ``+cpu``."""


class CalibrationRecord(Closed):
    """What a simulation of the gates had shown by the freeze: how often each would support a false claim."""

    digest: Sha256
    """sha256 of calibration.json."""
    pilot: Text | None = None
    replications: Annotated[int, Field(ge=1)]
    faults: tuple[Text, ...] = ()
    """Gates whose measured size exceeds their alpha beyond Monte Carlo error, in words."""
    despite: Sentence | None = None
    """Why the study is frozen all the same."""

    @model_validator(mode="after")
    def _faults_have_a_reason(self) -> CalibrationRecord:
        if self.faults and self.despite is None:
            raise ValueError("a gate errs more often than its alpha, and no reason is given to freeze it")
        return self


class ChangeRecord(Closed):
    """One key of the promise that an amendment changed; None where it was or is absent."""

    key: Text
    old: Any = None
    new: Any = None
    effect: Literal["looser", "stricter", "other", "wording"]

    def words(self) -> str:
        """Say it in a line."""
        old, new = (
            "nothing" if v is None else json.dumps(v, ensure_ascii=False) for v in (self.old, self.new)
        )
        return f"{self.key}: {_short(old)} -> {_short(new)}, {self.effect}"


class FileChange(Closed):
    """One component other than the promise that an amendment changed; None where it was or is absent."""

    component: Literal["gates", "code", "facts", "models", "libraries"]
    name: Text
    old: Text | None = None
    new: Text | None = None


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
