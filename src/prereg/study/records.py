"""What a study answers: frozen records, from one contrast's interval up to a verdict and its reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from prereg.inference import Outcome
from prereg.protocol import Claim, Hypothesis, Inference, Published
from prereg.registration.attempts import Look
from prereg.registration.standing import UNREGISTERED, Standing

__all__ = [
    "ClaimResult",
    "ContrastRecord",
    "PermutationResult",
    "Search",
    "Unit",
    "Verdict",
    "sample_words",
    "unit_of",
]

Unit = Literal["subject", "subject_by_template", "subject_in_relation", "update", "block_of_updates"]
"""What was resampled; of two crossed sides the smaller one is counted, of two nested ones the outer."""


MOST_SHOWN = 12
"""Candidates of a search that `Verdict.explain` lists one by one."""

MOST_CAUTIONS = 6
"""Cautions that it lists."""


@dataclass(frozen=True, slots=True)
class ContrastRecord:
    """One contrast: its estimate, the registered interval, and the others beside it.

    ``low`` and ``high`` belong to the registered method and level; ``sensitivity`` maps each other method to
    its own bounds at that level. ``influence`` is the largest share that one subject has in the variance.
    """

    label: str
    updates: tuple[int, ...]
    estimate: float
    low: float
    high: float
    se: float
    sensitivity: dict[str, tuple[float, float]]
    influence: float
    degenerate: bool
    n_units: int
    n_rows: int


def unit_of(claim: Claim, inference: Inference) -> Unit:
    """Return what a claim resamples."""
    if claim.unit is None:
        return inference.unit
    return claim.unit if claim.block_length is None else "block_of_updates"


def sample_words(unit: str, n_units: int, n_rows: int) -> str:
    """Say how many units were resampled, and of how many prompts where they are made of these."""
    words = {
        "subject_by_template": "subjects or templates, whichever are fewer",
        "subject_in_relation": "relations",
        "update": "updates",
        "block_of_updates": "blocks of updates",
    }
    counted = f"{n_units} {words.get(unit, 'subjects')}"
    return counted if unit in ("update", "block_of_updates") else f"{counted}, {n_rows} prompts"


@dataclass(frozen=True, slots=True)
class Search:
    """What a claim that one contrast is enough for has beside an interval; see `prereg.inference.decide_some`.

    ``adjusted_p`` is in the order of the contrasts. ``bound`` is what no contrast lies beyond, where the claim is not
    shown; ``mde`` the distance from the threshold that a typical contrast would have been found at with power 0.8, and
    ``mde_largest`` the one that needs most. They are infinite where the data can't tell. ``critical`` is what a
    contrast's distance from the threshold must pass, in standard errors: few units behind some candidate make it large
    for all.
    """

    adjusted_p: tuple[float, ...]
    bound: float
    mde: float
    mde_largest: float
    critical: float


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """All contrasts of one hypothesis or control, joined: each must lie on the claimed side, or some.

    ``estimate``, ``low`` and ``high`` speak of the worst contrast, or of the one that speaks loudest where one is
    enough; `prereg.inference.decide_conjunction` and `decide_some` say how the bounds are corrected. ``binds`` is
    the label of that contrast. ``search`` is there only where one is enough.
    """

    name: str
    outcome: Outcome
    estimate: float
    low: float
    high: float
    binds: str
    reason: str
    contrasts: tuple[ContrastRecord, ...]
    search: Search | None = None
    cautions: tuple[str, ...] = ()
    """Why to be careful, in words: a unit that carries a tenth of the variance, methods that disagree. They decide
    nothing."""


@dataclass(frozen=True, slots=True)
class PermutationResult:
    """A refit permutation test over one set of updates."""

    updates: str
    observed: float
    largest_draw: float
    p: float
    draws: int
    alpha: float

    @property
    def passed(self) -> bool:
        """Whether the null is rejected at the registered alpha."""
        return self.p <= self.alpha


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one hypothesis on one model.

    A gate asserts `supported`. Everything else here is for people: `explain` says in words what decided.
    """

    study: str
    hypothesis: str
    model: str
    outcome: Outcome
    reason: str
    promise: Hypothesis
    result: ClaimResult
    controls: tuple[ClaimResult, ...]
    permutations: tuple[PermutationResult, ...]
    published: Published | None
    level: float
    unit: Unit
    """What was resampled."""
    n_units: int
    n_rows: int
    protocol_digest: str
    evidence: dict[str, str]
    """Name of each table the verdict rests on -> blake3 of its bytes."""
    data: str = ""
    """Digest of `evidence`: the same data give the same one."""
    standing: Standing = UNREGISTERED
    exploratory: bool = False
    """Whether the hypothesis was added after the freeze; it is never counted in a family."""
    attempts: int = 1
    """Distinct data on which this hypothesis was tried on this model, these included."""
    earlier: tuple[str, ...] = ()
    """What the other data answered, in the log's order; the last answer where one set of data has several."""
    look: Look | None = None
    """Which registered look this is, and the alpha it spends; None where the protocol registers none."""
    version: Literal["original", "amended"] | None = None
    other: Verdict | None = None
    """The verdict by the other version of the promise, where it was amended."""

    def __repr__(self) -> str:
        # pytest shows this in a failed assertion; the whole record is for `explain`.
        return f"<Verdict {self.hypothesis} on {self.model}: {self.outcome.value}>"

    @property
    def supported(self) -> bool:
        """True only where the claim was shown; every other outcome is False."""
        return self.outcome is Outcome.SUPPORTED

    @property
    def claimed(self) -> str:
        """What may be claimed: the outcome where the registration stands, else ``unverified`` or ``exploratory``."""
        if not self.standing.is_registered:
            return "unverified"
        return "exploratory" if self.exploratory else self.outcome.value

    def explain(self) -> str:
        """Say what was claimed, what was found, and what decided, in a few lines."""
        p, r = self.promise, self.result
        sign = sign_of(p)
        # A reader who stops after the first line must not take for shown what may not be claimed.
        answer = self.outcome.value
        head = f"{self.claimed} ({answer})" if self.supported and self.claimed != answer else answer
        lines = [
            f"{self.hypothesis} on {self.model}: {head}. {self.reason}",
            f"  claim      {p.claim}",
            f"  promised   {p.estimand} {sign} {p.threshold:g} {p.units}",
            f"  measured   {r.estimate:+.4f}, interval [{r.low:+.4f}, {r.high:+.4f}] at level {self.level:g}, "
            f"{sample_words(self.unit, self.n_units, self.n_rows)}",
        ]
        lines += [
            f"  {'*' if c.label == r.binds else ' '} {c.label}: {c.estimate:+.4f} [{c.low:+.4f}, {c.high:+.4f}]"
            for c in self._shown()
        ]
        if len(self._shown()) < len(r.contrasts):
            lines.append(f"    ... and {len(r.contrasts) - len(self._shown())} more")
        if r.search is not None:
            lines.append(
                f"  search     {len(r.contrasts)} candidates, none beyond {r.search.bound:+.4f}; a typical one at "
                f"{r.search.mde:.4f} from the threshold would have been found with power 0.8, the hardest at "
                f"{r.search.mde_largest:.4f} ({r.search.critical:.1f} standard errors are called for)"
            )
        lines += [f"  caution    {line}" for line in r.cautions[:MOST_CAUTIONS]]
        if len(r.cautions) > MOST_CAUTIONS:
            lines.append(f"  caution    ... and {len(r.cautions) - MOST_CAUTIONS} more")
        lines += [
            f"  permutation over {t.updates}: p = {t.p:.4g} ({t.draws} refitted draws, alpha {t.alpha:g})"
            for t in self.permutations
        ]
        lines += [f"  control {c.name}: {c.outcome.value}. {c.reason}" for c in self.controls]
        if self.published is not None:
            lines.append(
                f"  published  {self.published.verdict} ({self.published.value}, {self.published.model})"
            )
        lines.append(f"  protocol   {self.protocol_digest[:16]}; {self.standing.line()}")
        if self.exploratory:
            lines.append("  exploratory: this hypothesis was added after the freeze")
        if self.other is not None:
            o = self.other
            lines.append(
                f"  this is the {self.version} promise; by the {o.version} one: {o.outcome.value}, "
                f"{o.promise.estimand} {sign_of(o.promise)} {o.promise.threshold:g}"
            )
        if self.look is not None:
            lines.append(f"  look {self.look.look}, tested at alpha {self.look.alpha:.4g}")
        if self.attempts > 1:
            others = ", ".join(self.earlier)
            lines.append(f"  attempts   {self.attempts} sets of data were tried; the others gave: {others}")
        return "\n".join(lines)

    def _shown(self) -> list[ContrastRecord]:
        """Return the contrasts worth a line: all that must hold, or those that speak loudest where one is enough."""
        contrasts, search = self.result.contrasts, self.result.search
        if search is None:
            return list(contrasts)
        order = sorted(range(len(contrasts)), key=lambda i: search.adjusted_p[i])
        return [contrasts[i] for i in order[:MOST_SHOWN]]

    def as_record(self) -> dict[str, Any]:
        """Return the verdict as plain data for verdicts.json; numbers keep 12 significant digits.

        Twelve digits are far finer than any interval means, and coarse enough that a different BLAS kernel
        gives the same bytes.
        """
        return {
            "study": self.study,
            "hypothesis": self.hypothesis,
            "model": self.model,
            "outcome": self.claimed,
            "answer": self.outcome.value,
            "reason": self.reason,
            "registration": self.standing.as_record(),
            "attempts": {
                "data": self.attempts,
                "earlier": list(self.earlier),
                "look": None if self.look is None else self.look.look,
                "alpha": None if self.look is None else _round(self.look.alpha),
            },
            "version": self.version,
            "other": None if self.other is None else _other(self.other),
            "claim": self.promise.claim,
            "estimand": self.promise.estimand,
            "family": self.promise.family,
            "direction": self.promise.direction,
            "threshold": self.promise.threshold,
            "units": self.promise.units,
            "quantifier": self.promise.quantifier or "every",
            "unit": self.unit,
            "level": self.level,
            "n_subjects": self.n_units,
            "n_prompts": self.n_rows,
            **_claim(self.result),
            "controls": [
                {"name": c.name, "outcome": c.outcome.value, "reason": c.reason, **_claim(c)}
                for c in self.controls
            ],
            "permutations": [
                {
                    "updates": t.updates,
                    "observed": _round(t.observed),
                    "largest_draw": _round(t.largest_draw),
                    "p": t.p,
                    "draws": t.draws,
                    "alpha": t.alpha,
                    "passed": t.passed,
                }
                for t in self.permutations
            ],
            "published": None if self.published is None else self.published.model_dump(mode="json"),
            "protocol_digest": self.protocol_digest,
            "evidence": dict(sorted(self.evidence.items())),
        }


def sign_of(promise: Hypothesis) -> str:
    """Return the sign between an estimand and its threshold."""
    return {"greater": ">", "less": "<", "equivalence": "within +-"}[promise.direction]


def _other(verdict: Verdict) -> dict[str, Any]:
    return {
        "version": verdict.version,
        "answer": verdict.outcome.value,
        "threshold": verdict.promise.threshold,
        "direction": verdict.promise.direction,
        "estimate": _round(verdict.result.estimate),
        "low": _round(verdict.result.low),
        "high": _round(verdict.result.high),
        "reason": verdict.reason,
    }


def _claim(result: ClaimResult) -> dict[str, Any]:
    return {
        "estimate": _round(result.estimate),
        "low": _round(result.low),
        "high": _round(result.high),
        "binds": result.binds,
        "cautions": list(result.cautions),
        **_search(result.search),
        "contrasts": [
            {
                "label": c.label,
                "updates": list(c.updates),
                "estimate": _round(c.estimate),
                "low": _round(c.low),
                "high": _round(c.high),
                "se": _round(c.se),
                "largest_influence": _round(c.influence),
                "degenerate": c.degenerate,
                "sensitivity": {k: [_round(a), _round(b)] for k, (a, b) in sorted(c.sensitivity.items())},
            }
            for c in result.contrasts
        ],
    }


def _search(search: Search | None) -> dict[str, Any]:
    if search is None:
        return {}
    return {
        "search": {
            "adjusted_p": [_round(p) for p in search.adjusted_p],
            "bound": _round(search.bound),
            "mde": _round(search.mde),
            "mde_largest": _round(search.mde_largest),
            "critical": _round(search.critical),
        }
    }


def _round(value: float) -> float | None:
    """Return 12 significant digits; None for a bound that is not finite, which JSON can't say."""
    return float(f"{value:.12g}") if abs(value) < float("inf") else None
