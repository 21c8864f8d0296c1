"""What every analysis' settings share: closed frozen models, and the few types they are made of."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = [
    "Baseline",
    "Folds",
    "Name",
    "Order",
    "Orders",
    "Penalties",
    "Seed",
    "Settings",
    "Tolerance",
    "Weights",
]


Values = TypeVar("Values", tuple[int, ...], tuple[float, ...])


class Settings(BaseModel):
    """A frozen, closed, strict and finite record without defaults: the protocol names every value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _ascending(values: Values) -> Values:
    if not values:
        raise ValueError("found an empty list, wanted at least one value")
    if any(b <= a for a, b in itertools.pairwise(values)):
        raise ValueError(f"found {list(values)}, wanted ascending values without repeats")
    return values


Baseline = Literal["template", "relation"]
"""Whose training mean is removed before anything is fit; gates' SST are distances from it."""

Name = Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_]+$")]
Seed = Annotated[int, Field(ge=0)]
Order = Annotated[int, Field(ge=1)]
Tolerance = Annotated[float, Field(gt=0, lt=1)]
Folds = Annotated[int, Field(ge=2)]
Orders = Annotated[tuple[Order, ...], AfterValidator(_ascending)]
Penalties = Annotated[tuple[Annotated[float, Field(gt=0)], ...], AfterValidator(_ascending)]
"""Ridge penalties relative to the kernel's mean diagonal, ascending; an infinite one is implied."""


def _some_positive(values: tuple[float, ...]) -> tuple[float, ...]:
    if not any(value > 0 for value in values):
        raise ValueError(f"found {list(values)}, wanted at least one value above 0")
    return values


Weights = Annotated[
    tuple[Annotated[float, Field(ge=0)], ...],
    AfterValidator(_ascending),
    AfterValidator(_some_positive),
]
"""Weights of one block of regressors beside another, ascending; 0 leaves the block out."""
