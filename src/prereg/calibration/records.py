"""What a calibration found: frozen records that go to a file and come back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from scipy.special import bdtrc, betaincinv

from prereg.errors import EvidenceError, InferenceError
from prereg.hostile import read_bounded
from prereg.protocol.base import Closed

__all__ = [
    "FALSE_ALARM",
    "Calibration",
    "CaseResult",
    "Fault",
    "GateRecord",
    "Rate",
    "false_refutations",
    "read_calibration",
    "verdict",
]

FALSE_ALARM = 0.01
"""Chance that `verdict` finds any fault in a calibration whose gates all keep their alpha exactly."""

MAX_BYTES = 20_000_000

_Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Rate(Closed):
    """A share of replications with its 95% Clopper-Pearson interval (1934, doi:10.1093/biomet/26.4.404)."""

    count: Annotated[int, Field(ge=0)]
    total: Annotated[int, Field(ge=1)]
    share: _Share
    low: _Share
    high: _Share

    @classmethod
    def of(cls, count: int, total: int) -> Rate:
        """Return the rate of `count` in `total`.

        Raises
        ------
        InferenceError
            If there is nothing to count, or more was counted than there is.
        """
        if total < 1 or not 0 <= count <= total:
            raise InferenceError(
                f"{count} of {total} is no share; 0 <= count <= total with total >= 1 is wanted."
            )
        low = 0.0 if count == 0 else float(betaincinv(count, total - count + 1, 0.025))
        high = 1.0 if count == total else float(betaincinv(count + 1, total - count, 0.975))
        return cls(
            count=count, total=total, share=_rounded(count / total), low=_rounded(low), high=_rounded(high)
        )


class GateRecord(Closed):
    """How one gate decides, and what it was fitted to."""

    hypothesis: str
    direction: Literal["greater", "less", "equivalence"]
    threshold: float
    units: str
    level: float
    alpha: float
    interval: str
    resamples: int
    labels: tuple[str, ...]
    source: str
    """The pilot, or where the stated moments come from."""
    pilot_units: int
    expected: tuple[float, ...]
    """theta of each contrast under the alternative."""
    quantifier: Literal["some"] | None = None
    """``some``: one contrast is enough. None: each must hold."""
    design: Literal["subject_by_template", "subject_in_relation"] | None = None
    """What is resampled beside subjects. None: nothing; ``n_units`` counts subjects in any case, or updates."""
    block_length: float | None = None
    """Mean number of neighbouring updates drawn together. None: each by itself."""

    @model_serializer(mode="wrap")
    def _short_where_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is None, so that the record of a usual gate has the bytes that it always had."""
        record: dict[str, Any] = handler(self)
        return {key: value for key, value in record.items() if value is not None}


class CaseResult(Closed):
    """One gate, in one world, with so many units, under one truth.

    ``supported`` is the size where the claim is false (``holds`` is false), and the power where it is true.
    ``coverage`` is that of the contrast whose interval holds its true value least often.
    """

    hypothesis: str
    population: str
    n_units: int
    case: str
    kind: Literal["null", "alternative"]
    holds: bool
    values: tuple[float, ...]
    supported: Rate
    refuted: Rate
    inconclusive: Rate
    invalid: Rate
    coverage: Rate
    coverage_of: str


class Calibration(Closed):
    """Everything that one run of ``prereg calibrate`` found.

    It speaks of the interval and the rule that joins contrasts. Controls and refit permutations can only take a
    supported verdict away, so P(supported) of the whole gate is at most what stands here.
    """

    format: Annotated[int, Field(ge=1, le=1)] = 1
    study: str
    protocol_digest: str
    pilot: str | None
    evidence: dict[str, str]
    """Name of each table of the pilot -> blake3 of its bytes."""
    seed: int
    replications: int
    gates: tuple[GateRecord, ...] = Field(min_length=1)
    results: tuple[CaseResult, ...] = Field(min_length=1)

    def as_record(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return self.model_dump(mode="json")


class Fault(Closed):
    """A gate that errs more often than its alpha allows.

    ``answer`` is the wrong one: ``supported`` of a false claim, or ``refuted`` of one that is just about true.
    ``p`` is the exact binomial probability of counting as many or more at that alpha.
    """

    hypothesis: str
    population: str
    n_units: int
    case: str
    answer: Literal["supported", "refuted"]
    size: Rate
    alpha: float
    p: float

    def words(self) -> str:
        """Say it in a line."""
        wrong = (
            "a false claim is supported" if self.answer == "supported" else "a claim on the edge is refuted"
        )
        return (
            f"{self.hypothesis}, {self.population}, {self.n_units} units, {self.case}: {wrong} in "
            f"{self.size.share:.3g} [{self.size.low:.3g}, {self.size.high:.3g}] of samples, its alpha is {self.alpha:g}"
        )


def verdict(calibration: Calibration, alpha: float | None = None) -> tuple[Fault, ...]:
    """Return the gates whose measured size exceeds their alpha beyond Monte Carlo error.

    Each result under a truth that makes the claim false is a test of ``P(supported) <= alpha``: the exact binomial
    p, compared with `FALSE_ALARM` over the number of such results (Bonferroni). So a calibration of gates that all
    keep their alpha is found faulty once in a hundred times at most, however many worlds were tried. The reverse
    does not hold: an excess too small for the number of replications goes unseen.

    Parameters
    ----------
    calibration
        What was simulated.
    alpha
        Compare with this error rate instead of each gate's own.

    Returns
    -------
    tuple of Fault
        Empty where nothing speaks against any gate.

    Raises
    ------
    InferenceError
        If `alpha` is not strictly between 0 and 1, or nothing was tried under which a claim is false.
    """
    tried = [result for result in calibration.results if not result.holds]
    if not tried:
        raise InferenceError(
            "no truth was tried under which a claim is false: nothing can be said of any size",
            remedy="run prereg calibrate again",
        )
    return _faults(calibration, tried, "supported", alpha)


def false_refutations(calibration: Calibration, alpha: float | None = None) -> tuple[Fault, ...]:
    """Return the gates that refute a claim on its boundary more often than their alpha, beyond Monte Carlo error.

    The boundary is the limit of claims that are true, so a refuted verdict there is an error too. No claim is made by
    it, and so it is no fault in `verdict`; but a refutation by such a gate should not be believed.

    Parameters
    ----------
    calibration, alpha
        As for `verdict`.

    Raises
    ------
    InferenceError
        If `alpha` is not strictly between 0 and 1.
    """
    tried = [result for result in calibration.results if result.holds or result.kind == "null"]
    return _faults(calibration, tried, "refuted", alpha)


def _faults(
    calibration: Calibration,
    tried: Sequence[CaseResult],
    answer: Literal["supported", "refuted"],
    alpha: float | None,
) -> tuple[Fault, ...]:
    if alpha is not None and not 0.0 < alpha < 1.0:
        raise InferenceError(f"alpha is {alpha!r}; a number strictly between 0 and 1 is wanted.")
    own = {gate.hypothesis: gate.alpha for gate in calibration.gates}
    found = []
    for result in tried:
        allowed = own[result.hypothesis] if alpha is None else alpha
        rate = result.supported if answer == "supported" else result.refuted
        p = 1.0 if rate.count == 0 else float(bdtrc(rate.count - 1, rate.total, allowed))
        if p <= FALSE_ALARM / len(tried):
            found.append(
                Fault(
                    hypothesis=result.hypothesis, population=result.population, n_units=result.n_units,
                    case=result.case, answer=answer, size=rate, alpha=allowed, p=p,
                )
            )  # fmt: skip
    return tuple(found)


def read_calibration(file: Path) -> Calibration:
    """Read a calibration.json.

    Raises
    ------
    EvidenceError
        If it can't be read, or isn't one.
    """
    try:
        return Calibration.model_validate_json(read_bounded(file, MAX_BYTES))
    except (OSError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise EvidenceError(
            f"{file}: no calibration: {said}", remedy="prereg calibrate STUDY --pilot MODEL"
        ) from error


def _rounded(value: float) -> float:
    """Keep 12 significant digits: finer than any share means, and the same on every machine."""
    return float(f"{value:.12g}")
