"""What several models say together: their verdicts side by side, and each contrast pooled over them.

A verdict stays that of one model. What is pooled is an estimate, of one *contrast* at a time: the worst contrast of one
model and the worst of another are different questions. The pooled numbers decide nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prereg.inference import RandomEffects, random_effects

__all__ = ["CAVEAT", "Part", "Replication", "replications"]

CAVEAT = (
    "The models were asked the same facts, so their errors are not independent, and the pooled interval may be too "
    "narrow; the one in replication.csv from dependent_low to dependent_high holds however strongly the errors are "
    "correlated. Nothing that is pooled decides a verdict."
)

POOLABLE = ("supported", "refuted", "inconclusive")
"""Answers whose estimate means something: after a failed control nothing was shown, whatever the estimate is."""

_PROMISE = ("direction", "threshold", "units", "version", "estimand", "quantifier", "unit")
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """What one model says about one contrast.

    Parameters
    ----------
    model
        Its alias.
    outcome, registration, answer
        What may be claimed, how the study stands, and what the interval alone says.
    estimate, se
        The contrast's; None where the model has no such contrast.
    binds
        Whether it is the contrast that decides on this model.
    left_out
        Why it is not pooled; empty where it is.
    """

    model: str
    outcome: str
    registration: str
    answer: str
    estimate: float | None
    se: float | None
    binds: bool
    left_out: str


@dataclass(frozen=True, slots=True)
class Replication:
    """One contrast of one hypothesis over all models that were asked.

    Parameters
    ----------
    hypothesis, contrast
        The contrast's label; empty where no model has an answer, or where one of many candidates is enough.
    parts
        One for each model, by alias.
    direction, threshold, units, version
        What was promised; None where the models were not promised the same.
    pooled
        The mean over models; None where it can't be had, and `not_pooled` says why.
    worst
        Whether this is the contrast whose mean speaks most against the claim.
    """

    hypothesis: str
    contrast: str
    parts: tuple[Part, ...]
    direction: str | None
    threshold: float | None
    units: str | None
    version: str | None
    pooled: RandomEffects | None
    not_pooled: str
    worst: bool = False

    @property
    def agree(self) -> bool:
        """Whether every model's interval gives the same answer, and that is supported or refuted."""
        answers = {part.answer for part in self.parts}
        return len(answers) == 1 and answers <= {"supported", "refuted"}


def replications(
    records: Sequence[Record], hypotheses: Sequence[str], models: Sequence[str] = ()
) -> tuple[Replication, ...]:
    """Pool each contrast of each hypothesis over the models.

    Left out of a mean, and named: a model that wasn't asked, whose answer is invalid, whose contrast has no variation,
    or which lacks the contrast. Nothing is pooled where the registration is tampered with on any model, where models
    were promised different things, or where two of them rest on the same evidence: that is one model under two names.
    A claim that one of many candidates is enough for has one row, of each model's best, and no mean: candidates are
    found anew on each model, and share no more than a number.

    Parameters
    ----------
    records
        As `Verdict.as_record` gives them, of at least two models.
    hypotheses
        All ids of the protocol, in order.
    models
        Models that were asked, also where there is no record of them.
    """
    every = sorted({*models, *(str(record["model"]) for record in records)})
    found: list[Replication] = []
    for name in hypotheses:
        asked = {str(r["model"]): r for r in records if r["hypothesis"] == name}
        mine = [_contrast(name, label, every, asked) for label in _labels(every, asked)]
        worst = _worst(mine)
        found += [replace(one, worst=one is worst) for one in mine]
    return tuple(found)


def _labels(models: Sequence[str], asked: Mapping[str, Record]) -> list[str]:
    if any(_is_search(record) for record in asked.values()):
        return [""]
    labels = [c["label"] for m in models if m in asked for c in asked[m].get("contrasts") or ()]
    return list(dict.fromkeys(labels)) or [""]


def _contrast(name: str, label: str, models: Sequence[str], asked: Mapping[str, Record]) -> Replication:
    parts = tuple(_part(model, label, asked.get(model)) for model in models)
    promises = {tuple(record.get(key) for key in _PROMISE) for record in asked.values()}
    same = promises.pop() if len(promises) == 1 else (None,) * len(_PROMISE)
    refused = _refused(parts, list(asked.values()))
    pooled = None
    if not refused:
        used = [part for part in parts if not part.left_out]
        pooled = random_effects(
            [float(part.estimate) for part in used if part.estimate is not None],
            [float(part.se) for part in used if part.se is not None],
            # Where looks spend alpha, levels differ: the widest interval is right for all of them.
            max(float(asked[part.model]["level"]) for part in used),
        )
    direction, threshold, units, version, *_ = same
    return Replication(name, label, parts, direction, threshold, units, version, pooled, refused)


def _part(model: str, label: str, record: Record | None) -> Part:
    if record is None:
        return Part(model, "not_tested", "", "not_tested", None, None, binds=False, left_out="not tested")
    outcome = str(record["outcome"])
    answer = str(record.get("answer") or outcome)
    wanted = label or record.get("binds")
    contrast = next((c for c in record.get("contrasts") or () if c["label"] == wanted), None)
    why = ""
    if answer not in POOLABLE:
        why = answer.replace("_", " ")
    elif contrast is None:
        why = "no such contrast"
    elif contrast["degenerate"] or not (contrast["se"] and contrast["se"] > 0.0):
        why = "no variation"
    elif contrast["estimate"] is None:
        why = "no estimate"
    return Part(
        model, outcome, _status(record), answer,
        None if contrast is None else contrast["estimate"], None if contrast is None else contrast["se"],
        binds=contrast is not None and record.get("binds") == wanted, left_out=why,
    )  # fmt: skip


def _refused(parts: Sequence[Part], records: Sequence[Record]) -> str:
    """Say why these parts may not be pooled; empty where they may."""
    tampered = [part.model for part in parts if part.registration == "tampered" or part.outcome == "tampered"]
    if tampered:
        return f"tampered with on {', '.join(tampered)}"
    if len({tuple(record.get(key) for key in _PROMISE) for record in records}) > 1:
        return "the models were not promised the same"
    if any(_is_search(record) for record in records):
        return "one candidate is enough, and each model has its own"
    evidence = Counter(tuple(sorted(r["evidence"].values())) for r in records if r.get("evidence"))
    if any(times > 1 for times in evidence.values()):
        return "two models rest on the same evidence"
    used = [part for part in parts if not part.left_out]
    if len(used) < 2:
        out = "; ".join(f"{part.model}: {part.left_out}" for part in parts if part.left_out)
        return f"{'only one' if used else 'no'} model to pool" + (f" ({out})" if out else "")
    return ""


def _worst(rows: Sequence[Replication]) -> Replication | None:
    """Return the contrast whose mean speaks most against the claim, the first one of equals."""
    pooled = [row for row in rows if row.pooled is not None]
    return max(pooled, key=_against, default=None)


def _against(row: Replication) -> float:
    mu = math.nan if row.pooled is None else row.pooled.mu
    return {"greater": -mu, "less": mu, "equivalence": abs(mu)}[str(row.direction)]


def _is_search(record: Record) -> bool:
    return record.get("quantifier") == "some"


def _status(record: Record) -> str:
    registration = record.get("registration")
    return str(registration.get("status") or "") if isinstance(registration, Mapping) else ""
