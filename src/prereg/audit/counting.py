"""How often each hypothesis was tried, on how many sets of data, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prereg.audit.case import Case
from prereg.audit.findings import Finding
from prereg.audit.results import digest_or_none
from prereg.inference import look_alphas

__all__ = ["Count", "check_counts", "count_words", "counts"]


@dataclass(frozen=True, slots=True)
class Count:
    """How often one hypothesis was tried on one model.

    Parameters
    ----------
    model, hypothesis
        Which.
    runs
        Entries of the log that name it.
    data
        Distinct data, whatever the registration.
    registered
        Distinct data under this registration and its amendments: its looks.
    planned
        Looks that the protocol plans; None where it plans none.
    spent
        Alpha spent on the looks taken, two-sided; None where no looks are planned.
    """

    model: str
    hypothesis: str
    runs: int
    data: int
    registered: int
    planned: int | None
    spent: float | None


def check_counts(case: Case) -> Iterator[Finding]:
    """Say where there was more than one try.

    Integrity: "fail, fail, pass: the count is shown beside the verdict".
    """
    yield from _counted(case)
    yield from _beyond(case)
    yield from _measured_anew(case)


def counts(case: Case) -> tuple[Count, ...]:
    """Return how often each hypothesis was tried on each model, models and hypotheses in order."""
    promise = None if case.chain is None else case.chain.current.promise
    looks = None if promise is None else promise.inference.looks
    roots: tuple[str | None, ...] = (None,) if case.chain is None else case.chain.roots
    tried: dict[tuple[str, str], list[tuple[str | None, str]]] = {}
    for entry in case.attempts.entries:
        for name, data in entry.data.items():
            tried.setdefault((entry.model, name), []).append((entry.registration, data))
    order = {name: place for place, name in enumerate(() if promise is None else promise.hypotheses)}
    found = []
    for model, name in sorted(tried, key=lambda key: (key[0], order.get(key[1], len(order)), key[1])):
        pairs = tried[model, name]
        taken = len({data for root, data in pairs if root in roots})
        planned, spent = None, None
        if looks is not None:
            planned, alpha = looks.planned, _alpha(case, name)
            # As a gate decides: the spending functions are of one boundary, and an interval has two.
            shares = look_alphas(alpha / 2.0, planned, looks.spending)
            spent = 2.0 * sum(shares[: min(taken, planned)])
        found.append(Count(model, name, len(pairs), len({data for _, data in pairs}), taken, planned, spent))
    return tuple(found)


def _alpha(case: Case, name: str) -> float:
    """Return the two-sided alpha that all looks at a hypothesis may spend together."""
    promise = case.chain.current.promise if case.chain is not None else None
    if promise is None:
        return 0.0
    spec = promise.inference
    claim = promise.hypotheses.get(name)
    equivalence = claim is not None and claim.direction == "equivalence"
    return 2.0 * spec.equivalence_alpha if equivalence else 1.0 - spec.level


def _counted(case: Case) -> Iterator[Finding]:
    """Say where several sets of data were tried.

    Integrity: "new data spend the registered alpha; the count is shown beside the verdict".
    """
    many = [count for count in counts(case) if count.data > 1]
    if many:
        yield Finding(
            "attempts",
            "note",
            f"several sets of data were tried, for {len(many)} hypotheses",
            tuple(count_words(count) for count in many),
        )


def _beyond(case: Case) -> Iterator[Finding]:
    """Say where more looks were taken than the promise plans.

    Integrity: "new data spend the registered alpha".
    """
    over = [count for count in counts(case) if count.planned is not None and count.registered > count.planned]
    if over:
        yield Finding(
            "attempts",
            "note",
            f"more looks were taken than planned, for {len(over)} hypotheses: the further ones can claim nothing",
            tuple(count_words(count) for count in over),
        )


def _measured_anew(case: Case) -> Iterator[Finding]:
    """Say where evidence was replaced by other evidence of the same name, under the same registration.

    Integrity: "fail, fail, pass", seen from the evidence.
    """
    roots = set(() if case.chain is None else case.chain.roots)
    versions: dict[tuple[str, str], dict[str, None]] = {}
    for result in case.results:
        tables = result.content.get("tables") if isinstance(result.content, dict) else None
        if result.kind == "evidence" and result.roots & roots and isinstance(tables, dict):
            name = result.path.rpartition("/")[2]
            versions.setdefault((result.model, name), {})[digest_or_none(tables) or "no digest"] = None
    anew = [
        f"{model}: {name}: {len(v)} versions" for (model, name), v in sorted(versions.items()) if len(v) > 1
    ]
    if anew:
        yield Finding(
            "attempts", "note", f"{len(anew)} pieces of evidence were measured more than once", tuple(anew)
        )


def count_words(count: Count) -> str:
    """Return a count as people read it."""
    words = f"{count.model}: {count.hypothesis}: {count.data} sets of data, {count.registered} under this registration"
    if count.planned is None:
        return words
    return (
        f"{words}; looks {count.registered} of {count.planned} planned, alpha spent {count.spent or 0.0:.4g}"
    )
