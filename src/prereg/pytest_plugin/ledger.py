"""What the gates of a process answered, written down apart from the reports, which any hook can rewrite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "Ledger"]

Key = tuple[str, str]
"""A study's folder, and the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one gate came to.

    Parameters
    ----------
    outcome
        As pytest was told: passed, skipped or failed.
    word
        The verdict's word; None where no verdict was given.
    records
        The verdicts that were asked for, as `Verdict.as_record` gave them at that moment.
    study
        Where it was asked; None where it was not.
    """

    outcome: str
    word: str | None = None
    records: tuple[Mapping[str, Any], ...] = ()
    study: Key | None = None

    def as_plain(self) -> dict[str, Any]:
        """Return it as what xdist can carry."""
        return {
            "outcome": self.outcome,
            "word": self.word,
            "records": list(self.records),
            "study": None if self.study is None else list(self.study),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Answer:
        """Return what `as_plain` wrote."""
        study = plain["study"]
        return cls(
            plain["outcome"],
            plain["word"],
            tuple(plain["records"]),
            None if study is None else (str(study[0]), str(study[1])),
        )


@dataclass(slots=True)
class Ledger:
    """The gates of one process, or in xdist's controller of all.

    Parameters
    ----------
    selected
        Node ids of the gates that were to run.
    dropped
        Node ids of gates that were collected and then taken away without being reported as deselected.
    answers
        Node id -> what came of it.
    faults
        What makes every answer of the session worthless.
    """

    selected: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    answers: dict[str, Answer] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def as_plain(self) -> dict[str, Any]:
        """Return it as what xdist can carry."""
        return {
            "selected": sorted(self.selected),
            "dropped": sorted(self.dropped),
            "answers": {nodeid: answer.as_plain() for nodeid, answer in self.answers.items()},
            "faults": list(self.faults),
        }

    def merge(self, plain: Mapping[str, Any]) -> None:
        """Take in what a worker wrote down."""
        self.selected.update(plain["selected"])
        self.dropped.update(plain["dropped"])
        for nodeid, answer in plain["answers"].items():
            self.answers[nodeid] = Answer.from_plain(answer)
        self.faults += [fault for fault in plain["faults"] if fault not in self.faults]
