"""verdicts.json as a page reads it: what it needs of each record, checked, and nothing taken on trust."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from prereg.hostile import printable, read_bounded
from prereg.report.figures.tables import ReportError
from prereg.report.schema.reading import remedy_for
from prereg.study.records import sample_words

__all__ = ["Contrast", "Control", "Document", "Permutation", "Recorded", "read_document"]

MAX_BYTES = 20_000_000

Bounds = tuple[float | None, float | None]


class _Record(BaseModel):
    # Further keys are allowed: a record may say more than a page shows.
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Contrast(_Record):
    """One contrast: its estimate, its interval, and those of the other methods."""

    label: str
    estimate: float | None
    low: float | None
    high: float | None
    se: float | None = None
    largest_influence: float | None = None
    degenerate: bool = False
    sensitivity: dict[str, Bounds] = {}
    updates: tuple[int, ...] = ()


class Control(_Record):
    """One control of a hypothesis, and how it came out."""

    name: str
    outcome: str
    reason: str = ""
    binds: str | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    contrasts: tuple[Contrast, ...] = ()


class Permutation(_Record):
    """One refit permutation test."""

    updates: str
    observed: float
    largest_draw: float
    p: float
    draws: int
    alpha: float
    passed: bool


class Attempts(_Record):
    """How many sets of data were tried, and what the others gave."""

    data: int | None = None
    earlier: tuple[str, ...] = ()


class Paper(_Record):
    """What the paper reports."""

    verdict: str | None = None
    value: str | None = None
    model: str | None = None
    note: str | None = None


class Search(_Record):
    """What a claim that one contrast is enough for has beside an interval: an adjusted p for each contrast."""

    adjusted_p: tuple[float | None, ...] = ()
    bound: float | None = None
    mde: float | None = None
    mde_largest: float | None = None
    critical: float | None = None


class Recorded(_Record):
    """One verdict."""

    hypothesis: str
    outcome: str
    reason: str = ""
    answer: str | None = None
    binds: str | None = None
    cautions: tuple[str, ...] = ()
    quantifier: str = "every"
    unit: str = "subject"
    search: Search | None = None
    level: float | None = None
    n_subjects: int | None = None
    n_prompts: int | None = None
    contrasts: tuple[Contrast, ...] = ()
    controls: tuple[Control, ...] = ()
    permutations: tuple[Permutation, ...] = ()
    published: Paper | None = None
    attempts: Attempts | None = None
    evidence: dict[str, str] = {}

    @property
    def sample(self) -> str:
        """How many units of which kind were resampled; empty where the record doesn't say."""
        if not self.n_subjects or not self.n_prompts:
            return ""
        return sample_words(self.unit, self.n_subjects, self.n_prompts)

    @property
    def unit_words(self) -> str:
        """One unit, in words."""
        return self.unit.replace("_", " ")


class Model(_Record):
    """Which weights were measured."""

    alias: str
    source: str = ""
    revision: str = ""
    digest: str = ""


class Document(_Record):
    """A whole verdicts.json."""

    model: Model
    protocol_digest: str = ""
    verdicts: tuple[Recorded, ...]


def read_document(file: Path) -> Document:
    """Read one model's verdicts.json.

    Raises
    ------
    ReportError
        If it is missing or isn't one.
    """
    remedy = remedy_for(file)
    try:
        return Document.model_validate_json(read_bounded(file, MAX_BYTES))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReportError(
            f"{file} holds no verdicts: {printable(where)}: {printable(first['msg'])}", remedy=remedy
        ) from error
    except (OSError, ValueError) as error:
        raise ReportError(f"{file} can't be read: {error}", remedy=remedy) from error
