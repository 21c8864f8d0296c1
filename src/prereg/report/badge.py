"""A badge: one line on a study, never kinder than its audit.

Green says that everything that was asked is supported, and verified. A study whose claims were all answered, some of
them with *refuted*, is blue: an answer is not a failure. Grey is what was not shown, as are models that were left out;
red what contradicts itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from prereg.report.figures.tables import ReportError
from prereg.report.page.shown import Shown, left_out, shown_verdicts

if TYPE_CHECKING:
    from prereg.audit import AuditReport

__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "RED", "Badge", "badge_of"]

GREEN, BLUE, GREY, ORANGE, RED = "#1a7f37", "#0969da", "#59636e", "#9a4a00", "#b31d28"
"""White letters stand on each with a contrast of at least 4.5 (WCAG 2.2, AA)."""

_WORDS = ("supported", "refuted", "inconclusive", "mixed")
_ANSWERED = frozenset(("supported", "refuted", "inconclusive"))


@dataclass(frozen=True, slots=True)
class Badge:
    """A label, what it says, and a colour as ``#rrggbb``."""

    label: str
    message: str
    color: str

    @property
    def endpoint(self) -> dict[str, Any]:
        """The badge as shields.io's endpoint schema, version 1."""
        return {
            "schemaVersion": 1,
            "label": self.label,
            "message": self.message,
            "color": self.color.removeprefix("#"),
        }

    def svg(self) -> bytes:
        """Return it as SVG; the same badge gives the same bytes.

        Raises
        ------
        ReportError
            If anybadge is not installed.
        """
        try:
            import anybadge  # type: ignore[import-untyped]
        except ImportError as error:
            raise ReportError(
                "badges are drawn by anybadge, which is not installed",
                remedy="pip install 'prereg-gates[report]'",
            ) from error
        text = str(anybadge.Badge(self.label, self.message, default_color=self.color))
        said = escape(f"{self.label}: {self.message}")
        text = text.replace("<svg ", f'<svg role="img" aria-label="{said}" ', 1)
        text = re.sub(r"(<svg [^>]*>)", rf"\1\n    <title>{_literal(said)}</title>", text, count=1)
        # anybadge numbers its masks, so that the same badge would differ from call to call.
        text = re.sub(r"anybadge_[0-9]+", "prereg", text)
        return ("\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n").encode()


def badge_of(report: AuditReport, others: Iterable[str] = ()) -> Badge:
    """Return the badge of an audited study.

    A hypothesis counts once, whatever the number of models: under the word on which all models agree, else as
    *mixed*. It was tested where every model was asked. What was added after the freeze counts in no family; what was
    withdrawn counts. Where models were left out the label says so, and the badge is neither green nor blue.

    Parameters
    ----------
    report
        The audit.
    others
        Models that the study has reports on, by folder, whether the audit looked at them or not.
    """
    everything = shown_verdicts(report)
    shown = [s for s in everything if s.counts]
    models = dict.fromkeys(s.model for s in everything)
    absent = left_out(report, others)
    label = _label(len(models), len(absent))
    if report.result == "violation":
        return Badge(label, "violation", RED)
    if report.head.root is None:
        return Badge(label, "unregistered", GREY)
    if report.result != "verified":
        return Badge(label, "unverified", GREY)
    message, color = _counted(shown)
    return Badge(label, message, GREY if absent and color in (GREEN, BLUE) else color)


def _label(seen: int, absent: int) -> str:
    if absent:
        return f"hypotheses, {seen} of {seen + absent} models"
    return "hypotheses" if seen < 2 else f"hypotheses, {seen} models"


def _counted(shown: list[Shown]) -> tuple[str, str]:
    words: dict[str, set[str]] = {}
    for one in shown:
        words.setdefault(one.hypothesis, set()).add(one.outcome)
    tested = [said for said in words.values() if "not_tested" not in said]
    if len(tested) < len(words) or not words:
        return f"{len(tested)} of {len(words)} tested", GREY
    counts = Counter(_word(said) for said in tested)
    order = [*_WORDS, *sorted(word for word in counts if word not in _WORDS)]
    message = " · ".join(f"{counts[word]} {word}" for word in order if counts[word])
    every = set().union(*tested)
    if every == {"supported"}:
        return message, GREEN
    return message, BLUE if every <= _ANSWERED else ORANGE


def _word(said: set[str]) -> str:
    """Return what all models say, *mixed* where answers differ, and what is no answer before either."""
    other = sorted(said - _ANSWERED)
    if other:
        return other[0]
    return next(iter(said)) if len(said) == 1 else "mixed"


def _literal(text: str) -> str:
    return text.replace("\\", r"\\")
