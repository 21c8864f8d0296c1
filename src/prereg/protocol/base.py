"""What all tables of a protocol share: the closed model, and the few types they are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = ["Closed", "Direction", "Name", "Seed", "Sentence", "Sha256", "Text"]

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=12)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Direction = Literal["greater", "less", "equivalence"]


class Closed(BaseModel):
    """Base of every table: frozen, closed to unknown keys, no coercion, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
